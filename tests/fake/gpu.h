/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside of the fake driver API library. Both names of versioned functions are needed, so cuda.h is
 * read as the driver itself reads it. */

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
#include <cupti_result.h>

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>

#include "tests/fake/hook.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { GRAPH_MAX_NODES = 1 << 17, STREAM_ID_DEFAULT = 7, STREAM_ID_PER_THREAD = 8 };

struct CUgraph_st {
	struct fake_graph graph;
	size_t room;
};

struct CUgraphExec_st {
	struct fake_graph *graph;
};

/* The current context. */
CUresult gpu_need_context(CUcontext *ret);

/* Is any stream being captured? */
bool gpu_captures(void);

/* A name that records may show when its module is gone. */
const char *gpu_keep_name(const char *name);

/* Adds a node to a graph that is being made. */
CUresult gpu_record(struct CUgraph_st *graph, const struct fake_node *node);

/* Frees the graph with its last user. */
void gpu_graph_unref(struct fake_graph *graph);

/* A function's registers and bytes of shared memory, as its name has them. */
void gpu_read_name(const char *name, struct fake_shape *shape);

struct CUstream_st {
	CUstream next;
	CUcontext context;
	uint32_t id;
	_Atomic CUstreamCaptureStatus capture_status;
	uint64_t capture_id;
	struct CUgraph_st *graph; /* while the stream is captured */
};

/* Contexts are never freed, so that a use after destruction can be recognised. */
struct CUctx_st {
	CUcontext next;
	bool alive;
	bool is_primary;
	unsigned int retained;
	int device, gpu;
	uint32_t uid, h_context;
	_Atomic uint32_t next_stream_id;
	CUstream streams; /* they end with it */
};

enum { FUNCTION_MAGIC = 0x46554e43, KERNEL_MAGIC = 0x4b45524e };

enum { KERNEL_NAME_BYTES = 16 * 1024 };

/* Both structs begin alike, because a launch accepts either. */
struct CUfunc_st {
	uint32_t magic;
	CUfunction next;
	_Atomic bool is_loaded;
	CUcontext context; /* of a kernel's function */
	char name[KERNEL_NAME_BYTES];
};

struct CUkern_st {
	uint32_t magic;
	CUkernel next;
	CUfunction functions; /* one a context, from its first use there */
	char name[KERNEL_NAME_BYTES];
};

struct CUlib_st {
	CUlibrary next;
	CUkernel kernels;
};

struct CUmod_st {
	CUmodule next;
	CUcontext context;
	CUfunction functions;
};

/* Other than CUDA_SUCCESS: the call is not possible now, because CUDA is not initialised or the
 * process was forked since. */
CUresult gpu_ready(void);

CUresult gpu_check_device(CUdevice device);

/* The GPU behind a device ordinal, or -1. */
int gpu_of_device(int device);

/* Invalidates what streams of the context capture. False: none does. */
bool gpu_invalidate_stream_captures(CUcontext context);
void gpu_end_stream_capture(CUstream stream); /* with the stream, if it captures */

CUcontext gpu_current(void);
bool gpu_context_is_alive(CUcontext context);

/* The stream's own record; NULL for the default and the per-thread stream. */
struct CUstream_st *gpu_stream(CUstream stream);

/* Calls the listener for call->api on entry and on exit, if there is one. */
struct fake_trace {
	struct fake_call call;
	uint64_t correlation_data;
	struct fake_trace *outer;
};
void trace_enter(struct fake_trace *trace, uint32_t cbid, const char *name, const void *params,
		 const char *symbol);
CUresult trace_exit(struct fake_trace *trace, CUresult result);
uint32_t trace_last_correlation(void); /* of this thread */
void trace_resource(uint32_t cbid, CUcontext context, CUstream stream);
void trace_wait_for_driver(void); /* while another thread holds what it holds in there */

/* How activity records name the call that is under way. */
void trace_describe(uint32_t *ret_correlation, const char **ret_symbol);
void trace_executed(CUcontext context, const struct fake_run *run);

/* permission.c */
int permission_alloc(CUcontext context, int device, struct fake_profiler *ret_profiler);
int permission_free(const struct fake_profiler *profiler);
