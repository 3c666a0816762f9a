/* SPDX-License-Identifier: Apache-2.0 */

/* The samplers of a trace, one for each GPU, which end with it. A sampler ends when its standard
 * input is closed: when the client asks it to end, or when the client is gone. It still writes its
 * last samples. A sampler that does not end is killed. */

#include "client/cli/sampling_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"
#include "proto/base/clock.h"

enum { LEAST_MS = 10, TURNS_LEAST = 16, PIPE_BYTES = 1 << 20, READ_BYTES = 1 << 16 };

#define SILENT_NS (CLOCK_NS_PER_S / 2)
#define TURN_NS (500 * CLOCK_NS_PER_MS)
#define COARSE_NS UINT64_C(300000)
#define TURN_LEAST_NS (100 * CLOCK_NS_PER_MS)
/* A sampler that was asked to end is killed after this time. */
#define END_NS (5 * CLOCK_NS_PER_S)

/* --- the program ----------------------------------------------------------------------------- */

static const char sampler_name[] = "gpuctr-sampler";

static bool find_beside(char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof(sampler_name));
	char *slash;

	if (n <= 0) {
		return false;
	}
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash) {
		memcpy(slash + 1, sampler_name, sizeof(sampler_name));
	}
	return slash && access(ret, X_OK) == 0;
}

/* $GPUCTR_SAMPLER, or gpuctr-sampler beside this program, or the installed one. */
static bool find_sampler(char ret[PATH_MAX])
{
	const char *named = getenv("GPUCTR_SAMPLER");

	if (named && *named) {
		snprintf(ret, PATH_MAX, "%s", named);
		return access(ret, X_OK) == 0;
	}
	if (find_beside(ret)) {
		return true;
	}
	snprintf(ret, PATH_MAX, "%s", GPUCTR_SAMPLER_PATH);
	return access(ret, X_OK) == 0;
}

/* The gpuctr-replay that plays a recording's launches also plays its samples. */
static bool find_player(struct sampling *s)
{
	const struct run_options *o = s->options;
	const char *name =
		strcmp(o->program, "gpuctr-replay") == 0 ? o->command[0] : "gpuctr-replay";
	int error;
	char *path = child_find(name, &error);
	bool found = path && snprintf(s->path, sizeof(s->path), "%s", path) < (int)sizeof(s->path);

	if (!found) {
		sampling_note_why(s, "%s: %s", name, strerror(path ? ENAMETOOLONG : error));
	}
	free(path);
	return found;
}

bool samplers_find(struct sampling *s)
{
	if (s->options->recorded) {
		return find_player(s);
	}
	if (!find_sampler(s->path)) {
		sampling_note_why(s, "gpuctr-sampler is not there (%s)%s", s->path,
				  s->options->may_fall_back ? ""
							    : "; $GPUCTR_SAMPLER names another");
		return false;
	}
	return true;
}

/* --- what it writes -------------------------------------------------------------------------- */

/* Has the sampler begun with the names asked for, in their order? Values come in this order. */
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

/* Takes the sets of the first sampler. False: this one's differ, so GPUs are not of one kind. */
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

/* The first metric with long samples, unless the user gave an interval; n_metrics: none. */
static size_t find_coarse(const struct sampling *s, size_t n_metrics)
{
	size_t i = 0;

	while (i < n_metrics && s->intervals_ns[s->sets[i]] <= COARSE_NS) {
		i++;
	}
	return s->options->timeline.interval_ns == 0 ? i : n_metrics;
}

/* Samples of more than 0.3 ms tell few kernels apart (H200, SM metrics of a transformer). False:
 * ranges do better; s->why has the reason. */
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
	if (m == s->samplers) { /* once for several GPUs */
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

	if (s->is_ready && !m->strays) {
		for (size_t i = 0; i < s->n_metrics; i++) {
			all[i] = s->sets[i] == m->set ? *values++ : NAN;
		}
		m->last_ns = end_ns;
		sinks_sample(s->sinks, &(struct kept_sample){ m->uuid, interval_of(m), start_ns,
							      end_ns, all });
	}
}

/* Notes turns. Of each set's intervals the longest is reported at the end. */
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

/* The error code for a sampler's reason. */
static enum gpuctr_error_code code_of(enum sampler_reason reason)
{
	switch (reason) {
	case SAMPLER_NO_CUPTI:
		return GPUCTR_E_NO_CUPTI;
	case SAMPLER_NO_GPU:
		return GPUCTR_E_NO_GPU;
	case SAMPLER_NO_CHIP:
		return GPUCTR_E_CHIP_UNKNOWN;
	case SAMPLER_METRICS:
		return GPUCTR_E_METRIC_UNKNOWN;
	case SAMPLER_PASSES:
		return GPUCTR_E_TOO_MANY_PASSES;
	case SAMPLER_NOT_ALLOWED:
		return GPUCTR_E_GRANT_REFUSED;
	case SAMPLER_BUSY:
		return GPUCTR_E_HARDWARE_BUSY;
	case SAMPLER_CUT_OFF:
		return GPUCTR_E_REVOKED;
	default:
		return GPUCTR_E_PROFILER;
	}
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
	/* A sampler that was asked to end may lose the counters with our connection first. */
	if (m->life >= 0) {
		sampling_tell(m->owner, code_of(end->reason), end->remedy, "%s", end->message);
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
	/* The loop may already have closed its handles. */
	if (m->watched && !uv_is_closing((uv_handle_t *)&m->poll)) {
		uv_poll_stop(&m->poll);
	}
	m->watched = false;
	if (m->output >= 0) {
		close(m->output);
		m->output = -1;
	}
}

/* Reads what the pipe holds, and no more: a sampler that writes faster than the client reads would
 * keep it from signals and from the daemon. 0: there may be more later; 1: the output has ended;
 * negative: the bytes are no valid stream. */
static int take(const struct sampler *m)
{
	static uint8_t bytes[READ_BYTES];
	ssize_t n = 1;
	int r = 0;

	for (unsigned i = 0; i <= PIPE_BYTES / READ_BYTES && n > 0 && r == 0; i++) {
		n = read(m->output, bytes, sizeof(bytes));
		r = n > 0 ? sampler_reader_feed(m->reader, bytes, (size_t)n) : 0;
	}
	return r ? r : n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : 1;
}

static void take_all(struct sampler *m)
{
	int r = m->output >= 0 ? take(m) : 0;

	if (m->output < 0 || (r == 0 && !m->strays)) {
		return;
	}
	m->is_told |= m->strays || r < 0;
	if (m->strays) {
		sampling_tell(m->owner, GPUCTR_OK, "",
			      "the sampler samples another GPU or other metrics than it was asked "
			      "for, and is ended");
	} else if (r < 0) {
		sampling_tell(m->owner, GPUCTR_OK, "",
			      "the sampler has written nonsense, and is ended");
	}
	close_output(m);
}

static void ask_end(struct sampler *m)
{
	if (m->life >= 0) {
		close(m->life);
		m->life = -1;
	}
}

/* Reports why a sampler's output ended early. The process ends soon, or has only closed it. */
static void tell_early_end(struct sampler *m)
{
	uint64_t until_ns = clock_now_ns() + SILENT_NS;

	ask_end(m);
	while (!child_reap(&m->child) && m->child.pid != 0 && clock_now_ns() < until_ns) {
		(void)poll(NULL, 0, LEAST_MS);
	}
	if (m->child.pid != 0) {
		sampling_tell(m->owner, GPUCTR_OK, "",
			      "the sampler of GPU %s has closed its output", m->uuid);
	} else if (m->ended) {
		sampling_tell(m->owner, GPUCTR_OK, "",
			      "the sampler of GPU %s was asked to end by somebody else", m->uuid);
	} else {
		m->is_cut_off = true;
		sampling_tell(
			m->owner, GPUCTR_OK,
			"Try again; the kernel's log says if it ran out of memory or crashed.",
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

/* Turns are shorter in a short capture, so that all sets have several. */
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
	/* A timeline shows all metrics at all times, so it has no turns. */
	if (!sampling_is_alone(s)) {
		live[n++] = "--turns";
		live[n++] = turn;
	}
	s->turn_ns = turn_of(s->options);
	snprintf(interval, sizeof(interval), "%lluns", (unsigned long long)interval_ns);
	snprintf(turn, sizeof(turn), "%lluns", (unsigned long long)s->turn_ns);
	r = child_start_piped(&m->child, s->path,
			      (char *const *)(uintptr_t)(s->options->recorded ? played : live),
			      added, s->mask, &m->life, &m->output);
	if (r < 0) {
		return r;
	}
	(void)fcntl(m->output, F_SETFL, O_NONBLOCK);
	(void)fcntl(m->output, F_SETPIPE_SZ, PIPE_BYTES);
	return watch(s, m);
}

/* Waits a moment for open outputs, and reads them. False: none is open. */
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

/* Waits for a sampler whose output has ended, or whose time is over, and kills it at until_ns. One
 * that the driver holds cannot be killed, and is left alone. */
static void reap_sampler(struct sampler *m, uint64_t until_ns)
{
	m->is_cut_off = m->is_cut_off || !m->ended;
	if (m->output >= 0) {
		say("the sampler does not end, and is killed");
		close_output(m);
	}
	while (m->child.pid != 0 && !child_reap(&m->child)) {
		if (clock_now_ns() >= until_ns + END_NS) {
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
	uint64_t until_ns = clock_now_ns() + END_NS;

	s->over = true;
	for (size_t i = 0; i < s->n_samplers; i++) {
		ask_end(&s->samplers[i]);
	}
	while (clock_now_ns() < until_ns && take_from_all(s)) {
	}
	for (size_t i = 0; i < s->n_samplers; i++) {
		reap_sampler(&s->samplers[i], until_ns);
	}
}
