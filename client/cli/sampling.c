/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/clock.h"

/* Samples are recorded as they come, and divided among kernels when the capture ends. So samples
 * are kept when something ends the samplers early; kernels that ran later have no value, which the
 * run reports.
 *
 * If the user did not ask for sampling (may_fall_back) and it is refused before it has begun, the
 * run measures ranges instead, once the permit is given back. A refusal that would also refuse
 * ranges ends the run. */

/* The daemon looks four times a second who computes on a leased GPU, and ends the lease if it could
 * not look for three seconds. */
#define UNSEEN_NS (4 * CLOCK_NS_PER_S)
#define WORD_NS CLOCK_NS_PER_S
/* Longest wait for a sampler to begin. CUPTI needs a second, but without persistence mode the
 * driver sets up all GPUs first. */
#define BEGIN_NS (30 * CLOCK_NS_PER_S)

/* --- why not --------------------------------------------------------------------------------- */

static void leave(struct sampling *s)
{
	s->leaves = false;
	s->user.on_refused(s->data, s->why.n > 0 ? buf_string(&s->why) : NULL);
}

/* Ends samplers and permit, and only then calls on_refused(). */
static void refuse(struct sampling *s)
{
	if (s->over) {
		return;
	}
	samplers_end(s);
	s->leaves = true;
	if (!s->permit || gpuctr_capture_close(s->permit) != 0) {
		leave(s);
	}
}

static void tell_instead(const struct run_options *o)
{
	if (!o->recorded && !o->timeline.is_wanted) {
		say("--mode sample is refused; --mode range measures every launch instead");
	}
}

/* Ends sampling early. code: the reason, of which s->why is the text. */
static void cut(struct sampling *s, int code)
{
	if (s->begun) {
		if (!s->over) {
			s->over = true;
			s->cut = (struct gpuctr_error){ code, buf_string(&s->why), "" };
			s->user.on_cut(s->data);
		}
		return;
	}
	if (!sampling_may_fall_back(s)) {
		buf_clear(&s->why);
		tell_instead(s->options);
	}
	refuse(s);
}

/* When a lease ends, samplers may end before the daemon's message comes, so waits for that. */
static void on_samplers_over(struct sampling *s)
{
	if (!s->begun || !s->permit) {
		cut(s, GPUCTR_E_PROFILER);
	} else if (s->cut_by_ns == 0) {
		s->cut_by_ns = clock_now_ns() + WORD_NS;
	}
}

static void tell_error(struct sampling *s, const struct gpuctr_error *error)
{
	sampling_tell(s, error->code, error->remedy, "%s", error->message);
}

/* --- the permit ------------------------------------------------------------------------------ */

static void add_sampler(struct sampling *s, const char *uuid)
{
	struct sampler *m = &s->samplers[s->n_samplers];

	if (s->n_samplers < SAMPLING_GPUS_MAX) {
		*m = (struct sampler){ .owner = s, .life = -1, .output = -1 };
		snprintf(m->uuid, sizeof(m->uuid), "%s", uuid);
		s->n_samplers++;
	}
}

/* A recording leases no GPU: its samples name the GPUs. */
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
	if (sampling_is_alone(s) && !s->over) {
		s->user.on_opened(s->data, opened);
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
		tell_error(s, gpuctr_last_error(s->g));
	}
	s->begin_by_ns = clock_now_ns() + BEGIN_NS;
	for (size_t i = 0; r == 0 && i < s->n_samplers; i++) {
		r = samplers_start(s, &s->samplers[i], added);
		if (r < 0) {
			sampling_tell(s, GPUCTR_OK, "", "%s: cannot be run: %s", s->path,
				      strerror(-r));
		}
	}
	if (r < 0) {
		cut(s, GPUCTR_E_PROFILER);
	}
}

static void on_permit_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			     void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	if (sampling_may_fall_back(s)) {
		sampling_tell(s, GPUCTR_OK, "", "%s", notice->error.message);
	} else {
		say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
			    notice->error.remedy);
	}
}

/* Would this error refuse all other modes too? They need the same GPUs and the same daemon. */
static bool refuses_all(int code)
{
	return code == GPUCTR_E_GPU_BUSY || code == GPUCTR_E_TIMEOUT ||
	       code == GPUCTR_E_QUEUE_FULL || code == GPUCTR_E_STOPPING ||
	       code == GPUCTR_E_DISCONNECTED || code == GPUCTR_E_AGENT_LOST;
}

/* Discards last samples: another user may have computed there since the daemon last looked. */
static void discard_unseen(struct sampling *s)
{
	files_discard(&s->sinks->files, (int64_t)(clock_wall_ns() - UNSEEN_NS));
	say("what was sampled in the last %d s is discarded: another user may have computed there",
	    (int)(UNSEEN_NS / CLOCK_NS_PER_S));
}

static void on_permit_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	s->permit = NULL;
	if (s->leaves) {
		leave(s);
	}
	/* Records that have their values already keep them. */
	if (end->error.code == GPUCTR_E_REVOKED && s->is_ready && !s->is_ended) {
		discard_unseen(s);
	}
	/* If the daemon is gone, the trace reports it. */
	if (s->over ||
	    (s->begun && end->error.code == GPUCTR_E_DISCONNECTED && !sampling_is_alone(s))) {
		return;
	}
	say_clear();
	if (refuses_all(end->error.code) && !s->begun) {
		say_gpuctr_error(&end->error);
		buf_clear(&s->why);
		refuse(s);
		return;
	}
	if (end->error.code != GPUCTR_OK) {
		tell_error(s, &end->error);
	}
	cut(s, end->error.code ? end->error.code : GPUCTR_E_PROFILER);
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
	options.gpus_allowed = o->devices_visible;
	options.processes = s->selected->ids;
	options.n_processes = s->selected->n;
	options.no_wait = o->filter.chosen.no_wait;
	options.timeout_ns = o->filter.chosen.timeout_ns;
	options.program = o->program;
	options.recorded = o->recorded;
	options.chip = o->chip;
	return gpuctr_capture_open(s->g, &options, &permit_handler, s, &s->permit);
}

/* --- the plan -------------------------------------------------------------------------------- */

static void add_metric(struct sampling *s, const char *name)
{
	buf_printf(&s->metrics, "%s%s", s->n_metrics > 0 ? "," : "", name);
	s->n_metrics++;
}

/* Takes all metrics but durations, which samples cannot show. False: the reason was reported. */
static bool take_names(struct sampling *s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], "gpu__time_duration.sum") != 0) {
			add_metric(s, names[i]);
		}
	}
	if (s->n_metrics == 0 || s->n_metrics > SAMPLER_METRICS_MAX) {
		say_usage("--metrics: these are %zu names; 1 to %d can be sampled, and how long "
			  "kernels take cannot",
			  s->n_metrics, SAMPLER_METRICS_MAX);
		return false;
	}
	return !s->metrics.failed;
}

/* Takes the plan's metrics. False: s->why has the reason. */
static bool take_plan(struct sampling *s, const struct gpuctr_plan *plan)
{
	const char *misfit = sampled_misfit(plan);

	if (misfit) {
		sampling_note_why(s, "%s is no sum over time%s", misfit,
				  s->options->may_fall_back
					  ? ""
					  : ", which samples could be divided of; ask for .sum, or "
					    "take --mode range");
		return false;
	}
	if (plan->n_metrics > SAMPLER_METRICS_MAX) {
		sampling_note_why(s, "%zu metrics are too many, %d can be sampled", plan->n_metrics,
				  SAMPLER_METRICS_MAX);
		return false;
	}
	for (size_t i = 0; i < plan->n_metrics; i++) {
		add_metric(s, plan->metrics[i]);
	}
	return !s->metrics.failed;
}

/* Opens the permit, once the metrics are known. good: they can be sampled. */
static void ask_permit(struct sampling *s, bool good)
{
	int r = good ? open_permit(s) : 0;

	if (r) {
		say_failure(s->g, r);
	}
	if (!good || r) {
		refuse(s);
	}
}

/* Metrics that the planner refuses cannot be measured in any mode. */
static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct sampling *s = userdata;

	if (s->over) {
		return;
	}
	if (error) {
		say_gpuctr_error(error);
		refuse(s);
		return;
	}
	ask_permit(s, sampling_is_alone(s) ? take_names(s, plan->metrics, plan->n_metrics)
					   : take_plan(s, plan));
}

/* Are all metrics full names of CUPTI, for the sampler? Only the plan can resolve others. */
static bool are_names_of_cupti(const struct strings *metrics)
{
	for (size_t i = 0; i < metrics->n; i++) {
		const char *name = metrics->items[i];

		if (!strchr(name, '.') || strpbrk(name, "*?[") || strncmp(name, "regex:", 6) == 0) {
			return false;
		}
	}
	return true;
}

static struct sampler *find_sampler(struct sampling *s, const char *gpu)
{
	for (size_t i = 0; i < s->n_samplers; i++) {
		if (strcmp(s->samplers[i].uuid, gpu) == 0) {
			return &s->samplers[i];
		}
	}
	return NULL;
}

static void on_unknown(void *user, const struct store_unknown *unknown)
{
	struct sampling *s = user;

	if (find_sampler(s, unknown->gpu)) {
		files_unknown(&s->sinks->files, unknown);
	}
}

static int64_t last_sample(void *user, const char *gpu)
{
	const struct sampler *m = find_sampler(user, gpu);

	return m ? m->last_ns : 0;
}

struct sampling *sampling_begin(struct gpuctr *g, uv_loop_t *loop,
				const struct run_options *options, const struct selected *selected,
				const sigset_t *mask, struct sinks *sinks,
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
	s->selected = selected;
	s->on_over = on_samplers_over;
	s->mask = mask;
	s->sinks = sinks;
	s->user = *user;
	s->data = data;
	s->unseen.on_unknown = on_unknown;
	s->unseen.last_sample = last_sample;
	s->unseen.user = s;
	if (!samplers_find(s)) {
		refuse(s);
		return s;
	}
	if (sampling_is_alone(s) && are_names_of_cupti(&options->metrics)) {
		ask_permit(s, take_names(s, strings_items(&options->metrics), options->metrics.n));
		return s;
	}
	r = gpuctr_plan(g, options->chip, strings_items(&options->metrics), options->metrics.n,
			on_plan, s);
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
	samplers_end(s);
	for (size_t i = 0; i < s->n_samplers; i++) {
		sampler_reader_free(s->samplers[i].reader);
	}
	unseen_deinit(&s->unseen);
	buf_deinit(&s->metrics);
	buf_deinit(&s->why);
	buf_deinit(&s->unsampled);
	free(s);
	return NULL;
}

/* --- the trace ------------------------------------------------------------------------------- */

/* Can attribution divide among so many metrics at once? */
static bool fits(const struct sampling *s, const struct gpuctr_plan *plan)
{
	struct sampled *sampled = sampled_new(plan, s->sets);
	int error = errno;

	sampled_free(sampled);
	if (!sampled && error == E2BIG) {
		say_usage(
			"--mode sample: one pass of these metrics has more than %d, which are too "
			"many to divide among kernels: ask for fewer",
			ATTRIBUTION_METRICS_MAX);
	} else if (!sampled) {
		say_usage("out of memory");
	}
	return sampled != NULL;
}

bool sampling_join(struct sampling *s, const struct gpuctr_plan *plan)
{
	if (plan->n_metrics != s->n_metrics) {
		say_usage("--mode sample: the daemon plans these metrics otherwise than a moment "
			  "ago: "
			  "try again");
		return false;
	}
	return fits(s, plan);
}

/* Samples from before the trace was ready are left out. A recording's sampler waits for this byte
 * until somebody records its samples. */
void sampling_play(struct sampling *s)
{
	s->is_ready = true;
	for (size_t i = 0; s->options->recorded && i < s->n_samplers; i++) {
		if (s->samplers[i].life >= 0 && write(s->samplers[i].life, "", 1) < 0) {
			say("%s: %s", s->path, strerror(errno));
		}
	}
}

struct unseen *sampling_unseen(struct sampling *s)
{
	return &s->unseen;
}

void sampling_record(struct sampling *s, const struct gpuctr_record *r)
{
	if (r->clock == GPUCTR_CLOCK_GPU) {
		unseen_ran(&s->unseen, r->process, r->device, r->start_ns + r->duration_ns);
	}
}

void sampling_copy(struct sampling *s, const struct gpuctr_copy *copy)
{
	unseen_ran(&s->unseen, copy->process, copy->device, copy->start_ns + copy->duration_ns);
}

/* Reports samplers that have not begun in time; the caller then gives the GPUs back. */
static void tell_silent(struct sampling *s)
{
	for (size_t i = 0; i < s->n_samplers; i++) {
		const struct sampler *m = &s->samplers[i];

		if (!m->begun) {
			sampling_tell(
				s, GPUCTR_OK,
				"The driver or CUPTI does not answer it, or "
				"$GPUCTR_SAMPLER is none. The kernel's log may have errors "
				"(Xid) of that GPU; `nvidia-smi -pm 1` spares the driver the "
				"setting up",
				"the sampler of GPU %s (pid %d) has not begun for %d s, and is "
				"given up",
				m->uuid, (int)m->child.pid, (int)(BEGIN_NS / CLOCK_NS_PER_S));
		}
	}
}

void sampling_tick(struct sampling *s)
{
	if (s->begin_by_ns != 0 && !s->begun && !s->over && clock_now_ns() > s->begin_by_ns) {
		tell_silent(s);
		cut(s, GPUCTR_E_PROFILER);
	}
	if (s->cut_by_ns != 0 && !s->over && clock_now_ns() > s->cut_by_ns) {
		cut(s, GPUCTR_E_PROFILER);
	}
}

static void describe_overflows(struct sampling *s)
{
	uint64_t overflows = 0, dropped = 0;

	for (size_t i = 0; i < s->n_samplers; i++) {
		overflows += s->samplers[i].end.overflows;
		dropped += s->samplers[i].end.dropped;
	}
	if (overflows > 0) {
		buf_printf(&s->unsampled, "; the hardware's buffer ran over %llu time%s",
			   (unsigned long long)overflows, overflows > 1 ? "s" : "");
	}
	if (dropped > 0) {
		buf_text(&s->unsampled, "; ");
		text_count(&s->unsampled, dropped);
		buf_text(&s->unsampled, " samples were not read in time");
	}
}

static void describe_turns(struct sampling *s)
{
	struct buf *b = &s->unsampled;

	if (s->turns == 0) {
		return;
	}
	buf_text(b, "; ");
	text_count(b, s->turns + s->n_samplers);
	buf_printf(b, " turns of %zu sets, a change takes ", s->n_sets);
	text_time(b, (double)s->change_ns / (double)s->turns);
}

static void describe_lost(struct sampling *s)
{
	bool more = false;
	uint64_t lost = 0;

	for (size_t i = 0; i < s->n_samplers; i++) {
		lost += s->samplers[i].lost;
		more = more || s->samplers[i].is_cut_off;
	}
	buf_printf(&s->unsampled, "%ssamples lost ", s->unsampled.n > 0 ? "; " : "");
	if (more && lost == 0) {
		buf_text(&s->unsampled, "not known");
		return;
	}
	text_count(&s->unsampled, lost);
	buf_text(&s->unsampled, more ? " or more" : "");
}

void sampling_end(struct sampling *s)
{
	samplers_end(s);
	s->is_ended = true;
	if (s->permit) {
		gpuctr_capture_close(s->permit);
	}
	unseen_finish(&s->unseen);
}

static uint64_t longest_interval_ns(const struct sampling *s)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < s->n_sets; i++) {
		longest = s->intervals_ns[i] > longest ? s->intervals_ns[i] : longest;
	}
	return longest;
}

void sampling_describe_end(struct sampling *s)
{
	const struct sampled *sampled = s->sinks->sampled;

	if (sampled) {
		sampled_describe(sampled, &s->unsampled);
	}
	if (sampled || sampling_is_alone(s)) {
		describe_lost(s);
		describe_overflows(s);
		describe_turns(s);
	}
	if (sampled) {
		sampling_warn_of_none(s, sampled_counts(sampled));
	}
	sinks_unsampled(s->sinks, buf_string(&s->unsampled), longest_interval_ns(s));
}

bool sampling_is_whole(const struct sampling *s)
{
	for (size_t i = 0; i < s->n_samplers; i++) {
		if (s->samplers[i].is_cut_off) {
			return false;
		}
	}
	return true;
}

const struct gpuctr_error *sampling_error(const struct sampling *s)
{
	return s->cut.code ? &s->cut : NULL;
}

static void describe_set(const struct sampling *s, size_t set, struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_metrics; i++) {
		n += s->sets[i] == set;
	}
	buf_printf(b, "%s%zu each ", set > 0 ? ", " : "", n);
	text_time(b, (double)s->intervals_ns[set]);
}

void sampling_describe(const struct sampling *s, struct buf *b)
{
	if (s->n_sets == 1) {
		buf_text(b, "each ");
		text_time(b, (double)s->intervals_ns[0]);
		return;
	}
	buf_printf(b, "in turns of about ");
	text_time(b, (double)s->turn_ns);
	buf_text(b, " (metrics: ");
	for (size_t i = 0; i < s->n_sets; i++) {
		describe_set(s, i, b);
	}
	buf_char(b, ')');
}

const char *sampling_metrics(const struct sampling *s)
{
	return buf_string((struct buf *)(uintptr_t)&s->metrics);
}
