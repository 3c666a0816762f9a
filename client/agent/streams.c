/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/streams.h"

#include <stdint.h>
#include <stdlib.h>

/* CUPTI's callbacks report each stream that the program makes; launches show default streams.
 *
 * cuStreamQuery() gives the GPU nothing to do, but costs 0.2 to 1.4 us, and a PyTorch program has
 * 128 streams of which it uses one or two. So the agent queries only streams that were given work
 * since they were seen idle. For launches and the commonest copies and fills the agent knows which
 * stream got the work; after any other work (a wait for a value, a host function) it queries all
 * streams once. A wait for an event counts as work of the stream that waits, because the event may
 * belong to another context, whose streams are not queried.
 *
 * Most launches go into the same stream as the launch before. While no thread has queried that
 * stream, a further launch into it takes no lock (touched). A thread that queries the streams first
 * clears touched, so a launch that took no lock was made before the query, which sees it.
 *
 * The driver reports a new stream while it holds a lock that cuStreamQuery() waits for (on an H200
 * all threads of a program hung). So the callback takes no lock that another thread may hold over
 * such a call: it adds a note to a list, and the next thread that has the lock reads the list.
 *
 * An event behind all work of the context (cuCtxRecordEvent, since CUDA 12.5) would need no list,
 * but costs each range 13 us on the GPU (H200, driver 580.159) and invalidates stream captures. The
 * agent uses it only if it cannot query a stream by its handle: for default streams of other
 * threads, and, when all other streams are idle, for streams that were made before a late capture,
 * until their earlier work has ended. A kernel that keeps running there would make Start wait,
 * which invalidates stream captures as well. */

void streams_init(struct streams *s)
{
	*s = (struct streams){ 0 };
	lock_init(&s->lock, LOCK_PART);
	atomic_init(&s->unknown, true); /* work may have been given before the capture */
}

static struct stream_note *take_notes(struct streams *s)
{
	struct stream_note *n = atomic_exchange(&s->notes, NULL), *first = NULL;

	while (n) { /* puts the oldest note first */
		struct stream_note *before = n->next;

		n->next = first;
		first = n;
		n = before;
	}
	return first;
}

static void read_note(struct streams *s, const struct stream_note *n);

/* Holds the lock to the end of the block, after processing all notes. */
#define STREAMS_SCOPE(s)        \
	LOCK_SCOPE(&(s)->lock); \
	read_notes(s)

static void read_notes(struct streams *s)
{
	struct stream_note *n = take_notes(s);

	while (n) {
		struct stream_note *next = n->next;

		read_note(s, n);
		free(n);
		n = next;
	}
	s->incomplete = s->incomplete || atomic_load(&s->unnoted);
}

void streams_note(struct streams *s, CUstream stream, bool ended)
{
	struct stream_note *n = malloc(sizeof(*n));

	if (!n) {
		atomic_store(&s->unnoted, true);
		return;
	}
	*n = (struct stream_note){ atomic_load(&s->notes), stream, ended };
	while (!atomic_compare_exchange_weak(&s->notes, &n->next, n)) {
	}
}

void streams_deinit(struct streams *s)
{
	STREAMS_SCOPE(s);
	atomic_store(&s->unnoted, false);
	free(s->v);
	s->v = NULL;
	s->n = s->room = s->n_busy = 0;
	atomic_store(&s->touched, NULL);
	s->incomplete = s->per_thread = s->asked = s->settled = false;
	s->anything = NULL;
}

CUstream streams_normal(CUstream stream, bool per_thread)
{
	if (stream) {
		return stream;
	}
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static size_t find(const struct streams *s, CUstream stream)
{
	size_t i = 0;

	while (i < s->n && s->v[i] != stream) {
		i++;
	}
	return i;
}

static bool make_room(struct streams *s)
{
	size_t room = s->room ? s->room * 2 : 16;
	CUstream *v;

	if (s->n < s->room) {
		return true;
	}
	v = room <= STREAMS_MAX ? realloc(s->v, room * sizeof(CUstream)) : NULL;
	if (!v) {
		return false;
	}
	s->v = v;
	s->room = room;
	return true;
}

static void swap(struct streams *s, size_t i, size_t k)
{
	CUstream stream = s->v[i];

	s->v[i] = s->v[k];
	s->v[k] = stream;
}

/* The stream's index; s->n: there is no room. */
static size_t add(struct streams *s, CUstream stream)
{
	size_t i = find(s, stream);

	if (i < s->n) {
		return i;
	}
	if (stream == CU_STREAM_PER_THREAD) {
		s->per_thread = true;
	} else if (make_room(s)) {
		s->v[s->n++] = stream;
		return i;
	} else {
		s->incomplete = true;
	}
	return s->n;
}

void streams_add(struct streams *s, CUstream stream)
{
	STREAMS_SCOPE(s);
	add(s, stream);
}

void streams_touch(struct streams *s, CUstream stream)
{
	size_t i;

	atomic_fetch_add(&s->given, 1);
	if (atomic_load(&s->touched) == stream) {
		return;
	}
	STREAMS_SCOPE(s);
	i = add(s, stream);
	if (i < s->n && i >= s->n_busy) {
		swap(s, i, s->n_busy++);
	}
	atomic_store(&s->touched, i < s->n ? stream : NULL);
}

/* The legacy default stream, which no call creates, may have got the work, so it is added. */
void streams_touch_any(struct streams *s)
{
	streams_add(s, CU_STREAM_LEGACY);
	atomic_fetch_add(&s->given, 1);
	atomic_store(&s->unknown, true);
}

static void take_out(struct streams *s, CUstream stream)
{
	size_t i = find(s, stream);

	atomic_store(&s->touched, NULL);
	if (i < s->n_busy) {
		swap(s, i, --s->n_busy);
		i = s->n_busy;
	}
	if (i < s->n) {
		swap(s, i, --s->n);
	}
}

static void read_note(struct streams *s, const struct stream_note *n)
{
	if (n->ended) {
		take_out(s, n->stream);
	} else {
		add(s, n->stream);
	}
}

void streams_remove(struct streams *s, CUstream stream)
{
	STREAMS_SCOPE(s);
	take_out(s, stream);
}

bool streams_has_others(struct streams *s, CUstream stream)
{
	STREAMS_SCOPE(s);
	return s->late || s->per_thread || s->incomplete || s->n > 1 ||
	       (s->n == 1 && s->v[0] != stream);
}

void streams_give_back(struct streams *s, const struct profiler *p)
{
	STREAMS_SCOPE(s);
	if (s->anything) {
		p->cuEventDestroy(s->anything);
	}
	s->anything = NULL;
	s->asked = false;
}

static bool is_idle(const struct profiler *p, CUstream stream)
{
	/* After an error the context executes nothing any more, so it counts as idle; its calls
	 * report the error to the program. */
	return p->cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
}

/* With the lock held. Records a new event only when the last one has completed. */
static bool context_is_idle(struct streams *s, const struct profiler *p, CUcontext context)
{
	if (!s->anything &&
	    p->cuEventCreate(&s->anything, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		s->anything = NULL;
		return false;
	}
	if (s->asked) {
		if (p->cuEventQuery(s->anything) == CUDA_ERROR_NOT_READY) {
			return false;
		}
		if (s->asked_at == atomic_load(&s->given)) {
			return true;
		}
	}
	s->asked_at = atomic_load(&s->given);
	s->asked = p->cuCtxRecordEvent(context, s->anything) == CUDA_SUCCESS;
	return s->asked && p->cuEventQuery(s->anything) == CUDA_SUCCESS;
}

/* With the lock held. Queries the busy streams; those that have finished are idle until they get
 * work again. */
static void look(struct streams *s, const struct profiler *p)
{
	atomic_store(&s->touched, NULL);
	if (atomic_exchange(&s->unknown, false)) {
		s->n_busy = s->n;
	}
	for (size_t i = 0; i < s->n_busy;) {
		if (is_idle(p, s->v[i])) {
			swap(s, i, --s->n_busy);
		} else {
			i++;
		}
	}
}

bool streams_is_idle(struct streams *s, const struct profiler *p, CUcontext context,
		     CUstream stream)
{
	STREAMS_SCOPE(s);
	return find(s, stream) < s->n ? is_idle(p, stream) : context_is_idle(s, p, context);
}

bool streams_are_idle(struct streams *s, const struct profiler *p, CUcontext context,
		      CUstream except)
{
	bool idle;

	STREAMS_SCOPE(s);
	if (s->per_thread || s->incomplete) {
		idle = context_is_idle(s, p, context);
	} else {
		look(s, p);
		idle = s->n_busy == 0 || (s->n_busy == 1 && s->v[0] == except);
		if (idle && s->late && !s->settled && !except) {
			s->settled = idle = context_is_idle(s, p, context);
		}
	}
	return idle;
}

size_t streams_count_busy(struct streams *s)
{
	STREAMS_SCOPE(s);
	return s->per_thread || s->incomplete ? SIZE_MAX : s->n_busy;
}

bool streams_record(struct streams *s, const struct profiler *p, CUcontext context, CUstream stream,
		    CUevent event)
{
	CUresult result;

	/* Not into the legacy stream, which waits for most other streams, as they wait for it. */
	STREAMS_SCOPE(s);
	result = stream != CU_STREAM_LEGACY && find(s, stream) < s->n
			 ? p->cuEventRecord(event, stream)
			 : p->cuCtxRecordEvent(context, event);
	return result == CUDA_SUCCESS;
}
