/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs that run already, and wait for captures. */

#include "tests/system/fixture.h"

/* Launches a kernel each half millisecond, for longer than any test. */
struct program *on_demand_start(struct fixture *f, int uid);

/* The same; it has registered, and is not captured. */
struct program *on_demand_start_listed(struct fixture *f, int uid);

/* Does `gpuctr-client status` of this user tell of p, with this text in its object? */
bool on_demand_is_listed(struct fixture *f, int uid, const struct program *p, const char *with);
void on_demand_wait_listed(struct fixture *f, int uid, const struct program *p, const char *with);

/* For --pid; static. */
const char *on_demand_pid(const struct program *p);

/* The lines of a stream of records: what was seen was measured or is counted as unready, and each
 * has the metric. Returns how many are unready. */
double on_demand_expect_measured(const char *path, const char *metric);

/* Captures p until something was measured, into now.jsonl; all that was seen was measured, but for
 * launches that had begun when the capture did. The result is the client, which has ended. */
struct program *on_demand_capture(struct fixture *f, int uid, const struct program *p,
				  const char *metric);

/* Waits until the daemon tells Ann that so many kernels of her captures were measured; a sampled
 * one has a permit beside it. */
void on_demand_wait_measured(struct fixture *f, uint64_t kernels);

/* Interrupts the client of uid's one capture as soon as so many kernels were measured, however late
 * programs join it. */
void on_demand_interrupt_after(struct fixture *f, int uid, struct program *client,
			       uint64_t kernels);
