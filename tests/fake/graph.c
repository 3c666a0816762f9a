/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver API: stream capture and graphs.
 *
 * A launch into a stream that is being captured runs nothing and becomes a node of the graph. The
 * nodes of a graph run one after the other; the counters have their sum. */

#include "tests/fake/gpu.h"
#include "tests/fake/queue.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the names that are kept */
static _Atomic int n_stream_captures;			 /* streams that are being captured */
static _Atomic uint64_t last_capture_id;

bool gpu_captures(void)
{
	return atomic_load(&n_stream_captures) > 0;
}

static void work_add(struct fake_work *sum, const struct fake_work *work)
{
	sum->threads += work->threads;
	sum->warps += work->warps;
	sum->time_ns += work->time_ns;
	sum->kernels += work->kernels;
}

CUresult gpu_record(struct CUgraph_st *graph, const struct fake_node *node)
{
	struct fake_graph *g = &graph->graph;

	if (g->n == GRAPH_MAX_NODES) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (g->n == graph->room) {
		size_t room = graph->room ? 2 * graph->room : 16;
		struct fake_node *more = realloc(g->nodes, room * sizeof(*more));

		if (!more) {
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		g->nodes = more;
		graph->room = room;
	}
	g->nodes[g->n++] = *node;
	return CUDA_SUCCESS;
}

const char *gpu_keep_name(const char *name)
{
	static struct kept {
		struct kept *next;
		char name[KERNEL_NAME_BYTES];
	} * kept;
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = kept; k && strcmp(k->name, name) != 0; k = k->next) {
	}
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k) {
			abort();
		}
		snprintf(k->name, sizeof(k->name), "%s", name);
		k->next = kept;
		kept = k;
	}
	pthread_mutex_unlock(&lock);
	return k->name;
}

static CUresult begin_stream_capture(CUstream handle)
{
	struct CUstream_st *stream = gpu_stream(handle);

	if (!stream || stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE) {
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	stream->graph = calloc(1, sizeof(*stream->graph));
	if (!stream->graph) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	stream->capture_id = atomic_fetch_add(&last_capture_id, 1) + 1;
	atomic_fetch_add(&n_stream_captures, 1);
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	cuStreamBeginCapture_v2_params params = { stream, mode };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2,
		    "cuStreamBeginCapture_v2", &params, NULL);
	return trace_exit(&trace, begin_stream_capture(stream));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	cuStreamBeginCapture_v2_ptsz_params params = { stream, mode };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz,
		    "cuStreamBeginCapture_v2_ptsz", &params, NULL);
	return trace_exit(&trace, begin_stream_capture(stream));
}

void gpu_end_stream_capture(CUstream stream)
{
	if (atomic_exchange(&stream->capture_status, CU_STREAM_CAPTURE_STATUS_NONE) !=
	    CU_STREAM_CAPTURE_STATUS_NONE) {
		atomic_fetch_sub(&n_stream_captures, 1);
	}
	if (stream->graph) {
		cuGraphDestroy(stream->graph);
		stream->graph = NULL;
	}
}

static CUresult end_stream_capture(CUstream handle, CUgraph *ret)
{
	struct CUstream_st *stream = gpu_stream(handle);
	CUstreamCaptureStatus status;

	if (!stream || stream->capture_status == CU_STREAM_CAPTURE_STATUS_NONE) {
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	status = atomic_exchange(&stream->capture_status, CU_STREAM_CAPTURE_STATUS_NONE);
	atomic_fetch_sub(&n_stream_captures, 1);
	*ret = stream->graph;
	stream->graph = NULL;
	if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
		cuGraphDestroy(*ret);
		*ret = NULL;
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
	cuStreamEndCapture_params params = { stream, ret };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, "cuStreamEndCapture",
		    &params, NULL);
	return trace_exit(&trace, end_stream_capture(stream, ret));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *ret)
{
	cuStreamEndCapture_ptsz_params params = { stream, ret };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz,
		    "cuStreamEndCapture_ptsz", &params, NULL);
	return trace_exit(&trace, end_stream_capture(stream, ret));
}

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *ret)
{
	struct CUstream_st *stream = gpu_stream(handle);

	*ret = stream ? stream->capture_status : CU_STREAM_CAPTURE_STATUS_NONE;
	return gpu_ready();
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
	cuStreamIsCapturing_params params = { stream, ret };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing, "cuStreamIsCapturing",
		    &params, NULL);
	return trace_exit(&trace, is_capturing(stream, ret));
}

CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus *ret)
{
	cuStreamIsCapturing_ptsz_params params = { stream, ret };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing_ptsz,
		    "cuStreamIsCapturing_ptsz", &params, NULL);
	return trace_exit(&trace, is_capturing(stream, ret));
}

/* As it was first. The header gives its name to a later one. */
#undef cuStreamGetCaptureInfo
CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id);

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	struct CUstream_st *stream = gpu_stream(handle);

	if (stream && stream->capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id) {
		*id = stream->capture_id;
	}
	return is_capturing(handle, status);
}

void gpu_graph_unref(struct fake_graph *graph)
{
	if (atomic_fetch_sub(&graph->references, 1) == 1) {
		free(graph->nodes);
		free(graph);
	}
}

static struct fake_graph *copy_graph(const struct fake_graph *graph)
{
	static _Atomic uint32_t last_id;
	struct fake_graph *copy = calloc(1, sizeof(*copy));

	if (!copy) {
		return NULL;
	}
	copy->nodes = malloc((graph->n + 1) * sizeof(*copy->nodes));
	if (!copy->nodes) {
		free(copy);
		return NULL;
	}
	memcpy(copy->nodes, graph->nodes, graph->n * sizeof(*copy->nodes));
	copy->n = graph->n;
	copy->id = atomic_fetch_add(&last_id, 1) + 1;
	copy->references = 1;
	return copy;
}

static CUresult instantiate(CUgraphExec *ret, CUgraph graph)
{
	struct CUgraphExec_st *exec;

	if (!graph) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	exec = calloc(1, sizeof(*exec));
	if (!exec) {
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->graph = copy_graph(&graph->graph);
	if (!exec->graph) {
		free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = exec;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph, unsigned long long flags)
{
	cuGraphInstantiateWithFlags_params params = { ret, graph, flags };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags,
		    "cuGraphInstantiateWithFlags", &params, NULL);
	return trace_exit(&trace, instantiate(ret, graph));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *ret, CUgraph graph, CUgraphNode *node, char *log,
			       size_t bytes)
{
	(void)node;
	(void)log;
	(void)bytes;
	return instantiate(ret, graph);
}

CUresult cuGraphDestroy(CUgraph graph)
{
	if (graph) {
		free(graph->graph.nodes);
	}
	free(graph);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	gpu_graph_unref(exec->graph);
	free(exec);
	return CUDA_SUCCESS;
}

/* A graph within a graph. */
static CUresult record_all(struct CUgraph_st *graph, const struct fake_graph *within)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; r == CUDA_SUCCESS && i < within->n; i++) {
		r = gpu_record(graph, &within->nodes[i]);
	}
	return r;
}

static CUresult run_graph(CUgraphExec exec, CUstream handle)
{
	struct CUstream_st *stream = gpu_stream(handle);
	struct fake_work work = { 0 };
	CUcontext context = NULL;
	CUresult r = gpu_need_context(&context);

	if (r != CUDA_SUCCESS || !exec) {
		return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_HANDLE;
	}
	if (stream && stream->capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		return record_all(stream->graph, exec->graph);
	}
	for (size_t i = 0; i < exec->graph->n; i++) {
		work_add(&work, &exec->graph->nodes[i].work);
	}
	queue_graph(context, handle, exec->graph, &work);
	return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	cuGraphLaunch_params params = { exec, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch", &params, NULL);
	return trace_exit(&trace, run_graph(exec, stream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	cuGraphLaunch_ptsz_params params = { exec, stream };
	struct fake_trace trace;

	trace_enter(&trace, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz, "cuGraphLaunch_ptsz",
		    &params, NULL);
	return trace_exit(&trace, run_graph(exec, stream));
}
