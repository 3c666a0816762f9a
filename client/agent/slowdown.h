/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How much longer launches take once CUPTI's range profiler is there. Launches that are not
 * measured are timed, from our callback before the driver's call to the one after it: all of them
 * until enough are known, and then now and then. What the lower quartile has become longer by is
 * what the profiler takes: longer times are of launches that wait for room in a queue, or for the
 * CPU.
 *
 * The profiler makes launches slower until the process ends, so what they took before is the
 * process's, and so is that it was there. Thread-safe, without a lock. */

#include <stdbool.h>
#include <stdint.h>

/* Has the launch that comes to be timed, whatever else is? */
bool slowdown_wants_more(void);

/* A launch that took so long and was not measured. */
void slowdown_note(uint64_t ns);

/* Are launches known as they were without the profiler? */
bool slowdown_knows_plain(void);

/* From now on the profiler is there. */
void slowdown_begins(void);

/* By how many ns a launch is slower; 0: it is not, or not known yet. */
double slowdown_by_ns(void);

/* For tests: as in a new process. */
void slowdown_forget(void);
