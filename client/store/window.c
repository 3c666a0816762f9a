/* SPDX-License-Identifier: Apache-2.0 */

/* A window on the table of ranges.
 *
 * Programs number ranges in the order in which kernels first lie in them, so most of what the next
 * record asks for follows what was asked for last: one statement goes through the table, and is set
 * back or forward only for what it has passed, or what lies further ahead than a few rows. What it
 * passes on its way is kept as well, because parents come shortly before their children.
 *
 * What is kept lies in blocks that never move, found by a hash table of ids. When there are
 * KEPT_RANGES, all are forgotten before the next row, and the few that are still open are read
 * again. A row that alone needs a large part of them raises that number, so that each reading again
 * is paid for by as many ranges that are new. Memory is used again, texts included.
 *
 * Parents are linked when a range is asked for: each must lie one level up, which also rules out
 * cycles. */

#include "client/store/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/map.h"

enum { KEPT_RANGES = 1 << 12, BLOCK_RANGES = 1 << 8, ROWS_AHEAD = 64, ROWS_BEHIND = 8 };

struct kept {
	struct gpuctr_range range;
	unsigned parent;
	bool linked; /* with all parents */
	char *texts; /* domain, message and category, each with its end */
	size_t max_texts;
};

struct window {
	struct row row; /* the current row of the statement that walks through the table */
	unsigned process;
	unsigned next; /* a row with this id or a larger one comes next; 0: the end was reached */

	struct kept **blocks;
	size_t n_blocks, max_blocks;
	struct map known;     /* of what is kept, by id */
	size_t limit, before; /* known.n may grow to limit, then all ranges are freed; before:
				 known.n before the current row */

	unsigned set; /* the set whose members are in ranges; 0: none */
	const struct gpuctr_range **ranges;
	size_t n_ranges, max_ranges;
};

static int no_memory(const struct window *w)
{
	return reader_fail(w->row.reader, SQLITE_NOMEM, "read");
}

/* --- what is kept ---------------------------------------------------------------------------- */

static bool has_id(const void *item, const void *key)
{
	return ((const struct kept *)item)->range.id == *(const unsigned *)key;
}

/* The ids of neighbouring ranges lie in neighbouring slots. */
static struct kept *look_up(const struct window *w, unsigned id)
{
	return map_find(&w->known, id, has_id, &id);
}

static struct kept *at(const struct window *w, size_t i)
{
	return &w->blocks[i / BLOCK_RANGES][i % BLOCK_RANGES];
}

static int grow_blocks(struct window *w)
{
	struct kept *block;

	if (!array_make_room(&w->blocks, sizeof(*w->blocks), w->n_blocks, &w->max_blocks)) {
		return no_memory(w);
	}
	block = calloc(BLOCK_RANGES, sizeof(*block));
	if (!block) {
		return no_memory(w);
	}
	w->blocks[w->n_blocks++] = block;
	return 0;
}

/* Makes room for one more entry, which counts once `known` has its id. */
static int take_free(struct window *w, struct kept **ret)
{
	int r = w->known.n == w->n_blocks * BLOCK_RANGES ? grow_blocks(w) : 0;

	*ret = r == 0 ? at(w, w->known.n) : NULL;
	return r;
}

void window_next(struct window *w)
{
	size_t needed = w->known.n - w->before;

	w->limit = needed * 4 > w->limit ? needed * 4 : w->limit;
	if (w->known.n >= w->limit) {
		map_clear(&w->known);
		w->set = 0;
	}
	w->before = w->known.n;
}

/* --- rows ------------------------------------------------------------------------------------ */

enum { TEXTS = 3 };

static int keep_texts(struct window *w, struct kept *k, int n_texts)
{
	const char **const texts[TEXTS] = { &k->range.domain, &k->range.message,
					    &k->range.category };
	const char *found[TEXTS];
	size_t n[TEXTS], all = TEXTS;
	char *to;

	for (int i = 0; i < n_texts; i++) {
		found[i] = row_borrow_text(&w->row, 3 + i, &n[i]);
		all += n[i];
	}
	if (all > k->max_texts) {
		free(k->texts);
		k->max_texts = all + all / 2;
		k->texts = malloc(k->max_texts);
		if (!k->texts) {
			k->max_texts = 0;
			return no_memory(w);
		}
	}
	to = k->texts;
	for (int i = 0; i < n_texts; i++) {
		*texts[i] = memcpy(to, found[i], n[i]);
		to += n[i];
		*to++ = '\0';
	}
	return 0;
}

static int take_row(struct window *w, unsigned id, struct kept *k)
{
	bool plain = w->row.reader->without & STORE_LOOKS;
	int r;

	k->range = (struct gpuctr_range){ .id = id, .category = "" };
	k->parent = row_u32(&w->row, 1);
	k->range.depth = row_u32(&w->row, 2);
	k->linked = k->parent == 0;
	r = keep_texts(w, k, plain ? TEXTS - 1 : TEXTS);
	if (!plain) {
		k->range.color = row_u32(&w->row, 6);
		k->range.payload_type = (unsigned)row_int(&w->row, 7, 0, 64);
		k->range.payload = (uint64_t)row_i64(&w->row, 8);
	}
	return r;
}

/* The next row of the table, kept unless it is already. */
static int step(struct window *w)
{
	struct kept *k;
	unsigned id;
	bool more;
	int r = row_step(&w->row, &more);

	if (r || !more) {
		w->next = 0;
		return r;
	}
	id = (unsigned)row_int(&w->row, 0, 1, UINT32_MAX);
	w->next = id + 1;
	r = row_end(&w->row);
	r = r ? r : take_free(w, &k);
	if (r) {
		return r;
	}
	if (look_up(w, id)) {
		return 0;
	}
	r = take_row(w, id, k);
	r = r ? r : row_end(&w->row);
	if (r == 0 && map_add(&w->known, id, k)) {
		r = no_memory(w);
	}
	return r;
}

static void begin_at(struct window *w, unsigned id)
{
	sqlite3_reset(w->row.stmt);
	sqlite3_bind_int64(w->row.stmt, 1, id);
	w->next = id;
}

static int prepare(struct window *w)
{
	char sql[192];

	snprintf(sql, sizeof(sql),
		 "SELECT id, parent, depth, domain, message%s FROM range WHERE process = %u"
		 " AND id >= ? ORDER BY id",
		 w->row.reader->without & STORE_LOOKS ? ""
						      : ", category, color, payload_type, payload",
		 w->process);
	return reader_prepare(w->row.reader, sql, &w->row.stmt);
}

/* Reads on until id is passed. */
static int read_to(struct window *w, unsigned id)
{
	int r = w->row.stmt ? 0 : prepare(w);

	if (r == 0 && (w->next == 0 || id < w->next || id - w->next > ROWS_AHEAD)) {
		begin_at(w, id > ROWS_BEHIND ? id - ROWS_BEHIND : 1);
	}
	while (r == 0 && w->next > 0 && w->next <= id) {
		r = step(w);
	}
	return r;
}

/* --- ranges ---------------------------------------------------------------------------------- */

static int find(struct window *w, unsigned id, struct kept **ret)
{
	int r = 0;

	*ret = look_up(w, id);
	if (!*ret) {
		r = read_to(w, id);
		*ret = look_up(w, id);
	}
	return r;
}

static int no_parent(const struct window *w)
{
	return reader_corrupt(w->row.reader, w->row.table,
			      "a parent is missing or not one level up");
}

static int link_parents(struct window *w, struct kept *k)
{
	while (!k->linked) {
		struct kept *parent;
		int r = find(w, k->parent, &parent);

		if (r) {
			return r;
		}
		if (!parent || k->range.depth != parent->range.depth + 1) {
			return no_parent(w);
		}
		k->range.parent = &parent->range;
		k->linked = true;
		k = parent;
	}
	return k->parent == 0 && k->range.depth != 0 ? no_parent(w) : 0;
}

int window_find_range(struct window *w, unsigned id, const struct gpuctr_range **ret)
{
	struct kept *k = NULL;
	int r = id > 0 ? find(w, id, &k) : 0;

	r = r || !k ? r : link_parents(w, k);
	*ret = r || !k ? NULL : &k->range;
	return r;
}

/* --- sets of active ranges ------------------------------------------------------------------- */

static int add_to_set(struct window *w, unsigned id)
{
	if (!array_make_room(&w->ranges, sizeof(*w->ranges), w->n_ranges, &w->max_ranges)) {
		return no_memory(w);
	}
	return window_find_range(w, id, &w->ranges[w->n_ranges++]);
}

static int take_set(struct window *w, struct row *row)
{
	unsigned range = row_u32(row, 0);
	int r = row_end(row);

	r = r ? r : add_to_set(w, range);
	return r == 0 && !w->ranges[w->n_ranges - 1]
		       ? reader_corrupt(row->reader, row->table, "a range is missing")
		       : r;
}

static int read_set(struct window *w, unsigned id)
{
	struct row row = { .reader = w->row.reader, .table = "active" };
	char sql[128];
	bool more = true;
	int r;

	snprintf(sql, sizeof(sql),
		 "SELECT range FROM active WHERE process = %u AND set_id = %u ORDER BY range",
		 w->process, id);
	r = reader_prepare(row.reader, sql, &row.stmt);
	w->n_ranges = 0;
	while (r == 0 && (r = row_step(&row, &more)) == 0 && more) {
		r = take_set(w, &row);
	}
	sqlite3_finalize(row.stmt);
	return r;
}

int window_find_set(struct window *w, unsigned id, const struct gpuctr_range *const **ret,
		    size_t *ret_n)
{
	int r = 0;

	if (id != 0 && id != w->set) {
		r = read_set(w, id);
		w->set = r ? 0 : id;
	}
	*ret_n = id && r == 0 ? w->n_ranges : 0;
	*ret = *ret_n ? w->ranges : NULL;
	return r;
}

/* --- life ------------------------------------------------------------------------------------ */

struct window *window_new(struct store_reader *r, unsigned process)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w) {
		return NULL;
	}
	w->row = (struct row){ .reader = r, .table = "range" };
	w->process = process;
	w->limit = KEPT_RANGES;
	return w;
}

struct window *window_free(struct window *w)
{
	if (!w) {
		return NULL;
	}
	for (size_t i = 0; i < w->n_blocks * BLOCK_RANGES; i++) {
		free(at(w, i)->texts);
	}
	for (size_t i = 0; i < w->n_blocks; i++) {
		free(w->blocks[i]);
	}
	sqlite3_finalize(w->row.stmt);
	free(w->blocks);
	map_deinit(&w->known);
	free(w->ranges);
	free(w);
	return NULL;
}
