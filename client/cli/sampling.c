/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/sampler_path.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/report/attribution.h"
#include "client/sampler/stream.h"
#include "proto/base/clock.h"

/* The sampler ends when its standard input does: at the end of the trace, or when we are no more.
 * What it has sampled until then still comes. One that does not end is killed.
 *
 * What samples say of a kernel is known at the end alone, so whatever ends the samplers early takes
 * nothing away: kernels that ran later have no value, and that is told. */

enum { PIPE_BYTES = 1 << 20, READ_BYTES = 1 << 16, INTERVAL_NS = 10000, LEAST_MS = 10 };

#define PATIENCE_NS (5 * CLOCK_NS_PER_S)
#define SILENT_NS (CLOCK_NS_PER_S / 2)
/* The daemon looks four times a second who computes on a leased GPU, and ends a lease for which it
 * could not for three seconds. Samples wait longer than that before they are attributed. */
#define UNSEEN_NS (4 * CLOCK_NS_PER_S)

struct sampler {
	struct sampling *owner;
	char uuid[SAMPLER_UUID_BYTES];
	struct child child;
	int life, output; /* -1: closed */
	bool watched;
	uv_poll_t poll;
	struct sampler_reader *reader;
	bool begun, ended;
	bool strays;  /* samples metrics that the sampler was not asked for */
	bool is_told; /* why it is over */
	int number;   /* index of its GPU among those that are joined */
	uint64_t lost;
};

struct sampling {
	struct gpuctr *g;
	uv_loop_t *loop;
	const struct run_options *options;
	const sigset_t *mask;
	struct sampling_user user;
	void *data;

	char path[PATH_MAX];
	struct buf metrics; /* "a,b", in the plan's order */
	size_t n_metrics;
	struct gpuctr_capture *permit; /* NULL: not open, or over */
	struct sampler samplers[SAMPLING_GPUS_MAX];
	size_t n_samplers;
	bool begun, over;
	uint64_t begin_by_ns; /* 0: they were not started yet */
	bool is_ready;	      /* for samples: there is a file to keep them */

	struct sampled *sampled;
	struct attributor *steps;
	uint64_t n_records, interval_ns;
	sampled_on_record *on_record;
	void *on_record_user;
	struct buf unsampled;
};

/* --- why not --------------------------------------------------------------------------------- */

static void refuse(struct sampling *s)
{
	if (!s->over) {
		s->over = true;
		s->user.on_refused(s->data);
	}
}

static void tell_instead(const struct run_options *o)
{
	if (o->recorded) {
		return;
	}
	say("--mode sample is refused; --mode budget measures launches chosen at random instead%s",
	    selector_is_empty(&o->selector) ? ", and --mode range every launch" : "");
}

static void cut(struct sampling *s)
{
	if (!s->begun) {
		tell_instead(s->options);
		refuse(s);
	} else if (!s->over) {
		s->over = true;
		s->user.on_cut(s->data);
	}
}

/* --- samplers -------------------------------------------------------------------------------- */

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

static void on_begin(void *user, const struct sampler_begin *begin)
{
	struct sampler *m = user;
	struct sampling *s = m->owner;
	bool all = true;

	m->strays = !is_as_asked(m, begin);
	if (m->strays) {
		return;
	}
	m->begun = true;
	s->interval_ns = begin->interval_ns;
	for (size_t i = 0; i < s->n_samplers; i++) {
		all = all && s->samplers[i].begun;
	}
	if (all && !s->begun && !s->over) {
		s->begun = true;
		s->user.on_begun(s->data);
	}
}

static void on_sample(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	const struct sampler *m = user;

	if (m->owner->is_ready && m->number >= 0 && !m->strays) {
		sampled_sample(m->owner->sampled, m->number, start_ns, end_ns, values);
	}
}

static void on_given(void *user, int gpu, int64_t start_ns, int64_t end_ns, const double *values)
{
	struct sampling *s = user;

	for (size_t i = 0; i < s->n_samplers; i++) {
		const struct sampler *m = &s->samplers[i];
		const struct kept_sample sample = { m->uuid, s->interval_ns, start_ns, end_ns,
						    values };

		if (m->number == gpu) {
			s->user.on_sample(s->data, &sample);
		}
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
	if (end->reason != SAMPLER_ENDED) {
		say("%s%s%s", end->message, end->remedy[0] ? ". " : "", end->remedy);
		m->is_told = true;
	}
}

static const struct sampler_handler handler = {
	.on_begin = on_begin,
	.on_sample = on_sample,
	.on_lost = on_lost,
	.on_end = on_sampler_end,
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

/* False: there is nothing more. */
static bool take_some(struct sampler *m)
{
	static uint8_t bytes[READ_BYTES];
	ssize_t n = read(m->output, bytes, sizeof(bytes));

	if (n > 0 && sampler_reader_feed(m->reader, bytes, (size_t)n) == 0 && !m->strays) {
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return false;
	}
	m->is_told |= n > 0;
	if (n > 0 && m->strays) {
		say("the sampler samples another GPU or other metrics than it was asked for, and "
		    "is ended");
	} else if (n > 0) {
		say("the sampler has written nonsense, and is ended");
	}
	close_output(m);
	return false;
}

/* What the pipe holds, and no more at a time: one that writes faster than we read would keep us
 * from signals and from the daemon. */
static void take_all(struct sampler *m)
{
	for (unsigned i = 0; i <= PIPE_BYTES / READ_BYTES && m->output >= 0 && take_some(m); i++) {
	}
}

static void ask_end(struct sampler *m)
{
	if (m->life >= 0) {
		close(m->life);
		m->life = -1;
	}
}

/* The sampler's output has ended: either it ends in a moment, or it has closed its output. */
static void tell_early_end(struct sampler *m)
{
	uint64_t until_ns = clock_now_ns() + SILENT_NS;

	ask_end(m);
	while (!child_reap(&m->child) && m->child.pid != 0 && clock_now_ns() < until_ns) {
		(void)poll(NULL, 0, LEAST_MS);
	}
	if (m->child.pid != 0) {
		say("the sampler of GPU %s has closed its output", m->uuid);
	} else if (m->ended) {
		say("the sampler of GPU %s was asked to end by somebody else", m->uuid);
	} else {
		say("the sampler of GPU %s ended without a last word (%s)", m->uuid,
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
		cut(m->owner);
	}
}

static int watch(struct sampling *s, struct sampler *m)
{
	(void)fcntl(m->output, F_SETFL, O_NONBLOCK);
	(void)fcntl(m->output, F_SETPIPE_SZ, PIPE_BYTES);
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

static int start(struct sampling *s, struct sampler *m, const char *const *added)
{
	char interval[32];
	uint64_t interval_ns = s->options->timeline.interval_ns;
	const char *live[] = { "gpuctr-sampler", "--quiet",   "--gpu",
			       m->uuid,		 "--metrics", buf_string(&s->metrics),
			       "--interval",	 interval,    NULL };
	const char *played[] = { "gpuctr-replay",
				 "--samples",
				 m->uuid,
				 "--metrics",
				 buf_string(&s->metrics),
				 "--",
				 s->options->recording.path,
				 NULL };
	const char **argv = s->options->recorded ? played : live;
	int r;

	snprintf(interval, sizeof(interval), "%lluns",
		 (unsigned long long)(interval_ns ? interval_ns : INTERVAL_NS));
	r = child_start_piped(&m->child, s->path, (char *const *)(uintptr_t)argv, added, s->mask,
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

/* The sampler's output has ended, or its time is over. A sampler that the driver does not let go
 * cannot be killed, and is left alone. */
static void reap_sampler(struct sampler *m, uint64_t until_ns)
{
	if (m->output >= 0) {
		say("the sampler does not end, and is killed");
		close_output(m);
	}
	while (m->child.pid != 0 && !child_reap(&m->child)) {
		if (clock_now_ns() >= until_ns + PATIENCE_NS) {
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

/* Asks all samplers to end before it waits for any, and reads what they have sampled until they
 * have ended. */
static void end_samplers(struct sampling *s)
{
	uint64_t until_ns = clock_now_ns() + PATIENCE_NS;

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

/* --- the permit ------------------------------------------------------------------------------ */

static void add_sampler(struct sampling *s, const char *uuid)
{
	struct sampler *m = &s->samplers[s->n_samplers];

	if (s->n_samplers < SAMPLING_GPUS_MAX) {
		*m = (struct sampler){ .owner = s, .life = -1, .output = -1, .number = -1 };
		snprintf(m->uuid, sizeof(m->uuid), "%s", uuid);
		s->n_samplers++;
	}
}

/* A recording leases no GPU, and has its own. */
static void on_permit_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened,
			     void *userdata)
{
	struct sampling *s = userdata;
	const struct strings *recorded = &s->options->recording.gpus;

	(void)c;
	for (size_t i = 0; i < opened->n_gpus; i++) {
		add_sampler(s, opened->gpus[i].uuid);
	}
	for (size_t i = 0; i < recorded->n; i++) {
		add_sampler(s, recorded->items[i]);
	}
}

static void on_permit_queued(struct gpuctr_capture *c, const struct gpuctr_queued *queued,
			     void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	if (!s->over) {
		s->user.on_queued(s->data, queued);
	}
}

static void on_permit_ready(struct gpuctr_capture *c, void *userdata)
{
	struct sampling *s = userdata;
	const char *const *added = gpuctr_capture_environment(c, s->options->agent);
	int r = added ? 0 : -ENOENT;

	if (s->over) {
		return;
	}
	if (!added) {
		say_gpuctr_error(gpuctr_last_error(s->g));
	}
	s->begin_by_ns = clock_now_ns() + SAMPLER_BEGIN_NS;
	for (size_t i = 0; r == 0 && i < s->n_samplers; i++) {
		r = start(s, &s->samplers[i], added);
		if (r < 0) {
			say_usage("%s: cannot be run: %s", s->path, strerror(-r));
		}
	}
	if (r < 0) {
		cut(s);
	}
}

static void on_permit_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			     void *userdata)
{
	(void)c;
	(void)userdata;
	say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
		    notice->error.remedy);
}

/* Another user may have computed there since the daemon last looked. */
static void discard_unseen(struct sampling *s)
{
	sampled_discard(s->sampled, (int64_t)(clock_wall_ns() - UNSEEN_NS));
	say("what was sampled in the last %d s is discarded: another user may have computed there",
	    (int)(UNSEEN_NS / CLOCK_NS_PER_S));
}

static void on_permit_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	s->permit = NULL;
	if (end->error.code == GPUCTR_E_REVOKED && s->sampled) {
		discard_unseen(s);
	}
	/* If the daemon is gone, the trace hears of it as well. */
	if (s->over || (s->begun && end->error.code == GPUCTR_E_DISCONNECTED)) {
		return;
	}
	say_clear();
	if (end->error.code != GPUCTR_OK) {
		say_gpuctr_error(&end->error);
	}
	cut(s);
}

static const struct gpuctr_capture_handler permit_handler = {
	.size = sizeof(struct gpuctr_capture_handler),
	.on_opened = on_permit_opened,
	.on_queued = on_permit_queued,
	.on_ready = on_permit_ready,
	.on_notice = on_permit_notice,
	.on_end = on_permit_end,
};

static int open_permit(struct sampling *s)
{
	const struct run_options *o = s->options;
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);

	options.permit = GPUCTR_PERMIT_BY_PRELOAD;
	options.gpus = strings_items(&o->devices);
	options.n_gpus = o->devices.n;
	options.no_wait = o->no_wait;
	options.timeout_ns = o->timeout_ns;
	options.lease_ns = o->lease_ns;
	options.program = o->program;
	options.recorded = o->recorded;
	options.chip = o->chip;
	return gpuctr_capture_open(s->g, &options, &permit_handler, s, &s->permit);
}

/* --- the plan -------------------------------------------------------------------------------- */

/* False: told why. */
static bool take_plan(struct sampling *s, const struct gpuctr_plan *plan)
{
	const char *misfit = sampled_misfit(plan);

	if (misfit) {
		say_usage("--mode sample: %s is no sum over time, which samples could be divided "
			  "of; ask for .sum, or take --mode range",
			  misfit);
		return false;
	}
	if (plan->n_metrics > ATTRIBUTION_METRICS_MAX) {
		say_usage("--mode sample: %zu metrics are too many, %d are sampled at a time",
			  plan->n_metrics, ATTRIBUTION_METRICS_MAX);
		return false;
	}
	for (size_t i = 0; i < plan->n_metrics; i++) {
		buf_printf(&s->metrics, "%s%s", i > 0 ? "," : "", plan->metrics[i]);
	}
	s->n_metrics = plan->n_metrics;
	return !s->metrics.failed;
}

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct sampling *s = userdata;
	int r;

	if (s->over) {
		return;
	}
	if (error) {
		say_gpuctr_error(error);
		refuse(s);
		return;
	}
	if (!take_plan(s, plan)) {
		refuse(s);
		return;
	}
	r = open_permit(s);
	if (r) {
		say_failure(s->g, r);
		refuse(s);
	}
}

/* What a recording holds is played by who plays its launches. */
static bool find_player(struct sampling *s)
{
	const struct run_options *o = s->options;
	const char *name =
		strcmp(o->program, "gpuctr-replay") == 0 ? o->command[0] : "gpuctr-replay";
	int error;
	char *path = child_find(name, &error);
	bool found = path && snprintf(s->path, sizeof(s->path), "%s", path) < (int)sizeof(s->path);

	if (!found) {
		say_usage("%s: %s", name, strerror(path ? ENAMETOOLONG : error));
	}
	free(path);
	return found;
}

/* False: told why. */
static bool find_program(struct sampling *s)
{
	if (s->options->recorded) {
		return find_player(s);
	}
	if (!sampler_path_find(s->path)) {
		say_usage("%s: gpuctr-sampler is not there; $GPUCTR_SAMPLER names another",
			  s->path);
		return false;
	}
	return true;
}

struct sampling *sampling_begin(struct gpuctr *g, uv_loop_t *loop,
				const struct run_options *options, const sigset_t *mask,
				const struct sampling_user *user, void *data)
{
	struct sampling *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		say_usage("out of memory");
		return NULL;
	}
	s->g = g;
	s->loop = loop;
	s->options = options;
	s->mask = mask;
	s->user = *user;
	s->data = data;
	s->steps = attributor_new();
	if (!find_program(s)) {
		return sampling_free(s);
	}
	r = s->steps ? gpuctr_plan(g, options->chip, strings_items(&options->metrics),
				   options->metrics.n, on_plan, s)
		     : -ENOMEM;
	if (r) {
		say_failure(g, r);
		return sampling_free(s);
	}
	return s;
}

struct sampling *sampling_free(struct sampling *s)
{
	if (!s) {
		return NULL;
	}
	end_samplers(s);
	for (size_t i = 0; i < s->n_samplers; i++) {
		sampler_reader_free(s->samplers[i].reader);
	}
	sampled_free(s->sampled);
	attributor_free(s->steps);
	buf_deinit(&s->metrics);
	buf_deinit(&s->unsampled);
	free(s);
	return NULL;
}

/* --- the trace ------------------------------------------------------------------------------- */

bool sampling_join(struct sampling *s, const struct gpuctr_plan *plan, sampled_on_record *on_record,
		   void *user)
{
	s->on_record = on_record;
	s->on_record_user = user;
	s->sampled = plan->n_metrics == s->n_metrics ? sampled_new(plan) : NULL;
	if (!s->sampled) {
		say_usage("out of memory");
		return false;
	}
	sampled_hear_samples(s->sampled, on_given, s);
	if (s->options->recorded) {
		sampled_expect_files(s->sampled);
	}
	for (size_t i = 0; i < s->n_samplers; i++) {
		s->samplers[i].number = sampled_add_gpu(s->sampled, s->samplers[i].uuid);
	}
	return true;
}

/* Samples that came before are nobody's; those of a recording come when all is there that takes
 * them. */
void sampling_play(struct sampling *s)
{
	s->is_ready = true;
	for (size_t i = 0; s->options->recorded && i < s->n_samplers; i++) {
		if (s->samplers[i].life >= 0 && write(s->samplers[i].life, "", 1) < 0) {
			say("%s: %s", s->path, strerror(errno));
		}
	}
}

void sampling_process(struct sampling *s, const struct gpuctr_process *process)
{
	sampled_process(s->sampled, process);
}

/* Texts of steps are one pointer each. */
static uint64_t step_of(struct sampling *s, const struct gpuctr_record *record)
{
	struct attribution what = { .step = "" };

	attributor_take(s->steps, record, &what);
	return *what.step ? (uint64_t)(uintptr_t)what.step : 0;
}

static void tell_at_once(void *user, const struct gpuctr_record *record)
{
	struct sampling *s = user;

	s->on_record(s->on_record_user, record);
}

void sampling_process_end(struct sampling *s, const struct gpuctr_process_end *end)
{
	sampled_process_end(s->sampled, end, (int64_t)clock_wall_ns());
}

void sampling_progress(struct sampling *s, const struct gpuctr_totals *totals)
{
	sampled_progress(s->sampled, totals);
}

void sampling_record(struct sampling *s, const struct gpuctr_record *record)
{
	s->n_records++;
	sampled_record(s->sampled, record, step_of(s, record), tell_at_once, s);
}

void sampling_copy(struct sampling *s, const struct gpuctr_copy *copy)
{
	sampled_copy(s->sampled, copy);
}

uint64_t sampling_records(const struct sampling *s)
{
	return s->n_records;
}

/* The GPU is not held for a sampler that hangs: the permit is closed. */
static void tell_silent(struct sampling *s)
{
	for (size_t i = 0; i < s->n_samplers; i++) {
		const struct sampler *m = &s->samplers[i];

		if (!m->begun) {
			sampler_path_tell_silent(m->uuid, m->child.pid);
		}
	}
}

void sampling_tick(struct sampling *s)
{
	if (s->begin_by_ns != 0 && !s->begun && !s->over && clock_now_ns() > s->begin_by_ns) {
		tell_silent(s);
		cut(s);
	}
	/* The samples of a recording come at once, and not as late as its records. */
	if (s->sampled && !s->options->recorded) {
		sampled_advance(s->sampled);
	}
}

static void describe(struct sampling *s)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < s->n_samplers; i++) {
		lost += s->samplers[i].lost;
	}
	sampled_describe(s->sampled, &s->unsampled);
	buf_text(&s->unsampled, "; samples lost ");
	text_count(&s->unsampled, lost);
}

void sampling_finish(struct sampling *s)
{
	end_samplers(s);
	if (s->permit) {
		gpuctr_capture_close(s->permit);
	}
	if (s->sampled) {
		sampled_finish(s->sampled, s->on_record, s->on_record_user);
		describe(s);
	}
}

void sampling_unknown(const struct sampling *s,
		      void (*on_unknown)(void *user, const struct store_unknown *unknown),
		      void *user)
{
	const struct sampled_unknown *items;
	size_t n = s->sampled ? sampled_unknown(s->sampled, &items) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *gpu = "";

		for (size_t k = 0; k < s->n_samplers; k++) {
			gpu = items[i].gpu >= 0 && s->samplers[k].number == items[i].gpu
				      ? s->samplers[k].uuid
				      : gpu;
		}
		on_unknown(user,
			   &(struct store_unknown){ gpu, items[i].start_ns, items[i].end_ns });
	}
}

uint64_t sampling_interval_ns(const struct sampling *s)
{
	return s->interval_ns;
}

const char *sampling_unsampled(const struct sampling *s)
{
	return buf_string((struct buf *)(uintptr_t)&s->unsampled);
}
