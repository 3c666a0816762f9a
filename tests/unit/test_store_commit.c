/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store_fixture.h"

#include "client/store/internal.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* When what is written can be read: after a second, 131,072 records or 64 MiB of images, and not
 * before. The transaction's age is set by hand, so no clock decides. */

enum { RECORDS = 1 << 17, IMAGE_BYTES = 1 << 20, IMAGES = 64, DELAYS = 8 };

static void set_age(struct store *s, uint64_t age_ms)
{
	s->began_ns = clock_now_ns() - age_ms * CLOCK_NS_PER_MS;
}

static int64_t records_to_be_read(struct fixture *f)
{
	return query(f, "SELECT count(*) FROM record");
}

static struct store *begin(struct fixture *f)
{
	struct store *s = create(f);

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	return s;
}

static void write_record(struct fixture *f, struct store *s, unsigned i)
{
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i), NULL), 0);
}

TEST_WITH(a_second_is_waited_for, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);

	for (unsigned i = 0; i < 10; i++) {
		write_record(f, s, i);
	}
	set_age(s, 0);
	assert_int_equal(store_tick(s), 0);
	assert_int_equal(records_to_be_read(f), 0);
	set_age(s, 1000);
	assert_int_equal(store_tick(s), 0);
	assert_int_equal(records_to_be_read(f), 10);
	store_close(s);
}

/* Without a tick as well: the clock is looked at every 64 records. */
TEST_WITH(an_old_transaction_ends_with_a_record, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);

	write_record(f, s, 0);
	set_age(s, 1000);
	for (unsigned i = 1; i < 64; i++) {
		write_record(f, s, i);
	}
	assert_int_equal(records_to_be_read(f), 64);
	store_close(s);
}

TEST_WITH(so_many_records_are_enough, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);

	for (unsigned i = 0; i < RECORDS; i++) {
		if (i == RECORDS - 1) {
			assert_int_equal(records_to_be_read(f), 0);
		}
		set_age(s, 0);
		write_record(f, s, i);
	}
	assert_int_equal(records_to_be_read(f), RECORDS);
	store_close(s);
}

TEST_WITH(so_many_images_are_enough, setup, teardown)
{
	CLEAN_FREE uint8_t *data = calloc(1, IMAGE_BYTES);
	struct gpuctr_image image = { 1, 0, 1, data, IMAGE_BYTES };
	struct fixture *f = *state;
	struct store *s = begin(f);

	for (unsigned i = 0; i < IMAGES; i++) {
		assert_int_equal(query(f, "SELECT count(*) FROM image"), 0);
		set_age(s, 0);
		image.first = i;
		assert_int_equal(store_write_image(s, &image), 0);
	}
	assert_int_equal(query(f, "SELECT count(*) FROM image"), IMAGES);
	store_close(s);
}

/* Also while nothing happens, and no longer than there is a writer. */
TEST_WITH(who_reads_sees_that_it_is_written, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);
	struct store_reader *r;

	write_record(f, s, 0);
	for (int i = 0; i < 3; i++) {
		set_age(s, 1000);
		assert_int_equal(store_tick(s), 0);
		assert_int_equal(store_open(f->path, NULL, &r), 0);
		assert_int_equal(store_lack(store_info(r)), STORE_IS_WRITTEN);
		store_reader_free(r);
	}
	store_close(s);
	assert_int_equal(store_open(f->path, NULL, &r), 0);
	assert_int_equal(store_lack(store_info(r)), STORE_WAS_CUT);
	store_reader_free(r);
}

/* A file that rests is whole, and goes on where it was. */
TEST_WITH(a_file_that_rests_goes_on, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);

	write_record(f, s, 0);
	assert_int_equal(store_rest(s), 0);
	assert_int_equal(store_rest(s), 0);
	assert_null(s->db);
	assert_int_equal(records_to_be_read(f), 1);
	assert_int_equal(store_wake(s), 0);
	write_record(f, s, 1);
	assert_int_equal(store_finish(s, &all_well), 0);
	assert_int_equal(records_to_be_read(f), 2);
	store_close(s);
}

/* What others have put in its place is not written to, and what is measured is counted. */
TEST_WITH(another_file_in_its_place_is_not_woken, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f), *other;
	char aside[128];

	write_record(f, s, 0);
	assert_int_equal(store_rest(s), 0);
	snprintf(aside, sizeof(aside), "%s.aside", f->path);
	assert_int_equal(rename(f->path, aside), 0);
	other = begin(f);
	assert_int_equal(store_wake(s), STORE_E_PATH);
	assert_non_null(strstr(store_last_error(s)->message, "was replaced"));
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 1), NULL),
			 STORE_E_PATH);
	assert_int_equal(store_unsaved(s), 1);
	store_close(s);
	store_close(other);
	assert_int_equal(records_to_be_read(f), 0);
}

static sqlite3_stmt *begin_to_read(struct fixture *f, sqlite3 **ret)
{
	sqlite3_stmt *stmt;

	assert_int_equal(sqlite3_open(f->path, ret), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(*ret, "SELECT * FROM meta", -1, &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW); /* and keeps the lock */
	return stmt;
}

/* What waits for a reader is in our memory. Beyond the bound the file is given up, and no more. */
TEST_WITH(a_reader_delays_so_many_records_and_no_more, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = begin(f);
	sqlite3_stmt *stmt;
	sqlite3 *reader;
	const struct gpuctr_record *record;

	assert_int_equal(store_commit(s, false), 0);
	stmt = begin_to_read(f, &reader);
	write_record(f, s, 0);
	s->pending_records = DELAYS * RECORDS - 2;
	write_record(f, s, 1);
	assert_true(s->in_transaction);
	record = synthetic_record(&f->synthetic, 2);
	assert_int_equal(store_write_record(s, record, NULL), STORE_E_BUSY);
	assert_false(s->in_transaction);
	sqlite3_finalize(stmt);
	sqlite3_close(reader);
	store_close(s);
}

TEST_WITH(a_reader_delays_so_many_bytes_and_no_more, setup, teardown)
{
	uint8_t data[1] = { 0 };
	struct gpuctr_image image = { 1, 0, 1, data, sizeof(data) };
	struct fixture *f = *state;
	struct store *s = begin(f);
	sqlite3_stmt *stmt;
	sqlite3 *reader;

	assert_int_equal(store_commit(s, false), 0);
	stmt = begin_to_read(f, &reader);
	assert_int_equal(store_write_image(s, &image), 0);
	s->pending_bytes = (size_t)DELAYS * IMAGES * IMAGE_BYTES - 2;
	image.first++;
	assert_int_equal(store_write_image(s, &image), 0);
	image.first++;
	assert_int_equal(store_write_image(s, &image), STORE_E_BUSY);
	sqlite3_finalize(stmt);
	sqlite3_close(reader);
	store_close(s);
}
