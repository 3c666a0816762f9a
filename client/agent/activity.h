/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels' own times: in addition to ranges, CUPTI's activity tracing records when each kernel
 * began and ended on the GPU. */

#include "client/agent/buffers.h"
#include "client/agent/deliver.h"
#include "client/agent/graphs.h"
#include "client/agent/lock.h"
#include "client/agent/pack.h"
#include "client/agent/profiler.h"
#include "client/agent/spans.h"

enum {
	REPEATED_IDS = 8,
	ACTIVITY_AT_ONCE = 32,	    /* records or launches for which the lock is held */
	ACTIVITY_PATIENCE_MS = 100, /* at first, and after a complete batch */
	/* If launches run ahead; less than the 10 s that the daemon waits for a capture's end. */
	ACTIVITY_PATIENCE_AHEAD_MS = 2000,
};

/* Records of kernels outside graphs that repeat the correlation id of an earlier kernel. */
struct repeated {
	size_t n;
	uint64_t since_ns;	    /* Unix time when the kernel of the first such record began */
	uint32_t ids[REPEATED_IDS]; /* ids of the most recent records */
	unsigned at;
};

/* Whether the program, or a tool in it, uses CUPTI's activity records itself. CUPTI keeps one pair
 * of buffer callbacks per process, and replaces it without asking when somebody else registers.
 *
 * Zeroed before use. The starting thread uses it, later the delivering thread. Other threads use
 * only the atomic members and the numbers n_..., which activity.lock protects. */
struct others {
	bool registered;	/* our callbacks were registered, which happens once per process */
	atomic_bool are_there;	/* somebody else has registered callbacks since */
	atomic_bool were_first; /* CUPTI gave us a buffer of others, who lack our records */
	atomic_bool expected;	/* a kernel was announced in this capture */
	uint64_t n_asked;	/* buffers that CUPTI asked for in this capture */
	uint64_t n_heard;	/* buffers that CUPTI has returned */
	uint64_t n_heard_before;
	unsigned silent; /* last batches in a row with missing records and no buffer */
};

struct activity {
	/* Set before activity_start(). while_quiet calls act while no kernel is running and none
	 * can begin; false: not possible now. NULL: act may be called at any time. */
	bool (*while_quiet)(void *userdata, void (*act)(void *argument), void *argument);
	bool (*is_ending)(void *userdata); /* does somebody wait for the last records? */
	/* Sets the function id of a graph's kernel in l, and returns whether the filter selects the
	 * kernel. CUPTI's threads call this with the lock held, never after activity_stop(). If
	 * set, each kernel of a graph is reported, on_crowd is called when many kernels wait, and
	 * graphs.counters must be set; NULL: a graph is reported as one launch. */
	bool (*name_kernel)(void *userdata, const char *name, struct launch *l,
			    uint32_t static_shared_bytes, uint32_t registers);
	void (*on_crowd)(void *userdata);
	/* activity_fill() calls this from time to time while it waits, without the lock. */
	void (*on_wait)(void *userdata);
	void *userdata;
	bool copies;  /* copies, fills and kernels that were not announced are wanted as well */
	bool patient; /* launches run far ahead of the GPU, and nobody waits for their records */

	const struct profiler *profiler;
	struct others others;
	struct spans spans;
	atomic_bool tracing;
	bool whole;	  /* CUPTI gives one record for each graph launch */
	struct lock lock; /* protects the members below */
	struct graphs graphs;
	struct repeated repeated;
	uint64_t heard_ns; /* time of the last flush by activity_hear() */
	bool started;
	bool copying; /* records of copies are kept; equals copies while started */
	struct buffers buffers;
	uint64_t dropped;	  /* number of records lost for lack of room */
	struct pack_copy *copied; /* copies that activity_take_copies() has not returned yet */
	size_t n_copied, max_copied;
	uint64_t forced_ns;   /* time of the last forced flush; used by the delivering thread */
	unsigned patience_ms; /* how long activity_fill() waits for records of the next batch */
};

/* To be called once, before other threads use v. */
void activity_init(struct activity *v);

/* A process has one struct activity, zeroed before activity_init() and never freed, because CUPTI's
 * callbacks take no argument and may come late. It can be started and stopped any number of times.
 * Returns 0 or CUPTI's result: MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED if the program receives CUPTI's
 * records. After a failure kernels have no times of their own. */
CUptiResult activity_start(struct activity *v, const struct profiler *p);

/* Turns tracing on or off, for kernels and, if wanted, copies; work launched while it is off has no
 * record. The program's copies and fills wait in CUPTI's callbacks meanwhile, so the callbacks must
 * be on. Returns CUPTI's result for kernels, or 0. */
CUptiResult activity_trace(struct activity *v, bool on);

/* To be called before a measured launch. Cheap; does nothing if tracing was not started. */
void activity_expect(struct activity *v, uint32_t correlation);

/* As activity_expect(), for a graph launch l; its kernels are reported if name_kernel is set. */
void activity_expect_graph(struct activity *v, const struct launch *l, uintptr_t graph);

/* Makes CUPTI deliver its records, while no kernel of the process is running. */
void activity_flush(struct activity *v);

/* Undoes activity_expect() for a launch that was not made. */
void activity_forget(struct activity *v, uint32_t correlation);

/* Sets start and duration of a batch's launches, after their records were flushed. Waits a moment
 * for missing records. Only for the delivering thread, which must hold no lock. */
void activity_fill(struct activity *v, struct batch *b);

/* Call graphs_take() and graphs_take_late() under the lock. */
struct graph_told activity_take_graph(struct activity *v, const struct launch *l);
struct graph_kernels activity_take_late(struct activity *v);

/* Makes CUPTI give one record for each graph launch from now on. False: it already does, tracing is
 * off, others use CUPTI's records, or a kernel of a graph has already given a record. */
bool activity_want_whole_graphs(struct activity *v);

/* Treats a dropped launch as one that was never announced. */
void activity_leave_out(struct activity *v, const struct launch *l);

/* Copies, fills and kernels that were not announced, as far as their records have come since the
 * last call; unordered; free with free(). */
struct pack_copy *activity_take_copies(struct activity *v, size_t *ret_n);

bool activity_is_started(struct activity *v);

/* Do many kernels of graphs wait to be taken? */
bool activity_is_crowded(struct activity *v);

/* Has CUPTI dropped records for lack of room? */
bool activity_drops(struct activity *v);

/* CUPTI's records that have the id of another launch, a lower bound; none below REPEATS_LEAST. */
struct repeated activity_repeated(struct activity *v);

/* Stops tracing; does nothing while a kernel is running, for which CUPTI might wait. */
void activity_stop(struct activity *v);
