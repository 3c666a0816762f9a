/* SPDX-License-Identifier: Apache-2.0 */

/* yajl reads the trace piece by piece and tells where each token ends, so memory does not grow with
 * it. Events are the objects in the list "traceEvents", or in the list that is the whole file. */

#include "client/report/trace_events.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "proto/base/json.h"

enum { PIECE_BYTES = 256 * 1024, MAX_DEPTH = 1000, SIZES_BYTES = 4096 };

#define TIME_MOST (INT64_C(1) << 61)

/* Of an event, whose value follows. */
enum field {
	FIELD_OTHER,
	FIELD_CAT,
	FIELD_NAME,
	FIELD_TS,
	FIELD_DUR,
	FIELD_PID,
	FIELD_TID,
	FIELD_ARGS
};

enum argument {
	ARG_OTHER,
	ARG_CORRELATION,
	ARG_DEVICE,
	ARG_CONTEXT,
	ARG_STREAM,
	ARG_BYTES,
	ARG_SEQ,
	ARG_REGISTERS,
	ARG_SHARED,
	ARG_GRID,
	ARG_BLOCK,
	ARG_SIZES,
};

/* Of the whole, beside the list of events. */
enum member { MEMBER_OTHER, MEMBER_EVENTS, MEMBER_BASE, MEMBER_DEVICES };

struct reading {
	const struct trace_events_handler *handler;
	void *user;
	struct trace_around *around;
	yajl_handle yajl;
	uint64_t piece_at; /* offset of the piece that is read */
	unsigned depth;	   /* of open objects and lists */
	unsigned events;   /* depth of the list of events; 0: not in it */
	enum member member;
	enum field field;
	enum argument argument;
	size_t items; /* of an argument's list, that came */
	bool in_args;
	bool is_id, is_name; /* of a device, the value that follows */
	struct trace_event event;
	struct buf name, pid, tid, sizes;
	int error;
};

static bool is_text(const unsigned char *text, size_t n, const char *what)
{
	return n == strlen(what) && memcmp(text, what, n) == 0;
}

/* Which of the names this is; 0: none. NULL entries match nothing. */
static unsigned find_name(const char *const *names, unsigned n, const unsigned char *text,
			  size_t length)
{
	for (unsigned i = 1; i < n; i++) {
		if (names[i] && is_text(text, length, names[i])) {
			return i;
		}
	}
	return 0;
}

#define FIND_NAME(names, text, n) find_name(names, sizeof(names) / sizeof(names[0]), text, n)

/* --- where it is ----------------------------------------------------------------------------- */

static bool in_event(const struct reading *r)
{
	return r->events > 0 && r->depth == r->events + 1;
}

static bool in_arguments(const struct reading *r)
{
	return r->in_args && r->depth == r->events + 2;
}

/* In the list, or a list in it, that is the value of this argument. */
static bool in_list_of(const struct reading *r, enum argument argument)
{
	return r->in_args && r->depth > r->events + 2 && r->argument == argument;
}

static bool in_device(const struct reading *r)
{
	return r->member == MEMBER_DEVICES && r->depth == 3;
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

/* --- objects and lists ----------------------------------------------------------------------- */

static void begin_event(struct reading *r)
{
	r->in_args = false;
	r->event = (struct trace_event){ .at = offset(r),
					 .seq = -1,
					 .name = &r->name,
					 .pid = &r->pid,
					 .tid = &r->tid,
					 .sizes = &r->sizes };
	buf_clear(&r->name);
	buf_clear(&r->pid);
	buf_clear(&r->tid);
	buf_clear(&r->sizes);
}

static void begin_device(struct reading *r)
{
	struct trace_around *a = r->around;

	r->is_id = r->is_name = false;
	if (a->n_devices < TRACE_DEVICES_MAX) {
		a->devices[a->n_devices++] = (struct trace_device){ 0 };
	}
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
		r->argument = ARG_OTHER;
	} else if (in_device(r)) {
		begin_device(r);
	} else if (in_list_of(r, ARG_SIZES)) {
		r->argument = ARG_OTHER;
		buf_clear(&r->sizes);
	}
	return 1;
}

static void take_argument(struct reading *r, const unsigned char *key, size_t n)
{
	static const char *const names[] = {
		[ARG_CORRELATION] = "correlation",
		[ARG_DEVICE] = "device",
		[ARG_CONTEXT] = "context",
		[ARG_STREAM] = "stream",
		[ARG_BYTES] = "bytes",
		[ARG_SEQ] = "Sequence number",
		[ARG_REGISTERS] = "registers per thread",
		[ARG_SHARED] = "shared memory",
		[ARG_GRID] = "grid",
		[ARG_BLOCK] = "block",
		[ARG_SIZES] = "Input Dims",
	};

	r->event.empty = false;
	r->argument = (enum argument)FIND_NAME(names, key, n);
	r->items = 0;
}

static int on_key(void *context, const unsigned char *key, size_t n)
{
	static const char *const fields[] = {
		[FIELD_CAT] = "cat",   [FIELD_NAME] = "name", [FIELD_TS] = "ts",
		[FIELD_DUR] = "dur",   [FIELD_PID] = "pid",   [FIELD_TID] = "tid",
		[FIELD_ARGS] = "args",
	};
	static const char *const members[] = {
		[MEMBER_EVENTS] = "traceEvents",
		[MEMBER_BASE] = "baseTimeNanoseconds",
		[MEMBER_DEVICES] = "deviceProperties",
	};
	struct reading *r = context;

	if (in_event(r)) {
		r->field = (enum field)FIND_NAME(fields, key, n);
	} else if (in_arguments(r)) {
		take_argument(r, key, n);
	} else if (r->depth == 1) {
		r->member = (enum member)FIND_NAME(members, key, n);
	} else if (in_device(r)) {
		r->is_id = is_text(key, n, "id");
		r->is_name = is_text(key, n, "name");
	}
	return 1;
}

static int tell_event(struct reading *r)
{
	bool failed = r->name.failed || r->pid.failed || r->tid.failed || r->sizes.failed;

	r->error = failed		  ? -ENOMEM
		   : r->handler->on_event ? r->handler->on_event(r->user, &r->event)
					  : 0;
	return r->error == 0;
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
	return event ? tell_event(r) : 1;
}

static void add_bracket(struct reading *r, char bracket)
{
	bool behind = r->sizes.n > 0 && r->sizes.data[r->sizes.n - 1] != '[' && bracket == '[';

	if (r->sizes.n < SIZES_BYTES) {
		buf_text(&r->sizes, behind ? ", " : "");
		buf_char(&r->sizes, bracket);
	}
}

static int on_start_array(void *context)
{
	struct reading *r = context;
	bool first = r->depth == 0;

	if (!enter(r)) {
		return 0;
	}
	if (r->events == 0 && (first || (r->depth == 2 && r->member == MEMBER_EVENTS))) {
		r->events = r->depth;
	} else if (in_list_of(r, ARG_SIZES)) {
		add_bracket(r, '[');
	}
	return 1;
}

static int on_end_array(void *context)
{
	struct reading *r = context;

	if (r->events == r->depth) {
		r->events = 0;
		r->error =
			r->handler->on_list_end ? r->handler->on_list_end(r->user, offset(r)) : 0;
	} else if (in_list_of(r, ARG_SIZES)) {
		add_bracket(r, ']');
	}
	r->depth--;
	return r->error == 0;
}

/* --- values ---------------------------------------------------------------------------------- */

static enum trace_category find_category(const unsigned char *text, size_t n)
{
	static const char *const names[] = {
		[TRACE_KERNEL] = "kernel",
		[TRACE_COPY] = "gpu_memcpy",
		[TRACE_SET] = "gpu_memset",
		[TRACE_LAUNCH] = "cuda_runtime",
		[TRACE_DRIVER] = "cuda_driver",
		[TRACE_OP] = "cpu_op",
		[TRACE_LABEL] = "user_annotation",
		[TRACE_PYTHON] = "python_function",
		[TRACE_RANGE] = "cuda_profiler_range",
	};

	return (enum trace_category)FIND_NAME(names, text, n);
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
	struct trace_around *a = r->around;

	if (in_device(r) && r->is_name && a->n_devices > 0) {
		snprintf(a->devices[a->n_devices - 1].name, TRACE_NAME_BYTES, "%.*s",
			 (int)(n < TRACE_NAME_BYTES ? n : TRACE_NAME_BYTES), (const char *)text);
	}
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
		set_id(r->field == FIELD_PID ? &r->pid : &r->tid, text, n, "\"");
	}
	return 1;
}

/* Microseconds, as decimal, in ns; today's have 16 digits before the point, more than a double
 * holds with three behind it. */
static int64_t parse_ns(const char *text, double us)
{
	const char *p = *text == '-' ? text + 1 : text;
	uint64_t ns = 0;
	int behind = -1; /* digits behind the point */

	for (; behind < 3 && ((*p >= '0' && *p <= '9') || *p == '.'); p++) {
		if (*p == '.') {
			behind = 0;
			continue;
		}
		ns = ns > TIME_MOST ? ns : 10 * ns + (unsigned)(*p - '0');
		behind += behind >= 0;
	}
	for (int i = behind < 0 ? 0 : behind; i < 3; i++) {
		ns = ns > TIME_MOST ? ns : 10 * ns;
	}
	while (*p >= '0' && *p <= '9') {
		p++;
	}
	if (*p == 'e' || *p == 'E') {
		ns = fabs(us) * 1e3 < (double)TIME_MOST ? (uint64_t)(fabs(us) * 1e3) : TIME_MOST;
	}
	ns = ns > TIME_MOST ? TIME_MOST : ns;
	return *text == '-' ? -(int64_t)ns : (int64_t)ns;
}

/* yajl ends a number at the right byte, and the byte after it cannot continue the number for
 * strtod(). */
static void take_number(struct reading *r, const char *text, size_t n)
{
	double value = strtod(text, NULL);
	struct trace_event *e = &r->event;

	switch (r->field) {
	case FIELD_TS:
		e->begin = value;
		e->begin_ns = parse_ns(text, value);
		e->has_begin = isfinite(value);
		break;
	case FIELD_DUR:
		e->us = value;
		e->ns = parse_ns(text, value);
		e->has_duration = isfinite(value);
		break;
	case FIELD_PID:
	case FIELD_TID:
		set_id(r->field == FIELD_PID ? &r->pid : &r->tid, text, n, "");
		break;
	default:
		break;
	}
}

static void take_argument_number(struct reading *r, const char *text)
{
	struct trace_event *e = &r->event;
	uint64_t value = strtoull(text, NULL, 10);

	switch (r->argument) {
	case ARG_CORRELATION:
		e->correlation = value;
		break;
	case ARG_DEVICE:
		e->device = (unsigned)value;
		break;
	case ARG_CONTEXT:
		e->context = (unsigned)value;
		break;
	case ARG_STREAM:
		e->stream = value;
		e->has_stream = true;
		break;
	case ARG_BYTES:
		e->bytes = value;
		break;
	case ARG_SEQ:
		e->seq = text[0] == '-' || value > INT64_MAX ? -1 : (int64_t)value;
		break;
	case ARG_REGISTERS:
		e->registers = (unsigned)value;
		break;
	case ARG_SHARED:
		e->shared_bytes = (unsigned)value;
		break;
	default:
		break;
	}
}

static void take_list_number(struct reading *r, const char *text, size_t n)
{
	uint32_t *three = r->argument == ARG_GRID ? r->event.grid : r->event.block;

	if (in_list_of(r, ARG_SIZES) && r->sizes.n > 0 && r->sizes.n < SIZES_BYTES) {
		buf_text(&r->sizes, r->sizes.data[r->sizes.n - 1] == '[' ? "" : ", ");
		buf_add(&r->sizes, text, n);
	} else if ((in_list_of(r, ARG_GRID) || in_list_of(r, ARG_BLOCK)) && r->items < 3) {
		three[r->items++] = (uint32_t)strtoul(text, NULL, 10);
	}
}

static int on_number(void *context, const char *text, size_t n)
{
	struct reading *r = context;
	struct trace_around *a = r->around;

	if (in_event(r)) {
		take_number(r, text, n);
	} else if (in_arguments(r)) {
		take_argument_number(r, text);
	} else if (r->in_args) {
		take_list_number(r, text, n);
	} else if (in_device(r) && r->is_id && a->n_devices > 0) {
		a->devices[a->n_devices - 1].id = (unsigned)strtoul(text, NULL, 10);
	} else if (r->depth == 1 && r->member == MEMBER_BASE) {
		a->base_ns = (int64_t)strtoll(text, NULL, 10);
		a->has_base = a->base_ns > -TIME_MOST && a->base_ns < TIME_MOST;
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
	r->around->bytes = r->piece_at;
	return refuse(r, yajl_complete_parse(r->yajl), why);
}

int trace_events(struct trace_text *text, const struct trace_events_handler *handler, void *user,
		 struct trace_around *ret, struct buf *why)
{
	static const yajl_callbacks callbacks = { .yajl_number = on_number,
						  .yajl_string = on_string,
						  .yajl_start_map = on_start_map,
						  .yajl_map_key = on_key,
						  .yajl_end_map = on_end_map,
						  .yajl_start_array = on_start_array,
						  .yajl_end_array = on_end_array };
	struct reading r = { .handler = handler, .user = user, .around = ret };
	unsigned char *piece = malloc(PIECE_BYTES);
	int result = -ENOMEM;

	*ret = (struct trace_around){ 0 };
	r.yajl = yajl_alloc(&callbacks, NULL, &r);
	if (r.yajl && piece) {
		yajl_config(r.yajl, yajl_dont_validate_strings, 1);
		result = read_pieces(&r, text, piece, why);
	}
	if (r.yajl) {
		yajl_free(r.yajl);
	}
	buf_deinit(&r.name);
	buf_deinit(&r.pid);
	buf_deinit(&r.tid);
	buf_deinit(&r.sizes);
	free(piece);
	return result;
}
