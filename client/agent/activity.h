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
	ACTIVITY_AT_ONCE = 32,	    /* records, or launches, that the lock is held for */
	ACTIVITY_PATIENCE_MS = 100, /* at first */
	/* Where launches run ahead: less than the 10 s that the daemon waits for the end. */
	ACTIVITY_PATIENCE_AHEAD_MS = 2000,
};

/* Records of single kernels with the correlation id of an earlier one. */
struct repeated {
	size_t n;
	uint64_t since_ns;	    /* when the kernel of the first one began, in Unix time */
	uint32_t ids[REPEATED_IDS]; /* of late */
	unsigned at;
};

/* Whether the program, or a tool in it, uses CUPTI's activity records itself. CUPTI has one pair of
 * callbacks for them in a process, and asks nobody before it takes another one.
 *
 * Zeroed at first. Of the thread that starts the activity, and then of the delivering one, but for
 * what is atomic, and for the numbers, which the lock of the records protects. */
struct others {
	bool registered;	/* our callbacks, once and for all */
	atomic_bool are_there;	/* others have registered theirs since */
	atomic_bool were_first; /* a buffer of others came: they lack what we get */
	atomic_bool expected;	/* a kernel was announced in this capture */
	uint64_t n_asked;	/* for buffers, in this capture */
	uint64_t n_heard;	/* buffers that have come back */
	uint64_t n_heard_before;
	unsigned silent; /* batches of late, without a buffer and with records that are missing */
};

struct activity {
	/* Set before activity_start(). The function calls act while no kernel is running and none
	 * can begin; it returns false if that is not possible now. NULL: act may be called at any
	 * time. */
	bool (*while_quiet)(void *userdata, void (*act)(void *argument), void *argument);
	bool (*is_ending)(void *userdata); /* does somebody wait for the rest? */
	/* Each kernel of a graph is told; NULL: a graph is told as one. Fills in the number of a
	 * kernel of this name, and says whether the filter selects it. Called by CUPTI's threads,
	 * with the lock, and not after activity_stop(). on_crowd then says that many kernels
	 * wait; graphs.counters is set, too. */
	bool (*name_kernel)(void *userdata, const char *name, struct launch *l,
			    uint32_t static_shared_bytes, uint32_t registers);
	void (*on_crowd)(void *userdata);
	/* Called now and then while activity_fill() waits, without the lock. */
	void (*on_wait)(void *userdata);
	void *userdata;
	bool copies;  /* what moves bytes beside the kernels expected is wanted as well */
	bool patient; /* launches run far ahead of the GPU, and nobody waits for their records */

	const struct profiler *profiler;
	struct others others;
	struct spans spans;
	atomic_bool tracing;
	bool whole;	  /* whole graphs are traced */
	struct lock lock; /* of what follows */
	struct graphs graphs;
	struct repeated repeated;
	uint64_t heard_ns; /* the last flush by activity_hear() */
	bool started;
	bool copying; /* what is wanted, while started */
	struct buffers buffers;
	uint64_t dropped;	  /* records, for lack of room */
	struct pack_copy *copied; /* not taken yet */
	size_t n_copied, max_copied;
	uint64_t forced_ns;   /* the last forced flush; of the delivering thread */
	unsigned patience_ms; /* how long activity_fill() waits for records of the next batch */
};

/* Once, before threads may know of it. */
void activity_init(struct activity *v);

/* A process has one, zeroed before it is initialised and never freed: CUPTI's callbacks have no
 * argument for it, and may come late. It can be started and stopped any number of times. Returns 0,
 * or CUPTI's result, MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED where the program has taken CUPTI's
 * records; kernels then have no times of their own. */
CUptiResult activity_start(struct activity *v, const struct profiler *p);

/* Turns tracing off and on again, of kernels and of what else is wanted: what is launched meanwhile
 * has no record. While CUPTI calls back at copies and fills, which are held for so long. To be
 * turned off before the callbacks are. Returns CUPTI's result for kernels; 0 if there is nothing to
 * do. */
CUptiResult activity_trace(struct activity *v, bool on);

/* To be called before a launch that is measured. Cheap; does nothing if tracing was not started. */
void activity_expect(struct activity *v, uint32_t correlation);

/* As activity_expect(), for a launch l of a graph, whose kernels are told if name_kernel is set. */
void activity_expect_graph(struct activity *v, const struct launch *l, uintptr_t graph);

/* Makes CUPTI deliver its records, while no kernel of the process is running. */
void activity_flush(struct activity *v);

/* The launch was not made. */
void activity_forget(struct activity *v, uint32_t correlation);

/* Sets start and duration of a batch's launches, after their records were flushed. Waits a moment
 * for missing records. Only for the delivering thread, which must hold no lock. */
void activity_fill(struct activity *v, struct batch *b);

/* What becomes of a launch of a graph, as graphs_take(); kernels that came late. */
struct graph_told activity_take_graph(struct activity *v, const struct launch *l);
struct graph_kernels activity_take_late(struct activity *v);

/* From now on graphs are traced whole. False: they were before, or kernels of graphs come. */
bool activity_want_whole_graphs(struct activity *v);

/* This launch is dropped: it is as if it had not been expected. */
void activity_leave_out(struct activity *v, const struct launch *l);

/* Copies, fills and kernels that were not expected, which have come since the last call; free with
 * free(). They are in no order. */
struct pack_copy *activity_take_copies(struct activity *v, size_t *ret_n);

bool activity_is_started(struct activity *v);

/* Do many kernels of graphs wait to be taken? */
bool activity_is_crowded(struct activity *v);

/* Has CUPTI dropped records for lack of room? */
bool activity_drops(struct activity *v);

/* How many of CUPTI's records, at least, have the correlation id of another launch; none if they
 * are few. */
struct repeated activity_repeated(struct activity *v);

/* Stops tracing, unless a kernel is running, for which CUPTI might wait. */
void activity_stop(struct activity *v);
