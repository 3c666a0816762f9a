/* SPDX-License-Identifier: Apache-2.0 */

/* yajl parses the trace piece by piece and reports where tokens end, so memory stays small. Events
 * are the objects in the list "traceEvents", or in the list that is the whole file. */

#include "client/report/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "client/report/trace_odd.h"
#include "proto/base/clean.h"
#include "proto/base/json.h"

enum { PIECE_BYTES = 256 * 1024, MAX_DEPTH = 1000 };

/* A member of an event, whose value yajl passes next. */
enum field {
	FIELD_OTHER,
	FIELD_CAT,
	FIELD_NAME,
	FIELD_TS,
	FIELD_DUR,
	FIELD_PID,
	FIELD_TID,
	FIELD_ARGS,
	FIELD_CORRELATION, /* this and the next are members of its arguments */
	FIELD_DEVICE,
};

struct reading {
	int (*on_event)(const struct trace_event *event, void *userdata);
	void *userdata;
	yajl_handle yajl;
	struct trace_odd odd;
	uint64_t piece_at; /* offset of the piece that yajl reads */
	unsigned depth;	   /* number of open objects and lists */
	unsigned events;   /* depth of the list of events; 0: not in it */
	bool is_events;	   /* the next list to begin is the list of events */
	bool in_args;
	bool has_launch; /* the list of events has a launch */
	enum field field;
	struct trace_event event;
	struct buf name, pid, tid, thread; /* members of the event; ids as JSON text */
	int error;
};

static bool is_text(const unsigned char *text, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(text, what, n) == 0;
}

/* --- events ---------------------------------------------------------------------------------- */

static bool is_wanted(const struct reading *r)
{
	const struct trace_event *e = &r->event;
	bool is_span = e->has_name && e->has_begin && e->has_duration;

	switch (e->category) {
	case TRACE_KERNEL:
		return e->has_name && e->has_args;
	case TRACE_LAUNCH: /* HTA pairs launches with this name with ranges */
		return is_span && strncmp(e->name, "cudaLaunchKernel", 16) == 0;
	case TRACE_OP:
		return is_span;
	case TRACE_RANGE:
		return is_span && e->has_args;
	default:
		return false;
	}
}

static int add_event(struct reading *r)
{
	struct trace_event *e = &r->event;

	e->name = buf_string(&r->name);
	if (!is_wanted(r)) {
		return r->name.failed ? -ENOMEM : 0;
	}
	buf_clear(&r->thread);
	buf_printf(&r->thread, "\"pid\":%s,\"tid\":%s", r->pid.n ? buf_string(&r->pid) : "0",
		   r->tid.n ? buf_string(&r->tid) : "0");
	e->thread = buf_string(&r->thread);
	r->has_launch |= e->category == TRACE_LAUNCH;
	return r->name.failed || r->pid.failed || r->tid.failed || r->thread.failed
		       ? -ENOMEM
		       : r->on_event(e, r->userdata);
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
	r->event = (struct trace_event){ .at = offset(r) };
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

/* Lists without a launch are not reported: they may be empty, and need no comma then. */
static int on_end_array(void *context)
{
	struct reading *r = context;

	if (r->events == r->depth) {
		const struct trace_event end = {
			.category = TRACE_END, .name = "", .thread = "", .at = offset(r)
		};

		r->events = 0;
		r->error = r->has_launch ? r->on_event(&end, r->userdata) : 0;
		r->has_launch = false;
	}
	r->depth--;
	return r->error == 0;
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

/* Finds a category by its name, or by the name that older Kinetos gave it. */
static enum trace_category find_category(const unsigned char *text, size_t n)
{
	static const struct {
		const char *name, *older;
		enum trace_category category;
	} all[] = {
		{ "kernel", "Kernel", TRACE_KERNEL },
		{ "cuda_runtime", "Runtime", TRACE_LAUNCH },
		{ "cpu_op", "Operator", TRACE_OP },
		{ "cuda_profiler_range", "cuda_profiler_range", TRACE_RANGE },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (is_text(text, n, all[i].name) || is_text(text, n, all[i].older)) {
			return all[i].category;
		}
	}
	return TRACE_OTHER;
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

/* strtod() stops at the number's end, because the byte behind it cannot continue it. */
static int on_number(void *context, const char *text, size_t n)
{
	struct reading *r = context;
	struct trace_event *e = &r->event;

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

/* Returns -EINVAL if the text is not JSON where yajl stopped. */
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

static int read_all(struct reading *r, gzFile text, char *piece)
{
	int64_t n;
	int result = 0;

	while (result == 0 && (n = trace_text_next(text, piece, PIECE_BYTES)) > 0) {
		result = read_piece(r, piece, (size_t)n);
	}
	return result ? result : (int)n;
}

static int explain(struct reading *r, int result, gzFile text, struct buf *why,
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
	} else if (result == 0 && yajl_complete_parse(r->yajl) != yajl_status_ok) {
		trace_odd_explain_end(text, r->piece_at, why);
		return -EINVAL;
	}
	return result;
}

int trace_read(gzFile text, int (*on_event)(const struct trace_event *event, void *userdata),
	       void *userdata, uint64_t *ret_bytes, struct buf *why, const char **ret_remedy)
{
	static const yajl_callbacks callbacks = { .yajl_number = on_number,
						  .yajl_string = on_string,
						  .yajl_start_map = on_start_map,
						  .yajl_map_key = on_key,
						  .yajl_end_map = on_end_map,
						  .yajl_start_array = on_start_array,
						  .yajl_end_array = on_end_array };
	struct reading r = { .on_event = on_event, .userdata = userdata };
	CLEAN_FREE char *piece = malloc(PIECE_BYTES);
	int result = -ENOMEM;

	r.yajl = yajl_alloc(&callbacks, NULL, &r);
	if (r.yajl && piece) {
		yajl_config(r.yajl, yajl_dont_validate_strings, 1);
		result = explain(&r, read_all(&r, text, piece), text, why, ret_remedy);
		*ret_bytes = r.piece_at;
	}
	if (r.yajl) {
		yajl_free(r.yajl);
	}
	buf_deinit(&r.name);
	buf_deinit(&r.pid);
	buf_deinit(&r.tid);
	buf_deinit(&r.thread);
	return result;
}
