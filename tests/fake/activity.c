/* SPDX-License-Identifier: Apache-2.0 */
/* The fake profiler library: activity records of kernels and graphs.
 *
 * A kernel's own time is 800 ns less than that of a range around it, which holds markers as well;
 * kernels of one graph are 100 ns apart. Each user range brings a record of the library's own
 * kernel, WaitNs, with a correlation id that no launch has.
 *
 * Records gather in one of the user's buffers. A buffer is given back when it is full or flushed,
 * and in both cases only when all its records are complete, GPUCTR_FAKE_ACTIVITY_LATE_MS after they
 * were made. A forced flush gives back incomplete records without times, and for half a second this
 * library still reads in the buffers that it gave back: whoever has freed one ends by a signal, and
 * to hand one in again is a violation. Any flush waits for the kernels of ranges that were closed.
 * Every GPUCTR_FAKE_ACTIVITY_DROP-th record is dropped. With GPUCTR_FAKE_ACTIVITY_REVERSED a buffer
 * holds its last record first, because the order of records says nothing of the order of launches.
 */

#include "tests/fake/left.h"
#include "tests/fake/profiler.h"
#include "tests/fake/state.h"

#include <cupti_activity.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_NS = 40500, MAX_FULL = 64, MAX_RECORD = 256, MAX_FORCED = 16, FORCED_NS = 500000000 };

struct buffer {
	uint8_t *data;
	size_t size, used;
	uint64_t complete_ns; /* when all of its records are complete */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static _Atomic bool has_kernels, has_graphs;
static struct buffer filling, full[MAX_FULL];
static struct buffer forced_out[MAX_FORCED]; /* complete_ns: no longer read in from then on */
static size_t n_full, n_dropped, n_forced;
static _Atomic bool reads_on;
static uint64_t n_records;
static _Atomic uint32_t n_waits;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t late_ns, drop;
static bool reversed, nodes_untold;

static void read_environment(void)
{
	const char *late = getenv("GPUCTR_FAKE_ACTIVITY_LATE_MS");
	const char *every = getenv("GPUCTR_FAKE_ACTIVITY_DROP");

	late_ns = late ? strtoull(late, NULL, 10) * 1000000 : 0;
	drop = every ? strtoull(every, NULL, 10) : 0;
	reversed = getenv("GPUCTR_FAKE_ACTIVITY_REVERSED") != NULL;
	nodes_untold = getenv("GPUCTR_FAKE_NODES_UNTOLD") != NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static size_t size_of(CUpti_ActivityKind kind)
{
	return kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE ? sizeof(CUpti_ActivityGraphTrace)
						       : sizeof(CUpti_ActivityKernel9);
}

/* --- giving back --- */

/* The caller holds the lock. */
static bool is_due(const struct buffer *b, bool forced)
{
	return b->used > 0 && (forced || now_ns() >= b->complete_ns);
}

static bool is_incomplete(uint64_t end_ns)
{
	return now_ns() < end_ns + late_ns;
}

/* Incomplete records have no times. */
static void clear_times(const struct buffer *b)
{
	for (size_t at = 0; at < b->used;) {
		CUpti_Activity *record = (CUpti_Activity *)(b->data + at);
		CUpti_ActivityGraphTrace *g = (CUpti_ActivityGraphTrace *)record;
		CUpti_ActivityKernel9 *k = (CUpti_ActivityKernel9 *)record;

		if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
			if (is_incomplete(g->end)) {
				g->start = g->end = 0;
			}
		} else if (is_incomplete(k->end)) {
			k->start = k->end = 0;
		}
		at += size_of(record->kind);
	}
}

/* Puts the last record first. */
static void reverse(const struct buffer *b)
{
	uint8_t *copy = malloc(b->used);

	if (!copy) {
		abort();
	}
	memcpy(copy, b->data, b->used);
	for (size_t at = 0, size; at < b->used; at += size) {
		size = size_of(((const CUpti_Activity *)(copy + at))->kind);
		memcpy(b->data + b->used - at - size, copy + at, size);
	}
	free(copy);
}

static bool take_due(bool with_filling, bool forced, struct buffer *ret)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_full && !found; i++) {
		if (is_due(&full[i], forced)) {
			*ret = full[i];
			full[i] = full[--n_full];
			found = true;
		}
	}
	if (!found && with_filling && is_due(&filling, forced)) {
		*ret = filling;
		filling = (struct buffer){ 0 };
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void read_on(const struct buffer *given_back)
{
	pthread_mutex_lock(&lock);
	forced_out[n_forced] = *given_back;
	forced_out[n_forced].complete_ns = now_ns() + FORCED_NS;
	n_forced = (n_forced + 1) % MAX_FORCED;
	atomic_store(&reads_on, true);
	pthread_mutex_unlock(&lock);
}

static void read_in_forced_out(void)
{
	bool any = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MAX_FORCED; i++) {
		struct buffer *b = &forced_out[i];

		if (b->data && now_ns() < b->complete_ns) {
			(void)*(volatile uint8_t *)(b->data + b->used - 1);
			any = true;
		}
	}
	atomic_store(&reads_on, any);
	pthread_mutex_unlock(&lock);
}

/* The caller holds the lock. */
static void check_new(const uint8_t *data)
{
	for (size_t i = 0; i < MAX_FORCED; i++) {
		if (data && forced_out[i].data == data && now_ns() < forced_out[i].complete_ns) {
			fake_violation("an activity buffer that was forced out is used again");
		}
	}
}

static void give_back(bool with_filling, bool forced)
{
	struct buffer b;

	while (take_due(with_filling, forced, &b)) {
		if (now_ns() < b.complete_ns) {
			clear_times(&b);
		}
		if (reversed) {
			reverse(&b);
		}
		if (forced) {
			read_on(&b);
		}
		complete(NULL, 0, b.data, b.size, b.used);
		left_count(LEFT_BUFFERS, -1);
	}
}

/* --- records --- */

/* The caller holds the lock, even while the user is asked for a buffer: otherwise two threads would
 * each get one. */
static bool has_room(void)
{
	size_t max_records = 0;

	if (filling.data && filling.used + MAX_RECORD <= filling.size) {
		return true;
	}
	if (filling.data && n_full == MAX_FULL) {
		return false;
	}
	if (filling.data) {
		full[n_full++] = filling;
		filling = (struct buffer){ 0 };
	}
	request(&filling.data, &filling.size, &max_records);
	check_new(filling.data);
	left_count(LEFT_BUFFERS, filling.data != NULL);
	return filling.data != NULL;
}

static void add(const void *record, size_t size)
{
	pthread_mutex_lock(&lock);
	if ((drop > 0 && ++n_records % drop == 0) || !has_room()) {
		n_dropped++;
	} else {
		memcpy(filling.data + filling.used, record, size);
		filling.used += size;
		filling.complete_ns = now_ns() + late_ns;
	}
	pthread_mutex_unlock(&lock);
	give_back(false, false);
}

static void add_kernel(CUpti_ActivityKernel9 *k, uint64_t begin_ns, uint64_t ns)
{
	k->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
	k->start = begin_ns;
	k->end = begin_ns + ns;
	add(k, sizeof(*k));
}

static void set_shape(CUpti_ActivityKernel9 *k, const struct fake_shape *s)
{
	k->gridX = (int32_t)s->grid[0];
	k->gridY = (int32_t)s->grid[1];
	k->gridZ = (int32_t)s->grid[2];
	k->blockX = (int32_t)s->block[0];
	k->blockY = (int32_t)s->block[1];
	k->blockZ = (int32_t)s->block[2];
	k->dynamicSharedMemory = (int32_t)s->dynamic_shared;
	k->staticSharedMemory = s->static_shared;
	k->registersPerThread = (uint16_t)s->registers;
}

static uint64_t own_ns(const struct fake_work *work)
{
	return work->time_ns - work->kernels * FAKE_MARKERS_NS;
}

/* The number of a node holds that of its graph, as on an H100. */
static void add_nodes(const CUpti_ActivityKernel9 *of_all, const struct fake_run *run)
{
	uint64_t at_ns = run->begin_ns;

	for (size_t i = 0; i < run->graph->n; i++) {
		const struct fake_node *node = &run->graph->nodes[i];
		CUpti_ActivityKernel9 k = *of_all;
		uint64_t ns = own_ns(&node->work);

		k.name = node->name;
		k.graphId = run->graph->id;
		k.graphNodeId = (uint64_t)run->graph->id << 32 | i;
		set_shape(&k, &node->shape);
		add_kernel(&k, at_ns, ns);
		at_ns += ns + FAKE_GAP_NS;
	}
}

void activity_executed(CUcontext context, const struct fake_run *run)
{
	CUpti_ActivityKernel9 k = { .correlationId = run->correlation, .streamId = run->stream };
	uint64_t n = run->work.kernels;
	int gpu;

	if (atomic_load(&reads_on)) {
		read_in_forced_out();
	}
	if (!atomic_load(&has_kernels) || n == 0) { /* a fill is no kernel */
		return;
	}
	call_driver()->context_find(context, &gpu, &k.contextId);
	k.deviceId = (uint32_t)call_driver()->context_device(context);
	if (run->graph && atomic_load(&has_graphs)) {
		CUpti_ActivityGraphTrace g = {
			.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
			.correlationId = run->correlation,
			.start = run->begin_ns,
			.end = run->begin_ns + own_ns(&run->work) + (n - 1) * FAKE_GAP_NS,
			.deviceId = k.deviceId,
			.graphId = run->graph->id,
			.contextId = k.contextId,
			.streamId = run->stream,
		};

		add(&g, sizeof(g));
	} else if (run->graph) {
		if (!nodes_untold) {
			add_nodes(&k, run);
		}
	} else {
		k.name = run->symbol;
		k.correlationId = callback_name(run->correlation);
		set_shape(&k, &run->shape);
		add_kernel(&k, run->begin_ns, own_ns(&run->work));
	}
}

bool activity_traces_kernels(void)
{
	return atomic_load(&has_kernels);
}

void activity_range_began(void)
{
	if (atomic_load(&has_kernels)) {
		CUpti_ActivityKernel9 k = {
			.correlationId = 0x40000000 + atomic_fetch_add(&n_waits, 1),
			.name = "WaitNs",
		};

		add_kernel(&k, now_ns(), WAIT_NS);
	}
}

/* --- the interface --- */

#pragma GCC visibility push(default)

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc on_request,
					   CUpti_BuffersCallbackCompleteFunc on_complete)
{
	CUptiResult r = call_begin("cuptiActivityRegisterCallbacks");

	if (r != CUPTI_SUCCESS) {
		return r;
	}
	if (!on_request || !on_complete) {
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
	pthread_once(&once, read_environment);
	request = on_request;
	complete = on_complete;
	return CUPTI_SUCCESS;
}

static CUptiResult set_kind(CUpti_ActivityKind kind, bool on)
{
	_Atomic bool *state = kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? &has_kernels
			      : kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE	    ? &has_graphs
									    : NULL;

	if (!request || !state) {
		return request ? CUPTI_ERROR_INVALID_KIND : CUPTI_ERROR_INVALID_OPERATION;
	}
	left_count(LEFT_ACTIVITIES, (int)on - (int)atomic_exchange(state, on));
	return CUPTI_SUCCESS;
}

static CUptiResult turn_kind(CUpti_ActivityKind kind, bool on)
{
	CUptiResult r;

	if (kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
		return set_kind(kind, on);
	}
	callback_turn_tracing(true);
	r = set_kind(kind, on);
	callback_turn_tracing(false);
	return r;
}

/* The fakes keep no times on the device. */
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute which, size_t *size, void *value)
{
	CUptiResult r = call_begin("cuptiActivitySetAttribute");
	bool known = which == CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED && size &&
		     *size == sizeof(uint8_t) && value;

	return r != CUPTI_SUCCESS ? r : known ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	CUptiResult r = call_begin("cuptiActivityEnable");

	call_driver(); /* which tells of launches from now on, also without a subscriber */
	return r != CUPTI_SUCCESS ? r : turn_kind(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	CUptiResult r = call_begin("cuptiActivityDisable");

	return r != CUPTI_SUCCESS ? r : turn_kind(kind, false);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	CUptiResult r = call_begin("cuptiActivityFlushAll");

	if (r != CUPTI_SUCCESS || !complete) { /* no error where nobody has registered */
		return r;
	}
	if (call_driver()) {
		call_driver()->wait_barriers();
	}
	give_back(true, (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + size_of((*record)->kind) : buffer;

	if (next >= buffer + valid) {
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	}
	*record = (CUpti_Activity *)next;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *ret)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&lock);
	*ret = n_dropped;
	n_dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

#pragma GCC visibility pop
