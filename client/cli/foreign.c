/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/foreign.h"

#include <stddef.h>
#include <string.h>

#define SETS                                                                                    \
	"name what you want to know: --metrics memory, compute, tensor, roofline or flops, or " \
	"metrics, which `gpuctr-client metrics` lists"
#define LISTED "`gpuctr-client metrics` lists them; with --describe what can be appended too"
#define SHOWN                                                                                 \
	"keep the records with -o FILE; `gpuctr-client report FILE` shows them, with --html " \
	"PAGE in a browser"
#define ONE_PASS "kernels are measured in one pass, as they run, and not replayed: leave it out"

#define INSTEAD                                                                          \
	"--mode sample measures at little cost; of --mode range, -k NAME, -c COUNT and " \
	"--duration say how much is measured"

#define LIVE                                                                                      \
	"--stream[=FILE] writes lines of JSON as they come; with -o FILE, `gpuctr-client report " \
	"FILE` and `gpuctr-client export FILE` make tables later"
#define NO_CALLS "kernels are measured, and neither calls nor CPUs: leave it out"
#define WHOLE_RUN                                                                                  \
	"a program that was started with `gpuctr-client standby` is measured when `gpuctr-client " \
	"capture --duration TIME` says so"

const struct foreign_same foreign_same[] = {
	{ "kernel-name", "kernel" },
	{ "launch-skip", "skip" },
	{ "launch-count", "count" },
	{ "filter-mode", "per" },
	{ "nvtx-include", "nvtx" },
	{ "nvtx-exclude", "no-nvtx" },
	{ "force-overwrite", "force" },
	{ "capture-range", "within" },
	{ NULL, NULL },
};

static const struct foreign all[] = {
	{ "--budget", NULL, INSTEAD },
	{ "top", NULL,
	  "`gpuctr-client status --watch` shows the daemon and who measures, and the table at the "
	  "end of `gpuctr-client capture --duration 10` the hottest kernels" },
	{ "--samples", NULL,
	  "`run` or `capture --mode sample -o FILE` divides samples among kernels, and then "
	  "`merge TRACE FILE` puts them into a trace" },
	{ "ps", NULL,
	  "`gpuctr-client status` shows the programs in standby, and with --json as "
	  "\"processes\"" },
	{ "plan", NULL, "`gpuctr-client metrics --fit LIST` does that" },
	{ "--format", NULL, LIVE },
	{ "--capture", NULL, "-o FILE (--output) does that" },
	{ "--kernel-name-base", "ncu",
	  "-k NAME compares the function's name, and -k regex:RE searches the name with its "
	  "types: leave it out" },
	{ "--launch-every", NULL, "--every N does that" },
	{ "--stop-on-range-end", NULL, "--capture-range-end stop does that, as for nsys" },
	{ "--gpu", NULL, "--devices GPU does that" },
	{ "--chip", NULL, "a recording names its own chip: leave it out" },
	{ "--no-summary", NULL, "-q does that" },
	{ "--summary-rows", NULL,
	  "keep the records with -o FILE; `gpuctr-client report FILE --limit N` shows as many "
	  "rows as you want" },
	{ "--no-samples", NULL, "a file of samples keeps them: leave it out" },
	{ "--figures", NULL, "report's --columns :self,:share does that" },
	{ "--weight", NULL, "export's --columns METRIC does that" },
	{ "--no-wait", NULL, "--wait 0 does that" },
	{ "--timeout", NULL, "--wait TIME does that" },
	{ "--torch-modules", NULL, "--torch=modules does that" },
	{ "--tree", NULL, "--job ID, --program GLOB or --pid LIST name processes" },
	{ "--container", NULL,
	  "`gpuctr-client status` shows containers and pids, and --pid LIST names programs" },
	{ "--user", NULL,
	  "root's --all captures the programs of all users, and --pid LIST names some" },
	{ "--lease", NULL,
	  "a lease lasts as long as the capture, and once others wait as long as the daemon's "
	  "lease-max says: leave it out" },
	{ "--seed", NULL, "nothing is chosen at random: leave it out" },
	{ "profile", "nsys", "no verb is wanted: gpuctr-client -o FILE -- PROGRAM" },
	{ "stats", "nsys", "`gpuctr-client report FILE` does that" },
	{ "-t", "nsys", NO_CALLS },
	{ "-p", "nsys", "--within nvtx:NAME does that" },
	{ "--nvtx-capture", "nsys", "--within nvtx:NAME does that" },
	{ "-w", "nsys and PyProf",
	  "PROGRAM's output is its own: leave it out; a width is that of `gpuctr-client export "
	  "FILE --to pyprof --width N`" },
	{ "--show-output", "nsys", "PROGRAM's output is its own: leave it out" },
	{ "-c", "PyProf", "--columns LIST does that" },
	{ "-y", "nsys", WHOLE_RUN },
	{ "--delay", "nsys", WHOLE_RUN },
	{ "--sample", "nsys", NO_CALLS },
	{ "--cpuctxsw", "nsys", NO_CALLS },
	{ "--backtrace", "nsys", NO_CALLS },
	{ "--kill", "nsys", "PROGRAM always runs on to its own end: leave it out" },
	{ "--cuda-graph-trace", "nsys",
	  "--graphs nodes shows a graph's kernels, and --graphs whole the graph; both are of "
	  "--mode trace and sample" },
	{ "--gpu-metrics-devices", "nsys",
	  "--mode sample divides samples of the GPU among kernels; `gpuctr-client capture "
	  "--timeline` shows the GPU over time" },
	{ "--gpu-metrics-device", "nsys", "--mode sample samples the GPU" },
	{ "--gpu-metrics-frequency", "nsys", "--mode sample --interval TIME does that" },
	{ "--nvtx-push-pop-scope", "ncu",
	  "a launch is inside of the ranges of its own thread; --within nvtx:EXPR measures "
	  "the launches of all threads while a range is open" },
	{ "--set", "ncu", SETS },
	{ "--section", "ncu", SETS },
	{ "--list-sets", "ncu", SETS },
	{ "--list-sections", "ncu", SETS },
	{ "--csv", "ncu and nvprof",
	  "keep the records with -o FILE, and then `gpuctr-client report FILE --csv`; or export "
	  "--to csv writes a line for each kernel" },
	{ "--query-metrics", "ncu and nvprof", LISTED },
	{ "--query-metrics-mode", "ncu", LISTED },
	{ "--query-metrics-collection", "ncu", LISTED },
	{ "--query-events", "nvprof", LISTED },
	{ "--events", "nvprof", "they are metrics as well: --metrics LIST" },
	{ "--page", "ncu", SHOWN },
	{ "--import", "ncu", SHOWN },
	{ "--print-summary", "ncu", SHOWN },
	{ "--print-details", "ncu", SHOWN },
	{ "--print-units", "ncu", "`gpuctr-client report FILE --units base`, or --csv, does that" },
	{ "--export", "ncu and nsys", "-o FILE keeps all records, and export is a verb for later" },
	{ "--export-profile", "nvprof", "-o FILE keeps all records" },
	{ "--target-processes", "ncu", "child processes are followed: leave it out" },
	{ "--profile-child-processes", "nvprof", "child processes are followed: leave it out" },
	{ "--replay-mode", "ncu", ONE_PASS },
	{ "--clock-control", "ncu", "clocks are left as they are: leave it out" },
	{ "--cache-control", "ncu", "caches are left as they are: leave it out" },
	{ "--kernel-id", "ncu", "-k NAME -s SKIP -c COUNT choose launches" },
	{ "--kernels", "nvprof", "-k NAME chooses kernels, or -k regex:RE" },
	{ "--print-gpu-trace", "nvprof",
	  "keep the records with -o FILE; `gpuctr-client export FILE --to csv` writes a line for "
	  "each "
	  "kernel" },
	{ "--print-gpu-summary", "nvprof", "that is the table at the end: leave it out" },
	{ "--stats", "nsys", "that is the table at the end: leave it out" },
	{ "--trace", "nsys", "kernels are measured, and no calls traced: leave it out" },
};

const struct foreign *foreign_find(const char *word)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].word, word) == 0) {
			return &all[i];
		}
	}
	return NULL;
}
