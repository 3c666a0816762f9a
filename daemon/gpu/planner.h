/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The planner: answers METRICS_REQUEST and PLAN_REQUEST frames of the front on link, a stream
 * socket, until its end, and STATUS_REQUEST as a sign of life. It is the only process that gives
 * names which a user typed to NVIDIA's code; it needs neither a GPU nor a privilege. Returns the
 * exit status. */
int planner_run(int link);
