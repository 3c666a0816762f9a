/* SPDX-License-Identifier: Apache-2.0 */

/* yajl reads the trace piece by piece and tells where each token ends, so a gigabyte needs memory
 * for its kernels, launches and operators alone. Events are the objects in the list "traceEvents",
 * or in the list that is the whole file. */

#include "client/report/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "proto/base/array.h"
#include "proto/base/json.h"

enum { PIECE_BYTES = 256 * 1024, MAX_DEPTH = 1000 };

enum field {
	FIELD_OTHER,
	FIELD_CATEGORY,
	FIELD_NAME,
	FIELD_BEGIN,
	FIELD_DURATION,
	FIELD_PID,
	FIELD_TID,
	FIELD_ARGS,
};

enum category { OF_OTHER, OF_KERNEL, OF_LAUNCH, OF_OP, OF_RANGE };

/* What its fields have said so far. */
struct event {
	enum category category;
	double begin, us;
	uint64_t correlation, at, args_at;
	unsigned device;
	bool has_name, has_args, has_begin, has_duration, empty;
};

struct reading {
	struct trace *trace;
	yajl_handle yajl;
	uint64_t piece_at; /* offset of the piece that is read */
	unsigned depth;	   /* of open objects and lists */
	unsigned events;   /* depth of the list of events; 0: not in it */
	size_t n_before;   /* launches in the lists that have ended */
	bool events_next;  /* the value that follows is that list */
	enum field field;  /* of the event, whose value follows */
	bool in_args, is_correlation, is_device;
	struct event event;
	struct buf name, pid, tid, thread; /* of the event; ids as JSON */
	int error;
};

uint64_t trace_hash(const char *name, size_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++) {
		if (name[i] != ' ') {
			hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
		}
	}
	return hash;
}

static bool is_text(const unsigned char *text, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(text, what, n) == 0;
}

/* --- events ---------------------------------------------------------------------------------- */

/* Room for one more of size bytes. NULL: out of memory. */
static void *add_item(struct reading *r, void **items, size_t *n, size_t *max, size_t size)
{
	if (!array_make_room(items, size, *n, max)) {
		r->error = -ENOMEM;
		return NULL;
	}
	return (char *)*items + (*n)++ * size;
}

static const char *intern(struct reading *r, struct buf *b)
{
	const char *text = b->failed ? NULL : texts_add(&r->trace->texts, buf_string(b), b->n);

	r->error = text ? r->error : -ENOMEM;
	return text;
}

static const char *intern_thread(struct reading *r)
{
	buf_clear(&r->thread);
	buf_printf(&r->thread, "\"pid\":%s,\"tid\":%s", r->pid.n ? buf_string(&r->pid) : "0",
		   r->tid.n ? buf_string(&r->tid) : "0");
	return intern(r, &r->thread);
}

static int add_kernel(struct reading *r)
{
	struct trace *t = r->trace;
	const struct event *e = &r->event;
	const char *text = intern(r, &r->name);
	struct trace_kernel *k =
		text ? add_item(r, (void **)&t->kernels, &t->n, &t->max, sizeof(*k)) : NULL;

	if (!k) {
		return 0;
	}
	*k = (struct trace_kernel){ .name = trace_hash(r->name.data, r->name.n),
				    .text = text,
				    .correlation = e->correlation,
				    .at = e->args_at,
				    .us = e->us,
				    .device = e->device,
				    .empty = e->empty };
	return 1;
}

static int add_launch(struct reading *r)
{
	struct trace *t = r->trace;
	const struct event *e = &r->event;
	const char *thread = intern_thread(r);
	struct trace_launch *l = thread ? add_item(r, (void **)&t->launches, &t->n_launches,
						   &t->max_launches, sizeof(*l))
					: NULL;

	if (!l) {
		return 0;
	}
	*l = (struct trace_launch){ .begin = e->begin,
				    .us = e->us,
				    .correlation = e->correlation,
				    .at = e->at,
				    .thread = thread };
	return 1;
}

/* Most are within the one before them. */
static int add_op(struct reading *r)
{
	struct trace *t = r->trace;
	const struct event *e = &r->event;
	const char *thread = intern_thread(r);
	const struct trace_op *last = t->n_ops > 0 ? &t->ops[t->n_ops - 1] : NULL;
	struct trace_op *op;

	if (thread && last && last->thread == thread && e->begin >= last->begin &&
	    e->begin + e->us <= last->end) {
		return 1;
	}
	op = thread ? add_item(r, (void **)&t->ops, &t->n_ops, &t->max_ops, sizeof(*op)) : NULL;
	if (!op) {
		return 0;
	}
	*op = (struct trace_op){ e->begin, e->begin + e->us, thread };
	return 1;
}

static int add_range(struct reading *r)
{
	struct trace *t = r->trace;
	const struct event *e = &r->event;
	struct trace_range *range =
		add_item(r, (void **)&t->ranges, &t->n_ranges, &t->max_ranges, sizeof(*range));

	if (!range) {
		return 0;
	}
	*range = (struct trace_range){ .begin = e->begin, .at = e->args_at, .empty = e->empty };
	return 1;
}

/* Those whose name begins so are what HTA pairs with ranges. */
static bool is_launch(const struct reading *r)
{
	static const char prefix[] = "cudaLaunchKernel";

	return r->name.n >= sizeof(prefix) - 1 &&
	       memcmp(r->name.data, prefix, sizeof(prefix) - 1) == 0;
}

static int add_event(struct reading *r)
{
	const struct event *e = &r->event;
	bool is_span = e->has_name && e->has_begin && e->has_duration;

	switch (e->category) {
	case OF_KERNEL:
		return e->has_name && e->has_args ? add_kernel(r) : 1;
	case OF_LAUNCH:
		return is_span && is_launch(r) ? add_launch(r) : 1;
	case OF_OP:
		return is_span ? add_op(r) : 1;
	case OF_RANGE:
		return is_span && e->has_args ? add_range(r) : 1;
	case OF_OTHER:
		break;
	}
	return 1;
}

static bool in_event(const struct reading *r)
{
	return r->events > 0 && r->depth == r->events + 1;
}

static int enter(struct reading *r)
{
	r->depth++;
	if (r->depth > MAX_DEPTH) {
		r->error = -EINVAL;
		return 0;
	}
	return 1;
}

/* The offset of the character that was read last. */
static uint64_t offset(const struct reading *r)
{
	return r->piece_at + yajl_get_bytes_consumed(r->yajl) - 1;
}

static int on_start_map(void *context)
{
	struct reading *r = context;
	bool args = in_event(r) && r->field == FIELD_ARGS;

	if (!enter(r)) {
		return 0;
	}
	r->events_next = false;
	if (in_event(r)) {
		r->in_args = false;
		r->event = (struct event){ .at = offset(r) };
		buf_clear(&r->pid);
		buf_clear(&r->tid);
	}
	if (args) {
		r->in_args = true;
		r->event.empty = true;
	}
	return 1;
}

static enum field find_field(const unsigned char *key, size_t n)
{
	static const char *const names[] = {
		[FIELD_CATEGORY] = "cat", [FIELD_NAME] = "name", [FIELD_BEGIN] = "ts",
		[FIELD_DURATION] = "dur", [FIELD_PID] = "pid",	 [FIELD_TID] = "tid",
		[FIELD_ARGS] = "args",
	};

	for (enum field f = FIELD_CATEGORY; f <= FIELD_ARGS; f++) {
		if (is_text(key, n, names[f])) {
			return f;
		}
	}
	return FIELD_OTHER;
}

static int on_key(void *context, const unsigned char *key, size_t n)
{
	struct reading *r = context;

	if (in_event(r)) {
		r->field = find_field(key, n);
	} else if (r->in_args && r->depth == r->events + 2) {
		r->event.empty = false;
		r->is_correlation = is_text(key, n, "correlation");
		r->is_device = is_text(key, n, "device");
	} else if (r->depth == 1) {
		r->events_next = is_text(key, n, "traceEvents");
	}
	return 1;
}

static int on_end_map(void *context)
{
	struct reading *r = context;
	bool event = in_event(r);

	if (r->in_args && r->depth == r->events + 2) {
		r->event.args_at = offset(r);
		r->event.has_args = true;
		r->in_args = false;
	}
	r->depth--;
	return event ? add_event(r) : 1;
}

static int on_start_array(void *context)
{
	struct reading *r = context;
	bool first = r->depth == 0;

	if (!enter(r)) {
		return 0;
	}
	if (r->events == 0 && (first || r->events_next)) {
		r->events = r->depth;
	}
	r->events_next = false;
	return 1;
}

static int on_end_array(void *context)
{
	struct reading *r = context;

	if (r->events == r->depth) {
		r->events = 0;
		/* Remembers the end of a list that has a launch. Into an empty list nothing could
		 * be inserted after a comma. */
		r->trace->end = r->trace->n_launches > r->n_before ? offset(r) : r->trace->end;
		r->n_before = r->trace->n_launches;
	}
	r->depth--;
	return 1;
}

static enum category find_category(const unsigned char *text, size_t n)
{
	return is_text(text, n, "kernel")		 ? OF_KERNEL
	       : is_text(text, n, "cuda_runtime")	 ? OF_LAUNCH
	       : is_text(text, n, "cpu_op")		 ? OF_OP
	       : is_text(text, n, "cuda_profiler_range") ? OF_RANGE
							 : OF_OTHER;
}

static void set_id(struct buf *b, const void *text, size_t n, const char *quote)
{
	buf_clear(b);
	buf_text(b, quote);
	json_string_part(b, text, n);
	buf_text(b, quote);
}

static int on_string(void *context, const unsigned char *text, size_t n)
{
	struct reading *r = context;

	if (!in_event(r)) {
		return 1;
	}
	if (r->field == FIELD_CATEGORY) {
		r->event.category = find_category(text, n);
	} else if (r->field == FIELD_NAME) {
		buf_clear(&r->name);
		buf_add(&r->name, (const char *)text, n);
		r->event.has_name = true;
	} else if (r->field == FIELD_PID || r->field == FIELD_TID) {
		set_id(r->field == FIELD_PID ? &r->pid : &r->tid, text, n, "\"");
	}
	return 1;
}

/* yajl ends a number at the right byte, and the byte after it cannot continue the number for
 * strtod(). */
static void take_number(struct reading *r, const char *text, size_t n)
{
	double value = strtod(text, NULL);

	switch (r->field) {
	case FIELD_BEGIN:
		r->event.begin = value;
		r->event.has_begin = isfinite(value);
		break;
	case FIELD_DURATION:
		r->event.us = value;
		r->event.has_duration = isfinite(value);
		break;
	case FIELD_PID:
	case FIELD_TID:
		set_id(r->field == FIELD_PID ? &r->pid : &r->tid, text, n, "");
		break;
	default:
		break;
	}
}

static int on_number(void *context, const char *text, size_t n)
{
	struct reading *r = context;

	if (in_event(r)) {
		take_number(r, text, n);
	} else if (r->in_args && r->depth == r->events + 2 && r->is_correlation) {
		r->event.correlation = strtoull(text, NULL, 10);
	} else if (r->in_args && r->depth == r->events + 2 && r->is_device) {
		r->event.device = (unsigned)strtoul(text, NULL, 10);
	}
	return 1;
}

/* --- the file -------------------------------------------------------------------------------- */

static int refuse(struct reading *r, yajl_status status, struct buf *why)
{
	if (status != yajl_status_ok && r->error == 0) {
		buf_printf(why, "it is not whole JSON: the error is at or before byte %llu",
			   (unsigned long long)(r->piece_at + yajl_get_bytes_consumed(r->yajl)));
		return -EINVAL;
	}
	if (r->error == -EINVAL) {
		buf_text(why, "it is nested too deeply");
	}
	return r->error;
}

static int read_pieces(struct reading *r, struct trace_text *text, unsigned char *piece,
		       struct buf *why)
{
	yajl_status status = yajl_status_ok;
	int64_t n;

	while ((n = trace_next(text, piece, PIECE_BYTES)) > 0) {
		status = yajl_parse(r->yajl, piece, (size_t)n);
		if (status != yajl_status_ok) {
			return refuse(r, status, why);
		}
		r->piece_at += (uint64_t)n;
	}
	if (n == -EBADMSG) {
		buf_text(why, "it is compressed, and damaged or not whole");
		return -EINVAL;
	}
	if (n < 0) {
		return (int)n;
	}
	r->trace->bytes = r->piece_at;
	return refuse(r, yajl_complete_parse(r->yajl), why);
}

static void reading_deinit(struct reading *r)
{
	if (r->yajl) {
		yajl_free(r->yajl);
	}
	buf_deinit(&r->name);
	buf_deinit(&r->pid);
	buf_deinit(&r->tid);
	buf_deinit(&r->thread);
}

int trace_read(struct trace *t, struct trace_text *text, struct buf *why)
{
	static const yajl_callbacks callbacks = { .yajl_number = on_number,
						  .yajl_string = on_string,
						  .yajl_start_map = on_start_map,
						  .yajl_map_key = on_key,
						  .yajl_end_map = on_end_map,
						  .yajl_start_array = on_start_array,
						  .yajl_end_array = on_end_array };
	struct reading r = { .trace = t };
	unsigned char *piece = malloc(PIECE_BYTES);
	int result = -ENOMEM;

	*t = (struct trace){ 0 };
	r.yajl = yajl_alloc(&callbacks, NULL, &r);
	if (r.yajl && piece) {
		yajl_config(r.yajl, yajl_dont_validate_strings, 1);
		result = read_pieces(&r, text, piece, why);
	}
	reading_deinit(&r);
	free(piece);
	return result;
}

void trace_deinit(struct trace *t)
{
	free(t->kernels);
	free(t->launches);
	free(t->ops);
	free(t->ranges);
	texts_deinit(&t->texts);
	*t = (struct trace){ 0 };
}
