/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In a trace of a program that waits for its launches, tracing rests, so that the program keeps its
 * pace. For the delivering thread, but where another one is named. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/activity.h"

struct capture;

struct rests {
	bool may;
	atomic_bool resting;
	atomic_bool are_over; /* the program makes graphs */
	atomic_bool gave_up;  /* a thread has waited for the end of one in vain */
	uint64_t until_ns;    /* tracing rests, or goes on, for so long at least */
	uint64_t stopped_ns,
		resumed_ns; /* the last rest that is not told yet, in Unix time; 0: none */
	uint64_t rested_ns; /* the beginning of this one */
	struct tally known; /* of a time in which tracing went on */
};

/* When the capture starts. */
void rests_begin(struct capture *c);

/* Now and then: begins or ends a rest. */
void rests_look(struct capture *c);

/* A thread of the program is about to make a graph, in a callback: waits until tracing goes on, for
 * half a second at most and once in a capture, and from then on it does not rest. */
void rests_prevent(struct capture *c);

/* At the end, when all records have come. */
void rests_end(struct capture *c);
