/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/decode.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/wire/demangle.h"
#include "proto/wire/limits.h"

/* An agent numbers its strings, kernels, ranges and sets of ranges from 1 and sends each once,
 * before the first record that refers to it. They become public structs at once, so a record only
 * looks up a few pointers. Everything is checked against what has been defined, because a batch
 * comes from the measured program, which may be anything. */

/* The enumerators of the wire are cast to the public ones. */
#define SAME_NUMBER(wire, public) _Static_assert((int)(wire) == (int)(public), #public)
SAME_NUMBER(WIRE_LAUNCH_KERNEL, GPUCTR_LAUNCH_KERNEL);
SAME_NUMBER(WIRE_LAUNCH_COOPERATIVE, GPUCTR_LAUNCH_COOPERATIVE);
SAME_NUMBER(WIRE_LAUNCH_GRAPH, GPUCTR_LAUNCH_GRAPH);
SAME_NUMBER(WIRE_CLOCK_NONE, GPUCTR_CLOCK_NONE);
SAME_NUMBER(WIRE_CLOCK_RANGE, GPUCTR_CLOCK_RANGE);
SAME_NUMBER(WIRE_CLOCK_GPU, GPUCTR_CLOCK_GPU);
SAME_NUMBER(LIMIT_GROUPS, GPUCTR_TURNS_MAX);

enum { PAYLOAD_TYPE_MAX = 6 }; /* those that gpuctr.h names */

struct decoder *decoder_new(uint32_t process)
{
	struct decoder *d = calloc(1, sizeof(*d));

	if (d) {
		d->process = process;
		list_init(&d->link);
		arena_init(&d->objects, SIZE_MAX / 2);
		arena_init(&d->columns, 2 * LIMIT_UNPACKED_BYTES);
	}
	return d;
}

struct decoder *decoder_free(struct decoder *d)
{
	if (d) {
		list_remove(&d->link);
		arena_deinit(&d->objects);
		arena_deinit(&d->columns);
		free(d->strings.v);
		free(d->kernels.v);
		free(d->ranges.v);
		free(d->sets.v);
		buffer_deinit(&d->image);
		free(d);
	}
	return NULL;
}

static bool table_add(struct table *t, void *object)
{
	if (!object) {
		return false;
	}
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 256;
		void **v = realloc(t->v, room * sizeof(*v));

		if (!v) {
			return false;
		}
		t->v = v;
		t->room = room;
	}
	t->v[t->n++] = object;
	return true;
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
		if (!table_add(&d->strings, arena_printf(&d->objects, "%s", c->strings.v[i]))) {
			return false;
		}
	}
	return true;
}

/* The name lives as long as the decoder. */
static const char *demangle(struct decoder *d, const char *mangled)
{
	CLEAN_FREE char *name = demangle_kernel(mangled);
	const char *kept = name ? arena_printf(&d->objects, "%s", name) : NULL;

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
		struct gpuctr_kernel *k = mangled ? arena_zalloc(&d->objects, sizeof(*k)) : NULL;

		if (!k) {
			return false;
		}
		k->mangled = mangled;
		k->name = demangle(d, mangled);
		k->static_shared_bytes = attribute_of(c->function_static_shared.v[i]);
		k->registers = attribute_of(c->function_registers.v[i]);
		k->id = (unsigned)d->kernels.n + 1;
		if (!table_add(&d->kernels, k)) {
			return false;
		}
	}
	return true;
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
		const struct gpuctr_range *parent = table_at(&d->ranges, c->node_parent.v[i]);
		const char *domain = table_at(&d->strings, c->node_domain.v[i]);
		const char *message = table_at(&d->strings, c->node_message.v[i]);
		const char *category = table_at(&d->strings, c->node_category.v[i]);
		struct gpuctr_range *r = arena_zalloc(&d->objects, sizeof(*r));

		if (!r || (c->node_parent.v[i] != 0 && !parent)) {
			return false;
		}
		r->parent = parent;
		r->domain = domain ? domain : "";
		r->message = message ? message : "";
		r->category = category ? category : "";
		r->color = c->node_color.v[i];
		/* NVTX has more types, such as 0xdfbd0009 for extended payloads, whose bits mean
		 * nothing outside of the program. */
		if (c->node_payload_type.v[i] <= PAYLOAD_TYPE_MAX) {
			r->payload_type = c->node_payload_type.v[i];
			r->payload = c->node_payload.v[i];
		}
		r->id = (unsigned)d->ranges.n + 1;
		r->depth = parent ? parent->depth + 1 : 0;
		if (!table_add(&d->ranges, r)) {
			return false;
		}
	}
	return true;
}

static bool define_sets(struct decoder *d, const struct wire_record_columns *c)
{
	size_t used = 0;

	if (c->set_size.n > 0 && c->first_set != d->sets.n + 1) {
		return false;
	}
	for (size_t i = 0; i < c->set_size.n; i++) {
		size_t n = c->set_size.v[i];
		struct range_set *s = arena_alloc(&d->objects, sizeof(*s));

		if (!s || n > c->set_node.n - used) {
			return false;
		}
		s->n = n;
		s->v = arena_alloc(&d->objects, n * sizeof(*s->v));
		for (size_t k = 0; k < n; k++) {
			const struct gpuctr_range *r =
				table_at(&d->ranges, c->set_node.v[used + k]);

			if (!s->v || !r) {
				return false;
			}
			s->v[k] = r;
		}
		used += n;
		if (!table_add(&d->sets, s)) {
			return false;
		}
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
	       c->chance.n == c->stratum.n && (c->stratum.n == n || c->stratum.n == 0) &&
	       (c->group.n == n || c->group.n == 0);
}

static bool strata_fit(const struct wire_record_columns *c)
{
	size_t n = c->stratum_id.n;

	return c->stratum_function.n == n && c->stratum_node.n == n && c->stratum_grid.n == 3 * n &&
	       c->stratum_block.n == 3 * n && c->stratum_shared.n == n &&
	       c->stratum_device.n == n && c->stratum_merged.n == n && c->stratum_seen.n == n;
}

static bool fill_record(const struct decoder *d, const struct wire_record_columns *c, size_t i,
			struct gpuctr_record *r)
{
	const struct range_set *set = table_at(&d->sets, c->range_set.v[i]);

	r->kind = c->kind.v[i] <= GPUCTR_LAUNCH_GRAPH ? c->kind.v[i] : GPUCTR_LAUNCH_KERNEL;
	r->kernel = table_at(&d->kernels, c->function.v[i]);
	memcpy(r->grid, c->grid.v + 3 * i, sizeof(r->grid));
	memcpy(r->block, c->block.v + 3 * i, sizeof(r->block));
	r->dynamic_shared_bytes = c->dynamic_shared.v[i];
	r->device = c->device.v[i];
	r->context = c->context.v[i];
	r->stream = c->stream.v[i];
	r->correlation = c->correlation.v[i];
	r->thread = c->thread.v[i];
	r->range = table_at(&d->ranges, c->node.v[i]);
	r->active = set ? set->v : NULL;
	r->n_active = set ? set->n : 0;
	return r->kernel && (r->range || c->node.v[i] == 0) && (set || c->range_set.v[i] == 0);
}

/* Everything is measured, or there is a chance. */
static bool fill_chance(const struct wire_record_columns *c, size_t i, struct gpuctr_record *r)
{
	r->stratum = c->stratum.n > 0 ? c->stratum.v[i] : 0;
	r->chance = c->chance.n > 0 ? c->chance.v[i] : 1;
	r->group = c->group.n > 0 ? c->group.v[i] : 0;
	return (c->stratum.n == 0 || (r->stratum > 0 && r->chance > 0 && r->chance <= 1)) &&
	       r->group < LIMIT_GROUPS;
}

/* An unknown clock, or a duration that cannot be one, becomes "none". */
static void fill_times(const struct wire_record_columns *c, size_t i, uint64_t start_ns,
		       struct gpuctr_record *r)
{
	uint32_t clock = c->clock.v[i];
	uint64_t duration_ns = c->duration_ns.v[i];
	bool is_known =
		clock != WIRE_CLOCK_NONE && clock <= WIRE_CLOCK_GPU && duration_ns <= INT64_MAX;

	r->start_ns = (int64_t)start_ns;
	r->clock = is_known ? (enum gpuctr_clock)clock : GPUCTR_CLOCK_NONE;
	r->duration_ns = is_known ? (int64_t)duration_ns : -1;
}

/* Records come in order and none twice; a batch that could not be read may be missing. */
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
		if (!fill_record(d, c, i, &r) || !fill_chance(c, i, &r)) {
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
			table_at(&d->ranges, c->mark_node.v[i]),
			c->mark_thread.v[i],
			c->mark_ns.v[i],
		};

		if (!m.range) {
			return false;
		}
		on_mark(&m, userdata);
	}
	return true;
}

static bool deliver_strata(const struct decoder *d, const struct wire_record_columns *c,
			   decoder_on_stratum on_stratum, void *userdata)
{
	for (size_t i = 0; i < c->stratum_id.n; i++) {
		struct gpuctr_stratum s = {
			.process = d->process,
			.id = c->stratum_id.v[i],
			.kernel = table_at(&d->kernels, c->stratum_function.v[i]),
			.range = table_at(&d->ranges, c->stratum_node.v[i]),
			.dynamic_shared_bytes = c->stratum_shared.v[i],
			.device = c->stratum_device.v[i],
			.merged = c->stratum_merged.v[i] != 0,
			.seen = c->stratum_seen.v[i],
		};

		memcpy(s.grid, c->stratum_grid.v + 3 * i, sizeof(s.grid));
		memcpy(s.block, c->stratum_block.v + 3 * i, sizeof(s.block));
		if (s.id == 0 || s.id > LIMIT_STRATA ||
		    (!s.kernel && c->stratum_function.v[i] != 0) ||
		    (!s.range && c->stratum_node.v[i] != 0)) {
			return false;
		}
		on_stratum(&s, userdata);
	}
	return true;
}

bool decoder_feed(struct decoder *d, const struct wire_records *r, size_t n_columns,
		  decoder_on_record on_record, decoder_on_mark on_mark,
		  decoder_on_stratum on_stratum, void *userdata)
{
	struct wire_message m;
	const struct wire_record_columns *c = &m.record_columns;

	arena_reset(&d->columns);
	if (wire_decode(&d->columns, WIRE_RECORD_COLUMNS, r->columns.v, r->columns.n, &m) != 0) {
		return false;
	}
	if (!lengths_fit(c, r->count, n_columns) || !strata_fit(c) || !takes_next(d, r)) {
		return false;
	}
	if (!define_strings(d, c) || !define_kernels(d, c) || !define_ranges(d, c) ||
	    !define_sets(d, c)) {
		return false;
	}
	return deliver_records(d, r, c, n_columns, on_record, userdata) &&
	       deliver_marks(d, c, on_mark, userdata) && deliver_strata(d, c, on_stratum, userdata);
}

bool decoder_feed_image(struct decoder *d, const struct wire_raw_image *piece,
			struct gpuctr_image *ret)
{
	*ret = (struct gpuctr_image){ 0 };
	if (piece->size > LIMIT_IMAGE_BYTES || piece->offset > piece->size) {
		return false;
	}
	if (piece->offset == 0) {
		buffer_consume(&d->image, buffer_length(&d->image));
		d->image_first = piece->first;
		d->image_count = piece->count;
		d->image_size = piece->size;
	}
	if (piece->offset != buffer_length(&d->image) || piece->first != d->image_first ||
	    piece->size != d->image_size || piece->data.n > piece->size - piece->offset ||
	    buffer_append(&d->image, piece->data.v, piece->data.n) < 0) {
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
