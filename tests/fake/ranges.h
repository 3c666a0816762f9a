/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the two files of the fake range profiler: session.c (which profilers exist, and which
 * may) and ranges.c (what one of them does between Enable and Disable). */

#include "tests/fake/profiler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { MAX_DEPTH = 16 };

struct open_range {
	char path[RANGE_NAME_MAX];
	ssize_t staged; /* index, or -1: not collected */
};

struct CUpti_RangeProfiler_Object {
	CUcontext context;
	int gpu;
	struct fake_profiler permission;
	_Atomic bool busy; /* a thread is inside of a call */

	struct config_image config;
	struct data_image *image; /* the user's memory */
	size_t image_bytes;
	bool has_config;
	CUpti_ProfilerRange mode;
	size_t max_ranges;
	unsigned int first_level, levels;
	bool is_user_replay;
	struct metric_set layout; /* of the next image: what GetCounterDataSize asked for last */
	bool waits;		  /* push and pop wait for the GPU: counters of the SMs */

	_Atomic bool is_started; /* read by every thread that launches */
	bool has_stopped;
	size_t counter_data_bytes;
	uint32_t pass;	   /* of the next or running Start */
	uint32_t base;	   /* where pass 0 put its first range in the image */
	uint32_t run_pass; /* the pass that was run last */
	struct data_range *staged;
	size_t staged_count, dropped, auto_count;
	size_t kept_ranges;		    /* as many as the image of the first SetConfig has */
	struct open_range stack[MAX_DEPTH]; /* the ranges that the CPU has pushed and not popped */
	unsigned int depth;
	ssize_t running[MAX_DEPTH]; /* the same as the GPU has reached them */
	unsigned int n_running;
};

/* Guards the table of profilers, and what launching threads change: staged ranges and the stack. */
extern pthread_mutex_t ranges_lock;

/* Order of the checks: struct size, object, other threads, injected failure. On success
 * ranges_leave() must follow. */
CUptiResult ranges_enter(const char *function, const void *params, size_t size,
			 struct CUpti_RangeProfiler_Object *p);
CUptiResult ranges_leave(struct CUpti_RangeProfiler_Object *p, CUptiResult r);

/* Logs a violation, leaves, and returns INVALID_OPERATION. */
CUptiResult ranges_out_of_order(struct CUpti_RangeProfiler_Object *p, const char *what);

/* Was the driver object freed from outside? */
bool ranges_permission_is_gone(const struct CUpti_RangeProfiler_Object *p);

/* Adds work to the open ranges, or as a range of its own. The caller holds the lock. */
void ranges_add(struct CUpti_RangeProfiler_Object *p, const struct fake_work *work);
