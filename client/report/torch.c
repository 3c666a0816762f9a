/* SPDX-License-Identifier: Apache-2.0 */

/* A kernel has the correlation id of the call that launched it, and that call stands, on its
 * thread, within operators. So launches and spans are sorted by thread and time, and a stack of the
 * spans that are open shows what is around each launch. Only spans around launches become ranges.
 *
 * All nodes of a CUDA graph have the correlation id of the graph's launch. */

#include "client/report/torch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

enum { DEPTH_MAX = 1024, NONE = -1 };

struct torch_thread {
	const char *text;
	uint32_t tid;
};

struct torch_kernel {
	const struct gpuctr_kernel *kernel;
	const struct gpuctr_range *range;
	int64_t start_ns, duration_ns; /* duration -1: no times */
	uint64_t correlation, at, stream;
	uint32_t grid[3], block[3];
	unsigned device, context, shared_bytes;
	uint32_t tid;
};

struct torch_launch {
	uint64_t correlation;
	int64_t begin_ns;
	size_t thread;
	int64_t span; /* the innermost around it, or NONE */
};

struct torch_span {
	int64_t begin_ns, end_ns;
	size_t thread;
	uint64_t at;
	const char *message;
	int64_t parent; /* NONE: outermost */
	unsigned depth;
	bool used;
	size_t range; /* of the used ones */
};

/* --- events ---------------------------------------------------------------------------------- */

/* Room for one more of size bytes; its index in *ret. -ENOMEM, -E2BIG. */
static int add_item(void *items, size_t *n, size_t *max, size_t size, size_t *ret)
{
	if (*n >= TORCH_EVENTS_MAX) {
		return -E2BIG;
	}
	*ret = *n;
	return array_make_room(items, size, (*n)++, max) ? 0 : -ENOMEM;
}

static bool is_thread(const void *item, const void *key)
{
	return *(const char *const *)item == key;
}

static int find_thread(struct torch *t, const struct trace_event *e, size_t *ret)
{
	const char *text = trace_thread(&t->texts, e, &t->text);
	uint64_t hash = map_mix(0, (uintptr_t)text);
	struct known {
		const char *text;
		size_t n;
	} *known = text ? map_find(&t->threads_by_text, hash, is_thread, text) : NULL;
	int r;

	if (known) {
		*ret = known->n;
		return 0;
	}
	r = text ? add_item(&t->threads, &t->n_threads, &t->max_threads, sizeof(*t->threads), ret)
		 : -ENOMEM;
	known = r == 0 ? texts_take(&t->texts, sizeof(*known)) : NULL;
	if (!known) {
		return r ? r : -ENOMEM;
	}
	*known = (struct known){ text, *ret };
	buf_clear(&t->text);
	buf_add(&t->text, e->tid->n ? e->tid->data : "0", e->tid->n ? e->tid->n : 1);
	t->threads[*ret] =
		(struct torch_thread){ text, (uint32_t)strtoull(buf_string(&t->text), NULL, 10) };
	return map_add(&t->threads_by_text, hash, known);
}

static bool is_kernel(const void *item, const void *key)
{
	return ((const struct gpuctr_kernel *)item)->name == key;
}

/* Of this name; registers are those of the first. NULL: out of memory. */
static const struct gpuctr_kernel *find_kernel(struct torch *t, const struct trace_event *e)
{
	const char *name = texts_add(&t->texts, e->name->n ? e->name->data : "", e->name->n);
	uint64_t hash = map_mix(0, (uintptr_t)name);
	struct gpuctr_kernel *k =
		name ? map_find(&t->kernels_by_name, hash, is_kernel, name) : NULL;

	if (k || !name) {
		return k;
	}
	k = texts_take(&t->texts, sizeof(*k));
	if (!k || map_add(&t->kernels_by_name, hash, k) < 0) {
		return NULL;
	}
	*k = (struct gpuctr_kernel){ .name = name,
				     .mangled = name,
				     .static_shared_bytes = -1,
				     .registers = e->registers > 0 ? (int)e->registers : -1,
				     .id = (unsigned)t->kernels_by_name.n };
	return k;
}

static bool has_time(const struct trace_event *e)
{
	return e->has_begin && e->has_duration && e->ns >= 0;
}

static void widen(struct torch *t, const struct trace_event *e)
{
	bool first = t->begin_ns == 0 && t->end_ns == 0;

	t->begin_ns = first || e->begin_ns < t->begin_ns ? e->begin_ns : t->begin_ns;
	t->end_ns = first || e->begin_ns + e->ns > t->end_ns ? e->begin_ns + e->ns : t->end_ns;
}

/* A stream's number is that of the row it is drawn in, where nothing else tells it. */
static uint64_t stream_of(const struct trace_event *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < e->tid->n && !e->has_stream; i++) {
		char c = e->tid->data[i];

		n = c >= '0' && c <= '9' ? 10 * n + (unsigned)(c - '0') : n;
	}
	return (e->has_stream ? e->stream : n) & INT64_MAX;
}

static int add_device(struct torch *t, unsigned index)
{
	size_t i = 0;
	int r;

	while (i < t->n_devices && t->devices[i].index != index) {
		i++;
	}
	if (i < t->n_devices) {
		return 0;
	}
	r = i < TRACE_DEVICES_MAX
		    ? add_item(&t->devices, &t->n_devices, &t->max_devices, sizeof(*t->devices), &i)
		    : -E2BIG;
	if (r == 0) {
		t->devices[i] = (struct gpuctr_device){
			.index = index, .uuid = "", .name = "", .chip = ""
		};
	}
	return r;
}

static int add_kernel(struct torch *t, const struct trace_event *e)
{
	const struct gpuctr_kernel *kernel = find_kernel(t, e);
	size_t i;
	int r = kernel ? add_item(&t->kernels, &t->n_kernels, &t->max_kernels, sizeof(*t->kernels),
				  &i)
		       : -ENOMEM;

	if (r) {
		return r;
	}
	t->kernels[i] = (struct torch_kernel){ .kernel = kernel,
					       .start_ns = e->begin_ns,
					       .duration_ns = has_time(e) ? e->ns : -1,
					       .correlation = e->correlation,
					       .at = e->args_at,
					       .stream = stream_of(e),
					       .device = e->device,
					       .context = e->context,
					       .shared_bytes = e->shared_bytes };
	memcpy(t->kernels[i].grid, e->grid, sizeof(e->grid));
	memcpy(t->kernels[i].block, e->block, sizeof(e->block));
	if (has_time(e)) {
		widen(t, e);
	}
	return add_device(t, e->device);
}

static int add_copy(struct torch *t, const struct trace_event *e)
{
	size_t i;
	int r;

	if (!has_time(e)) {
		t->timeless_copies++;
		return 0;
	}
	r = add_item(&t->copies, &t->n_copies, &t->max_copies, sizeof(*t->copies), &i);
	if (r) {
		return r;
	}
	t->copies[i] = (struct gpuctr_copy){ .process = 1,
					     .kind = e->category == TRACE_SET ? GPUCTR_COPY_SET
									      : GPUCTR_COPY_MEMORY,
					     .device = e->device,
					     .context = e->context,
					     .stream = stream_of(e),
					     .bytes = e->bytes,
					     .start_ns = e->begin_ns,
					     .duration_ns = e->ns };
	widen(t, e);
	return add_device(t, e->device);
}

static bool launches(const struct trace_event *e)
{
	return e->name->n > 0 && memmem(e->name->data, e->name->n, "Launch", 6) != NULL;
}

static int add_launch(struct torch *t, const struct trace_event *e)
{
	size_t thread, i;
	int r = find_thread(t, e, &thread);

	r = r ? r
	      : add_item(&t->launches, &t->n_launches, &t->max_launches, sizeof(*t->launches), &i);
	if (r == 0) {
		t->launches[i] = (struct torch_launch){ .correlation = e->correlation,
							.begin_ns = e->begin_ns,
							.thread = thread,
							.span = NONE };
	}
	return r;
}

/* As emit_nvtx() writes it. NULL: out of memory. */
static const char *message_of(struct torch *t, const struct trace_event *e, size_t skip)
{
	struct buf *b = &t->text;

	buf_clear(b);
	buf_add(b, e->name->data + skip, e->name->n - skip);
	if (e->category == TRACE_OP) {
		if (e->seq >= 0) {
			buf_text(b, ", seq = ");
			buf_i64(b, e->seq);
		}
		buf_text(b, ", sizes = ");
		buf_add(b, e->sizes->n ? e->sizes->data : "[]", e->sizes->n ? e->sizes->n : 2);
	}
	return b->failed ? NULL : texts_add(&t->texts, b->data, b->n);
}

static int add_span(struct torch *t, const struct trace_event *e, size_t skip)
{
	const char *message = message_of(t, e, skip);
	size_t thread, i;
	int r = message ? find_thread(t, e, &thread) : -ENOMEM;

	r = r ? r : add_item(&t->spans, &t->n_spans, &t->max_spans, sizeof(*t->spans), &i);
	if (r == 0) {
		t->spans[i] = (struct torch_span){ .begin_ns = e->begin_ns,
						   .end_ns = e->begin_ns + e->ns,
						   .thread = thread,
						   .at = e->at,
						   .message = message,
						   .parent = NONE };
	}
	return r;
}

/* The length of what stands before the name of a module; 0: the event is none. */
static size_t module_prefix(const struct trace_event *e)
{
	static const char prefix[] = "nn.Module: ";
	size_t n = sizeof(prefix) - 1;

	return e->name->n > n && memcmp(e->name->data, prefix, n) == 0 ? n : 0;
}

static int on_event(void *user, const struct trace_event *e)
{
	struct torch *t = user;
	bool is_span = e->has_name && e->name->n > 0 && has_time(e);

	switch (e->category) {
	case TRACE_KERNEL:
		return e->has_name && e->has_args ? add_kernel(t, e) : 0;
	case TRACE_COPY:
	case TRACE_SET:
		return add_copy(t, e);
	case TRACE_LAUNCH:
	case TRACE_DRIVER:
		return is_span && launches(e) ? add_launch(t, e) : 0;
	case TRACE_OP:
	case TRACE_LABEL:
		return is_span ? add_span(t, e, 0) : 0;
	case TRACE_PYTHON:
		return is_span && module_prefix(e) > 0 ? add_span(t, e, module_prefix(e)) : 0;
	default:
		return 0;
	}
}

/* --- order ----------------------------------------------------------------------------------- */

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))

static int kernels_by_launch(const void *a, const void *b)
{
	const struct torch_kernel *x = a, *y = b;
	int order = ORDER(x->correlation, y->correlation);

	return order ? order : ORDER(x->at, y->at);
}

static int launches_by_time(const void *a, const void *b)
{
	const struct torch_launch *x = a, *y = b;
	int order = ORDER(x->thread, y->thread);

	order = order ? order : ORDER(x->begin_ns, y->begin_ns);
	return order ? order : ORDER(x->correlation, y->correlation);
}

static int launches_by_correlation(const void *a, const void *b)
{
	const struct torch_launch *x = a, *y = b;
	int order = ORDER(x->correlation, y->correlation);

	order = order ? order : ORDER(x->begin_ns, y->begin_ns);
	return order ? order : ORDER(x->thread, y->thread);
}

/* Of two that begin at one time the longer one is around the other. */
static int spans_by_time(const void *a, const void *b)
{
	const struct torch_span *x = a, *y = b;
	int order = ORDER(x->thread, y->thread);

	order = order ? order : ORDER(x->begin_ns, y->begin_ns);
	order = order ? order : ORDER(y->end_ns, x->end_ns);
	return order ? order : ORDER(x->at, y->at);
}

static int spans_by_begin(const void *a, const void *b)
{
	const struct torch_span *x = *(struct torch_span *const *)a;
	const struct torch_span *y = *(struct torch_span *const *)b;
	int order = ORDER(x->begin_ns, y->begin_ns);

	order = order ? order : ORDER(x->depth, y->depth);
	return order ? order : ORDER(x->at, y->at);
}

static void sort(void *items, size_t n, size_t size, int (*by)(const void *, const void *))
{
	if (n > 0) {
		qsort(items, n, size, by);
	}
}

/* --- what is around launches ----------------------------------------------------------------- */

struct stack {
	int64_t open[DEPTH_MAX];
	unsigned n;
};

/* Spans of a thread are within each other or apart; one that is neither counts as within. */
static void push(struct torch *t, struct stack *s, size_t i)
{
	struct torch_span *span = &t->spans[i];

	while (s->n > 0 && t->spans[s->open[s->n - 1]].end_ns <= span->begin_ns) {
		s->n--;
	}
	if (s->n < DEPTH_MAX) {
		span->parent = s->n > 0 ? s->open[s->n - 1] : NONE;
		span->depth = s->n;
		s->open[s->n++] = (int64_t)i;
	}
}

static void use(struct torch *t, int64_t i)
{
	for (; i != NONE && !t->spans[i].used; i = t->spans[i].parent) {
		t->spans[i].used = true;
	}
}

static void find_spans(struct torch *t)
{
	struct stack stack = { .n = 0 };
	size_t thread = SIZE_MAX, next = 0;

	sort(t->launches, t->n_launches, sizeof(*t->launches), launches_by_time);
	sort(t->spans, t->n_spans, sizeof(*t->spans), spans_by_time);
	for (size_t i = 0; i < t->n_launches; i++) {
		struct torch_launch *l = &t->launches[i];

		stack.n = l->thread == thread ? stack.n : 0;
		thread = l->thread;
		for (; next < t->n_spans &&
		       (t->spans[next].thread < thread || (t->spans[next].thread == thread &&
							   t->spans[next].begin_ns <= l->begin_ns));
		     next++) {
			if (t->spans[next].thread == thread) {
				push(t, &stack, next);
			}
		}
		while (stack.n > 0 && t->spans[stack.open[stack.n - 1]].end_ns <= l->begin_ns) {
			stack.n--;
		}
		l->span = stack.n > 0 ? stack.open[stack.n - 1] : NONE;
		use(t, l->span);
	}
}

/* Ranges are numbered as they began, so that a parent comes before what is in it. */
static int make_ranges(struct torch *t)
{
	struct torch_span **used = calloc(t->n_spans + 1, sizeof(struct torch_span *));
	size_t n = 0;

	for (size_t i = 0; used && i < t->n_spans; i++) {
		if (t->spans[i].used) {
			used[n++] = &t->spans[i];
		}
	}
	t->ranges = used ? calloc(n + 1, sizeof(*t->ranges)) : NULL;
	if (!t->ranges) {
		free(used);
		return -ENOMEM;
	}
	sort(used, n, sizeof(struct torch_span *), spans_by_begin);
	for (size_t i = 0; i < n; i++) {
		int64_t parent = used[i]->parent;

		used[i]->range = i;
		t->ranges[i] = (struct gpuctr_range){
			.parent = parent == NONE ? NULL : &t->ranges[t->spans[parent].range],
			.domain = "",
			.message = used[i]->message,
			.category = "",
			.id = (unsigned)i + 1,
			.depth = used[i]->depth,
		};
	}
	free(used);
	return 0;
}

static void take_launch(struct torch *t, struct torch_kernel *k, const struct torch_launch *launch)
{
	k->tid = t->threads[launch->thread].tid;
	if (launch->span != NONE) {
		k->range = &t->ranges[t->spans[launch->span].range];
	}
}

static void join_launches(struct torch *t)
{
	size_t l = 0;

	sort(t->launches, t->n_launches, sizeof(*t->launches), launches_by_correlation);
	sort(t->kernels, t->n_kernels, sizeof(*t->kernels), kernels_by_launch);
	for (size_t i = 0; i < t->n_kernels; i++) {
		struct torch_kernel *k = &t->kernels[i];

		while (l < t->n_launches && t->launches[l].correlation < k->correlation) {
			l++;
		}
		if (l < t->n_launches && t->launches[l].correlation == k->correlation) {
			take_launch(t, k, &t->launches[l]);
		}
	}
}

/* --- the whole ------------------------------------------------------------------------------- */

static int name_devices(struct torch *t, const struct trace_around *around)
{
	for (size_t i = 0; i < t->n_devices; i++) {
		for (size_t k = 0; k < around->n_devices; k++) {
			const struct trace_device *d = &around->devices[k];
			const char *name = d->id == t->devices[i].index
						   ? texts_add_string(&t->texts, d->name)
						   : t->devices[i].name;

			if (!name) {
				return -ENOMEM;
			}
			t->devices[i].name = name;
		}
	}
	return 0;
}

static int finish(struct torch *t, const char *path, const struct trace_around *around)
{
	const char *slash = strrchr(path, '/');
	const char *program = texts_add_string(&t->texts, slash ? slash + 1 : path);
	int r;

	t->has_base = around->has_base;
	t->base_ns = around->has_base ? around->base_ns : 0;
	find_spans(t);
	r = program ? make_ranges(t) : -ENOMEM;
	r = r ? r : name_devices(t, around);
	if (r == 0) {
		join_launches(t);
	}
	t->process = (struct gpuctr_process){ .process = 1,
					      .program = program,
					      .cupti = "",
					      .driver = "",
					      .recorded_from = "",
					      .devices = t->devices,
					      .n_devices = t->n_devices };
	return r;
}

int torch_read(struct torch *t, const char *path, struct buf *why)
{
	static const struct trace_events_handler handler = { .on_event = on_event };
	struct trace_text *text = trace_open(path);
	struct trace_around around;
	int r = text ? trace_events(text, &handler, t, &around, why) : -errno;

	r = r ? r : finish(t, path, &around);
	trace_close(text);
	if (r == 0 && t->n_kernels == 0) {
		buf_text(why, "there is no kernel in it");
		r = -EINVAL;
	} else if (r == -E2BIG) {
		buf_printf(why,
			   "it has more than %d kernels, or operators, or launches, or more "
			   "than %d GPUs",
			   TORCH_EVENTS_MAX, TRACE_DEVICES_MAX);
		r = -EINVAL;
	}
	return r;
}

void torch_deinit(struct torch *t)
{
	free(t->devices);
	free(t->kernels);
	free(t->copies);
	free(t->launches);
	free(t->spans);
	free(t->threads);
	free(t->ranges);
	map_deinit(&t->kernels_by_name);
	map_deinit(&t->threads_by_text);
	texts_deinit(&t->texts);
	buf_deinit(&t->text);
	*t = (struct torch){ 0 };
}

void torch_record(const struct torch *t, size_t i, struct gpuctr_record *ret)
{
	const struct torch_kernel *k = &t->kernels[i];

	*ret = (struct gpuctr_record){ .process = 1,
				       .index = i,
				       .kernel = k->kernel,
				       .dynamic_shared_bytes = k->shared_bytes,
				       .device = k->device,
				       .context = k->context,
				       .stream = k->stream,
				       .correlation = (uint32_t)k->correlation,
				       .thread = k->tid,
				       .start_ns = t->base_ns + k->start_ns,
				       .duration_ns = k->duration_ns,
				       .clock = k->duration_ns < 0 ? GPUCTR_CLOCK_NONE
								   : GPUCTR_CLOCK_GPU,
				       .range = k->range,
				       .chance = 1 };
	memcpy(ret->grid, k->grid, sizeof(k->grid));
	memcpy(ret->block, k->block, sizeof(k->block));
}

void torch_copy(const struct torch *t, size_t i, struct gpuctr_copy *ret)
{
	*ret = t->copies[i];
	ret->start_ns += t->base_ns;
}
