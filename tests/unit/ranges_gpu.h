/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A GPU without kernels, and CUPTI's range profiler on it. It fails the test when an image has too
 * little room or is of another pass than its ranges, and when a call that waits is made while the
 * GPU is at work. Time is the test's as well, and passes by calls. */

#include "client/agent/profiler.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/unit/made_clock.h"

struct guard;

#define STREAM ((CUstream)(uintptr_t)0x1000)
#define US UINT64_C(1000)
#define MS CLOCK_NS_PER_MS

enum { CONTEXTS = 3, PASSES_MAX = LIMIT_GROUPS, BYTES_A_RANGE = 100 };

/* A context's handle is the number of its object, from 1. */
struct CUpti_RangeProfiler_Object {
	bool enabled, configured, started, open;
	uint32_t device, pass, decoded; /* which pass is next, and was run last */
	uint64_t layout, layout_room;	/* what GetCounterDataSize was asked about last */
	uint64_t kept;			/* ranges of the first image: more are lost */
	struct image *image;
	size_t image_bytes, max_ranges, n;
};

/* At the beginning of each. The metric of pass 3 is called m3. */
struct image {
	uint64_t pass, capacity, n;
};

struct gpu {
	bool at_work;
	bool gets_launched;	  /* with the next launch that is measured */
	struct ranges *gets_work; /* of this context, with the next Stop */
	size_t bytes_a_range[PASSES_MAX];
	uint32_t n_passes;		      /* that CUPTI needs */
	uint32_t n_sets;		      /* of metrics, that it was given for that */
	uint32_t wrong_pass;		      /* by which Stop is off */
	CUptiResult start, push, pop, decode; /* what they answer */
	uint64_t tried_ns[64];		      /* when Start was called */
	unsigned n_enabled, n_starts, n_ranges;
	int n_pushed; /* contexts */
	struct CUpti_RangeProfiler_Object object[CONTEXTS], *owner[CONTEXTS];
};

extern struct gpu gpu;
extern const struct profiler gpu_profiler;

void gpu_begin(void);
