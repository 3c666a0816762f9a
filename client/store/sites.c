/* SPDX-License-Identifier: Apache-2.0 */

/* The sites of a process are few, so they are read at once, into an array sorted by id. Sets of
 * active ranges are read one by one, when records name them. */

#include <stdio.h>
#include <stdlib.h>

#include "client/store/reader_internal.h"
#include "proto/base/array.h"

enum { MAX_SITES = 1 << 24 };

/* Looks at index id - 1 first, because ids mostly have no gaps. */
const struct gpuctr_site *reader_find_site(const struct store_sites *sites, unsigned id)
{
	const struct gpuctr_site *items = sites->items;
	size_t n = sites->n, i = id - (size_t)1;

	if (i >= n || items[i].id != id) {
		i = ARRAY_FIND_INDEX(items, n, id, id);
	}
	return i < n && items[i].id == id ? &items[i] : NULL;
}

/* Finds the parent among the sites read so far: it has a smaller id. */
static void find_parent(struct row *row, const struct gpuctr_site *items, size_t n,
			struct gpuctr_site *site, unsigned id)
{
	const struct store_sites known = { items, n };

	if (id == 0 && site->depth == 0) {
		return;
	}
	site->parent = id > 0 ? reader_find_site(&known, id) : NULL;
	if (!site->parent || site->depth != site->parent->depth + 1) {
		row->error = row->error ? row->error
					: reader_corrupt(row->reader, row->table,
							 "a parent is missing or not one level up");
		site->parent = NULL;
		return;
	}
	site->n_numbers = site->parent->n_numbers;
}

static void take_site(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_site *site = (struct gpuctr_site *)userdata + i;

	site->id = (unsigned)row_int(row, 0, 1, UINT32_MAX);
	site->domain = row_text(row, 2);
	site->name = row_text(row, 3);
	site->sizes = row_text(row, 4);
	site->category = row_text(row, 5);
	site->color = row_u32(row, 6);
	site->kind = (enum gpuctr_site_kind)row_int(row, 7, 0, GPUCTR_SITE_ENGINE);
	site->numbered = (enum gpuctr_site_number)row_int(row, 8, 0, GPUCTR_NUMBER_SEQ);
	site->depth = (unsigned)row_int(row, 9, 0, MAX_SITES);
	find_parent(row, userdata, i, site, row_u32(row, 1));
	site->n_numbers += site->numbered != GPUCTR_NUMBER_NONE;
}

int reader_load_sites(struct store_reader *r, unsigned process, struct store_sites *ret)
{
	const struct store_process *p = info_find_process(r, process);
	struct store_sites *kept = p ? &r->sites[p - r->processes] : NULL;
	char from[64];
	const struct reader_list list = {
		"id, parent, domain, name, sizes, category, color, kind, number, depth",
		from,
		"id",
		MAX_SITES,
		sizeof(struct gpuctr_site),
		take_site
	};
	int result;

	if (kept && kept->items) {
		*ret = *kept;
		return 0;
	}
	snprintf(from, sizeof(from), "site WHERE process = %u", process);
	result = reader_list(r, &list, &ret->items, &ret->n);
	if (result == 0 && kept) {
		*kept = *ret;
	}
	return result;
}

/* --- sets of active ranges ------------------------------------------------------------------- */

static int take_active(struct row *row, const struct store_sites *sites, struct active_set *set)
{
	unsigned id = row_u32(row, 0);
	const struct gpuctr_site *site = reader_find_site(sites, id);

	if (row_end(row)) {
		return row_end(row);
	}
	if (!site) {
		return reader_corrupt(row->reader, row->table, "a site is missing");
	}
	if (!array_make_room(&set->sites, sizeof(*set->sites), set->n, &set->max)) {
		return reader_fail(row->reader, SQLITE_NOMEM, "read");
	}
	set->sites[set->n++] = site;
	return 0;
}

int reader_load_set(struct store_reader *r, unsigned process, const struct store_sites *sites,
		    unsigned id, struct active_set *set)
{
	struct row row = { .reader = r, .table = "active" };
	char sql[128];
	bool more = true;
	int result;

	if (id == set->id) {
		return 0;
	}
	snprintf(sql, sizeof(sql),
		 "SELECT site FROM active WHERE process = %u AND set_id = %u ORDER BY site",
		 process, id);
	result = reader_prepare(r, sql, &row.stmt);
	set->n = 0;
	while (result == 0 && (result = row_step(&row, &more)) == 0 && more) {
		result = take_active(&row, sites, set);
	}
	sqlite3_finalize(row.stmt);
	set->id = result ? 0 : id;
	return result;
}
