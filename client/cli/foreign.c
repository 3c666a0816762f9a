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
	{ "--nvtx-push-pop-scope", "ncu",
	  "a launch is inside of the ranges of its own thread; --capture-range nvtx:EXPR measures "
	  "the launches of all threads while a range is open" },
	{ "--nvtx", "ncu", "NVTX is always on: leave it out; --nvtx-include EXPR chooses ranges" },
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
	{ "--force-overwrite", "ncu and nsys", "-f (--force) replaces files" },
	{ "--target-processes", "ncu", "child processes are followed: leave it out" },
	{ "--profile-child-processes", "nvprof", "child processes are followed: leave it out" },
	{ "--replay-mode", "ncu", ONE_PASS },
	{ "--clock-control", "ncu", "clocks are left as they are: leave it out" },
	{ "--cache-control", "ncu", "caches are left as they are: leave it out" },
	{ "--kernel-id", "ncu", "-k NAME -s SKIP -c COUNT choose launches" },
	{ "--kernels", "nvprof", "-k NAME chooses kernels, or --kernel REGEX" },
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
