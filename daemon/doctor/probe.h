/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

enum { PROBE_REFUSED = 3 };
#define PROBE_SAYS "probe: "

/* A profiler as small as one can be: makes a context on the first GPU and asks CUPTI for that GPU's
 * counters. Prints what refused, in one line behind PROBE_SAYS. Returns its exit status, 0 or
 * PROBE_REFUSED. */
int probe_run(void);
