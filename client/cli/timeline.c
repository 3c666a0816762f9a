/* SPDX-License-Identifier: Apache-2.0 */

/* "capture --timeline": samples without a trace, written to the same sinks as those of a sampled
 * run. There is no capture beside the permit, so this file replaces the handlers of a capture. */

#include "client/cli/run_internal.h"

#include <string.h>

#include "client/cli/say.h"
#include "client/cli/text.h"

void timeline_on_opened(void *user, const struct gpuctr_opened *opened)
{
	struct run *run = user;
	struct gpuctr_opened with_plan = *opened;

	if (!strings_add_list(&run->sampled_metrics, sampling_metrics(run->sampling)) ||
	    opened->n_gpus == 0) {
		say_usage("out of memory");
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	snprintf(run->chip, sizeof(run->chip), "%s", opened->gpus[0].chip);
	run->gpu_index = opened->gpus[0].index;
	run->sampled_plan = (struct gpuctr_plan){ .chip = run->chip,
						  .passes = 1,
						  .groups = 1,
						  .metrics = strings_items(&run->sampled_metrics),
						  .n_metrics = run->sampled_metrics.n };
	with_plan.plan = &run->sampled_plan;
	if (!sinks_prepare(&run->sinks, run->options, &with_plan)) {
		run_refuse(run, EXIT_REFUSED);
	}
}

static void say_begin(const struct run *run)
{
	CLEAN_BUF struct buf b = { 0 };

	if (run->options->quiet) {
		return;
	}
	buf_printf(&b, "%s, GPU %u, sampled ", run->chip, run->gpu_index);
	sampling_describe(run->sampling, &b);
	buf_printf(&b, ": %s%s", sampling_metrics(run->sampling),
		   run->options->duration_ns ? "" : "; Ctrl-C ends it");
	say("%s", buf_string(&b));
}

void timeline_begin(struct run *run)
{
	say_clear();
	if (run->state != RUN_OPENING) {
		return;
	}
	if (!sinks_open(&run->sinks)) {
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	sampling_play(run->sampling);
	say_begin(run);
	run_begin_on_demand(run);
	run_begin(run);
}

void timeline_finish(struct run *run)
{
	const struct gpuctr_error *cut;
	struct gpuctr_end end = { 0 };

	sampling_end(run->sampling);
	sampling_describe_end(run->sampling);
	cut = sampling_error(run->sampling);
	if (!sampling_is_whole(run->sampling)) {
		run->status = EXIT_REFUSED;
	}
	if (cut) {
		end.error = *cut;
		run->status = EXIT_REFUSED;
		say("sampling has ended early: what was sampled before follows");
	}
	sinks_end(&run->sinks, &end);
}
