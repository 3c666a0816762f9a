/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* Launches are structs; the wire wants columns. Definitions go first, in frames of their own when
 * there are many, so that no record ever refers to what the client has not seen. */

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
};

static int send_columns(struct packer *p, const struct wire_record_columns *columns, size_t n,
			uint64_t first)
{
	struct wire_message inner = { .type = WIRE_RECORD_COLUMNS, .record_columns = *columns };
	struct wire_message m = { .type = WIRE_RECORDS };
	int r;

	buffer_consume(&p->payload, buffer_length(&p->payload));
	r = wire_encode_payload(&p->scratch, &p->payload, &inner);
	arena_reset(&p->scratch);
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
	uint32_t *columns = malloc((3 * DEFINITIONS_PER_FRAME) * sizeof(*columns));
	int r = columns ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < d->functions.n;) {
		size_t n = d->functions.n - i < DEFINITIONS_PER_FRAME ? d->functions.n - i
								      : DEFINITIONS_PER_FRAME;
		struct wire_record_columns c = { .first_function =
							 d->first_function + (uint32_t)i };

		for (size_t k = 0; k < n; k++) {
			columns[k] = v[i + k].name;
			columns[n + k] = v[i + k].static_shared_bytes;
			columns[2 * n + k] = v[i + k].registers;
		}
		c.function_name = (struct wire_u32s){ n, columns };
		c.function_static_shared = (struct wire_u32s){ n, columns + n };
		c.function_registers = (struct wire_u32s){ n, columns + 2 * n };
		r = send_columns(p, &c, 0, 0);
		i += n;
	}
	free(columns);
	return r;
}

static int send_sites(struct packer *p, const struct definitions *d)
{
	const struct site_key *v = d->sites.v;
	CLEAN_FREE uint32_t *u = malloc((8 * DEFINITIONS_PER_FRAME) * sizeof(*u));
	int r = u ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < d->sites.n;) {
		size_t n = d->sites.n - i < DEFINITIONS_PER_FRAME ? d->sites.n - i
								  : DEFINITIONS_PER_FRAME;
		struct wire_record_columns c = { .first_site = d->first_site + (uint32_t)i };

		for (size_t k = 0; k < n; k++) {
			const struct site_key *key = &v[i + k];

			u[k] = key->parent;
			u[n + k] = key->domain;
			u[2 * n + k] = key->name;
			u[3 * n + k] = key->category;
			u[4 * n + k] = key->color;
			u[5 * n + k] = key->sizes;
			u[6 * n + k] = key->kind;
			u[7 * n + k] = key->numbered;
		}
		c.site_parent = (struct wire_u32s){ n, u };
		c.site_domain = (struct wire_u32s){ n, u + n };
		c.site_name = (struct wire_u32s){ n, u + 2 * n };
		c.site_category = (struct wire_u32s){ n, u + 3 * n };
		c.site_color = (struct wire_u32s){ n, u + 4 * n };
		c.site_sizes = (struct wire_u32s){ n, u + 5 * n };
		c.site_kind = (struct wire_u32s){ n, u + 6 * n };
		c.site_numbered = (struct wire_u32s){ n, u + 7 * n };
		r = send_columns(p, &c, 0, 0);
		i += n;
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

/* Storage for the columns of one frame. */
struct mark_columns {
	uint32_t site[DEFINITIONS_PER_FRAME], thread[DEFINITIONS_PER_FRAME];
	uint32_t payload_type[DEFINITIONS_PER_FRAME], number_bytes[DEFINITIONS_PER_FRAME];
	int64_t time_ns[DEFINITIONS_PER_FRAME];
	uint64_t payload[DEFINITIONS_PER_FRAME];
	uint8_t numbers[DEFINITIONS_PER_FRAME * SITE_PATH_NUMBERS];
};

static int send_some_marks(struct packer *p, struct mark_columns *s, const struct mark *v, size_t n)
{
	size_t bytes = 0;
	struct wire_record_columns c;

	for (size_t i = 0; i < n; i++) {
		s->site[i] = v[i].path.site;
		s->thread[i] = v[i].thread;
		s->time_ns[i] = v[i].time_ns;
		s->payload_type[i] = v[i].path.payload_type;
		s->payload[i] = v[i].path.payload;
		s->number_bytes[i] = v[i].path.n_numbers;
		memcpy(s->numbers + bytes, v[i].path.numbers, v[i].path.n_numbers);
		bytes += v[i].path.n_numbers;
	}
	c = (struct wire_record_columns){
		.mark_site = { n, s->site },
		.mark_thread = { n, s->thread },
		.mark_ns = { n, s->time_ns },
		.mark_payload_type = { n, s->payload_type },
		.mark_payload = { n, s->payload },
		.mark_number_bytes = { n, s->number_bytes },
		.mark_numbers = { bytes, s->numbers },
	};
	return send_columns(p, &c, 0, 0);
}

static int send_marks(struct packer *p, const struct definitions *d)
{
	CLEAN_FREE struct mark_columns *s = d->marks.n ? malloc(sizeof(*s)) : NULL;
	int r = d->marks.n && !s ? -ENOMEM : 0;

	for (size_t i = 0; r == 0 && i < d->marks.n; i += DEFINITIONS_PER_FRAME) {
		size_t left = d->marks.n - i;

		r = send_some_marks(p, s, (const struct mark *)d->marks.v + i,
				    left < DEFINITIONS_PER_FRAME ? left : DEFINITIONS_PER_FRAME);
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

/* Storage for the columns of one frame. */
struct record_columns {
	uint32_t kind[LIMIT_RECORDS_PER_FRAME], function[LIMIT_RECORDS_PER_FRAME];
	uint32_t grid[3 * LIMIT_RECORDS_PER_FRAME], block[3 * LIMIT_RECORDS_PER_FRAME];
	uint32_t dynamic_shared[LIMIT_RECORDS_PER_FRAME], device[LIMIT_RECORDS_PER_FRAME];
	uint32_t context[LIMIT_RECORDS_PER_FRAME], correlation[LIMIT_RECORDS_PER_FRAME];
	uint32_t thread[LIMIT_RECORDS_PER_FRAME], site[LIMIT_RECORDS_PER_FRAME],
		opened[LIMIT_RECORDS_PER_FRAME], set[LIMIT_RECORDS_PER_FRAME];
	uint32_t payload_type[LIMIT_RECORDS_PER_FRAME], number_bytes[LIMIT_RECORDS_PER_FRAME];
	uint64_t payload[LIMIT_RECORDS_PER_FRAME];
	uint8_t numbers[LIMIT_RECORDS_PER_FRAME * SITE_PATH_NUMBERS];
	size_t n_numbers; /* bytes */
	uint64_t stream[LIMIT_RECORDS_PER_FRAME];
	int64_t start_ns[LIMIT_RECORDS_PER_FRAME];
	uint64_t duration_ns[LIMIT_RECORDS_PER_FRAME];
	uint32_t clock[LIMIT_RECORDS_PER_FRAME];
	uint32_t group[LIMIT_RECORDS_PER_FRAME];
	uint32_t graph[LIMIT_RECORDS_PER_FRAME];
	uint64_t graph_node[LIMIT_RECORDS_PER_FRAME];
	bool has_graphs;
};

static void fill_path(struct record_columns *s, size_t i, const struct site_path *path)
{
	s->site[i] = path->site;
	s->opened[i] = path->opened;
	s->payload_type[i] = path->payload_type;
	s->payload[i] = path->payload;
	s->number_bytes[i] = path->n_numbers;
	memcpy(s->numbers + s->n_numbers, path->numbers, path->n_numbers);
	s->n_numbers += path->n_numbers;
}

static void fill_columns(struct record_columns *s, const struct launch *v, size_t n)
{
	int64_t before = 0;

	s->has_graphs = false;
	s->n_numbers = 0;
	for (size_t i = 0; i < n; i++) {
		s->kind[i] = v[i].kind;
		s->function[i] = v[i].function;
		memcpy(s->grid + 3 * i, v[i].grid, sizeof(v[i].grid));
		memcpy(s->block + 3 * i, v[i].block, sizeof(v[i].block));
		s->dynamic_shared[i] = v[i].dynamic_shared_bytes;
		s->device[i] = v[i].device;
		s->context[i] = v[i].context;
		s->stream[i] = v[i].stream;
		s->correlation[i] = v[i].correlation;
		s->thread[i] = v[i].thread;
		fill_path(s, i, &v[i].path);
		s->set[i] = v[i].set;
		s->start_ns[i] = (int64_t)v[i].start_ns - before;
		before = (int64_t)v[i].start_ns;
		s->duration_ns[i] = v[i].duration_ns;
		s->clock[i] = v[i].clock;
		s->group[i] = v[i].pass;
		s->graph[i] = v[i].graph;
		s->graph_node[i] = v[i].graph_node;
		s->has_graphs |= v[i].kind == GPUCTR_LAUNCH_GRAPH_KERNEL;
	}
}

static int send_frame(struct packer *p, struct record_columns *s, const struct launch *launches,
		      size_t n, const double *values, uint64_t first)
{
	struct wire_record_columns c;

	fill_columns(s, launches, n);
	c = (struct wire_record_columns){
		.kind = { n, s->kind },
		.function = { n, s->function },
		.grid = { 3 * n, s->grid },
		.block = { 3 * n, s->block },
		.dynamic_shared = { n, s->dynamic_shared },
		.device = { n, s->device },
		.context = { n, s->context },
		.stream = { n, s->stream },
		.correlation = { n, s->correlation },
		.thread = { n, s->thread },
		.start_ns = { n, s->start_ns },
		.site = { n, s->site },
		.opened = { n, s->opened },
		.payload_type = { n, s->payload_type },
		.payload = { n, s->payload },
		.number_bytes = { n, s->number_bytes },
		.numbers = { s->n_numbers, s->numbers },
		.range_set = { n, s->set },
		.values = { n * p->welcome->plan.columns.n, values },
		.clock = { n, s->clock },
		.duration_ns = { n, s->duration_ns },
	};
	if (p->welcome->plan.groups > 1) {
		c.group = (struct wire_u32s){ n, s->group };
	}
	if (s->has_graphs) {
		c.graph = (struct wire_u32s){ n, s->graph };
		c.graph_node = (struct wire_u64s){ n, s->graph_node };
	}
	return send_columns(p, &c, n, first);
}

int pack_send(struct connection *l, const struct wire_agent_welcome *welcome, struct intern *in,
	      const struct launch *launches, size_t n, const double *values, uint64_t first)
{
	struct packer p = { .connection = l, .welcome = welcome };
	CLEAN_FREE struct record_columns *s = n ? malloc(sizeof(*s)) : NULL;
	size_t n_columns = welcome->plan.columns.n;
	size_t most = RECORD_BYTES_PER_FRAME / (n_columns * sizeof(*values) + 128);
	int r;

	if (n > 0 && !s) {
		return -ENOMEM;
	}
	most = most > LIMIT_RECORDS_PER_FRAME ? LIMIT_RECORDS_PER_FRAME : most;
	arena_init(&p.scratch, LIMIT_UNPACKED_BYTES);
	r = send_definitions(&p, in);
	for (size_t i = 0; r == 0 && i < n; i += most) {
		size_t k = n - i < most ? n - i : most;

		r = send_frame(&p, s, launches + i, k, values + i * n_columns, first + i);
	}
	buffer_deinit(&p.payload);
	arena_deinit(&p.scratch);
	return r;
}

/* --- copies --- */

/* Storage for the columns of one frame. */
struct copy_columns {
	uint32_t kind[DEFINITIONS_PER_FRAME], device[DEFINITIONS_PER_FRAME],
		context[DEFINITIONS_PER_FRAME], stream[DEFINITIONS_PER_FRAME];
	uint64_t bytes[DEFINITIONS_PER_FRAME], duration_ns[DEFINITIONS_PER_FRAME];
	int64_t start_ns[DEFINITIONS_PER_FRAME];
};

static int send_some_copies(struct packer *p, struct copy_columns *s, const struct pack_copy *v,
			    size_t n, uint64_t first)
{
	const struct wire_record_columns c = {
		.copy_kind = { n, s->kind },
		.copy_device = { n, s->device },
		.copy_context = { n, s->context },
		.copy_stream = { n, s->stream },
		.copy_bytes = { n, s->bytes },
		.copy_start_ns = { n, s->start_ns },
		.copy_duration_ns = { n, s->duration_ns },
	};

	for (size_t i = 0; i < n; i++) {
		s->kind[i] = v[i].kind;
		s->device[i] = v[i].device;
		s->context[i] = v[i].context;
		s->stream[i] = v[i].stream;
		s->bytes[i] = v[i].bytes;
		s->start_ns[i] = (int64_t)v[i].start_ns;
		s->duration_ns[i] = v[i].duration_ns;
	}
	return send_columns(p, &c, 0, first);
}

int pack_send_copies(struct connection *l, const struct wire_agent_welcome *welcome,
		     const struct pack_copy *v, size_t n, uint64_t first)
{
	struct packer p = { .connection = l, .welcome = welcome };
	CLEAN_FREE struct copy_columns *s = malloc(sizeof(*s));
	int r = 0;

	if (!s) {
		return -ENOMEM;
	}
	arena_init(&p.scratch, LIMIT_UNPACKED_BYTES);
	for (size_t i = 0; r == 0 && i < n; i += DEFINITIONS_PER_FRAME) {
		size_t k = n - i < DEFINITIONS_PER_FRAME ? n - i : DEFINITIONS_PER_FRAME;

		r = send_some_copies(&p, s, v + i, k, first);
	}
	buffer_deinit(&p.payload);
	arena_deinit(&p.scratch);
	return r;
}
