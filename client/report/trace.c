/* SPDX-License-Identifier: Apache-2.0 */

/* A gigabyte needs memory for its kernels, launches and operators alone. */

#include "client/report/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

struct reading {
	struct trace *trace;
	size_t n_before;   /* launches in the lists that have ended */
	struct buf thread; /* of the event */
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

/* --- events ---------------------------------------------------------------------------------- */

/* Room for one more of size bytes. NULL: out of memory. */
static void *add_item(void *items, size_t *n, size_t *max, size_t size)
{
	return array_make_room(items, size, *n, max) ? *(char **)items + (*n)++ * size : NULL;
}

const char *trace_thread(struct texts *texts, const struct trace_event *e, struct buf *b)
{
	buf_clear(b);
	buf_text(b, "\"pid\":");
	buf_add(b, e->pid->n ? e->pid->data : "0", e->pid->n ? e->pid->n : 1);
	buf_text(b, ",\"tid\":");
	buf_add(b, e->tid->n ? e->tid->data : "0", e->tid->n ? e->tid->n : 1);
	return b->failed ? NULL : texts_add(texts, b->data, b->n);
}

static int add_kernel(struct reading *r, const struct trace_event *e)
{
	struct trace *t = r->trace;
	const char *text = texts_add(&t->texts, e->name->n ? e->name->data : "", e->name->n);
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

static int add_launch(struct reading *r, const struct trace_event *e)
{
	struct trace *t = r->trace;
	const char *thread = trace_thread(&t->texts, e, &r->thread);
	struct trace_launch *l =
		thread ? add_item(&t->launches, &t->n_launches, &t->max_launches, sizeof(*l))
		       : NULL;

	if (!l) {
		return -ENOMEM;
	}
	*l = (struct trace_launch){ .begin = e->begin,
				    .us = e->us,
				    .correlation = e->correlation,
				    .at = e->at,
				    .thread = thread };
	return 0;
}

/* Most are within the one before them. */
static int add_op(struct reading *r, const struct trace_event *e)
{
	struct trace *t = r->trace;
	const char *thread = trace_thread(&t->texts, e, &r->thread);
	const struct trace_op *last = t->n_ops > 0 ? &t->ops[t->n_ops - 1] : NULL;
	struct trace_op *op;

	if (thread && last && last->thread == thread && e->begin >= last->begin &&
	    e->begin + e->us <= last->end) {
		return 0;
	}
	op = thread ? add_item(&t->ops, &t->n_ops, &t->max_ops, sizeof(*op)) : NULL;
	if (!op) {
		return -ENOMEM;
	}
	*op = (struct trace_op){ e->begin, e->begin + e->us, thread };
	return 0;
}

static int add_range(struct reading *r, const struct trace_event *e)
{
	struct trace *t = r->trace;
	struct trace_range *range =
		add_item(&t->ranges, &t->n_ranges, &t->max_ranges, sizeof(*range));

	if (!range) {
		return -ENOMEM;
	}
	*range = (struct trace_range){ .begin = e->begin, .at = e->args_at, .empty = e->empty };
	return 0;
}

/* Those whose name begins so are what HTA pairs with ranges. */
static bool is_launch(const struct trace_event *e)
{
	static const char prefix[] = "cudaLaunchKernel";

	return e->name->n >= sizeof(prefix) - 1 &&
	       memcmp(e->name->data, prefix, sizeof(prefix) - 1) == 0;
}

static int on_event(void *user, const struct trace_event *e)
{
	struct reading *r = user;
	bool is_span = e->has_name && e->has_begin && e->has_duration;

	switch (e->category) {
	case TRACE_KERNEL:
		return e->has_name && e->has_args ? add_kernel(r, e) : 0;
	case TRACE_LAUNCH:
		return is_span && is_launch(e) ? add_launch(r, e) : 0;
	case TRACE_OP:
		return is_span ? add_op(r, e) : 0;
	case TRACE_RANGE:
		return is_span && e->has_args ? add_range(r, e) : 0;
	default:
		return 0;
	}
}

/* A list without a launch may be empty, where something more has no comma. */
static int on_list_end(void *user, uint64_t at)
{
	struct reading *r = user;

	r->trace->end = r->trace->n_launches > r->n_before ? at : r->trace->end;
	r->n_before = r->trace->n_launches;
	return 0;
}

int trace_read(struct trace *t, struct trace_text *text, struct buf *why)
{
	static const struct trace_events_handler handler = { on_event, on_list_end };
	struct reading r = { .trace = t };
	struct trace_around around;
	int result;

	*t = (struct trace){ 0 };
	result = trace_events(text, &handler, &r, &around, why);
	t->bytes = around.bytes;
	buf_deinit(&r.thread);
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
