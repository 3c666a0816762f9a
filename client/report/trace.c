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

#include "client/report/trace_odd.h"
#include "proto/base/array.h"
#include "proto/base/json.h"

enum { PIECE_BYTES = 256 * 1024, MAX_DEPTH = 1000 };

/* Of an event; its value follows. */
enum field {
	FIELD_OTHER,
	FIELD_CAT,
	FIELD_NAME,
	FIELD_TS,
	FIELD_DUR,
	FIELD_PID,
	FIELD_TID,
	FIELD_ARGS,
	FIELD_CORRELATION, /* of its arguments, as what follows */
	FIELD_DEVICE,
};

enum category { CATEGORY_OTHER, CATEGORY_KERNEL, CATEGORY_LAUNCH, CATEGORY_OP, CATEGORY_RANGE };

/* What a trace does not say is 0. */
struct event {
	enum category category;
	double begin, us;
	uint64_t at, args_at; /* the '{' that begins it, the '}' that ends its arguments */
	bool has_name, has_args, has_begin, has_duration;
	bool empty; /* it has no arguments yet */
	uint64_t correlation;
	unsigned device;
};

struct reading {
	struct trace *trace;
	yajl_handle yajl;
	struct trace_odd odd;
	uint64_t piece_at; /* offset of the piece that yajl reads */
	unsigned depth;	   /* of open objects and lists */
	unsigned events;   /* depth of the list of events; 0: not in it */
	bool is_events;	   /* a list that begins is that of the events */
	bool in_args;
	size_t n_before; /* launches in the lists that have ended */
	enum field field;
	struct event event;
	struct buf name, pid, tid, thread; /* of the event; ids as JSON */
	int error;
};

static bool is_text(const unsigned char *text, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(text, what, n) == 0;
}

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

/* --- events ---------------------------------------------------------------------------------- */

/* Room for one more of size bytes. NULL: out of memory. */
static void *add_item(void *items, size_t *n, size_t *max, size_t size)
{
	return array_make_room(items, size, *n, max) ? *(char **)items + (*n)++ * size : NULL;
}

/* "pid":1,"tid":2. NULL: out of memory. */
static const char *find_thread(struct reading *r)
{
	struct buf *b = &r->thread;

	buf_clear(b);
	buf_text(b, "\"pid\":");
	buf_add(b, r->pid.n ? r->pid.data : "0", r->pid.n ? r->pid.n : 1);
	buf_text(b, ",\"tid\":");
	buf_add(b, r->tid.n ? r->tid.data : "0", r->tid.n ? r->tid.n : 1);
	return b->failed ? NULL : texts_add(&r->trace->texts, b->data, b->n);
}

static int add_kernel(struct reading *r, const struct event *e)
{
	struct trace *t = r->trace;
	const char *text = texts_add(&t->texts, r->name.n ? r->name.data : "", r->name.n);
	struct trace_kernel *k = text ? add_item(&t->kernels, &t->n, &t->max, sizeof(*k)) : NULL;

	if (!k) {
		return -ENOMEM;
	}
	*k = (struct trace_kernel){ .name = trace_hash(text, strlen(text)),
				    .text = text,
				    .correlation = e->correlation,
				    .at = e->args_at,
				    .us = e->us,
				    .device = e->device,
				    .empty = e->empty };
	return 0;
}

static int add_launch(struct reading *r, const struct event *e)
{
	struct trace *t = r->trace;
	const char *thread = find_thread(r);
	struct trace_launch *l =
		thread ? add_item(&t->launches, &t->n_launches, &t->max_launches, sizeof(*l))
		       : NULL;

	if (!l) {
		return -ENOMEM;
	}
	*l = (struct trace_launch){ .place = { thread, e->begin, e->at },
				    .us = e->us,
				    .correlation = e->correlation };
	return 0;
}

/* Most are within the one before them. */
static int add_op(struct reading *r, const struct event *e)
{
	struct trace *t = r->trace;
	const char *thread = find_thread(r);
	const struct trace_op *last = t->n_ops > 0 ? &t->ops[t->n_ops - 1] : NULL;
	struct trace_op *op;

	if (thread && last && last->place.thread == thread && e->begin >= last->place.begin &&
	    e->begin + e->us <= last->end) {
		return 0;
	}
	op = thread ? add_item(&t->ops, &t->n_ops, &t->max_ops, sizeof(*op)) : NULL;
	if (!op) {
		return -ENOMEM;
	}
	*op = (struct trace_op){ { thread, e->begin, 0 }, e->begin + e->us };
	return 0;
}

static int add_range(struct reading *r, const struct event *e)
{
	struct trace *t = r->trace;
	struct trace_range *range =
		add_item(&t->ranges, &t->n_ranges, &t->max_ranges, sizeof(*range));

	if (!range) {
		return -ENOMEM;
	}
	*range = (struct trace_range){ .place = { NULL, e->begin, e->args_at }, .empty = e->empty };
	return 0;
}

/* Those whose name begins so are what HTA pairs with ranges. */
static bool is_launch(const struct buf *name)
{
	static const char prefix[] = "cudaLaunchKernel";

	return name->n >= sizeof(prefix) - 1 && memcmp(name->data, prefix, sizeof(prefix) - 1) == 0;
}

static int add_event(struct reading *r)
{
	const struct event *e = &r->event;
	bool is_span = e->has_name && e->has_begin && e->has_duration;

	if (r->name.failed || r->pid.failed || r->tid.failed) {
		return -ENOMEM;
	}
	switch (e->category) {
	case CATEGORY_KERNEL:
		return e->has_name && e->has_args ? add_kernel(r, e) : 0;
	case CATEGORY_LAUNCH:
		return is_span && is_launch(&r->name) ? add_launch(r, e) : 0;
	case CATEGORY_OP:
		return is_span ? add_op(r, e) : 0;
	case CATEGORY_RANGE:
		return is_span && e->has_args ? add_range(r, e) : 0;
	default:
		return 0;
	}
}

/* --- objects and lists ----------------------------------------------------------------------- */

static bool in_event(const struct reading *r)
{
	return r->events > 0 && r->depth == r->events + 1;
}

static bool in_arguments(const struct reading *r)
{
	return r->in_args && r->depth == r->events + 2;
}

/* The offset of the character that was read last. */
static uint64_t offset(const struct reading *r)
{
	return r->piece_at + yajl_get_bytes_consumed(r->yajl) - 1;
}

static int enter(struct reading *r)
{
	r->depth++;
	r->error = r->depth > MAX_DEPTH ? -EINVAL : 0;
	return r->error == 0;
}

static void begin_event(struct reading *r)
{
	r->in_args = false;
	r->field = FIELD_OTHER;
	r->event = (struct event){ .at = offset(r) };
	buf_clear(&r->name);
	buf_clear(&r->pid);
	buf_clear(&r->tid);
}

static int on_start_map(void *context)
{
	struct reading *r = context;
	bool args = in_event(r) && r->field == FIELD_ARGS;

	if (!enter(r)) {
		return 0;
	}
	if (in_event(r)) {
		begin_event(r);
	} else if (args) {
		r->in_args = true;
		r->event.empty = true;
	}
	return 1;
}

static int on_end_map(void *context)
{
	struct reading *r = context;
	bool event = in_event(r);

	if (in_arguments(r)) {
		r->event.args_at = offset(r);
		r->event.has_args = true;
		r->in_args = false;
	}
	r->depth--;
	r->error = event ? add_event(r) : 0;
	return r->error == 0;
}

static int on_start_array(void *context)
{
	struct reading *r = context;
	bool events = r->events == 0 && (r->depth == 0 || (r->depth == 1 && r->is_events));

	if (!enter(r)) {
		return 0;
	}
	r->events = events ? r->depth : r->events;
	return 1;
}

/* A list without a launch may be empty, where something more has no comma. */
static int on_end_array(void *context)
{
	struct reading *r = context;
	struct trace *t = r->trace;

	if (r->events == r->depth) {
		r->events = 0;
		t->end = t->n_launches > r->n_before ? offset(r) : t->end;
		r->n_before = t->n_launches;
	}
	r->depth--;
	return 1;
}

/* --- values ---------------------------------------------------------------------------------- */

static int on_key(void *context, const unsigned char *key, size_t n)
{
	static const char *const fields[] = {
		[FIELD_CAT] = "cat",   [FIELD_NAME] = "name", [FIELD_TS] = "ts",
		[FIELD_DUR] = "dur",   [FIELD_PID] = "pid",   [FIELD_TID] = "tid",
		[FIELD_ARGS] = "args",
	};
	struct reading *r = context;

	if (in_event(r)) {
		r->field = FIELD_OTHER;
		for (unsigned i = FIELD_CAT; i <= FIELD_ARGS; i++) {
			r->field = is_text(key, n, fields[i]) ? (enum field)i : r->field;
		}
	} else if (in_arguments(r)) {
		r->event.empty = false;
		r->field = is_text(key, n, "correlation") ? FIELD_CORRELATION
			   : is_text(key, n, "device")	  ? FIELD_DEVICE
							  : FIELD_OTHER;
	} else if (r->depth == 1) {
		r->is_events = is_text(key, n, "traceEvents");
	}
	return 1;
}

/* Each has the name that older Kinetos gave it as well. */
static enum category find_category(const unsigned char *text, size_t n)
{
	static const struct {
		const char *name, *older;
		enum category category;
	} all[] = {
		{ "kernel", "Kernel", CATEGORY_KERNEL },
		{ "cuda_runtime", "Runtime", CATEGORY_LAUNCH },
		{ "cpu_op", "Operator", CATEGORY_OP },
		{ "cuda_profiler_range", "cuda_profiler_range", CATEGORY_RANGE },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (is_text(text, n, all[i].name) || is_text(text, n, all[i].older)) {
			return all[i].category;
		}
	}
	return CATEGORY_OTHER;
}

static void set_id(struct reading *r, const void *text, size_t n, const char *quote)
{
	struct buf *b = r->field == FIELD_PID ? &r->pid : &r->tid;

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
	if (r->field == FIELD_CAT) {
		r->event.category = find_category(text, n);
	} else if (r->field == FIELD_NAME) {
		buf_clear(&r->name);
		buf_add(&r->name, (const char *)text, n);
		r->event.has_name = true;
	} else if (r->field == FIELD_PID || r->field == FIELD_TID) {
		set_id(r, text, n, "\"");
	}
	return 1;
}

/* yajl ends a number at the right byte, and the byte after it cannot continue the number for
 * strtod(). */
static int on_number(void *context, const char *text, size_t n)
{
	struct reading *r = context;
	struct event *e = &r->event;

	if (!in_event(r) && !in_arguments(r)) {
		return 1;
	}
	switch (r->field) {
	case FIELD_TS:
		e->begin = strtod(text, NULL);
		e->has_begin = isfinite(e->begin);
		break;
	case FIELD_DUR:
		e->us = strtod(text, NULL);
		e->has_duration = isfinite(e->us);
		break;
	case FIELD_PID:
	case FIELD_TID:
		set_id(r, text, n, "");
		break;
	case FIELD_CORRELATION:
		e->correlation = strtoull(text, NULL, 10);
		break;
	case FIELD_DEVICE:
		e->device = (unsigned)strtoull(text, NULL, 10);
		break;
	default:
		break;
	}
	return 1;
}

/* --- the file -------------------------------------------------------------------------------- */

/* -EINVAL: it is not JSON where yajl stopped. */
static int read_piece(struct reading *r, char *piece, size_t n)
{
	while (n > 0) {
		size_t skip, read = trace_odd_mend(&r->odd, piece, n, &skip);

		if (yajl_parse(r->yajl, (unsigned char *)piece, read) != yajl_status_ok) {
			return r->error ? r->error : -EINVAL;
		}
		r->piece_at += read + skip;
		piece += read + skip;
		n -= read + skip;
	}
	return 0;
}

static int read_all(struct reading *r, struct trace_text *text, char *piece)
{
	int64_t n;
	int result = 0;

	while (result == 0 && (n = trace_text_next(text, piece, PIECE_BYTES)) > 0) {
		result = read_piece(r, piece, (size_t)n);
	}
	return result ? result : (int)n;
}

static int finish(struct reading *r, struct trace_text *text, struct buf *why)
{
	r->trace->bytes = r->piece_at;
	if (yajl_complete_parse(r->yajl) == yajl_status_ok) {
		return 0;
	}
	trace_odd_explain_end(text, r->piece_at, why);
	return -EINVAL;
}

static int explain(struct reading *r, int result, struct trace_text *text, struct buf *why,
		   const char **ret_remedy)
{
	if (result == -EBADMSG) {
		buf_text(why, "it is compressed, and damaged or not whole");
		return -EINVAL;
	}
	if (r->depth > MAX_DEPTH) {
		buf_text(why, "it is nested too deeply");
	} else if (result == -EINVAL) {
		trace_odd_explain(text, r->piece_at + yajl_get_bytes_consumed(r->yajl), why,
				  ret_remedy);
	}
	return result;
}

int trace_read(struct trace *t, struct trace_text *text, struct buf *why, const char **ret_remedy)
{
	static const yajl_callbacks callbacks = { .yajl_number = on_number,
						  .yajl_string = on_string,
						  .yajl_start_map = on_start_map,
						  .yajl_map_key = on_key,
						  .yajl_end_map = on_end_map,
						  .yajl_start_array = on_start_array,
						  .yajl_end_array = on_end_array };
	struct reading r = { .trace = t };
	char *piece = malloc(PIECE_BYTES);
	int result = -ENOMEM;

	*t = (struct trace){ 0 };
	r.yajl = yajl_alloc(&callbacks, NULL, &r);
	if (r.yajl && piece) {
		yajl_config(r.yajl, yajl_dont_validate_strings, 1);
		result = read_all(&r, text, piece);
		result =
			result ? explain(&r, result, text, why, ret_remedy) : finish(&r, text, why);
	}
	if (r.yajl) {
		yajl_free(r.yajl);
	}
	buf_deinit(&r.name);
	buf_deinit(&r.pid);
	buf_deinit(&r.tid);
	buf_deinit(&r.thread);
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
