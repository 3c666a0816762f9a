/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The gpu process: answers STATUS_REQUEST and TENANTS_REQUEST frames of the front on link, a stream
 * socket, until the link's end. It receives no byte that a user sent. Returns the exit status. */
int gpu_run(int link);

/* The planner: answers METRICS_REQUEST and PLAN_REQUEST frames of the front on link, a stream
 * socket, until the link's end, and STATUS_REQUEST as a sign of life. It is the only process that
 * passes names from users to NVIDIA's code; it needs neither a GPU nor a privilege. Returns the
 * exit status. */
int planner_run(int link);

/* `gpucountd --probe`: a minimal profiler. Makes a context on the first GPU and asks CUPTI for that
 * GPU's counters, with the rights of its caller, with or without a permit. On a refusal prints one
 * line with its cause. Returns its exit status, 0 or 3. */
int probe_run(void);
