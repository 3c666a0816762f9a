/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds where the steps of a program begin, for --steps without --step: by a sequence of launches
 * that recurs. One thread is observed, the first that launches, because several threads launch in
 * no fixed order. Its launches are kept until their latest ones are twice, or several times, the
 * same; then the launch after the longest pause of that period, if it can be recognised, begins
 * each step. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECURRENCE_WINDOW = 1 << 16, /* launches; a step has half of them at most */
	RECURRENCE_GRAM = 64, /* launches by which the first one of a step is recognised, at most */
};

#define RECURRENCE_PATIENCE_NS UINT64_C(5000000000)

/* What a step is recognised by: kernels with their launch shapes, or, where shapes change from step
 * to step, kernels alone. */
enum recurrence_key { RECURRENCE_SHAPED, RECURRENCE_KERNELS, RECURRENCE_KEYS };

enum recurrence_state {
	RECURRENCE_SEARCHES, /* or waits for the first launch */
	RECURRENCE_FOUND,
	RECURRENCE_ABSENT, /* nothing recurred for RECURRENCE_PATIENCE_NS, or the memory is lacking
			    */
	RECURRENCE_LOST,   /* found, and the program does something else since */
};

struct recurrence_launch {
	uint64_t keys[RECURRENCE_KEYS];
	uint64_t ns; /* monotonic */
};

struct recurrence {
	bool is_used;
	_Atomic(enum recurrence_state) state;
	atomic_uintptr_t thread;       /* the observed one; 0: none yet */
	atomic_bool others;	       /* other threads launch as well */
	atomic_uint_fast64_t first_ns, /* of its first launch; 0: none yet */
		last_ns;	       /* when the latest step began */
	/* For that thread alone: */
	struct recurrence_launch *window; /* owned; the oldest first */
	uint32_t *scratch;		  /* owned, RECURRENCE_WINDOW of them */
	size_t n;
	uint64_t look_ns, launched_ns; /* the next look; the latest launch */
	/* What it has found, which does not change afterwards: */
	enum recurrence_key key;
	uint32_t gram;	    /* launches by which a step is recognised, up to its first one */
	uint64_t mark;	    /* their hash */
	uint32_t period;    /* launches of a step */
	uint64_t period_ns; /* what a step took */
	uint64_t recent[RECURRENCE_GRAM];
	uint64_t seen; /* launches since */
	uint32_t since_step;
};

/* A key to which x is added. */
static inline uint64_t recurrence_add(uint64_t key, uint64_t x)
{
	return (key ^ x) * UINT64_C(0x9e3779b97f4a7c15) + (key >> 29);
}

/* Without is_used the others do nothing. Memory is taken at the first launch. */
void recurrence_init(struct recurrence *r, bool is_used);
void recurrence_deinit(struct recurrence *r);

/* Is this thread (any number but 0) the observed one, or the first to ask, and is there something
 * left to find? Any thread may ask before each of its launches, for the cost of some loads. */
bool recurrence_observes(struct recurrence *r, uintptr_t thread);

/* That thread launches a kernel now. True: a step begins with this launch. */
bool recurrence_on_launch(struct recurrence *r, const struct recurrence_launch *launch);

/* Gives up what waits in vain. Any thread calls this now and then. */
enum recurrence_state recurrence_check(struct recurrence *r, uint64_t now_ns);
