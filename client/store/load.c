/* SPDX-License-Identifier: Apache-2.0 */

/* Definitions of one process: kernels, ranges, sets of active ranges. They are loaded as a whole,
 * into arrays sorted by id: ids are dense in every file that we write, so a search begins with the
 * place where the id would be. Parents are linked by search and must lie one level up, which also
 * rules out cycles. */

#include "client/store/reader_internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/array.h"

enum { MAX_DEFINITIONS = 1 << 28 };

/* --- search ---------------------------------------------------------------------------------- */

/* Most definitions have the ids 1, 2, 3. */
#define DEFINE_FIND(name, type)                                                         \
	static const struct type *name(const struct type *items, size_t n, unsigned id) \
	{                                                                               \
		size_t i = id - (size_t)1;                                              \
                                                                                        \
		if (i >= n || items[i].id != id) {                                      \
			i = ARRAY_FIND_INDEX(items, n, id, id);                         \
		}                                                                       \
		return i < n && items[i].id == id ? &items[i] : NULL;                   \
	}

DEFINE_FIND(find_kernel, gpuctr_kernel)
DEFINE_FIND(find_range, gpuctr_range)
DEFINE_FIND(find_set, store_set)

const struct gpuctr_kernel *store_find_kernel(const struct store_definitions *d, unsigned id)
{
	return find_kernel(d->kernels, d->n_kernels, id);
}

const struct gpuctr_range *store_find_range(const struct store_definitions *d, unsigned id)
{
	return find_range(d->ranges, d->n_ranges, id);
}

const struct store_set *reader_find_set(const struct store_definitions *d, unsigned id)
{
	return find_set(d->sets, d->n_sets, id);
}

/* --- kernels --------------------------------------------------------------------------------- */

static void take_kernel(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_kernel *kernel = (struct gpuctr_kernel *)userdata + i;

	kernel->id = (unsigned)row_int(row, 0, 1, UINT32_MAX);
	kernel->name = row_text(row, 1);
	kernel->mangled = row_text(row, 2);
	kernel->static_shared_bytes = (int)row_int(row, 3, -1, INT_MAX);
	kernel->registers = (int)row_int(row, 4, -1, INT_MAX);
}

static int load_kernels(struct store_reader *r, unsigned process, struct store_definitions *d)
{
	char from[64];
	const struct reader_list list = { "id, name, mangled, static_shared_bytes, registers",
					  from,
					  "id",
					  MAX_DEFINITIONS,
					  sizeof(struct gpuctr_kernel),
					  take_kernel };
	void *kernels;
	int result;

	snprintf(from, sizeof(from), "kernel WHERE process = %u", process);
	result = reader_list(r, &list, &kernels, &d->n_kernels);
	d->kernels = result ? NULL : kernels;
	return result;
}

/* --- ranges ---------------------------------------------------------------------------------- */

struct loading {
	struct gpuctr_range *ranges;
	uint32_t *parents;
};

static void take_range(struct row *row, size_t i, void *userdata)
{
	struct loading *loading = userdata;
	struct gpuctr_range *range = &loading->ranges[i];

	range->id = (unsigned)row_int(row, 0, 1, UINT32_MAX);
	loading->parents[i] = row_u32(row, 1);
	range->domain = row_text(row, 2);
	range->message = row_text(row, 3);
	range->depth = row_u32(row, 4);
	range->category = "";
	if (row->reader->without & STORE_LOOKS) {
		return;
	}
	range->category = row_text(row, 5);
	range->color = row_u32(row, 6);
	range->payload_type = (unsigned)row_int(row, 7, 0, 64);
	range->payload = (uint64_t)row_i64(row, 8);
}

int reader_no_parent(struct store_reader *r)
{
	return reader_corrupt(r, "range", "a parent is missing or not one level up");
}

static int link_parents(struct store_reader *r, const struct loading *loading, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct gpuctr_range *range = &loading->ranges[i];
		const struct gpuctr_range *parent =
			find_range(loading->ranges, n, loading->parents[i]);

		if (loading->parents[i] == 0 ? range->depth != 0
					     : !parent || range->depth != parent->depth + 1) {
			return reader_no_parent(r);
		}
		range->parent = parent;
	}
	return 0;
}

static int load_ranges(struct store_reader *r, unsigned process, struct store_definitions *d)
{
	struct loading loading;
	char table[64], sql[192];
	int result;

	snprintf(table, sizeof(table), "range WHERE process = %u", process);
	result = reader_count(r, table, MAX_DEFINITIONS, &d->n_ranges);
	if (result) {
		return result;
	}
	loading.ranges = arena_zalloc_array(&r->arena, d->n_ranges, sizeof(*loading.ranges));
	loading.parents = calloc(d->n_ranges + 1, sizeof(*loading.parents));
	if (!loading.ranges || !loading.parents) {
		free(loading.parents);
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	snprintf(sql, sizeof(sql),
		 "SELECT id, parent, domain, message, depth%s FROM %s ORDER BY id",
		 r->without & STORE_LOOKS ? "" : ", category, color, payload_type, payload", table);
	result = reader_rows(r, "range", sql, d->n_ranges, take_range, &loading);
	result = result ? result : link_parents(r, &loading, d->n_ranges);
	free(loading.parents);
	d->ranges = loading.ranges;
	return result;
}

/* --- sets of active ranges ------------------------------------------------------------------- */

/* Rows come sorted by set: each begins a new set or belongs to the last. */
struct loading_sets {
	const struct store_definitions *definitions;
	struct store_set *sets;
	const struct gpuctr_range **ranges;
	size_t n_sets;
	bool dangling;
};

static void take_active(struct row *row, size_t i, void *userdata)
{
	struct loading_sets *loading = userdata;
	unsigned id = (unsigned)row_int(row, 0, 1, UINT32_MAX);
	struct store_set *set = loading->n_sets ? &loading->sets[loading->n_sets - 1] : NULL;

	if (!set || set->id != id) {
		set = &loading->sets[loading->n_sets++];
		set->id = id;
		set->ranges = &loading->ranges[i];
	}
	loading->ranges[i] = store_find_range(loading->definitions, row_u32(row, 1));
	loading->dangling |= !loading->ranges[i];
	set->n_ranges++;
}

static int load_sets(struct store_reader *r, unsigned process, struct store_definitions *d)
{
	struct loading_sets loading = { .definitions = d };
	char table[64], sql[128];
	size_t n;
	int result;

	snprintf(table, sizeof(table), "active WHERE process = %u", process);
	result = reader_count(r, table, MAX_DEFINITIONS, &n);
	if (result) {
		return result;
	}
	loading.sets = arena_zalloc_array(&r->arena, n, sizeof(*loading.sets));
	loading.ranges = arena_zalloc_array(&r->arena, n, sizeof(*loading.ranges));
	if (!loading.sets || !loading.ranges) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	snprintf(sql, sizeof(sql), "SELECT set_id, range FROM %s ORDER BY set_id, range", table);
	result = reader_rows(r, "active", sql, n, take_active, &loading);
	if (result == 0 && loading.dangling) {
		result = reader_corrupt(r, "active", "a range is missing");
	}
	d->sets = loading.sets;
	d->n_sets = loading.n_sets;
	return result;
}

/* --- all ------------------------------------------------------------------------------------- */

static int load(struct store_reader *r, unsigned process, struct store_definitions *d)
{
	int result = load_kernels(r, process, d);

	if (!(r->without & STORE_RANGES) && !r->passing_ranges) {
		result = result ? result : load_ranges(r, process, d);
		result = result ? result : load_sets(r, process, d);
	}
	return result;
}

int store_load(struct store_reader *r, unsigned process, const struct store_definitions **ret)
{
	const struct store_process *p = info_find_process(r, process);
	const struct store_definitions **kept = p ? &r->loaded[p - r->processes] : NULL;
	struct store_definitions *loaded;
	int result;

	if (kept && *kept) {
		*ret = *kept;
		return 0;
	}
	loaded = arena_zalloc_array(&r->arena, 1, sizeof(*loaded));
	if (!loaded) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	result = load(r, process, loaded);
	if (result) {
		return result;
	}
	if (kept) {
		*kept = loaded;
	}
	*ret = loaded;
	return 0;
}
