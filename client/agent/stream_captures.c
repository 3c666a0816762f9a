/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/stream_captures.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "proto/base/array.h"

void stream_captures_init(struct stream_captures *s)
{
	*s = (struct stream_captures){ 0 };
	lock_init(&s->lock, LOCK_LEAF);
}

void stream_captures_deinit(struct stream_captures *s)
{
	free(s->known);
	s->known = NULL;
	s->n_known = s->max_known = 0;
	lock_deinit(&s->lock);
}

void stream_captures_observe(struct stream_captures *s)
{
	uint64_t none = 0, by_ns;
	struct timespec until;

	if (atomic_load_explicit(&s->has_observed, memory_order_relaxed)) {
		return;
	}
	by_ns = clock_now_ns() + STREAM_CAPTURES_OBSERVE_NS;
	if (!atomic_compare_exchange_strong(&s->observe_by_ns, &none, by_ns)) {
		by_ns = none; /* another thread was first */
	}
	until = clock_timespec(by_ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
	}
	atomic_store(&s->has_observed, true);
}

uint64_t stream_captures_find(const struct profiler *p, CUstream stream, bool *ret_is_capturing)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;

	*ret_is_capturing = p->stream_capture_info(stream, &status, &id) == CUDA_SUCCESS &&
			    status != CU_STREAM_CAPTURE_STATUS_NONE;
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

/* --- with the lock --- */

/* The index of the stream capture; s->n_known: it is unknown. */
static size_t find_id(const struct stream_captures *s, uint64_t id)
{
	size_t i = 0;

	while (i < s->n_known && (id == 0 || s->known[i].id != id)) {
		i++;
	}
	return i;
}

/* The index of the stream capture that began in stream; NULL: of one that began in an unknown
 * stream. */
static size_t find_stream(const struct stream_captures *s, CUstream stream)
{
	size_t i = 0;

	while (i < s->n_known && s->known[i].stream != stream) {
		i++;
	}
	return i;
}

static void add(struct stream_captures *s, const struct stream_capture *of)
{
	if (!array_make_room(&s->known, sizeof(*s->known), s->n_known, &s->max_known)) {
		s->unnamed++;
		return;
	}
	s->known[s->n_known] = *of;
	s->known[s->n_known++].number = ++s->last_number;
}

static void forget(struct stream_captures *s, size_t i)
{
	s->known[i] = s->known[--s->n_known];
	atomic_fetch_sub(&s->n, 1);
}

/* --- beginnings and ends --- */

bool stream_captures_begin(struct stream_captures *s)
{
	return atomic_fetch_add(&s->n, 1) == 0;
}

void stream_captures_began(struct stream_captures *s, const struct stream_capture *of, bool success,
			   bool counted)
{
	size_t i;

	if (!success) {
		atomic_fetch_sub(&s->n, counted);
		return;
	}
	LOCK_SCOPE(&s->lock);
	i = find_id(s, of->id);
	if (i < s->n_known) { /* a launch into it was noted first */
		s->known[i].stream = of->stream;
		atomic_fetch_sub(&s->n, counted);
	} else {
		add(s, of);
		atomic_fetch_add(&s->n, !counted);
	}
}

void stream_captures_meet(struct stream_captures *s, const struct stream_capture *of)
{
	size_t i;

	LOCK_SCOPE(&s->lock);
	i = find_id(s, of->id);
	if (i < s->n_known) {
		s->known[i].met = s->known[i].met == of->stream ? of->stream : NULL;
	} else if (of->id != 0) {
		add(s, &(struct stream_capture){
			       .id = of->id, .context = of->context, .met = of->stream });
		atomic_fetch_add(&s->n, 1);
	}
}

/* An invalidated stream capture has no id any more. This finds it by the stream in which it began,
 * or, if seen, takes one that began in an unknown stream. */
static size_t find_ended(const struct stream_captures *s, CUstream stream, uint64_t id, bool seen)
{
	size_t i = find_id(s, id);

	if (id == 0) {
		i = find_stream(s, stream);
		i = i < s->n_known || !seen ? i : find_stream(s, NULL);
	}
	return i;
}

void stream_captures_ended(struct stream_captures *s, CUstream stream, uint64_t id, bool seen)
{
	size_t i;

	LOCK_SCOPE(&s->lock);
	i = find_ended(s, stream, id, seen);
	if (i < s->n_known) {
		forget(s, i);
	} else if (seen && s->unnamed > 0) {
		s->unnamed--;
		atomic_fetch_sub(&s->n, 1);
	}
}

/* A stream that only joined a stream capture does not end it when destroyed. If the stream in which
 * it began is unknown, the only stream in which a launch met it counts as that. */
uint32_t stream_captures_find_in(struct stream_captures *s, CUstream stream, uint64_t id)
{
	const struct stream_capture *k;
	size_t i;

	LOCK_SCOPE(&s->lock);
	i = find_id(s, id);
	i = i < s->n_known ? i : find_stream(s, stream);
	k = i < s->n_known ? &s->known[i] : NULL;
	return k && stream && (k->stream ? k->stream : k->met) == stream ? k->number : 0;
}

void stream_captures_destroyed(struct stream_captures *s, uint32_t number)
{
	LOCK_SCOPE(&s->lock);
	for (size_t i = 0; i < s->n_known; i++) {
		if (s->known[i].number == number) {
			forget(s, i);
			break;
		}
	}
}

void stream_captures_end_context(struct stream_captures *s, CUcontext context)
{
	LOCK_SCOPE(&s->lock);
	for (size_t i = s->n_known; i-- > 0;) {
		if (s->known[i].context == context) {
			forget(s, i);
		}
	}
}
