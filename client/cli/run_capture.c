/* SPDX-License-Identifier: Apache-2.0 */

/* Handlers of the events of the capture. They run inside gpuctr_dispatch(). */

#include "client/cli/run_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/say.h"
#include "client/cli/text.h"
#include "client/cli/torch.h"
#include "proto/base/clock.h"

/* --- until the program runs ------------------------------------------------------------------ */

static void add_names(struct buf *b, const struct gpuctr_plan *plan)
{
	buf_text(b, ": ");
	for (size_t i = 0; i < plan->n_columns && i < 4; i++) {
		buf_printf(b, "%s%s", i > 0 ? ", " : "", plan->columns[i].name);
	}
	if (plan->n_columns > 4) {
		buf_printf(b, " and %zu more", plan->n_columns - 4);
	}
}

static void add_metrics(struct buf *b, const struct gpuctr_plan *plan)
{
	buf_printf(b, ", %s", plan->passes == 1 ? "single pass" : "several passes");
	if (plan->groups > 1) {
		buf_printf(b, " in turns of %u groups", plan->groups);
	}
	add_names(b, plan);
}

/* Reports a mode that the user did not choose, why it was chosen, and the alternative. */
static void say_mode(const struct run *run)
{
	const struct run_options *o = run->options;

	if (run->sampling && o->may_fall_back) {
		say("sampled, which nothing rules out: --mode range measures every launch instead");
	} else if (run->why[0] && o->whole_steps > 0) {
		say("nothing is sampled, because %s: every launch of %u whole steps is measured "
		    "instead; --duration says for how long",
		    run->why, o->whole_steps);
	} else if (run->why[0]) {
		say("nothing is sampled, because %s: every launch is measured instead", run->why);
	} else if (run_is_on_demand(run) && o->mode == MODE_UNSAID) {
		say("every launch is measured, because the options limit how many: --mode sample "
		    "samples instead");
	}
}

static void say_plan(const struct run *run, const struct gpuctr_opened *opened)
{
	const struct gpuctr_plan *plan = opened->plan;
	CLEAN_BUF struct buf b = { 0 };

	if (run->progress.quiet) {
		return;
	}
	buf_printf(&b, "%s", plan->chip);
	for (size_t i = 0; i < opened->n_gpus; i++) {
		buf_printf(&b, "%s %u",
			   i > 0	   ? ","
			   : plan->chip[0] ? ", GPU"
					   : "GPU",
			   opened->gpus[i].index);
	}
	if (run->options->mode == MODE_TRACE) {
		buf_text(&b, ": when kernels run, no counter is read");
	} else if (run->sampling) {
		buf_text(&b, ", sampled ");
		sampling_describe(run->sampling, &b);
		add_names(&b, plan);
	} else {
		add_metrics(&b, plan);
	}
	say("%s", buf_string(&b));
	say_mode(run);
	if (opened->recorded) {
		say("no GPU is leased: the values come from a recording that gpuctr-replay plays");
	}
}

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened, void *userdata)
{
	struct run *run = userdata;

	if (run_is_permit(run)) {
		permit_opened(run, opened);
		return;
	}
	snprintf(run->owner, sizeof(run->owner), "%s", opened->owner);
	if (!sinks_prepare(&run->sinks, run->options, opened) ||
	    (run->sampling && !sampling_join(run->sampling, opened->plan))) {
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	say_plan(run, opened);
}

void run_note_queued(struct run *run, const struct gpuctr_queued *queued)
{
	if (run->state == RUN_OPENING && progress_refuse_own_holder(queued)) {
		run_refuse(run, EXIT_REFUSED);
	} else if (run->state == RUN_OPENING) {
		progress_queued(&run->progress, queued);
	}
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *queued, void *userdata)
{
	run_note_queued(userdata, queued);
}

static void start_program(struct run *run, struct gpuctr_capture *c)
{
	const char *const *added = gpuctr_capture_environment(c, run->options->agent);
	int r = added ? child_start(&run->child, run->path, run->options->command, added,
				    &run->signals.inherited)
		      : 0;

	if (!added) {
		say_gpuctr_error(gpuctr_last_error(run->g));
		run_refuse(run, EXIT_REFUSED);
	} else if (r < 0) {
		say_usage("%s: cannot be run: %s", run->options->command[0], strerror(-r));
		run_refuse(run, r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC);
	} else {
		child_tell_replaced(added);
		run->started = true;
		run->state = RUN_RUNNING;
	}
}

static void say_begin(const struct run *run)
{
	const struct selected *s = &run->selected;
	CLEAN_BUF struct buf b = { 0 };

	selected_describe(s, &b);
	say("measuring %zu process%s%s%s: %s%s", s->n, s->n == 1 ? "" : "es",
	    run->owner[0] ? " of " : "", run->owner, buf_string(&b),
	    run->options->duration_ns ? "" : "; Ctrl-C ends it");
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	struct run *run = userdata;

	if (run->state != RUN_OPENING) {
		return;
	}
	say_clear();
	if (!run_is_permit(run) && !sinks_open(&run->sinks)) {
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	if (run->sampling) {
		sampling_play(run->sampling);
	}
	if (run->path) {
		start_program(run, c);
	} else if (run_is_following(run)) {
		run_begin_followed(run, c);
	} else {
		run_begin_on_demand(run);
	}
}

/* --- while it runs --------------------------------------------------------------------------- */

/* Do kernels run as they would unmeasured, with records that come only after they have ended? */
static bool is_beside(const struct run *run)
{
	return run->sampling || run->options->mode == MODE_TRACE;
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *process,
		       void *userdata)
{
	struct run *run = userdata;

	if (run_is_refused(run)) {
		return;
	}
	/* Notices about processes that are left out come before the first process. */
	if (run->n_begun == 0 && run_is_on_demand(run) && !run->options->quiet) {
		say_begin(run);
	}
	/* Processes are numbered as they begin, and all begin before the first ends. */
	run->n_begun = process->process > run->n_begun ? process->process : run->n_begun;
	if (!run_is_on_demand(run) || (is_beside(run) && process->cupti && *process->cupti)) {
		run_begin(run);
	}
	sinks_process(&run->sinks, process);
	if (run->sampling) {
		unseen_process(sampling_unseen(run->sampling), process);
	}
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *record, void *userdata)
{
	struct run *run = userdata;

	if (run_is_refused(run)) {
		return;
	}
	if (run->options->torch && !run->has_operators) {
		run->has_operators = torch_has_operator(record);
	}
	if (run->sampling) {
		sampling_record(run->sampling, record);
	}
	run_begin(run);
	sinks_record(&run->sinks, record);
}

static void on_mark(struct gpuctr_capture *c, const struct gpuctr_mark *mark, void *userdata)
{
	struct run *run = userdata;

	if (!run_is_refused(run)) {
		sinks_mark(&run->sinks, mark);
	}
}

static void on_image(struct gpuctr_capture *c, const struct gpuctr_image *image, void *userdata)
{
	struct run *run = userdata;

	if (!run_is_refused(run)) {
		files_image(&run->sinks.files, image);
	}
}

static void on_copy(struct gpuctr_capture *c, const struct gpuctr_copy *copy, void *userdata)
{
	struct run *run = userdata;

	if (run_is_refused(run)) {
		return;
	}
	if (run->sampling) {
		sampling_copy(run->sampling, copy);
		files_copy(&run->sinks.files, copy);
	}
}

static void on_progress(struct gpuctr_capture *c, const struct gpuctr_totals *totals,
			void *userdata)
{
	struct run *run = userdata;

	if (run_is_refused(run)) {
		return;
	}
	sinks_progress(&run->sinks, totals);
	if (run->sampling) {
		unseen_progress(sampling_unseen(run->sampling), totals);
	}
}

static void say_note(const struct run *run, const struct gpuctr_notice *notice)
{
	if (run->options->quiet) {
		return;
	}
	say("process %u: %s", notice->process, notice->error.message);
	if (notice->error.remedy[0]) {
		say("%s", notice->error.remedy);
	}
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice, void *userdata)
{
	struct run *run = userdata;
	struct chosen left_out;

	if (selected_leave_out(&run->selected, notice, &left_out)) {
		ranks_leave_out(&run->sinks.ranks, left_out.pid,
				notice->error.code == GPUCTR_E_GPU_BUSY
					? "busy with another capture"
					: "had ended");
	} else if (notice->error.code == GPUCTR_OK) {
		say_note(run, notice);
	} else if (notice->error.code != GPUCTR_E_KERNEL_NO_MATCH) { /* others may have a match */
		say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
			    notice->error.remedy);
	}
	sinks_notice(&run->sinks, notice);
}

static void on_process_end(struct gpuctr_capture *c, const struct gpuctr_process_end *end,
			   void *userdata)
{
	struct run *run = userdata;

	if (run_is_refused(run)) {
		return;
	}
	run->n_ended++;
	if (run->sampling) {
		unseen_process_end(sampling_unseen(run->sampling), end, (int64_t)clock_wall_ns());
	}
	sinks_process_end(&run->sinks, end);
}

void run_finish_sampling(struct run *run)
{
	sampling_end(run->sampling);
	run->is_finishing = true;
	sinks_attribute(&run->sinks, run->on_pause, run);
	run->is_finishing = false;
	sampling_describe_end(run->sampling);
}

/* --- the end --------------------------------------------------------------------------------- */

static void report_early_end(const struct run *run, const struct gpuctr_error *error)
{
	if (run_is_permit(run)) {
		permit_revoked(error);
		return;
	}
	if (error->code == GPUCTR_E_DISCONNECTED) {
		say("the daemon is gone: the program runs on, no longer measured");
		return;
	}
	if (error->code != GPUCTR_OK) {
		say_gpuctr_error(error);
	} else if (run->is_enough && run->progress.quiet) {
		return; /* the user asked for this end */
	}
	say("the capture is over: the program runs on, no longer measured");
}

/* A capture of running processes has a status of its own: it fails when it ends by an error. */
static void fail_on_demand(struct run *run, const struct gpuctr_error *error)
{
	if (run_is_on_demand(run) && error->code != GPUCTR_OK) {
		run->status = EXIT_REFUSED;
	}
}

/* The end with the error of the samples. When samples break off, the client closes the capture,
 * which then ends without an error of its own. */
static struct gpuctr_end end_of_values(const struct run *run, const struct gpuctr_end *end)
{
	const struct gpuctr_error *cut = run->sampling ? sampling_error(run->sampling) : NULL;
	struct gpuctr_end whole = *end;

	if (cut && whole.error.code == GPUCTR_OK) {
		whole.error = *cut;
	}
	return whole;
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct run *run = userdata;
	const struct gpuctr_end whole = end_of_values(run, end);

	run->capture = NULL;
	if (run->started && run->sampling) {
		run_finish_sampling(run);
	}
	if (run->started && !run_is_permit(run)) {
		sinks_end(&run->sinks, &whole);
	}
	switch (run->state) {
	case RUN_OPENING:
		if (end->error.code != GPUCTR_OK) {
			say_gpuctr_error(&end->error);
		}
		if (end->error.code == GPUCTR_E_DISCONNECTED && run->path) {
			say("the program was not started: run it again once the daemon is back");
		}
		run_refuse(run, EXIT_REFUSED);
		break;
	case RUN_RUNNING:
		report_early_end(run, &end->error);
		run->state = run->path || run_is_following(run) ? RUN_ALONE : RUN_OVER;
		fail_on_demand(run, &whole.error);
		break;
	case RUN_DRAINING:
		if (end->error.code != GPUCTR_OK) {
			say_gpuctr_error(&end->error);
		} else if (run_is_permit(run)) {
			permit_closed(run, end);
		}
		fail_on_demand(run, &whole.error);
		run->state = RUN_OVER;
		break;
	case RUN_ALONE:
	case RUN_OVER:
		break;
	}
}

const struct gpuctr_capture_handler run_handler = {
	.size = sizeof(struct gpuctr_capture_handler),
	.on_opened = on_opened,
	.on_queued = on_queued,
	.on_ready = on_ready,
	.on_process = on_process,
	.on_record = on_record,
	.on_mark = on_mark,
	.on_image = on_image,
	.on_progress = on_progress,
	.on_notice = on_notice,
	.on_process_end = on_process_end,
	.on_end = on_end,
	.on_copy = on_copy,
};
