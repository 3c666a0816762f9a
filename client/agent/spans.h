/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_SPANS_H
#define GPUCTR_AGENT_SPANS_H

/* When the work of each launch began and ended, by the launch's correlation id, from the launch
 * until its batch is delivered. Not thread-safe; no call looks at more than a few entries. */

#include <stdbool.h>
#include <stdint.h>

enum { SPANS_SETS = 4096, SPANS_WAYS = 8 };

struct span {
	uint32_t correlation; /* 0: free */
	bool has_come;
	uint64_t begin_ns, end_ns;
};

struct spans {
	struct span (*v)[SPANS_WAYS]; /* SPANS_SETS of them; NULL: nothing is expected */
};

/* Zeroed before; after spans_deinit() it may be made again, and late spans are left out. */
int spans_init(struct spans *s); /* -ENOMEM */
void spans_deinit(struct spans *s);

/* A launch is made whose span will be taken. Where there is no room, the oldest is forgotten. */
void spans_expect(struct spans *s, uint32_t correlation);

/* A part of a launch's work. Launches that are not expected are ignored; several parts add up to
 * the span from the first begin to the last end. */
void spans_add(struct spans *s, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns);

/* True: *ret has come, and is forgotten. False: not yet, or it is not expected. */
bool spans_take(struct spans *s, uint32_t correlation, struct span *ret);

/* Expected no longer. */
void spans_forget(struct spans *s, uint32_t correlation);

#endif
