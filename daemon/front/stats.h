/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counts of events since the front began, for operators. No count decreases. No count is per user,
 * so memory does not depend on users. Pure: no clock, no loop. */

#include <stddef.h>
#include <stdint.h>

#include "daemon/audit/audit.h"
#include "daemon/broker/process.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"

enum {
	STATS_WAITS = 7,
	/* More launches than a program can make between two messages. A process reports its own
	 * counts, and larger increases count only up to this. */
	STATS_KERNELS_AT_ONCE = 1 << 28,
};

struct stats {
	uint64_t connections, leases, records, record_bytes, waited_ns;
	uint64_t refusals[LIMIT_CODES], lease_ends[LIMIT_CODES]; /* index: enum gpuctr_error_code */
	uint64_t waits[STATS_WAITS];
	struct gpuctr_totals kernels;
};

/* Counts a line of the audit log: refusals, leases and their ends. */
void stats_note_decision(struct stats *s, enum audit_event event, int code);

/* Counts a refusal that is no decision about a user, and so has no audit line. */
void stats_note_refusal(struct stats *s, int code);

/* A lease was granted after a wait of this length. */
void stats_note_wait(struct stats *s, uint64_t wait_ns);

/* A batch was passed on. */
void stats_note_records(struct stats *s, uint32_t records, size_t bytes);

/* A process has reported totals, or its end shows them: before is its previous report. */
void stats_note_kernels(struct stats *s, const struct gpuctr_totals *before,
			const struct gpuctr_totals *now);

/* stats_note_kernels() for a process that has ended; calls process_settle(). */
void stats_settle(struct stats *s, struct process *p);

/* The counts as a message; members that stats does not know are zero. Lists live in a, and are
 * empty when it is full. */
struct gpuctr_counts stats_describe(const struct stats *s, struct arena *a);
