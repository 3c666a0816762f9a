/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/decode.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/wire/demangle.h"
#include "proto/wire/limits.h"

/* An agent numbers its strings, kernels, ranges and sets of ranges from 1 and sends each once,
 * before the first record that refers to it. They become public structs at once, so a record only
 * looks up a few pointers. Everything is checked against what has been defined, because a batch
 * comes from the measured program, which may be anything.
 *
 * Definitions live as long as the capture, so a program could fill its client's memory. When they
 * have reached their limit, which for programs of another user grows with their records, records go
 * on: a new range becomes the nearest range around it that was
 * kept, new kernels become one, and new strings are empty. Numbers are still kept, up to a higher
 * limit, because without them no later record could be read. */

_Static_assert((int)LIMIT_GROUPS == (int)GPUCTR_TURNS_MAX, "gpuctr.h tells the limit");

enum { PAYLOAD_TYPE_MAX = 6 }; /* those that gpuctr.h names */

#define MEMORY_LEAST ((size_t)256 << 20)
#define MEMORY_MOST ((size_t)4 << 30)
#define BOUND_LEAST ((size_t)32 << 20)
#define BOUND_A_RECORD ((size_t)4096)
#define BOUND_MOST ((size_t)256 << 20)

void decoder_memory_init(struct decoder_memory *m)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	size_t quarter = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : MEMORY_LEAST;

	quarter = quarter > MEMORY_LEAST ? quarter : MEMORY_LEAST;
	*m = (struct decoder_memory){ 0 };
	m->objects.max = quarter < MEMORY_MOST ? quarter : MEMORY_MOST;
	m->tables.max = m->objects.max / 4;
	m->images.max = 2 * (size_t)LIMIT_IMAGE_BYTES;
}

void decoder_memory_bound(struct decoder_memory *m)
{
	m->objects_most = BOUND_MOST < m->objects.max ? BOUND_MOST : m->objects.max;
	m->objects.max = BOUND_LEAST;
	m->tables.max = m->objects.max / 4;
}

/* n: at most LIMIT_RECORDS_PER_FRAME. */
static void earn(struct decoder_memory *m, size_t n)
{
	if (m->objects.max < m->objects_most) {
		m->objects.max += n * BOUND_A_RECORD;
		m->objects.max =
			m->objects.max < m->objects_most ? m->objects.max : m->objects_most;
		m->tables.max = m->objects.max / 4;
	}
}

struct decoder *decoder_new(uint32_t process, struct decoder_memory *memory)
{
	struct decoder *d = calloc(1, sizeof(*d));

	if (d) {
		d->process = process;
		d->memory = memory;
		arena_init(&d->objects, ARENA_NO_LIMIT);
		arena_init(&d->columns, 2 * LIMIT_UNPACKED_BYTES);
		d->objects.quota = &memory->objects;
		d->image.quota = &memory->images;
		d->other = (struct gpuctr_kernel){ .name = "(not kept)",
						   .mangled = "(not kept)",
						   .static_shared_bytes = -1,
						   .registers = -1 };
	}
	return d;
}

static void table_free(struct decoder *d, struct table *t)
{
	quota_give(&d->memory->tables, t->room * sizeof(*t->v));
	free(t->v);
}

struct decoder *decoder_free(struct decoder *d)
{
	if (d) {
		arena_deinit(&d->objects);
		arena_deinit(&d->columns);
		table_free(d, &d->strings);
		table_free(d, &d->kernels);
		table_free(d, &d->ranges);
		table_free(d, &d->sets);
		buffer_deinit(&d->image);
		free(d);
	}
	return NULL;
}

static bool table_add(struct decoder *d, struct table *t, const void *object)
{
	if (t->n == t->room) {
		size_t more = t->room ? t->room : 256;
		void **v = NULL;

		if (quota_take(&d->memory->tables, more * sizeof(*v))) {
			v = realloc(t->v, (t->room + more) * sizeof(*v));
		}
		if (!v) {
			d->is_full = true;
			return false;
		}
		t->v = v;
		t->room += more;
	}
	t->v[t->n++] = (void *)object;
	return true;
}

/* Memory for a definition; NULL: the limit is reached. */
static void *keep(struct decoder *d, size_t bytes)
{
	void *p = d->is_full ? NULL : arena_zalloc(&d->objects, bytes);

	d->is_full |= !p;
	return p;
}

static const char *keep_text(struct decoder *d, const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = keep(d, n);

	return copy ? memcpy(copy, text, n) : NULL;
}

/* Borrowed; NULL for 0 and for what is not defined. */
static void *table_at(const struct table *t, uint32_t id)
{
	return id >= 1 && id <= t->n ? t->v[id - 1] : NULL;
}

/* --- definitions --- */

static bool define_strings(struct decoder *d, const struct wire_record_columns *c)
{
	if (c->strings.n > 0 && c->first_string != d->strings.n + 1) {
		return false;
	}
	for (size_t i = 0; i < c->strings.n; i++) {
		const char *kept = keep_text(d, c->strings.v[i]);

		if (!table_add(d, &d->strings, kept ? kept : "")) {
			return false;
		}
	}
	return true;
}

/* The name lives as long as the decoder. */
static const char *demangle(struct decoder *d, const char *mangled)
{
	CLEAN_FREE char *name = demangle_kernel(mangled);
	const char *kept = name ? keep_text(d, name) : NULL;

	return kept ? kept : mangled;
}

/* -1 for an attribute that is unknown, or too large for any kernel. */
static int attribute_of(uint32_t value)
{
	return value <= INT_MAX ? (int)value : -1;
}

static bool define_kernels(struct decoder *d, const struct wire_record_columns *c)
{
	size_t n = c->function_name.n;

	if (c->function_static_shared.n != n || c->function_registers.n != n ||
	    (n > 0 && c->first_function != d->kernels.n + 1)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const char *mangled = table_at(&d->strings, c->function_name.v[i]);
		struct gpuctr_kernel *k;

		if (!mangled) {
			return false;
		}
		k = keep(d, sizeof(*k));
		if (k) {
			k->mangled = mangled;
			k->name = demangle(d, mangled);
			k->static_shared_bytes = attribute_of(c->function_static_shared.v[i]);
			k->registers = attribute_of(c->function_registers.v[i]);
			k->id = (unsigned)d->kernels.n + 1;
		} else if (d->other.id == 0) {
			d->other.id = (unsigned)d->kernels.n + 1;
		}
		if (!table_add(d, &d->kernels, k ? k : &d->other)) {
			return false;
		}
	}
	return true;
}

static void fill_range(const struct decoder *d, const struct wire_record_columns *c, size_t i,
		       const struct gpuctr_range *parent, struct gpuctr_range *r)
{
	const char *domain = table_at(&d->strings, c->node_domain.v[i]);
	const char *message = table_at(&d->strings, c->node_message.v[i]);
	const char *category = table_at(&d->strings, c->node_category.v[i]);

	r->parent = parent;
	r->domain = domain ? domain : "";
	r->message = message ? message : "";
	r->category = category ? category : "";
	r->color = c->node_color.v[i];
	/* NVTX has more types, such as 0xdfbd0009 for extended payloads, whose bits mean nothing
	 * outside of the program. */
	if (c->node_payload_type.v[i] <= PAYLOAD_TYPE_MAX) {
		r->payload_type = c->node_payload_type.v[i];
		r->payload = c->node_payload.v[i];
	}
	r->id = (unsigned)d->ranges.n + 1;
	r->depth = parent ? parent->depth + 1 : 0;
}

/* *ret is NULL for no range. False: it is not defined. */
static bool find_range(const struct decoder *d, uint32_t id, const struct gpuctr_range **ret)
{
	const struct gpuctr_range *r = table_at(&d->ranges, id);

	*ret = r != &d->nowhere ? r : NULL;
	return r || id == 0;
}

/* A new definition, or if memory is used up the range around it. */
static bool define_range(struct decoder *d, const struct wire_record_columns *c, size_t i)
{
	const struct gpuctr_range *parent;
	struct gpuctr_range *r = NULL;

	if (!find_range(d, c->node_parent.v[i], &parent)) {
		return false;
	}
	if (parent && parent->depth + 1 >= DECODER_DEPTH_MAX) {
		d->is_deep = true;
	} else {
		r = keep(d, sizeof(*r));
	}
	if (r) {
		fill_range(d, c, i, parent, r);
		return table_add(d, &d->ranges, r);
	}
	return table_add(d, &d->ranges, parent ? parent : &d->nowhere);
}

static bool define_ranges(struct decoder *d, const struct wire_record_columns *c)
{
	size_t n = c->node_parent.n;

	if (c->node_domain.n != n || c->node_message.n != n || c->node_category.n != n ||
	    c->node_color.n != n || c->node_payload_type.n != n || c->node_payload.n != n ||
	    (n > 0 && c->first_node != d->ranges.n + 1)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (!define_range(d, c, i)) {
			return false;
		}
	}
	return true;
}

/* NULL: a range is not defined. */
static const struct range_set *keep_set(struct decoder *d, const uint32_t *ids, size_t n)
{
	struct range_set *s = keep(d, sizeof(*s));
	const struct gpuctr_range **v = s ? keep(d, (n + 1) * sizeof(*s->v)) : NULL;

	for (size_t i = 0; i < n; i++) {
		const struct gpuctr_range *r;

		if (ids[i] == 0 || !find_range(d, ids[i], &r)) {
			return NULL;
		}
		if (v && r) {
			v[s->n++] = r;
		}
	}
	if (!v) {
		return &d->no_set;
	}
	s->v = v;
	return s;
}

static bool define_sets(struct decoder *d, const struct wire_record_columns *c)
{
	size_t used = 0;

	if (c->set_size.n > 0 && c->first_set != d->sets.n + 1) {
		return false;
	}
	for (size_t i = 0; i < c->set_size.n; i++) {
		size_t n = c->set_size.v[i];
		const struct range_set *set;

		if (n > c->set_node.n - used) {
			return false;
		}
		set = keep_set(d, c->set_node.v + used, n);
		if (!set || !table_add(d, &d->sets, set)) {
			return false;
		}
		used += n;
	}
	return true;
}

/* --- records --- */

static bool lengths_fit(const struct wire_record_columns *c, size_t n, size_t n_columns)
{
	return c->kind.n == n && c->function.n == n && c->grid.n == 3 * n && c->block.n == 3 * n &&
	       c->dynamic_shared.n == n && c->device.n == n && c->context.n == n &&
	       c->stream.n == n && c->correlation.n == n && c->thread.n == n &&
	       c->start_ns.n == n && c->node.n == n && c->range_set.n == n &&
	       c->values.n == n * n_columns && c->clock.n == n && c->duration_ns.n == n &&
	       c->mark_thread.n == c->mark_node.n && c->mark_ns.n == c->mark_node.n &&
	       (c->group.n == n || c->group.n == 0) && c->graph_node.n == c->graph.n &&
	       (c->graph.n == n || c->graph.n == 0);
}

static bool copies_fit(const struct wire_record_columns *c)
{
	size_t n = c->copy_kind.n;

	return c->copy_device.n == n && c->copy_context.n == n && c->copy_stream.n == n &&
	       c->copy_bytes.n == n && c->copy_start_ns.n == n && c->copy_duration_ns.n == n;
}

static bool fill_record(const struct decoder *d, const struct wire_record_columns *c, size_t i,
			struct gpuctr_record *r)
{
	const struct range_set *set = table_at(&d->sets, c->range_set.v[i]);

	r->kind = c->kind.v[i] <= GPUCTR_LAUNCH_GRAPH_KERNEL ? c->kind.v[i] : GPUCTR_LAUNCH_KERNEL;
	r->kernel = table_at(&d->kernels, c->function.v[i]);
	memcpy(r->grid, c->grid.v + 3 * i, sizeof(r->grid));
	memcpy(r->block, c->block.v + 3 * i, sizeof(r->block));
	r->dynamic_shared_bytes = c->dynamic_shared.v[i];
	r->device = c->device.v[i];
	r->context = c->context.v[i];
	r->stream = c->stream.v[i];
	r->correlation = c->correlation.v[i];
	r->thread = c->thread.v[i];
	r->active = set ? set->v : NULL;
	r->n_active = set ? set->n : 0;
	r->graph = c->graph.n > 0 ? c->graph.v[i] : 0;
	r->graph_node = c->graph.n > 0 ? c->graph_node.v[i] : 0;
	return r->kernel && find_range(d, c->node.v[i], &r->range) &&
	       (set || c->range_set.v[i] == 0);
}

static bool fill_group(const struct wire_record_columns *c, size_t i, struct gpuctr_record *r)
{
	r->group = c->group.n > 0 ? c->group.v[i] : 0;
	return r->group < LIMIT_GROUPS;
}

/* An unknown clock, or a time that cannot be one, becomes "none". */
static void fill_times(const struct wire_record_columns *c, size_t i, uint64_t start_ns,
		       struct gpuctr_record *r)
{
	uint32_t clock = c->clock.v[i];
	uint64_t duration_ns = c->duration_ns.v[i];
	bool is_sound = start_ns <= CLOCK_NS_MOST && duration_ns <= CLOCK_NS_MOST - start_ns;
	bool is_known = clock != GPUCTR_CLOCK_NONE && clock <= GPUCTR_CLOCK_GPU && is_sound;

	r->start_ns = (int64_t)start_ns;
	r->clock = is_known ? (enum gpuctr_clock)clock : GPUCTR_CLOCK_NONE;
	r->duration_ns = is_known ? (int64_t)duration_ns : -1;
}

/* Records come in order, and each once. A gap means that a batch could not be read. */
static bool takes_next(struct decoder *d, const struct wire_records *r)
{
	if (r->count == 0) {
		return true;
	}
	if (r->first < d->next_index || r->first > UINT64_MAX - r->count) {
		return false;
	}
	d->next_index = r->first + r->count;
	return true;
}

static bool deliver_records(const struct decoder *d, const struct wire_records *batch,
			    const struct wire_record_columns *c, size_t n_columns,
			    decoder_on_record on_record, void *userdata)
{
	struct gpuctr_record r = { .process = d->process };
	uint64_t start_ns = 0;

	for (size_t i = 0; i < batch->count; i++) {
		r.index = batch->first + i;
		start_ns += (uint64_t)c->start_ns.v[i];
		fill_times(c, i, start_ns, &r);
		r.values = c->values.v + i * n_columns;
		if (!fill_record(d, c, i, &r) || !fill_group(c, i, &r)) {
			return false;
		}
		on_record(&r, userdata);
	}
	return true;
}

static bool deliver_marks(const struct decoder *d, const struct wire_record_columns *c,
			  decoder_on_mark on_mark, void *userdata)
{
	for (size_t i = 0; i < c->mark_node.n; i++) {
		struct gpuctr_mark m = {
			d->process,
			NULL,
			c->mark_thread.v[i],
			c->mark_ns.v[i],
		};

		if (c->mark_node.v[i] == 0 || !find_range(d, c->mark_node.v[i], &m.range)) {
			return false;
		}
		if (m.range) {
			on_mark(&m, userdata);
		}
	}
	return true;
}

static bool deliver_copies(const struct decoder *d, const struct wire_record_columns *c,
			   decoder_on_copy on_copy, void *userdata)
{
	for (size_t i = 0; i < c->copy_kind.n; i++) {
		const struct gpuctr_copy copy = {
			.process = d->process,
			.kind = (enum gpuctr_copy_kind)c->copy_kind.v[i],
			.device = c->copy_device.v[i],
			.context = c->copy_context.v[i],
			.stream = c->copy_stream.v[i],
			.bytes = c->copy_bytes.v[i],
			.start_ns = c->copy_start_ns.v[i],
			.duration_ns = (int64_t)c->copy_duration_ns.v[i],
		};

		if (c->copy_kind.v[i] > GPUCTR_COPY_LOST || copy.start_ns < 0 ||
		    copy.start_ns > CLOCK_NS_MOST ||
		    c->copy_duration_ns.v[i] > CLOCK_NS_MOST - (uint64_t)copy.start_ns) {
			return false;
		}
		on_copy(&copy, userdata);
	}
	return true;
}

bool decoder_feed(struct decoder *d, const struct wire_records *r, size_t n_columns,
		  decoder_on_record on_record, decoder_on_mark on_mark, decoder_on_copy on_copy,
		  void *userdata)
{
	struct wire_message m;
	const struct wire_record_columns *c = &m.record_columns;

	arena_reset(&d->columns);
	if (wire_decode(&d->columns, WIRE_RECORD_COLUMNS, r->columns.v, r->columns.n, &m) != 0) {
		return false;
	}
	if (!lengths_fit(c, r->count, n_columns) || !copies_fit(c) || !takes_next(d, r)) {
		return false;
	}
	earn(d->memory, r->count);
	if (!define_strings(d, c) || !define_kernels(d, c) || !define_ranges(d, c) ||
	    !define_sets(d, c)) {
		return false;
	}
	return deliver_records(d, r, c, n_columns, on_record, userdata) &&
	       deliver_marks(d, c, on_mark, userdata) && deliver_copies(d, c, on_copy, userdata);
}

void decoder_drop_image(struct decoder *d)
{
	buffer_consume(&d->image, buffer_length(&d->image));
}

bool decoder_feed_image(struct decoder *d, const struct wire_raw_image *piece,
			struct gpuctr_image *ret)
{
	*ret = (struct gpuctr_image){ 0 };
	if (piece->size > LIMIT_IMAGE_BYTES || piece->offset > piece->size) {
		return false;
	}
	if (piece->offset == 0) {
		decoder_drop_image(d);
		d->image_first = piece->first;
		d->image_count = piece->count;
		d->image_size = piece->size;
	}
	if (piece->offset != buffer_length(&d->image) || piece->first != d->image_first ||
	    piece->size != d->image_size || piece->data.n > piece->size - piece->offset) {
		return false;
	}
	if (buffer_append(&d->image, piece->data.v, piece->data.n) < 0) {
		d->lost_image = true;
		decoder_drop_image(d);
		return false;
	}
	if (buffer_length(&d->image) == piece->size) {
		*ret = (struct gpuctr_image){
			d->process,  d->image_first, d->image_count, d->image.data + d->image.start,
			piece->size,
		};
	}
	return true;
}
