/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/decode.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/numbers.h"
#include "proto/wire/demangle.h"
#include "proto/wire/limits.h"

/* An agent numbers its strings, kernels, sites and sets of sites from 1 and sends each once, before
 * the first record that refers to it. They become public structs at once, so a record only looks up
 * a few pointers. Every number is checked against the definitions, because a batch comes from the
 * measured program, which may be hostile.
 *
 * Definitions live as long as the capture, so a program could fill its client's memory. Definitions
 * have a limit, which for programs of another user grows with the number of their records. Beyond
 * it records still come: a new site is replaced by the nearest site around it that was kept, all
 * new kernels by one, and new strings are empty. The tables of numbers still grow, up to a limit of
 * their own, because without them no later record could be read. */

_Static_assert((int)LIMIT_GROUPS == (int)GPUCTR_TURNS_MAX, "gpuctr.h tells the limit");

enum { PAYLOAD_TYPE_MAX = 6 }; /* types that gpuctr.h names */

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
		table_free(d, &d->sites);
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

/* Allocates memory for a definition. NULL: the limit is reached. */
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

/* The object with this identifier, borrowed. NULL: id is 0 or not defined. */
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

static const char *text_at(const struct decoder *d, uint32_t id)
{
	const char *text = table_at(&d->strings, id);

	return text ? text : "";
}

static void fill_site(const struct decoder *d, const struct wire_record_columns *c, size_t i,
		      const struct gpuctr_site *parent, struct gpuctr_site *site)
{
	*site = (struct gpuctr_site){
		.parent = parent,
		.domain = text_at(d, c->site_domain.v[i]),
		.name = text_at(d, c->site_name.v[i]),
		.sizes = text_at(d, c->site_sizes.v[i]),
		.category = text_at(d, c->site_category.v[i]),
		.color = c->site_color.v[i],
		.kind = (enum gpuctr_site_kind)c->site_kind.v[i],
		.numbered = (enum gpuctr_site_number)c->site_numbered.v[i],
		.id = (unsigned)d->sites.n + 1,
		.depth = parent ? parent->depth + 1 : 0,
	};
	site->n_numbers = (parent ? parent->n_numbers : 0) + (site->numbered != GPUCTR_NUMBER_NONE);
}

/* *ret: the site; NULL if id is 0 or the site was not kept. False: id is not defined. */
static bool find_site(const struct decoder *d, uint32_t id, const struct gpuctr_site **ret)
{
	const struct gpuctr_site *site = table_at(&d->sites, id);

	*ret = site != &d->nowhere ? site : NULL;
	return site || id == 0;
}

/* Adds a site to the table; if memory is used up, the site around it takes its place. */
static bool define_site(struct decoder *d, const struct wire_record_columns *c, size_t i)
{
	const struct gpuctr_site *parent;
	struct gpuctr_site *site = NULL;

	if (!find_site(d, c->site_parent.v[i], &parent) || c->site_kind.v[i] > GPUCTR_SITE_ENGINE ||
	    c->site_numbered.v[i] > GPUCTR_NUMBER_SEQ) {
		return false;
	}
	if (parent && parent->depth + 1 >= DECODER_DEPTH_MAX) {
		d->is_deep = true;
	} else {
		site = keep(d, sizeof(*site));
	}
	if (site) {
		fill_site(d, c, i, parent, site);
		return table_add(d, &d->sites, site);
	}
	return table_add(d, &d->sites, parent ? parent : &d->nowhere);
}

static bool define_sites(struct decoder *d, const struct wire_record_columns *c)
{
	size_t n = c->site_parent.n;

	if (c->site_domain.n != n || c->site_name.n != n || c->site_category.n != n ||
	    c->site_color.n != n || c->site_sizes.n != n || c->site_kind.n != n ||
	    c->site_numbered.n != n || (n > 0 && c->first_site != d->sites.n + 1)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (!define_site(d, c, i)) {
			return false;
		}
	}
	return true;
}

/* NULL: one of the sites is not defined. */
static const struct site_set *keep_set(struct decoder *d, const uint32_t *ids, size_t n)
{
	struct site_set *s = keep(d, sizeof(*s));
	const struct gpuctr_site **v = s ? keep(d, (n + 1) * sizeof(*s->v)) : NULL;

	for (size_t i = 0; i < n; i++) {
		const struct gpuctr_site *r;

		if (ids[i] == 0 || !find_site(d, ids[i], &r)) {
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
		const struct site_set *set;

		if (n > c->set_site.n - used) {
			return false;
		}
		set = keep_set(d, c->set_site.v + used, n);
		if (!set || !table_add(d, &d->sets, set)) {
			return false;
		}
		used += n;
	}
	return true;
}

/* --- records --- */

static bool marks_fit(const struct wire_record_columns *c)
{
	size_t n = c->mark_site.n;

	return c->mark_thread.n == n && c->mark_ns.n == n && c->mark_payload_type.n == n &&
	       c->mark_payload.n == n && c->mark_number_bytes.n == n;
}

static bool lengths_fit(const struct wire_record_columns *c, size_t n, size_t n_columns)
{
	return c->kind.n == n && c->function.n == n && c->grid.n == 3 * n && c->block.n == 3 * n &&
	       c->dynamic_shared.n == n && c->device.n == n && c->context.n == n &&
	       c->stream.n == n && c->correlation.n == n && c->thread.n == n &&
	       c->start_ns.n == n && c->site.n == n && c->range_set.n == n && c->opened.n == n &&
	       c->payload_type.n == n && c->payload.n == n && c->number_bytes.n == n &&
	       c->values.n == n * n_columns && c->clock.n == n && c->duration_ns.n == n &&
	       marks_fit(c) && (c->group.n == n || c->group.n == 0) &&
	       c->graph_node.n == c->graph.n && (c->graph.n == n || c->graph.n == 0);
}

static bool copies_fit(const struct wire_record_columns *c)
{
	size_t n = c->copy_kind.n;

	return c->copy_device.n == n && c->copy_context.n == n && c->copy_stream.n == n &&
	       c->copy_bytes.n == n && c->copy_start_ns.n == n && c->copy_duration_ns.n == n;
}

/* The encoded numbers of sites' occurrences, one record or mark behind the other. */
struct numbers {
	const uint8_t *v;
	size_t left; /* bytes left */
};

/* Reads the numbers of a site and its parents, as far as the agent sent them. False: malformed. */
static bool take_numbers(struct decoder *d, struct numbers *from, uint32_t bytes,
			 const struct gpuctr_site *site, const int64_t **ret)
{
	size_t wanted = site ? site->n_numbers : 0, n;

	if (bytes > from->left || !numbers_decode(from->v, bytes, d->numbers, wanted, &n)) {
		return false;
	}
	from->v += bytes;
	from->left -= bytes;
	for (; n < wanted; n++) {
		d->numbers[n] = -1;
	}
	*ret = d->numbers;
	return true;
}

static void fill_payload(uint32_t type, uint64_t payload, struct gpuctr_occurrence *ret)
{
	/* NVTX has more types, such as 0xdfbd0009 for extended payloads, which have no meaning
	 * outside the program. */
	bool is_known = type <= PAYLOAD_TYPE_MAX;

	ret->payload_type = is_known ? type : 0;
	ret->payload = is_known ? payload : 0;
}

static bool fill_site_of_record(struct decoder *d, const struct wire_record_columns *c, size_t i,
				struct numbers *numbers, struct gpuctr_record *r)
{
	unsigned depth;

	if (!find_site(d, c->site.v[i], &r->site) ||
	    !take_numbers(d, numbers, c->number_bytes.v[i], r->site, &r->at.numbers)) {
		return false;
	}
	depth = r->site ? r->site->depth + 1 : 0;
	r->opened = c->opened.v[i] < depth ? c->opened.v[i] : depth;
	fill_payload(c->payload_type.v[i], c->payload.v[i], &r->at);
	return true;
}

static bool fill_record(const struct decoder *d, const struct wire_record_columns *c, size_t i,
			struct gpuctr_record *r)
{
	const struct site_set *set = table_at(&d->sets, c->range_set.v[i]);

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
	return r->kernel && (set || c->range_set.v[i] == 0);
}

static bool fill_group(const struct wire_record_columns *c, size_t i, struct gpuctr_record *r)
{
	r->group = c->group.n > 0 ? c->group.v[i] : 0;
	return r->group < LIMIT_GROUPS;
}

/* An unknown clock, or an impossible time, becomes "none". */
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

/* Are these the next records? Each comes once, in order. A gap: a batch could not be read. */
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

/* Where records go. */
struct receiver {
	const struct gpuctr_capture_handler *handler;
	struct gpuctr_capture *capture;
	void *userdata;
};

static bool deliver_records(struct decoder *d, const struct wire_records *batch,
			    const struct wire_record_columns *c, size_t n_columns,
			    const struct receiver *to)
{
	struct gpuctr_record r = { .process = d->process };
	struct numbers numbers = { c->numbers.v, c->numbers.n };
	uint64_t start_ns = 0;

	for (size_t i = 0; i < batch->count; i++) {
		r.index = batch->first + i;
		start_ns += (uint64_t)c->start_ns.v[i];
		fill_times(c, i, start_ns, &r);
		r.values = c->values.v + i * n_columns;
		if (!fill_record(d, c, i, &r) || !fill_group(c, i, &r) ||
		    !fill_site_of_record(d, c, i, &numbers, &r)) {
			return false;
		}
		if (to->handler->on_record) {
			to->handler->on_record(to->capture, &r, to->userdata);
		}
	}
	return true;
}

static bool deliver_marks(struct decoder *d, const struct wire_record_columns *c,
			  const struct receiver *to)
{
	struct numbers numbers = { c->mark_numbers.v, c->mark_numbers.n };

	for (size_t i = 0; i < c->mark_site.n; i++) {
		struct gpuctr_mark m = {
			.process = d->process,
			.thread = c->mark_thread.v[i],
			.time_ns = c->mark_ns.v[i],
		};

		if (c->mark_site.v[i] == 0 || !find_site(d, c->mark_site.v[i], &m.site) ||
		    !take_numbers(d, &numbers, c->mark_number_bytes.v[i], m.site, &m.at.numbers)) {
			return false;
		}
		fill_payload(c->mark_payload_type.v[i], c->mark_payload.v[i], &m.at);
		if (m.site && to->handler->on_mark) {
			to->handler->on_mark(to->capture, &m, to->userdata);
		}
	}
	return true;
}

static bool deliver_copies(const struct decoder *d, const struct wire_record_columns *c,
			   const struct receiver *to)
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
		if (to->handler->on_copy) {
			to->handler->on_copy(to->capture, &copy, to->userdata);
		}
	}
	return true;
}

bool decoder_feed(struct decoder *d, const struct wire_records *r, size_t n_columns,
		  const struct gpuctr_capture_handler *handler, struct gpuctr_capture *capture,
		  void *userdata)
{
	const struct receiver to = { handler, capture, userdata };
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
	if (!define_strings(d, c) || !define_kernels(d, c) || !define_sites(d, c) ||
	    !define_sets(d, c)) {
		return false;
	}
	return deliver_records(d, r, c, n_columns, &to) && deliver_marks(d, c, &to) &&
	       deliver_copies(d, c, &to);
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
