/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/pack.h"

#include <errno.h>
#include <string.h>

#include "proto/wire/limits.h"

/* Turns structs of launches into the columns of the wire. Definitions go first, in frames of their
 * own, so that no record refers to a definition that the client has not seen. */

enum {
	STRING_BYTES_PER_FRAME = 256 * 1024,
	DEFINITIONS_PER_FRAME = 8192,
	RECORD_BYTES_PER_FRAME = 256 * 1024
};

struct packer {
	struct connection *connection;
	const struct wire_agent_welcome *welcome;
	struct buffer payload;
	struct arena scratch;
	struct arena columns; /* columns of one frame */
	bool lacks_memory;    /* for some of the columns */
};

static struct packer packer_of(struct connection *l, const struct wire_agent_welcome *welcome)
{
	struct packer p = { .connection = l, .welcome = welcome };

	arena_init(&p.scratch, LIMIT_UNPACKED_BYTES);
	arena_init(&p.columns, LIMIT_UNPACKED_BYTES);
	return p;
}

static void packer_deinit(struct packer *p)
{
	buffer_deinit(&p->payload);
	arena_deinit(&p->scratch);
	arena_deinit(&p->columns);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* --- columns --- */

/* A member of an array of structs: its size, its number of values, and the size of a struct. */
struct member {
	size_t bytes, n, stride;
};

static uint64_t read_value(const void *at, size_t bytes)
{
	return bytes == sizeof(uint64_t)   ? *(const uint64_t *)at
	       : bytes == sizeof(uint32_t) ? *(const uint32_t *)at
					   : *(const uint8_t *)at;
}

/* The member's values of n structs, each of width bytes, as in the message; NULL: out of memory. */
static void *column(struct packer *p, const void *first, struct member m, size_t n, size_t width)
{
	void *values = arena_alloc(&p->columns, n * m.n * width);
	size_t bytes = m.bytes / m.n, used = 0;

	p->lacks_memory = p->lacks_memory || !values;
	for (size_t i = 0; values && i < n; i++) {
		const char *at = (const char *)first + i * m.stride;

		for (size_t k = 0; k < m.n; k++, at += bytes) {
			if (width == sizeof(uint64_t)) {
				((uint64_t *)values)[used++] = read_value(at, bytes);
			} else {
				((uint32_t *)values)[used++] = (uint32_t)read_value(at, bytes);
			}
		}
	}
	return values;
}

/* Puts a member of n structs from v on into the message's column `to`. */
#define COLUMN_OF(p, to, v, n_, member_, each)                                                   \
	do {                                                                                     \
		(to).n = (n_) * (each);                                                          \
		(to).v = column(p, &(v)->member_,                                                \
				(struct member){ sizeof((v)->member_), each, sizeof(*(v)) }, n_, \
				sizeof(*(to).v));                                                \
	} while (0)
#define COLUMN(p, to, v, n, member) COLUMN_OF(p, to, v, n, member, 1)

/* The encoded numbers of n paths, one path after the other. */
static struct wire_bytes numbers_of(struct packer *p, const struct site_path *first, size_t n,
				    size_t stride)
{
	uint8_t *v = arena_alloc(&p->columns, n * SITE_PATH_NUMBERS);
	size_t bytes = 0;

	p->lacks_memory = p->lacks_memory || !v;
	for (size_t i = 0; v && i < n; i++) {
		const struct site_path *path = (const void *)((const char *)first + i * stride);

		memcpy(v + bytes, path->numbers, path->n_numbers);
		bytes += path->n_numbers;
	}
	return (struct wire_bytes){ bytes, v };
}

static int send_columns(struct packer *p, const struct wire_record_columns *columns, size_t n,
			uint64_t first)
{
	struct wire_message inner = { .type = WIRE_RECORD_COLUMNS, .record_columns = *columns };
	struct wire_message m = { .type = WIRE_RECORDS };
	int r;

	buffer_consume(&p->payload, buffer_length(&p->payload));
	r = p->lacks_memory ? -ENOMEM : wire_encode_payload(&p->scratch, &p->payload, &inner);
	arena_reset(&p->scratch);
	arena_reset(&p->columns);
	if (r < 0) {
		return r;
	}
	m.records = (struct wire_records){
		p->welcome->capture,
		p->welcome->process,
		first,
		(uint32_t)n,
		{ buffer_length(&p->payload), p->payload.data + p->payload.start },
	};
	return connection_send(p->connection, &m, -1, CONNECTION_NO_LIMIT);
}

/* --- definitions --- */

static int send_strings(struct packer *p, const struct definitions *d)
{
	char **v = d->strings.v;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->strings.n;) {
		struct wire_record_columns c = { .first_string = d->first_string + (uint32_t)i };
		size_t bytes = 0, n = 0;

		while (i + n < d->strings.n && n < DEFINITIONS_PER_FRAME &&
		       bytes < STRING_BYTES_PER_FRAME) {
			bytes += strlen(v[i + n++]);
		}
		c.strings = (struct wire_strings){ n, (const char *const *)v + i };
		r = send_columns(p, &c, 0, 0);
		i += n;
	}
	return r;
}

static int send_functions(struct packer *p, const struct definitions *d)
{
	const struct function_key *v = d->functions.v;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->functions.n; i += n, v += n) {
		struct wire_record_columns c = { .first_function =
							 d->first_function + (uint32_t)i };

		n = least(d->functions.n - i, DEFINITIONS_PER_FRAME);
		COLUMN(p, c.function_name, v, n, name);
		COLUMN(p, c.function_static_shared, v, n, static_shared_bytes);
		COLUMN(p, c.function_registers, v, n, registers);
		r = send_columns(p, &c, 0, 0);
	}
	return r;
}

static int send_sites(struct packer *p, const struct definitions *d)
{
	const struct site_key *v = d->sites.v;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->sites.n; i += n, v += n) {
		struct wire_record_columns c = { .first_site = d->first_site + (uint32_t)i };

		n = least(d->sites.n - i, DEFINITIONS_PER_FRAME);
		COLUMN(p, c.site_parent, v, n, parent);
		COLUMN(p, c.site_domain, v, n, domain);
		COLUMN(p, c.site_name, v, n, name);
		COLUMN(p, c.site_category, v, n, category);
		COLUMN(p, c.site_color, v, n, color);
		COLUMN(p, c.site_sizes, v, n, sizes);
		COLUMN(p, c.site_kind, v, n, kind);
		COLUMN(p, c.site_numbered, v, n, numbered);
		r = send_columns(p, &c, 0, 0);
	}
	return r;
}

static int send_sets(struct packer *p, const struct definitions *d)
{
	const uint32_t *sizes = d->set_sizes.v, *sites = d->set_sites.v;
	size_t used = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->set_sizes.n;) {
		struct wire_record_columns c = { .first_set = d->first_set + (uint32_t)i };
		size_t n = 0, total = 0;

		while (i + n < d->set_sizes.n && n < DEFINITIONS_PER_FRAME &&
		       total < DEFINITIONS_PER_FRAME) {
			total += sizes[i + n++];
		}
		c.set_size = (struct wire_u32s){ n, sizes + i };
		c.set_site = (struct wire_u32s){ total, sites + used };
		r = send_columns(p, &c, 0, 0);
		i += n;
		used += total;
	}
	return r;
}

static int send_marks(struct packer *p, const struct definitions *d)
{
	const struct mark *v = d->marks.v;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->marks.n; i += n, v += n) {
		struct wire_record_columns c = { 0 };

		n = least(d->marks.n - i, DEFINITIONS_PER_FRAME);
		COLUMN(p, c.mark_site, v, n, path.site);
		COLUMN(p, c.mark_thread, v, n, thread);
		COLUMN(p, c.mark_ns, v, n, time_ns);
		COLUMN(p, c.mark_payload_type, v, n, path.payload_type);
		COLUMN(p, c.mark_payload, v, n, path.payload);
		COLUMN(p, c.mark_number_bytes, v, n, path.n_numbers);
		c.mark_numbers = numbers_of(p, &v->path, n, sizeof(*v));
		r = send_columns(p, &c, 0, 0);
	}
	return r;
}

static int send_definitions(struct packer *p, struct intern *in)
{
	struct definitions d;
	int r;

	intern_take(in, &d);
	r = send_strings(p, &d);
	r = r == 0 ? send_functions(p, &d) : r;
	r = r == 0 ? send_sites(p, &d) : r;
	r = r == 0 ? send_sets(p, &d) : r;
	r = r == 0 ? send_marks(p, &d) : r;
	definitions_deinit(&d);
	if (r < 0) {
		connection_close(p->connection); /* later records would refer to a definition that
					was never sent */
	}
	return r;
}

/* --- records --- */

static bool has_graphs(const struct launch *v, size_t n)
{
	size_t i = 0;

	while (i < n && v[i].kind != GPUCTR_LAUNCH_GRAPH_KERNEL) {
		i++;
	}
	return i < n;
}

/* Replaces each time but the first by its difference from the time before. */
static void make_differences(const struct wire_i64s *times)
{
	int64_t *v = (int64_t *)(uintptr_t)times->v;

	for (size_t i = times->n; v && i-- > 1;) {
		v[i] -= v[i - 1];
	}
}

static int send_frame(struct packer *p, const struct launch *v, size_t n, const double *values,
		      uint64_t first)
{
	struct wire_record_columns c = { .values = { n * p->welcome->plan.columns.n, values } };

	COLUMN(p, c.kind, v, n, kind);
	COLUMN(p, c.function, v, n, function);
	COLUMN_OF(p, c.grid, v, n, grid, 3);
	COLUMN_OF(p, c.block, v, n, block, 3);
	COLUMN(p, c.dynamic_shared, v, n, dynamic_shared_bytes);
	COLUMN(p, c.device, v, n, device);
	COLUMN(p, c.context, v, n, context);
	COLUMN(p, c.stream, v, n, stream);
	COLUMN(p, c.correlation, v, n, correlation);
	COLUMN(p, c.thread, v, n, thread);
	COLUMN(p, c.start_ns, v, n, start_ns);
	make_differences(&c.start_ns);
	COLUMN(p, c.site, v, n, path.site);
	COLUMN(p, c.opened, v, n, path.opened);
	COLUMN(p, c.payload_type, v, n, path.payload_type);
	COLUMN(p, c.payload, v, n, path.payload);
	COLUMN(p, c.number_bytes, v, n, path.n_numbers);
	c.numbers = numbers_of(p, &v->path, n, sizeof(*v));
	COLUMN(p, c.range_set, v, n, set);
	COLUMN(p, c.clock, v, n, clock);
	COLUMN(p, c.duration_ns, v, n, duration_ns);
	if (p->welcome->plan.groups > 1) {
		COLUMN(p, c.group, v, n, pass);
	}
	if (has_graphs(v, n)) {
		COLUMN(p, c.graph, v, n, graph);
		COLUMN(p, c.graph_node, v, n, graph_node);
	}
	return send_columns(p, &c, n, first);
}

int pack_send(struct connection *l, const struct wire_agent_welcome *welcome, struct intern *in,
	      const struct launch *launches, size_t n, const double *values, uint64_t first)
{
	struct packer p = packer_of(l, welcome);
	size_t n_columns = welcome->plan.columns.n;
	size_t most = least(LIMIT_RECORDS_PER_FRAME,
			    RECORD_BYTES_PER_FRAME / (n_columns * sizeof(*values) + 128));
	int r = send_definitions(&p, in);

	for (size_t i = 0; r == 0 && i < n; i += most) {
		r = send_frame(&p, launches + i, least(n - i, most), values + i * n_columns,
			       first + i);
	}
	packer_deinit(&p);
	return r;
}

int pack_send_copies(struct connection *l, const struct wire_agent_welcome *welcome,
		     const struct pack_copy *v, size_t n, uint64_t first)
{
	struct packer p = packer_of(l, welcome);
	size_t some = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i += some, v += some) {
		struct wire_record_columns c = { 0 };

		some = least(n - i, DEFINITIONS_PER_FRAME);
		COLUMN(&p, c.copy_kind, v, some, kind);
		COLUMN(&p, c.copy_device, v, some, device);
		COLUMN(&p, c.copy_context, v, some, context);
		COLUMN(&p, c.copy_stream, v, some, stream);
		COLUMN(&p, c.copy_bytes, v, some, bytes);
		COLUMN(&p, c.copy_start_ns, v, some, start_ns);
		COLUMN(&p, c.copy_duration_ns, v, some, duration_ns);
		r = send_columns(&p, &c, 0, first);
	}
	packer_deinit(&p);
	return r;
}
