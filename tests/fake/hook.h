/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The private door between the fake driver API library and the fake profiler library. The first
 * exports fakecuda_hooks(); the second finds it with dlsym(). */

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>

enum {
	FAKE_MARKERS_NS = 800, /* in a range around a kernel, beside the kernel */
	FAKE_GAP_NS = 100,     /* between two kernels of a graph */
};

/* What one kernel or several have done: all counters follow from these sums. */
struct fake_work {
	uint64_t threads;
	uint64_t warps;	  /* sum of threads / 32 */
	uint64_t time_ns; /* sum of 1000 + threads / 64 */
	uint64_t load_ns; /* loading of modules: in the range but in no kernel */
	uint64_t kernels;
	uint64_t traced_warps, traced_threads; /* of the above, what ran while it was traced */
};

/* What a kernel looks like. */
struct fake_shape {
	uint32_t grid[3], block[3], dynamic_shared;
	int registers, static_shared;
};

/* The kernels of a graph, in the order in which they run. */
struct fake_node {
	const char *name; /* lives as long as the process */
	struct fake_shape shape;
	struct fake_work work;
};

struct fake_graph {
	uint32_t id;
	_Atomic unsigned references;
	size_t n;
	struct fake_node *nodes;
};

/* What has run. */
struct fake_run {
	struct fake_work work;
	uint32_t correlation, stream;
	const char *symbol;	  /* NULL: a graph */
	struct fake_graph *graph; /* NULL: a kernel, or a fill */
	struct fake_shape shape;  /* of a kernel */
	uint64_t begin_ns;
};

struct fake_call {
	uint32_t cbid;
	const char *name;
	const void *params; /* the struct of generated_cuda_meta.h for this cbid */
	const char *symbol; /* kernel name of a launch */
	CUcontext context;
	uint32_t context_uid;
	uint32_t correlation_id;
	uint64_t *correlation_data;
	CUresult *result; /* NULL on entry */
};

/* Functions of the profiler that the driver API library calls. They are called without a lock, but
 * for executed, which is called when work ends, with the queue's lock held. */
struct fake_listener {
	void (*api)(const struct fake_call *call);
	void (*resource)(uint32_t cbid, CUcontext context, CUstream stream);
	void (*executed)(CUcontext context, const struct fake_run *run);
};

/* One object of class 0xB2CC. */
struct fake_profiler {
	uint64_t file;
	uint32_t h_root, h_device, h_object;
};

/* What the range profiler puts around a range. */
struct fake_barrier {
	void (*pass)(void *owner, long argument); /* all earlier work has ended */
	bool (*is_gone)(const void *owner);	  /* nothing waits any more */
	void *owner;
	long argument;
};

struct fake_hooks {
	/* NULL: nobody listens any more. */
	void (*listen)(const struct fake_listener *listener);

	/* The ioctls, made from inside of the driver API library. Return the object's status (0:
	 * made) or a negative errno. With context NULL the object counts the whole device. */
	int (*profiler_alloc)(CUcontext context, int device, struct fake_profiler *ret_profiler);
	int (*profiler_free)(const struct fake_profiler *profiler);

	/* False: no such context, or a destroyed one. *ret_gpu is the index of the hardware. */
	bool (*context_find)(CUcontext context, int *ret_gpu, uint32_t *ret_uid);
	int (*context_device)(CUcontext context); /* as the process counts devices */
	bool (*stream_find)(CUcontext context, CUstream stream, bool per_thread, uint32_t *ret_id);
	int (*device_gpu)(int device); /* -1: no such device */
	CUcontext (*current)(void);

	/* Correlation id of the calling thread's last call. */
	uint32_t (*last_correlation)(void);

	/* Invalidates what streams of the context capture. False: none does. */
	bool (*invalidate_stream_captures)(CUcontext context);

	/* Work that is not done yet: see queue.h. */
	void (*barrier)(CUcontext context, const struct fake_barrier *barrier);
	void (*forget)(const void *owner);
	void (*wait_barriers)(void);
	bool (*is_idle)(CUcontext context);
};

typedef const struct fake_hooks *(*fakecuda_hooks_fn)(void);

__attribute__((visibility("default"))) const struct fake_hooks *fakecuda_hooks(void);
