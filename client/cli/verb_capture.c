/* SPDX-License-Identifier: Apache-2.0 */

/* "capture": measures programs that run already. run.c is the loop. */

#include "client/cli/verb.h"

#include "client/cli/child.h"
#include "client/cli/run_options.h"
#include "client/cli/sinks.h"
#include "client/cli/slurm.h"

static int exec_capture(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o;
	int status = run_options_read(&o, &verb_capture, argc, argv, capture_options_check);

	if (status < 0 && !(slurm_is_meant(&o) && slurm_capture(&o, verbs, argc, argv, &status))) {
		status = sinks_check(&o) ? run_capture(&o, NULL) : EXIT_REFUSED;
	}
	run_options_deinit(&o);
	return status;
}

const struct verb verb_capture = {
	.name = "capture",
	.usage = "capture --pid LIST|--program GLOB|--job LIST|--all|--timeline [OPTION...]",
	.summary = "measure programs in standby, which run already and run on",
	.details =
		"Exit status: 0 when it ended as asked; 125 when nothing matched, it was refused "
		"or ended by itself.\n",
	.examples = "  gpuctr-client capture --program python --duration 5s\n"
		    "  gpuctr-client capture --all --steps 2 --step cudaProfilerStart\n"
		    "  gpuctr-client capture --job 4711 --duration 5s -o rank%r.gpuctr\n",
	.options = run_option_defs,
	.bit = VERB_CAPTURE,
	.runs = true,
	.exec = exec_capture,
};
