/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Holds when the work of each launch began and ended on the GPU, by the launch's correlation id,
 * from the launch until its batch is delivered. Any thread may call spans_expect() at any time; the
 * caller keeps all other calls apart from each other. Each call examines a few entries only. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPANS_WAYS = 8, SPANS_BITS = 12, SPANS_BITS_MANY = 15 };

struct span {
	uint64_t begin_ns, end_ns;
	bool is_shared; /* more than one record of a single kernel has come: the times may be those
			   of another */
};

struct spans_entry {
	_Atomic uint64_t state; /* the correlation id and flags (spans.c); 0: free */
	uint64_t begin_ns, end_ns;
};

struct spans {
	struct spans_entry (*v)[SPANS_WAYS]; /* 2^bits sets; NULL: no launch is expected */
	unsigned bits;
};

/* Needs zeroed memory. May follow spans_deinit(), after which late spans are ignored. bits:
 * SPANS_BITS, or SPANS_BITS_MANY where many launches are under way at once. */
int spans_init(struct spans *s, unsigned bits); /* -ENOMEM */
void spans_deinit(struct spans *s);

/* Announces a launch whose span the caller will take; single: a launch of one kernel. If its set is
 * full, the oldest launch of the set is forgotten. */
void spans_expect(struct spans *s, uint32_t correlation, bool single);

/* Adds the time of a part of a launch's work. The span is from the first begin to the last end of
 * all parts. False: no launch of this kind was announced, or it is of one kernel and already has a
 * time. */
bool spans_add(struct spans *s, uint32_t correlation, bool single, uint64_t begin_ns,
	       uint64_t end_ns);

/* Returns and forgets the span, which is worth nothing if it is_shared. False: it has not arrived
 * yet, or the launch was not announced. */
bool spans_take(struct spans *s, uint32_t correlation, struct span *ret);

/* Forgets the launch. */
void spans_forget(struct spans *s, uint32_t correlation);
