/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CUPTI's range profiler on one CUDA context: a user range around each launch, in batches. */

#include <stdatomic.h>
#include <stdbool.h>

#include "client/agent/deliver.h"
#include "client/agent/devices.h"
#include "client/agent/gate.h"
#include "client/agent/guard.h"
#include "client/agent/profiler.h"
#include "proto/wire/limits.h"

enum ranges_state {
	RANGES_NEW,	/* nothing done yet */
	RANGES_OFF,	/* enabled and not started; the next launch starts the profiler */
	RANGES_STARTED, /* takes ranges */
	RANGES_WAITING, /* another process uses the counters; the agent tries again later */
	RANGES_BROKEN,	/* the agent has given up and reported the reason */
};

/* Limits for the sizes of a context's images. */
enum {
	RANGES_IMAGE_BYTES_MAX = 7 << 20,
	RANGES_IMAGES_BYTES_MAX = 28 << 20, /* of all images together */
};

/* An empty counter data image for the metrics of one pass. */
struct ranges_image {
	uint8_t *fresh;
	size_t size;
};

/* The profiler of one context. The gate's lock protects all but the atomic members. Threads that
 * search for a context read context (NULL: it has ended) and device (UINT32_MAX: not known yet)
 * without the lock. */
struct ranges {
	struct ranges *next; /* in the capture's list */
	struct gate gate;
	_Atomic(CUcontext) context;
	_Atomic(uint32_t) device;
	enum ranges_state state;
	uint64_t retry_ns;
	bool reported_busy;
	CUpti_RangeProfiler_Object *object;
	bool running;		   /* between Start and Stop */
	struct host_config config; /* for all passes */
	uint32_t pass; /* pass of the next launch; of the next batch once a batch is full */
	uint32_t measured_pass; /* pass that CUPTI measures now, or will measure after the next
				   Start */
	struct device_info *info;
	size_t size;				  /* ranges that a batch may have */
	size_t limit;				  /* ranges that this batch may have */
	size_t n_rounds;			  /* rounds of passes that have begun */
	uint64_t paid_ns;			  /* spent on turning batches of this size */
	struct ranges_image images[LIMIT_GROUPS]; /* one for each pass */
	size_t image_bytes;			  /* bytes for each range, in the largest image */
	size_t images_bytes;			  /* bytes for each range, in all images together */
	uint8_t *image; /* CUPTI decodes into this; as large as the largest image */
	struct guard guard;
	atomic_bool unsettled; /* a range was left open, or no batch could begin, because the GPU
				  was not idle */
	char last_kernel[256]; /* kernel name of the last launch considered for measuring */
	uint64_t last_stream, last_launch_ns;
	atomic_bool reported_stuck; /* the watch has reported the last launch */
	struct batch *batch;	    /* launches of the current image */
	uint64_t batch_begin_ns;    /* time of the batch's first launch */
};

/* With the lock held: makes the context current, if its profiler is set up and it has not ended.
 * True: ranges_leave() must follow. */
static inline bool ranges_enter(const struct profiler *p, const struct ranges *r)
{
	return r->object && r->context && p->cuCtxPushCurrent(r->context) == CUDA_SUCCESS;
}

static inline void ranges_leave(const struct profiler *p)
{
	CUcontext popped;

	p->cuCtxPopCurrent(&popped);
}

struct capture;
struct section;

/* To be called without the lock, before a call gives the GPU other work. If the GPU is idle now,
 * closes a range that was left open and begins a batch that could not begin. Does not wait for the
 * GPU. */
void ranges_settle(struct capture *c, struct ranges *r);

/* Stops measuring in this context for good, without a call of CUPTI's. Launches of the batch count
 * as failed. */
void ranges_abandon(struct capture *c, struct ranges *r);
