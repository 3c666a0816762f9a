/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpucountd --probe`: a profiler as small as one can be. Makes a context on the first GPU and asks
 * CUPTI for that GPU's counters, as its caller, who has a permit or has not. Prints in one line
 * what refused them. Returns its exit status, 0 or 3. */
int probe_run(void);
