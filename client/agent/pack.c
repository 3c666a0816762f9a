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

static int send_ranges(struct packer *p, const struct definitions *d)
{
	const struct range_key *v = d->ranges.v;
	uint32_t *u = malloc((6 * DEFINITIONS_PER_FRAME) * sizeof(*u));
	uint64_t *payload = malloc(DEFINITIONS_PER_FRAME * sizeof(*payload));
	int r = u && payload ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < d->ranges.n;) {
		size_t n = d->ranges.n - i < DEFINITIONS_PER_FRAME ? d->ranges.n - i
								   : DEFINITIONS_PER_FRAME;
		struct wire_record_columns c = { .first_node = d->first_range + (uint32_t)i };

		for (size_t k = 0; k < n; k++) {
			const struct range_key *key = &v[i + k];

			u[k] = key->parent;
			u[n + k] = key->domain;
			u[2 * n + k] = key->message;
			u[3 * n + k] = key->category;
			u[4 * n + k] = key->color;
			u[5 * n + k] = key->payload_type;
			payload[k] = key->payload;
		}
		c.node_parent = (struct wire_u32s){ n, u };
		c.node_domain = (struct wire_u32s){ n, u + n };
		c.node_message = (struct wire_u32s){ n, u + 2 * n };
		c.node_category = (struct wire_u32s){ n, u + 3 * n };
		c.node_color = (struct wire_u32s){ n, u + 4 * n };
		c.node_payload_type = (struct wire_u32s){ n, u + 5 * n };
		c.node_payload = (struct wire_u64s){ n, payload };
		r = send_columns(p, &c, 0, 0);
		i += n;
	}
	free(u);
	free(payload);
	return r;
}

static int send_sets(struct packer *p, const struct definitions *d)
{
	const uint32_t *sizes = d->set_sizes.v, *ranges = d->set_ranges.v;
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
		c.set_node = (struct wire_u32s){ total, ranges + used };
		r = send_columns(p, &c, 0, 0);
		i += n;
		used += total;
	}
	return r;
}

static int send_marks(struct packer *p, const struct definitions *d)
{
	struct wire_record_columns c = {
		.mark_node = { d->mark_ranges.n, d->mark_ranges.v },
		.mark_thread = { d->mark_threads.n, d->mark_threads.v },
		.mark_ns = { d->mark_times.n, d->mark_times.v },
	};

	return d->mark_ranges.n ? send_columns(p, &c, 0, 0) : 0;
}

static int send_definitions(struct packer *p, struct intern *in)
{
	struct definitions d;
	int r;

	intern_take(in, &d);
	r = send_strings(p, &d);
	r = r == 0 ? send_functions(p, &d) : r;
	r = r == 0 ? send_ranges(p, &d) : r;
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
	uint32_t thread[LIMIT_RECORDS_PER_FRAME], range[LIMIT_RECORDS_PER_FRAME],
		set[LIMIT_RECORDS_PER_FRAME];
	uint64_t stream[LIMIT_RECORDS_PER_FRAME];
	int64_t start_ns[LIMIT_RECORDS_PER_FRAME];
	uint64_t duration_ns[LIMIT_RECORDS_PER_FRAME];
	uint32_t clock[LIMIT_RECORDS_PER_FRAME];
	uint32_t group[LIMIT_RECORDS_PER_FRAME];
	uint32_t graph[LIMIT_RECORDS_PER_FRAME];
	uint64_t graph_node[LIMIT_RECORDS_PER_FRAME];
	bool has_graphs;
};

static void fill_columns(struct record_columns *s, const struct launch *v, size_t n)
{
	int64_t before = 0;

	s->has_graphs = false;
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
		s->range[i] = v[i].range;
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
		.node = { n, s->range },
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
