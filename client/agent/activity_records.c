/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity_records.h"

#include <string.h>

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

/* A kernel's record is joined with its launch by the correlation id (spans.c), or is one of a graph
 * (graphs.c); copies, fills and kernels of no known launch are kept as they are. */

enum { COPIES_MAX = 1 << 16, IDS_UNDER_WAY = 1 << 16 };

/* All versions of the record begin alike, from CUDA 8 to 13, and this one is declared since 12.6.
 */
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
/* Those of memory begin alike up to the id of the launch, which is all that is read. */
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

/* Beyond the most they count as dropped: what ran meanwhile is then known less well.
 * What comes after the end is no other capture's. */
void records_add_copy(struct activity *v, const struct pack_copy *copy)
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

/* False: it is none of a graph that was announced, or is not kept. */
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

/* Ids wrap around. Of launches that were under way when watching ended or began again, some with
 * earlier and later ids than the one that was noted were not. */
static bool is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static bool is_between(const struct unwatched *u, uint32_t correlation)
{
	return is_before(u->after - IDS_UNDER_WAY, correlation) &&
	       (u->before == 0 || is_before(correlation, u->before + IDS_UNDER_WAY));
}

/* By its id. Where no launch was watched before, no id tells that a kernel is older than the
 * capture; one that has begun since watching did, and was launched before, is not. */
static bool was_left(const struct unwatched *u, const kernel_record *k, bool timed)
{
	return u->after != 0 ? is_between(u, k->correlationId)
	       : !timed	     ? true
			     : u->ends && k->start >= u->ends_ns &&
				  (u->before == 0 ||
				   is_before(k->correlationId, u->before + IDS_UNDER_WAY));
}

/* A record with a time, that names no launch which was announced, may name a wrong one. What was
 * launched while launches were watched and has begun later is then told twice, once without a time.
 */
static bool is_unwatched(const struct activity *v, const kernel_record *k, bool timed)
{
	const struct unwatched *u = &v->unwatched;
	bool later = timed && k->start > u->since_ns && (!u->ends || k->start < u->ends_ns);

	return v->started && u->any && k->graphId == 0 && (later || was_left(u, k, timed));
}

/* The first one is noted only, also of a launch that was announced and has its record. */
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

static bool is_in_time(const struct unwatched *u, const kernel_record *k)
{
	return u->until_ns == 0 || (k->start != 0 && k->start <= u->until_ns);
}

/* At the end CUPTI tells of those as well that have not ended or not begun, without a time. The
 * first one of a stream may have run since the last one that has a time. */
static bool is_over(struct unwatched *u, const kernel_record *k)
{
	size_t i = 0;

	if (is_in_time(u, k)) {
		return false;
	}
	while (i < u->n_unended &&
	       (u->unended[i].context != k->contextId || u->unended[i].stream != k->streamId)) {
		i++;
	}
	if (u->is_over || i < u->n_unended || i == UNENDED_MAX) {
		return true;
	}
	u->unended[i].context = k->contextId;
	u->unended[i].stream = k->streamId;
	u->n_unended++;
	return k->start != 0;
}

static void hear(struct heard_span *h, const kernel_record *k)
{
	h->begin_ns = k->start < h->begin_ns ? k->start : h->begin_ns;
	h->end_ns = k->end > h->end_ns ? k->end : h->end_ns;
	h->device = k->deviceId;
}

static void take_unwatched(struct activity *v, const kernel_record *k)
{
	struct launch l = launch_of(k);

	if (is_over(&v->unwatched, k)) {
		return;
	}
	if (l.clock == GPUCTR_CLOCK_GPU) {
		hear(&v->heard, k);
	}
	l.kind = k->launchType == CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE
			 ? GPUCTR_LAUNCH_COOPERATIVE
			 : GPUCTR_LAUNCH_KERNEL;
	if (l.clock == GPUCTR_CLOCK_NONE) {
		l.correlation = 0;
		l.start_ns = clock_wall_ns();
	}
	v->name_kernel(v->userdata, k->name ? k->name : "(unnamed)", &l,
		       (uint32_t)k->staticSharedMemory, k->registersPerThread);
	graphs_add_unwatched(&v->graphs, &l);
}

/* Where launches are not watched nobody else knows of what is dropped. It ran among those of the
 * buffer that were not. Of a buffer that holds records of watched launches too, which are known,
 * how many these were cannot be told. */
void records_note_dropped(struct activity *v, size_t n)
{
	const struct heard_span *h = &v->heard;

	if (h->end_ns > h->begin_ns) {
		v->graphs.counts.beyond += h->is_mixed ? 0 : n;
		v->graphs.counts.dropped += h->is_mixed ? 0 : n;
		records_add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_LOST,
							 .device = h->device,
							 .start_ns = h->begin_ns,
							 .duration_ns = h->end_ns - h->begin_ns });
	}
}

static void count(struct tally *t, const kernel_record *k)
{
	if (k->start < t->since_ns) {
		return;
	}
	t->several = t->several || (t->n > 0 && t->device != k->deviceId);
	t->device = k->deviceId;
	t->begin_ns = t->n == 0 || k->start < t->begin_ns ? k->start : t->begin_ns;
	t->end_ns = k->end > t->end_ns ? k->end : t->end_ns;
	t->busy_ns += k->end - k->start;
	t->n++;
}

/* Has the launch, of a kernel or of a graph as one, its time of this kernel? */
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

/* Of a launch that is expected the time, of a kernel of a graph all, and of one that is not
 * watched; of another one, which a filter has left out, what is known. */
static void take_kernel(struct activity *v, const kernel_record *k)
{
	bool timed = is_timed(k->start, k->end);

	if (is_cuptis(k)) {
		return;
	}
	if (timed) {
		count(&v->tally, k);
	}
	if (take_graph_kernel(v, k)) {
		return;
	}
	if (timed && take_time(v, k)) {
		v->heard.is_mixed = true;
		return;
	}
	if (timed && k->graphId == 0 && is_in_time(&v->unwatched, k)) {
		count_repeated(&v->repeated, k);
	}
	if (is_unwatched(v, k, timed) && (timed || !spans_has(&v->spans, k->correlationId))) {
		take_unwatched(v, k);
	} else if (timed && v->copying) {
		records_add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
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
		records_add_copy(v, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
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
		records_add_copy(v, &copy);
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

/* A launch that was watched, and a graph's, lack it then. */
void records_give_up(struct activity *v, const CUpti_Activity *record)
{
	const kernel_record *k = (const kernel_record *)record;
	bool timed;

	if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || is_cuptis(k)) {
		return;
	}
	timed = is_timed(k->start, k->end);
	v->dropped++;
	if (timed) {
		count(&v->tally, k);
	}
	if (is_unwatched(v, k, timed) && !spans_has(&v->spans, k->correlationId) &&
	    !is_over(&v->unwatched, k)) {
		v->graphs.counts.beyond++;
		v->graphs.counts.dropped++;
		if (timed) {
			hear(&v->heard, k);
		}
	}
}
