/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampling_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/sampler_path.h"
#include "client/cli/say.h"
#include "client/report/attribution.h"

/* What samples say of a kernel is known at the end alone, so whatever ends the samplers early takes
 * nothing away: kernels that ran later have no value, and that is told.
 *
 * Where sampling is no more than what the client would prefer, whatever refuses it before it has
 * begun is the reason for a budget, which is taken once the permit is given back. Not so what would
 * refuse a budget as well. */

/* --- why not --------------------------------------------------------------------------------- */

static void leave(struct sampling *s)
{
	s->leaves = false;
	s->user.on_refused(s->data, s->why.n > 0 ? buf_string(&s->why) : NULL);
}

/* Nothing of it is left when the user hears of it. */
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
	say("--mode sample is refused; --mode budget measures launches chosen at random instead%s",
	    selector_is_empty(&o->selector) ? ", and --mode range every launch" : "");
}

static void cut(struct sampling *s)
{
	if (s->begun) {
		if (!s->over) {
			s->over = true;
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

/* The reason for a budget is told with it. */
static void say_error_unless(const struct sampling *s, const struct gpuctr_error *error)
{
	if (!sampling_may_fall_back(s)) {
		say_gpuctr_error(error);
	}
}

/* --- the permit ------------------------------------------------------------------------------ */

static void on_permit_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened,
			     void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	for (size_t i = 0; i < opened->n_gpus && s->n_samplers < SAMPLING_GPUS_MAX; i++) {
		struct sampler *m = &s->samplers[s->n_samplers++];

		*m = (struct sampler){ .owner = s, .life = -1, .output = -1, .number = -1 };
		snprintf(m->uuid, sizeof(m->uuid), "%s", opened->gpus[i].uuid);
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
		sampling_note_why(s, "%s", gpuctr_last_error(s->g)->message);
		say_error_unless(s, gpuctr_last_error(s->g));
	}
	for (size_t i = 0; r == 0 && i < s->n_samplers; i++) {
		r = samplers_start(s, &s->samplers[i], added);
		if (r < 0) {
			sampling_note_why(s, "%s cannot be run: %s", s->path, strerror(-r));
		}
		if (r < 0 && !sampling_may_fall_back(s)) {
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
	struct sampling *s = userdata;

	(void)c;
	if (sampling_may_fall_back(s)) {
		sampling_note_why(s, "%s", notice->error.message);
	} else {
		say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
			    notice->error.remedy);
	}
}

/* A budget waits for the same GPUs and asks the same daemon. */
static bool refuses_all(int code)
{
	return code == GPUCTR_E_GPU_BUSY || code == GPUCTR_E_TIMEOUT ||
	       code == GPUCTR_E_QUEUE_FULL || code == GPUCTR_E_STOPPING ||
	       code == GPUCTR_E_DISCONNECTED || code == GPUCTR_E_AGENT_LOST;
}

static void on_permit_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct sampling *s = userdata;

	(void)c;
	s->permit = NULL;
	if (s->leaves) {
		leave(s);
	}
	/* Of a daemon that is gone the trace hears as well. */
	if (s->over || (s->begun && end->error.code == GPUCTR_E_DISCONNECTED)) {
		return;
	}
	say_clear();
	sampling_note_why(s, "%s",
			  end->error.code != GPUCTR_OK ? end->error.message : "its lease is over");
	if (refuses_all(end->error.code) && sampling_may_fall_back(s)) {
		say_gpuctr_error(&end->error);
		buf_clear(&s->why);
		refuse(s);
		return;
	}
	if (end->error.code != GPUCTR_OK) {
		say_error_unless(s, &end->error);
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
	options.processes = s->selected->ids;
	options.n_processes = s->selected->n;
	options.no_wait = o->no_wait;
	options.timeout_ns = o->timeout_ns;
	options.lease_ns = o->lease_ns;
	options.program = o->program;
	return gpuctr_capture_open(s->g, &options, &permit_handler, s, &s->permit);
}

/* --- the plan -------------------------------------------------------------------------------- */

/* False: why is known. */
static bool take_plan(struct sampling *s, const struct gpuctr_plan *plan)
{
	const char *misfit = sampled_misfit(plan);

	if (misfit) {
		sampling_note_why(s, "%s is no sum over time%s", misfit,
				  s->options->may_fall_back
					  ? ""
					  : ", which samples could be divided of; ask for "
					    ".sum, or take --mode range");
		return false;
	}
	if (plan->n_metrics > SAMPLER_METRICS_MAX) {
		sampling_note_why(s, "%zu metrics are too many, %d can be sampled", plan->n_metrics,
				  SAMPLER_METRICS_MAX);
		return false;
	}
	for (size_t i = 0; i < plan->n_metrics; i++) {
		buf_printf(&s->metrics, "%s%s", i > 0 ? "," : "", plan->metrics[i]);
	}
	s->n_metrics = plan->n_metrics;
	return !s->metrics.failed;
}

/* What is not known to the planner no mode measures. */
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

struct sampling *sampling_begin(struct gpuctr *g, uv_loop_t *loop,
				const struct run_options *options, const struct selected *selected,
				const sigset_t *mask, const struct sampling_user *user, void *data)
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
	s->mask = mask;
	s->user = *user;
	s->data = data;
	s->on_over = cut;
	s->steps = attributor_new();
	if (!sampler_path_find(s->path)) {
		sampling_note_why(s, "gpuctr-sampler is not there (%s)%s", s->path,
				  options->may_fall_back ? "" : "; $GPUCTR_SAMPLER names another");
		refuse(s);
		return s;
	}
	r = s->steps ? gpuctr_plan(g, NULL, strings_items(&options->metrics), options->metrics.n,
				   on_plan, s)
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
	samplers_end(s);
	for (size_t i = 0; i < s->n_samplers; i++) {
		sampler_reader_free(s->samplers[i].reader);
	}
	sampled_free(s->sampled);
	attributor_free(s->steps);
	buf_deinit(&s->metrics);
	buf_deinit(&s->why);
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
	s->sampled = plan->n_metrics == s->n_metrics ? sampled_new(plan, s->sets) : NULL;
	if (!s->sampled) {
		say_usage("out of memory");
		return false;
	}
	for (size_t i = 0; i < s->n_samplers; i++) {
		s->samplers[i].number = sampled_add_gpu(s->sampled, s->samplers[i].uuid);
	}
	return true;
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

void sampling_tick(struct sampling *s)
{
	if (s->sampled) {
		sampled_advance(s->sampled);
	}
}

static void describe(struct sampling *s)
{
	static const char *const reasons[SAMPLED_REASONS] = {
		[SAMPLED_TOO_SHORT] = "too short to tell",
		[SAMPLED_TOGETHER] = "not told apart",
		[SAMPLED_LOST] = "samples missing",
		[SAMPLED_CLOCKS] = "clocks differ",
		[SAMPLED_CROWDED] = "too many at once",
		[SAMPLED_NO_TIME] = "without a time",
		[SAMPLED_OTHER_GPU] = "on other GPUs",
		[SAMPLED_TOO_MANY] = "too many to be kept",
		[SAMPLED_AWAY] = "ran in another set's turn",
	};
	const struct sampled_counts *c = sampled_counts(s->sampled);
	uint64_t lost = 0, without = 0;
	struct buf *b = &s->unsampled;
	const char *separator = ": ";

	for (size_t i = 0; i < s->n_samplers; i++) {
		lost += s->samplers[i].lost;
	}
	for (int i = 0; i < SAMPLED_REASONS; i++) {
		without += c->without[i];
	}
	text_count(b, without);
	buf_text(b, " of ");
	text_count(b, c->kernels);
	buf_text(b, " kernels have no value");
	for (int i = 0; i < SAMPLED_REASONS; i++) {
		if (c->without[i] == 0) {
			continue;
		}
		buf_printf(b, "%s%s ", separator, reasons[i]);
		separator = ", ";
		text_count(b, c->without[i]);
		if (i == SAMPLED_TOO_SHORT && c->sum > 0) {
			buf_printf(b, " (with %.2g %% of the first metric)",
				   100 * c->too_short_sum / c->sum);
		}
	}
	buf_text(b, "; samples lost ");
	text_count(b, lost);
	if (s->turns > 0) {
		buf_text(b, "; ");
		text_count(b, s->turns + s->n_samplers);
		buf_printf(b, " turns of %zu sets, a change takes ", s->n_sets);
		text_time(b, (double)s->change_ns / (double)s->turns);
	}
}

void sampling_finish(struct sampling *s)
{
	samplers_end(s);
	if (s->permit) {
		gpuctr_capture_close(s->permit);
	}
	if (s->sampled) {
		sampled_finish(s->sampled, s->on_record, s->on_record_user);
		describe(s);
	}
}

uint64_t sampling_interval_ns(const struct sampling *s)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < s->n_sets; i++) {
		longest = s->intervals_ns[i] > longest ? s->intervals_ns[i] : longest;
	}
	return longest;
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

const char *sampling_unsampled(const struct sampling *s)
{
	return buf_string((struct buf *)(uintptr_t)&s->unsampled);
}
