/* SPDX-License-Identifier: Apache-2.0 */
/* The samplers of a trace, one for each GPU, which end with it. */

#include "client/cli/sampling_internal.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/sampler_child.h"
#include "client/cli/say.h"
#include "proto/base/clock.h"

enum { LEAST_MS = 10, TURNS_LEAST = 16 };

#define SILENT_NS (CLOCK_NS_PER_S / 2)
#define TURN_NS (500 * CLOCK_NS_PER_MS)
#define COARSE_NS UINT64_C(300000)
#define TURN_LEAST_NS (100 * CLOCK_NS_PER_MS)

/* Values come in the order of these names, and as many. */
static bool is_as_asked(const struct sampler *m, const struct sampler_begin *begin)
{
	const char *asked = buf_string(&m->owner->metrics);

	for (size_t i = 0; i < begin->n_metrics; i++) {
		size_t n = strlen(begin->metrics[i]);
		bool is_last = i + 1 == begin->n_metrics;

		if (strncmp(asked, begin->metrics[i], n) != 0 ||
		    asked[n] != (is_last ? '\0' : ',')) {
			return false;
		}
		asked += n + 1;
	}
	return strcmp(begin->gpu, m->uuid) == 0;
}

/* Those of the first sampler, which others have to have as well: GPUs of one kind. */
static bool take_sets(struct sampling *s, const struct sampler_begin *begin)
{
	if (s->n_sets == 0) {
		s->n_sets = begin->n_sets;
		memcpy(s->sets, begin->sets, begin->n_metrics);
		memcpy(s->intervals_ns, begin->intervals_ns,
		       begin->n_sets * sizeof(*s->intervals_ns));
	}
	return s->n_sets == begin->n_sets && memcmp(s->sets, begin->sets, begin->n_metrics) == 0;
}

/* The first metric whose samples are long although nobody asked for that, or n_metrics. */
static size_t find_coarse(const struct sampling *s, size_t n_metrics)
{
	size_t i = 0;

	while (i < n_metrics && s->intervals_ns[s->sets[i]] <= COARSE_NS) {
		i++;
	}
	return s->options->timeline.interval_ns == 0 ? i : n_metrics;
}

/* Samples of more than 0.3 ms tell few kernels apart (H200, SM metrics of a transformer). False:
 * ranges do better, and why is known. */
static bool take_coarse(struct sampler *m, const struct sampler_begin *begin)
{
	struct sampling *s = m->owner;
	size_t i = find_coarse(s, begin->n_metrics);
	unsigned long long us;

	if (i == begin->n_metrics) {
		return true;
	}
	us = s->intervals_ns[s->sets[i]] / 1000;
	if (sampling_may_fall_back(s)) {
		sampling_note_why(s, "%s would be sampled every %llu us only", begin->metrics[i],
				  us);
		return false;
	}
	if (m == s->samplers) { /* of several GPUs once */
		say("%s is sampled every %llu us: values may be off by more than their errors say",
		    begin->metrics[i], us);
	}
	return true;
}

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct sampler *m = user;
	struct sampling *s = m->owner;
	bool all = true;

	m->strays = !is_as_asked(m, begin) || !take_sets(s, begin) || !take_coarse(m, begin);
	if (m->strays) {
		return;
	}
	m->begun = true;
	for (size_t i = 0; i < s->n_samplers; i++) {
		all = all && s->samplers[i].begun;
	}
	if (all && !s->begun && !s->over) {
		s->begun = true;
		s->user.on_begun(s->data);
	}
}

static uint64_t interval_of(const struct sampler *m)
{
	return m->interval_ns ? m->interval_ns : m->owner->intervals_ns[m->set];
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct sampler *m = user;
	struct sampling *s = m->owner;
	double all[SAMPLER_METRICS_MAX];

	if (s->is_ready && m->is_joined && !m->strays) {
		for (size_t i = 0; i < s->n_metrics; i++) {
			all[i] = s->sets[i] == m->set ? *values++ : NAN;
		}
		m->first_ns = m->first_ns ? m->first_ns : start_ns;
		m->last_ns = end_ns;
		sinks_sample(s->sinks, &(struct kept_sample){ m->uuid, interval_of(m), start_ns,
							      end_ns, all });
	}
}

/* The longest interval of a set is told. */
static void on_set(void *user, const struct sampler_set *set)
{
	struct sampler *m = user;
	struct sampling *s = m->owner;

	if (set->set != m->set) {
		s->turns++;
		s->change_ns += set->change_ns;
	}
	m->set = set->set;
	m->interval_ns = set->interval_ns;
	if (set->interval_ns > s->intervals_ns[set->set]) {
		s->intervals_ns[set->set] = set->interval_ns;
	}
}

static void on_lost(void *user, int64_t start_ns, int64_t end_ns, uint64_t n)
{
	(void)start_ns;
	(void)end_ns;
	((struct sampler *)user)->lost += n;
}

static void on_sampler_end(void *user, const struct sampler_end *end)
{
	struct sampler *m = user;

	m->ended = true;
	m->end = *end;
	m->end.message = m->end.remedy = NULL;
	if (end->reason == SAMPLER_ENDED) {
		return;
	}
	/* One that was asked to end may lose the counters first, with our connection. */
	if (m->life >= 0) {
		sampling_tell_end(m->owner, end);
		m->is_told = true;
	} else if (m->owner->begun) {
		sampling_note_why(m->owner, "%s", end->message);
	}
}

static const struct sampler_handler handler = {
	.on_begin = on_begin,
	.on_sample = on_sample,
	.on_lost = on_lost,
	.on_end = on_sampler_end,
	.on_set = on_set,
};

static void close_output(struct sampler *m)
{
	/* The loop may be over. */
	if (m->watched && !uv_is_closing((uv_handle_t *)&m->poll)) {
		uv_poll_stop(&m->poll);
	}
	m->watched = false;
	if (m->output >= 0) {
		close(m->output);
		m->output = -1;
	}
}

static void take_all(struct sampler *m)
{
	int r = m->output >= 0 ? sampler_take(m->output, m->reader) : 0;

	if (m->output < 0 || (r == 0 && !m->strays)) {
		return;
	}
	m->is_told |= m->strays || r < 0;
	if (m->strays) {
		sampling_tell(m->owner, "",
			      "the sampler samples another GPU or other metrics than it was asked "
			      "for, and is ended");
	} else if (r < 0) {
		sampling_tell(m->owner, "", "the sampler has written nonsense, and is ended");
	}
	close_output(m);
}

/* Its output is at its end, so it is over in a moment, or has closed what it has. */
static void tell_early_end(struct sampler *m)
{
	uint64_t until_ns = clock_now_ns() + SILENT_NS;

	sampler_ask_end(&m->life);
	while (!child_reap(&m->child) && m->child.pid != 0 && clock_now_ns() < until_ns) {
		(void)poll(NULL, 0, LEAST_MS);
	}
	if (m->child.pid != 0) {
		sampling_tell(m->owner, "", "the sampler of GPU %s has closed its output", m->uuid);
	} else if (m->ended) {
		sampling_tell(m->owner, "",
			      "the sampler of GPU %s was asked to end by somebody else", m->uuid);
	} else {
		m->is_cut_off = true;
		sampling_tell(m->owner, sampler_died_remedy,
			      "the sampler of GPU %s ended without a last word (%s)", m->uuid,
			      child_end_text(m->child.status));
	}
}

static void on_output(uv_poll_t *handle, int status, int events)
{
	struct sampler *m = handle->data;

	(void)status;
	(void)events;
	take_all(m);
	if (m->output < 0 && !m->owner->over) {
		if (!m->is_told) {
			tell_early_end(m);
		}
		m->owner->on_over(m->owner);
	}
}

static int watch(struct sampling *s, struct sampler *m)
{
	m->reader = sampler_reader_new(&handler, m);
	if (!m->reader) {
		close_output(m);
		return -ENOMEM;
	}
	if (uv_poll_init(s->loop, &m->poll, m->output) != 0) {
		return -EINVAL;
	}
	m->poll.data = m;
	m->watched = uv_poll_start(&m->poll, UV_READABLE, on_output) == 0;
	return m->watched ? 0 : -EINVAL;
}

/* In a short capture turns are short: all sets have several. */
static uint64_t turn_of(const struct run_options *o)
{
	uint64_t part = o->duration_ns / TURNS_LEAST;

	return part == 0 || part > TURN_NS ? TURN_NS : part < TURN_LEAST_NS ? TURN_LEAST_NS : part;
}

int samplers_start(struct sampling *s, struct sampler *m, const char *const *added)
{
	char interval[32], turn[32];
	uint64_t interval_ns = s->options->timeline.interval_ns;
	const char *live[16] = { "gpuctr-sampler", "--quiet",	"--gpu",
				 m->uuid,	   "--metrics", buf_string(&s->metrics) };
	const char *played[] = { "gpuctr-replay",
				 "--samples",
				 m->uuid,
				 "--metrics",
				 buf_string(&s->metrics),
				 "--",
				 s->options->recording.path,
				 NULL };
	size_t n = 6;
	int r;

	if (interval_ns > 0) {
		live[n++] = "--interval";
		live[n++] = interval;
	}
	/* A timeline shows each metric at every time, or is refused. */
	if (!sampling_is_alone(s)) {
		live[n++] = "--turns";
		live[n++] = turn;
	}
	s->turn_ns = turn_of(s->options);
	snprintf(interval, sizeof(interval), "%lluns", (unsigned long long)interval_ns);
	snprintf(turn, sizeof(turn), "%lluns", (unsigned long long)s->turn_ns);
	r = sampler_start(&m->child, s->path, s->options->recorded ? played : live, added, s->mask,
			  &m->life, &m->output);
	return r < 0 ? r : watch(s, m);
}

/* Waits a moment for outputs that are open, and reads them. False: none is. */
static bool take_from_all(struct sampling *s)
{
	struct pollfd polls[SAMPLING_GPUS_MAX];
	nfds_t n = 0;

	for (size_t i = 0; i < s->n_samplers; i++) {
		if (s->samplers[i].output >= 0) {
			polls[n++] = (struct pollfd){ s->samplers[i].output, POLLIN, 0 };
		}
	}
	(void)poll(polls, n, n > 0 ? LEAST_MS : 0);
	for (size_t i = 0; i < s->n_samplers; i++) {
		take_all(&s->samplers[i]);
	}
	return n > 0;
}

/* Its output is at its end, or its time is over. One that the driver does not let go cannot be
 * killed, and is left alone. */
static void reap_sampler(struct sampler *m, uint64_t until_ns)
{
	m->is_cut_off = m->is_cut_off || !m->ended;
	if (m->output >= 0) {
		say("the sampler does not end, and is killed");
		close_output(m);
	}
	while (m->child.pid != 0 && !child_reap(&m->child)) {
		if (clock_now_ns() >= until_ns + SAMPLER_END_NS) {
			say("the sampler of GPU %s (pid %d) cannot be killed: the driver holds it",
			    m->uuid, (int)m->child.pid);
			return;
		}
		if (clock_now_ns() >= until_ns) {
			kill(m->child.pid, SIGKILL);
		}
		(void)poll(NULL, 0, LEAST_MS);
	}
}

void samplers_end(struct sampling *s)
{
	uint64_t until_ns = clock_now_ns() + SAMPLER_END_NS;

	s->over = true;
	for (size_t i = 0; i < s->n_samplers; i++) {
		sampler_ask_end(&s->samplers[i].life);
	}
	while (clock_now_ns() < until_ns && take_from_all(s)) {
	}
	for (size_t i = 0; i < s->n_samplers; i++) {
		reap_sampler(&s->samplers[i], until_ns);
	}
}
