/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/account.h"

#include <sqlite3.h>

#include "tests/system/fixture.h"

/* The capture file: what its view "records" shows, and the tables of ranges, marks and devices. */

enum { RANGES_MAX = 64 };

struct capture {
	struct account *a;
	sqlite3 *db;
	struct gpuctr_site ranges[RANGES_MAX]; /* by number */
};

static sqlite3_stmt *prepare(struct capture *c, const char *sql)
{
	sqlite3_stmt *s;

	if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK) {
		fail_msg("%s: %s", sql, sqlite3_errmsg(c->db));
	}
	return s;
}

static const char *text_of(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

static const struct gpuctr_site *range_of(const struct capture *c, sqlite3_stmt *s, int column)
{
	int id = sqlite3_column_int(s, column);

	assert_in_range(id, 0, RANGES_MAX - 1);
	return id ? &c->ranges[id] : NULL;
}

static void read_ranges(struct capture *c)
{
	sqlite3_stmt *s = prepare(c, "SELECT id, parent, domain, name, category, color,"
				     " depth FROM site ORDER BY id");

	while (sqlite3_step(s) == SQLITE_ROW) {
		int id = sqlite3_column_int(s, 0);

		assert_in_range(id, 1, RANGES_MAX - 1);
		c->ranges[id] = (struct gpuctr_site){
			.parent = range_of(c, s, 1),
			.domain = strdup(text_of(s, 2)),
			.name = strdup(text_of(s, 3)),
			.category = strdup(text_of(s, 4)),
			.color = (uint32_t)sqlite3_column_int64(s, 5),
			.sizes = "",
			.depth = (unsigned)sqlite3_column_int(s, 6),
		};
	}
	sqlite3_finalize(s);
}

static void free_ranges(struct capture *c)
{
	for (size_t i = 0; i < RANGES_MAX; i++) {
		free((char *)(uintptr_t)c->ranges[i].domain);
		free((char *)(uintptr_t)c->ranges[i].name);
		free((char *)(uintptr_t)c->ranges[i].category);
	}
}

static size_t read_active(struct capture *c, int set_id, const struct gpuctr_site **active)
{
	sqlite3_stmt *s = prepare(c, "SELECT site FROM active WHERE set_id = ? ORDER BY site");
	size_t n = 0;

	sqlite3_bind_int(s, 1, set_id);
	while (sqlite3_step(s) == SQLITE_ROW) {
		assert_true(n < RANGES_MAX);
		active[n++] = range_of(c, s, 0);
	}
	sqlite3_finalize(s);
	return n;
}

/* The view that users are shown, and the numbers behind it. */
static void read_records(struct capture *c)
{
	sqlite3_stmt *s = prepare(c, "SELECT l.site, l.active_set, r.payload_type, r.payload, v.*"
				     " FROM records v JOIN record r USING (process, idx)"
				     " JOIN launch l ON l.id = r.launch");
	const struct gpuctr_site *active[RANGES_MAX], *range;

	while (sqlite3_step(s) == SQLITE_ROW) {
		account_launch *l = account_new_launch(c->a, 0);
		size_t n_active = read_active(c, sqlite3_column_int(s, 1), active);
		const struct gpuctr_occurrence at = {
			.payload_type = (unsigned)sqlite3_column_int(s, 2),
			.payload = (uint64_t)sqlite3_column_int64(s, 3),
		};
		char path[ACCOUNT_TEXT_MAX];

		for (int i = 4; i < sqlite3_column_count(s); i++) {
			const char *name = sqlite3_column_name(s, i);
			enum field f = account_field_named(name);

			if (f == FIELD_KIND) {
				account_set((*l)[f], "%s", account_kind(sqlite3_column_int(s, i)));
			} else if (f < N_FIELDS) {
				account_set((*l)[f], "%s", text_of(s, i));
			} else if (strcmp(name, "idx") == 0) {
				c->a->indexes[c->a->n_launches - 1] =
					(unsigned)sqlite3_column_int(s, i);
			}
		}
		range = range_of(c, s, 0);
		account_set(path, "%s", (*l)[FIELD_NVTX]);
		account_set_nvtx(l, range, &at, active, n_active);
		assert_string_equal((*l)[FIELD_NVTX], path);
	}
	sqlite3_finalize(s);
}

static void read_others(struct capture *c)
{
	sqlite3_stmt *s = prepare(c, "SELECT site, thread, time_ns, payload_type, payload"
				     " FROM mark ORDER BY time_ns");

	while (sqlite3_step(s) == SQLITE_ROW) {
		account_add_mark(c->a,
				 &(struct gpuctr_mark){
					 .site = range_of(c, s, 0),
					 .at = { .payload_type = (unsigned)sqlite3_column_int(s, 3),
						 .payload = (uint64_t)sqlite3_column_int64(s, 4) },
					 .thread = (uint32_t)sqlite3_column_int64(s, 1),
					 .time_ns = sqlite3_column_int64(s, 2),
				 });
	}
	sqlite3_finalize(s);
	s = prepare(c, "SELECT idx, uuid, name, clock_sm_mhz, clock_mem_mhz FROM device ORDER BY "
		       "idx");
	while (sqlite3_step(s) == SQLITE_ROW) {
		account_add_device(c->a,
				   &(struct gpuctr_device){
					   .index = (unsigned)sqlite3_column_int(s, 0),
					   .uuid = text_of(s, 1),
					   .name = text_of(s, 2),
					   .clock_sm_mhz = (unsigned)sqlite3_column_int(s, 3),
					   .clock_mem_mhz = (unsigned)sqlite3_column_int(s, 4),
				   });
	}
	sqlite3_finalize(s);
}

struct account *account_of_capture(const char *path)
{
	struct capture c = { .a = calloc(1, sizeof(*c.a)) };

	if (sqlite3_open_v2(path, &c.db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
		fail_msg("%s: %s", path, sqlite3_errmsg(c.db));
	}
	read_ranges(&c);
	read_records(&c);
	read_others(&c);
	free_ranges(&c);
	sqlite3_close(c.db);
	return c.a;
}
