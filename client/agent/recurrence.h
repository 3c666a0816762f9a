/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds where the steps of a program begin, for --steps without --step: by a sequence of launches
 * that recurs. Only the first thread that launches is observed, because several threads launch in
 * no fixed order. Its launches are kept until the latest sequence has occurred twice or more. Then
 * the launch after the longest pause of that sequence, if it can be recognised, begins each step.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECURRENCE_WINDOW = 1 << 16, /* in launches; a step may have half of them */
	RECURRENCE_GRAM = 64, /* most launches by which a step's first launch is recognised */
};

#define RECURRENCE_PATIENCE_NS UINT64_C(5000000000)

/* What a step is recognised by: kernels with their launch shapes, or, where shapes change from step
 * to step, kernels alone. */
enum recurrence_key { RECURRENCE_SHAPED, RECURRENCE_KERNELS, RECURRENCE_KEYS };

enum recurrence_state {
	RECURRENCE_SEARCHES, /* or waits for the first launch */
	RECURRENCE_FOUND,
	RECURRENCE_ABSENT, /* nothing recurred for RECURRENCE_PATIENCE_NS, or out of memory */
	RECURRENCE_LOST,   /* found, but the program has stopped repeating the step */
};

struct recurrence_launch {
	uint64_t keys[RECURRENCE_KEYS];
	uint64_t ns; /* monotonic */
};

struct recurrence {
	bool is_used;
	_Atomic(enum recurrence_state) state;
	atomic_uintptr_t thread;       /* number of the observed thread; 0: none yet */
	atomic_bool others;	       /* other threads launch as well */
	atomic_uint_fast64_t first_ns, /* time of that thread's first launch; 0: none yet */
		last_ns;	       /* when the latest step began */
	/* Used by the observed thread only: */
	struct recurrence_launch *window; /* owned; the oldest launch first */
	uint32_t *scratch;		  /* owned; RECURRENCE_WINDOW elements */
	size_t n;
	uint64_t look_ns, launched_ns; /* times of the next search and of the latest launch */
	/* The step that was found; constant afterwards: */
	enum recurrence_key key;
	uint32_t gram;	    /* number of launches, up to a step's first one, by which the step is
			       recognised */
	uint64_t mark;	    /* hash of these launches */
	uint32_t period;    /* launches in a step */
	uint64_t period_ns; /* length of the step in ns, when it was found */
	uint64_t recent[RECURRENCE_GRAM];
	uint64_t seen; /* launches since the step was found */
	uint32_t since_step;
};

/* Adds x to a hash. */
static inline uint64_t recurrence_add(uint64_t key, uint64_t x)
{
	return (key ^ x) * UINT64_C(0x9e3779b97f4a7c15) + (key >> 29);
}

/* Without is_used the other functions do nothing. The first observed launch allocates the memory.
 */
void recurrence_init(struct recurrence *r, bool is_used);
void recurrence_deinit(struct recurrence *r);

/* True: this thread (any number but 0) is the observed one, or now becomes it, and steps are
 * searched or followed. Any thread may ask before each of its launches, for the cost of some loads.
 */
bool recurrence_observes(struct recurrence *r, uintptr_t thread);

/* To be called when the observed thread launches. True: a step begins with this launch. */
bool recurrence_on_launch(struct recurrence *r, const struct recurrence_launch *launch);

/* Gives up a search or a step that takes too long. Any thread calls this from time to time. */
enum recurrence_state recurrence_check(struct recurrence *r, uint64_t now_ns);
