/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity_flush.h"

#include <string.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

/* The correlation id joins a kernel's record with its launch (spans.c), or with the launch of its
 * graph (graphs.c). Copies, fills and kernels without a known launch are kept in a list. */

enum { COPIES_MAX = 1 << 16 };

/* All versions of the record from CUDA 8 to 13 begin alike; version 9 is declared since 12.6. */
typedef CUpti_ActivityKernel9 kernel_record;
_Static_assert(offsetof(kernel_record, start) == 16 && offsetof(kernel_record, end) == 24 &&
		       offsetof(kernel_record, deviceId) == 40 &&
		       offsetof(kernel_record, contextId) == 44 &&
		       offsetof(kernel_record, streamId) == 48 &&
		       offsetof(kernel_record, gridX) == 52 &&
		       offsetof(kernel_record, blockZ) == 72 &&
		       offsetof(kernel_record, staticSharedMemory) == 76 &&
		       offsetof(kernel_record, dynamicSharedMemory) == 80 &&
		       offsetof(kernel_record, correlationId) == 92 &&
		       offsetof(kernel_record, name) == 104 &&
		       offsetof(kernel_record, launchType) == 136 &&
		       offsetof(kernel_record, graphNodeId) == 144 &&
		       offsetof(kernel_record, graphId) == 156,
	       "CUPTI's kernel record");
_Static_assert(offsetof(CUpti_ActivityGraphTrace, correlationId) == 4 &&
		       offsetof(CUpti_ActivityGraphTrace, start) == 8 &&
		       offsetof(CUpti_ActivityGraphTrace, end) == 16 &&
		       offsetof(CUpti_ActivityGraphTrace, deviceId) == 24 &&
		       offsetof(CUpti_ActivityGraphTrace, streamId) == 36,
	       "CUPTI's graph record");
/* All versions begin alike up to the correlation id, beyond which nothing is read. */
_Static_assert(offsetof(CUpti_ActivityMemcpy5, bytes) == 8 &&
		       offsetof(CUpti_ActivityMemcpy5, start) == 16 &&
		       offsetof(CUpti_ActivityMemcpy5, end) == 24 &&
		       offsetof(CUpti_ActivityMemcpy5, deviceId) == 32 &&
		       offsetof(CUpti_ActivityMemcpy5, contextId) == 36 &&
		       offsetof(CUpti_ActivityMemcpy5, streamId) == 40 &&
		       offsetof(CUpti_ActivityMemcpy5, correlationId) == 44,
	       "CUPTI's copy record");
_Static_assert(offsetof(CUpti_ActivityMemset4, bytes) == 8 &&
		       offsetof(CUpti_ActivityMemset4, start) == 16 &&
		       offsetof(CUpti_ActivityMemset4, end) == 24 &&
		       offsetof(CUpti_ActivityMemset4, deviceId) == 32 &&
		       offsetof(CUpti_ActivityMemset4, contextId) == 36 &&
		       offsetof(CUpti_ActivityMemset4, streamId) == 40 &&
		       offsetof(CUpti_ActivityMemset4, correlationId) == 44,
	       "CUPTI's fill record");

/* Times of 0 mean that CUPTI could not measure them. */
static bool is_timed(uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns != 0 && end_ns >= begin_ns;
}

/* Copies beyond COPIES_MAX count as dropped. Ignores copies that come after the capture's end. */
static void add_copy(struct activity *v, const struct pack_copy *copy)
{
	if (!v->copying) {
		return;
	}
	if (v->n_copied == COPIES_MAX ||
	    !array_make_room(&v->copied, sizeof(*v->copied), v->n_copied, &v->max_copied)) {
		v->dropped++;
		return;
	}
	v->copied[v->n_copied++] = *copy;
}

static uint64_t shape_of(const kernel_record *k)
{
	uint64_t hash = k->name ? map_hash(k->name, strlen(k->name)) : 0;

	hash = map_mix(hash, (uint64_t)(uint32_t)k->gridX << 32 | (uint32_t)k->blockX);
	hash = map_mix(hash, (uint64_t)(uint32_t)k->gridY << 32 | (uint32_t)k->blockY);
	return map_mix(hash, (uint64_t)(uint32_t)k->gridZ << 32 | (uint32_t)k->blockZ);
}

static struct launch launch_of(const kernel_record *k)
{
	bool timed = is_timed(k->start, k->end);

	return (struct launch){
		.grid = { (uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ },
		.block = { (uint32_t)k->blockX, (uint32_t)k->blockY, (uint32_t)k->blockZ },
		.dynamic_shared_bytes = (uint32_t)k->dynamicSharedMemory,
		.device = k->deviceId,
		.context = k->contextId,
		.stream = k->streamId,
		.correlation = k->correlationId,
		.graph = k->graphId,
		.graph_node = k->graphNodeId,
		.start_ns = k->start,
		.duration_ns = timed ? k->end - k->start : 0,
		.kind = GPUCTR_LAUNCH_GRAPH_KERNEL,
		.clock = timed ? GPUCTR_CLOCK_GPU : GPUCTR_CLOCK_NONE,
	};
}

/* False: the kernel belongs to no announced graph, or is not kept. */
static bool take_graph_kernel(struct activity *v, const kernel_record *k)
{
	struct launch l;
	bool selected;

	if (!v->started || k->graphId == 0 || !graphs_find(&v->graphs, k->correlationId)) {
		return false;
	}
	l = launch_of(k);
	selected = v->name_kernel(v->userdata, k->name ? k->name : "(unnamed)", &l,
				  (uint32_t)k->staticSharedMemory, k->registersPerThread);
	return graphs_add(&v->graphs, &l, selected);
}

/* Counts a record whose correlation id an earlier record without a launch had; of the first such
 * record, notes only the id. */
static void count_repeated(struct repeated *r, const kernel_record *k)
{
	for (size_t i = 0; i < REPEATED_IDS; i++) {
		if (r->ids[i] == k->correlationId) {
			r->since_ns = r->n++ == 0 ? k->start : r->since_ns;
			return;
		}
	}
	r->ids[r->at++ % REPEATED_IDS] = k->correlationId;
}

/* Takes a kernel's time for its launch, or for its graph's launch if that is reported as one. */
static bool take_time(struct activity *v, const kernel_record *k)
{
	bool single = k->graphId == 0;

	return (single || !v->name_kernel || v->whole) &&
	       spans_add(&v->spans, k->correlationId, single, k->start, k->end);
}

static bool is_cuptis(const kernel_record *k)
{
	return k->name && strcmp(k->name, "WaitNs") == 0;
}

/* Takes the time of a launch that was announced, and all of a graph's kernel. Any other kernel,
 * which a filter excludes or which was launched before the capture, goes to the list of copies. */
static void take_kernel(struct activity *v, const kernel_record *k)
{
	bool timed = is_timed(k->start, k->end);

	if (is_cuptis(k)) {
		return;
	}
	if (take_graph_kernel(v, k) || !timed || take_time(v, k)) {
		return;
	}
	if (k->graphId == 0) {
		count_repeated(&v->repeated, k);
	}
	if (v->copying) {
		add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
						 .device = k->deviceId,
						 .context = k->contextId,
						 .stream = k->streamId,
						 .bytes = shape_of(k),
						 .start_ns = k->start,
						 .duration_ns = k->end - k->start });
	}
}

static void take_graph(struct activity *v, const CUpti_ActivityGraphTrace *g)
{
	if (is_timed(g->start, g->end) &&
	    !spans_add(&v->spans, g->correlationId, false, g->start, g->end) && v->copying) {
		add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
						 .device = g->deviceId,
						 .context = g->contextId,
						 .stream = g->streamId,
						 .bytes = g->graphId,
						 .start_ns = g->start,
						 .duration_ns = g->end - g->start });
	}
}

static void take_copy(struct activity *v, const CUpti_ActivityMemcpy5 *c)
{
	const struct pack_copy copy = {
		.kind = c->kind == CUPTI_ACTIVITY_KIND_MEMSET ? GPUCTR_COPY_SET
							      : GPUCTR_COPY_MEMORY,
		.device = c->deviceId,
		.context = c->contextId,
		.stream = c->streamId,
		.bytes = c->bytes,
		.start_ns = c->start,
		.duration_ns = c->end - c->start,
	};

	if (is_timed(c->start, c->end)) {
		graphs_add_copy(&v->graphs, c->correlationId, c->start, c->end);
		add_copy(v, &copy);
	}
}

void records_take(struct activity *v, const CUpti_Activity *record)
{
	if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
		take_kernel(v, (const kernel_record *)record);
	} else if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
		take_graph(v, (const CUpti_ActivityGraphTrace *)record);
	} else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY ||
		   record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
		take_copy(v, (const CUpti_ActivityMemcpy5 *)record);
	}
}

void records_give_up(struct activity *v, const CUpti_Activity *record)
{
	v->dropped += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
		      !is_cuptis((const kernel_record *)record);
}

/* --- for the delivering thread --- */

/* The kernel's name is not at hand here, so its function id takes the name's place in the hash. */
void activity_leave_out(struct activity *v, const struct launch *l)
{
	struct span span = { .begin_ns = l->start_ns, .end_ns = l->start_ns + l->duration_ns };
	bool known = l->clock == GPUCTR_CLOCK_GPU;

	if (!v->spans.v) {
		return;
	}
	LOCK_SCOPE(&v->lock);
	if (!known && (!spans_take(&v->spans, l->correlation, &span) || span.is_shared)) {
		spans_forget(&v->spans, l->correlation);
		return;
	}
	add_copy(v, &(struct pack_copy){
			    .kind = GPUCTR_COPY_KERNEL,
			    .device = l->device,
			    .context = l->context,
			    .stream = l->stream,
			    .bytes = map_mix(l->function, (uint64_t)l->grid[0] << 32 | l->block[0]),
			    .start_ns = span.begin_ns,
			    .duration_ns = span.end_ns - span.begin_ns });
}

/* Kernels of the graph that CUPTI has dropped ran between the others, or just before or after them.
 * The margin on each side is twice their average share of the graph's time, and at least the
 * longest kernel. */
static void note_lost(struct activity *v, const struct graph_told *told)
{
	struct pack_copy lost = { .kind = GPUCTR_COPY_LOST, .start_ns = UINT64_MAX };
	uint64_t end_ns = 0, longest_ns = 0, more_ns;

	for (size_t i = 0; i < told->kernels.n; i++) {
		const struct launch *l = &told->kernels.v[i];

		lost.device = l->device;
		lost.start_ns = l->start_ns < lost.start_ns ? l->start_ns : lost.start_ns;
		end_ns = l->start_ns + l->duration_ns > end_ns ? l->start_ns + l->duration_ns
							       : end_ns;
		longest_ns = l->duration_ns > longest_ns ? l->duration_ns : longest_ns;
	}
	if (end_ns > 0) {
		more_ns = 2 * (end_ns - lost.start_ns) * told->lacks / told->n_came;
		more_ns = more_ns > longest_ns ? more_ns : longest_ns;
		lost.start_ns -= more_ns < lost.start_ns ? more_ns : lost.start_ns;
		lost.duration_ns = end_ns + more_ns - lost.start_ns;
		add_copy(v, &lost);
	}
}

struct graph_told activity_take_graph(struct activity *v, const struct launch *l)
{
	struct graph_told told;

	LOCK_SCOPE(&v->lock);
	told = graphs_take(&v->graphs, l->correlation);
	if (told.n_came > 0) {
		spans_forget(&v->spans, l->correlation);
	}
	if (told.lacks > 0 && v->dropped > 0) {
		note_lost(v, &told);
	}
	return told;
}

struct graph_kernels activity_take_late(struct activity *v)
{
	LOCK_SCOPE(&v->lock);
	return graphs_take_late(&v->graphs);
}

struct pack_copy *activity_take_copies(struct activity *v, size_t *ret_n)
{
	struct pack_copy *taken;

	LOCK_SCOPE(&v->lock);
	taken = v->copied;
	*ret_n = v->n_copied;
	v->copied = NULL;
	v->n_copied = v->max_copied = 0;
	return taken;
}
