/* SPDX-License-Identifier: Apache-2.0 */

/* yajl reads the trace piece by piece and tells where each token ends, so a gigabyte needs memory
 * for its kernels alone: 40 bytes each. Events are the objects in the list "traceEvents", or in the
 * list that is the whole file. */

#include "client/report/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_parse.h>

enum { PIECE_BYTES = 256 * 1024, MAX_DEPTH = 1000 };

enum field { FIELD_OTHER, FIELD_CATEGORY, FIELD_NAME, FIELD_ARGS };

struct reading {
	struct trace *trace;
	yajl_handle yajl;
	uint64_t piece_at; /* offset of the piece that is read */
	unsigned depth;	   /* of open objects and lists */
	unsigned events;   /* depth of the list of events; 0: not in it */
	bool events_next;  /* the value that follows is that list */
	enum field field;  /* of the event, whose value follows */
	bool in_args, is_correlation;
	bool is_kernel, has_name, has_args;
	struct trace_kernel kernel;
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

static int add_kernel(struct reading *r)
{
	struct trace *t = r->trace;

	if (t->n == t->max) {
		size_t max = t->max ? t->max * 2 : 4096;
		struct trace_kernel *kernels = realloc(t->kernels, max * sizeof(*kernels));

		if (!kernels) {
			r->error = -ENOMEM;
			return 0;
		}
		t->kernels = kernels;
		t->max = max;
	}
	t->kernels[t->n++] = r->kernel;
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

static int on_start_map(void *context)
{
	struct reading *r = context;
	bool args = in_event(r) && r->field == FIELD_ARGS;

	if (!enter(r)) {
		return 0;
	}
	r->events_next = false;
	if (in_event(r)) {
		r->is_kernel = r->has_name = r->has_args = r->in_args = false;
		r->kernel = (struct trace_kernel){ 0 };
	}
	if (args) {
		r->in_args = true;
		r->kernel.empty = true;
	}
	return 1;
}

static int on_key(void *context, const unsigned char *key, size_t n)
{
	struct reading *r = context;

	if (in_event(r)) {
		r->field = is_text(key, n, "cat")    ? FIELD_CATEGORY
			   : is_text(key, n, "name") ? FIELD_NAME
			   : is_text(key, n, "args") ? FIELD_ARGS
						     : FIELD_OTHER;
	} else if (r->in_args && r->depth == r->events + 2) {
		r->kernel.empty = false;
		r->is_correlation = is_text(key, n, "correlation");
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
		r->kernel.at = r->piece_at + yajl_get_bytes_consumed(r->yajl) - 1;
		r->has_args = true;
		r->in_args = false;
	}
	r->depth--;
	return event && r->is_kernel && r->has_name && r->has_args ? add_kernel(r) : 1;
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

	r->events = r->events == r->depth ? 0 : r->events;
	r->depth--;
	return 1;
}

static int on_string(void *context, const unsigned char *text, size_t n)
{
	struct reading *r = context;

	if (in_event(r) && r->field == FIELD_CATEGORY) {
		r->is_kernel = is_text(text, n, "kernel");
	} else if (in_event(r) && r->field == FIELD_NAME) {
		r->kernel.name = trace_hash((const char *)text, n);
		r->has_name = true;
	}
	return 1;
}

static int on_number(void *context, const char *text, size_t n)
{
	struct reading *r = context;

	(void)n;
	if (r->in_args && r->depth == r->events + 2 && r->is_correlation) {
		r->kernel.correlation = strtoull(text, NULL, 10);
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

static int read_pieces(struct reading *r, int fd, unsigned char *piece, struct buf *why)
{
	yajl_status status = yajl_status_ok;
	ssize_t n;

	while ((n = pread(fd, piece, PIECE_BYTES, (off_t)r->piece_at)) > 0) {
		if (r->piece_at == 0 && n > 1 && piece[0] == 0x1f && piece[1] == 0x8b) {
			buf_text(why, "it is compressed: gunzip it first");
			return -EINVAL;
		}
		status = yajl_parse(r->yajl, piece, (size_t)n);
		if (status != yajl_status_ok) {
			return refuse(r, status, why);
		}
		r->piece_at += (uint64_t)n;
	}
	if (n < 0) {
		return -errno;
	}
	r->trace->bytes = r->piece_at;
	return refuse(r, yajl_complete_parse(r->yajl), why);
}

int trace_read(struct trace *t, int fd, struct buf *why)
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
		result = read_pieces(&r, fd, piece, why);
	}
	if (r.yajl) {
		yajl_free(r.yajl);
	}
	free(piece);
	return result;
}

void trace_deinit(struct trace *t)
{
	free(t->kernels);
	*t = (struct trace){ 0 };
}
