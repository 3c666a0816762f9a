/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_RANGES_H
#define GPUCTR_AGENT_RANGES_H

/* CUPTI's range profiler on one CUDA context: a user range around each launch, in batches. */

#include <stdatomic.h>
#include <stdbool.h>

#include "client/agent/deliver.h"
#include "client/agent/devices.h"
#include "client/agent/gate.h"
#include "client/agent/guard.h"
#include "client/agent/profiler.h"
#include "client/agent/turns.h"
#include "proto/base/list.h"

enum ranges_state {
	RANGES_NEW,	/* nothing done yet */
	RANGES_OFF,	/* enabled, not started: the next launch starts it */
	RANGES_STARTED, /* takes ranges */
	RANGES_WAITING, /* the counters are someone else's: tried again later */
	RANGES_BROKEN,	/* given up, the reason was told */
};

/* Of a context's fresh images, unless batches are small. */
enum {
	RANGES_IMAGE_BYTES_MAX = 7 << 20,
	RANGES_IMAGES_BYTES_MAX = 28 << 20, /* all of them together */
};

/* What an image is like before anything was decoded into it, for the metrics of one pass. */
struct ranges_image {
	uint8_t *fresh;
	size_t size;
	size_t ranges; /* that it has room for */
};

/* Per context, with the gate's lock but for the atomic members: whoever looks for a context reads
 * context (NULL: it has ended) and device (UINT32_MAX: not known yet) without it. */
struct ranges {
	struct list link;
	struct gate gate;
	_Atomic(CUcontext) context;
	_Atomic(uint32_t) device;
	enum ranges_state state;
	uint64_t retry_ns;
	bool reported_busy;
	unsigned waits; /* for counters that are someone else's, since the last Start */
	CUpti_RangeProfiler_Object *object;
	bool running;		   /* between Start and Stop */
	struct host_config config; /* for all passes */
	_Atomic(uint32_t) pass;	   /* that launches are chosen for now */
	uint32_t measured_pass;	   /* that CUPTI measures now, or will from the next Start on */
	struct turns turns;
	struct device_info *info;
	size_t size;	   /* ranges that CUPTI has room for in a batch */
	size_t room;	   /* that the batch under way is to have, at most size */
	bool is_fresh;	   /* set up, and its first Start is to come */
	bool has_started;  /* Start has succeeded, so no stream capture was under way then */
	uint64_t spent_ns; /* on that, and on Starts that came to nothing, and in no account yet */
	uint64_t push_ns;  /* that the last push took, with a budget */
	uint64_t paid_ns;  /* spent on turning batches of this size */
	struct ranges_image images[LIMIT_GROUPS]; /* by pass */
	size_t image_bytes;			  /* of a range, of the largest of them */
	size_t images_bytes;			  /* of a range, of all of them together */
	uint8_t *image; /* CUPTI decodes into it; as large as the largest of them */
	struct guard guard;
	char last_kernel[256]; /* the last launch's that was looked at */
	uint64_t last_stream, last_launch_ns;
	atomic_bool reported_stuck; /* about that launch */
	struct batch *batch;	    /* launches of the image under way */
	uint64_t batch_begin_ns;    /* of its first launch */
};

struct capture;

/* With the lock held and the context current. True: a range is open and *ret is to be filled; then
 * ranges_close() must follow. False: the launch is not measured and has been counted. */
bool ranges_open(struct capture *c, struct ranges *r, const struct guard_launch *g,
		 struct launch **ret);
void ranges_close(struct capture *c, struct ranges *r, const struct guard_launch *g, bool launched);

/* With the lock held. Hands over what was measured; the next launch starts afresh. False: not now,
 * because kernels are under way that may wait for something. */
bool ranges_flush(struct capture *c, struct ranges *r);

/* As ranges_flush(), and lets go of the counters. The context must still exist. */
bool ranges_disable(struct capture *c, struct ranges *r);

/* Lets go without calling anything that waits: what was measured counts as failed. For good. */
void ranges_abandon(struct capture *c, struct ranges *r);

#endif
