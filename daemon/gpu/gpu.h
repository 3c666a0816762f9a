/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The gpu process: answers STATUS_REQUEST and TENANTS_REQUEST frames of the front on link, a stream
 * socket, until its end. It receives no byte that a user sent. Returns the exit status. */
int gpu_run(int link);

/* The planner: answers METRICS_REQUEST and PLAN_REQUEST frames of the front on link, a stream
 * socket, until its end, and STATUS_REQUEST as a sign of life. It is the only process that gives
 * names which a user typed to NVIDIA's code; it needs neither a GPU nor a privilege. Returns the
 * exit status. */
int planner_run(int link);

/* `gpucountd --probe`: a profiler as small as one can be. Makes a context on the first GPU and asks
 * CUPTI for that GPU's counters, as its caller, who has a permit or has not. Prints in one line
 * what refused them. Returns its exit status, 0 or 3. */
int probe_run(void);
