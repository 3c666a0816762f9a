/* SPDX-License-Identifier: Apache-2.0 */

/* A file that is cut off, damaged, hostile or something else gives a code, never a wild value.
 * Links client/store. */

#include "tests/unit/store_fixture.h"

FIXTURE_TEST(test_other_files_are_refused)
{
	struct fixture *f = *state;
	FILE *file = fopen(f->path, "w");

	fclose(file);
	expect_refused(f, STORE_E_NOT_CAPTURE);
	file = fopen(f->path, "w");
	fprintf(file, "some text that is no database");
	fclose(file);
	expect_refused(f, STORE_E_NOT_CAPTURE);
	unlink(f->path);
	alter(f, "CREATE TABLE meta(key, value)");
	expect_refused(f, STORE_E_NOT_CAPTURE);
	alter(f, "PRAGMA user_version = 999; PRAGMA application_id = 1196450676"); /* GPct */
	expect_refused(f, STORE_E_VERSION);
	alter(f, "PRAGMA user_version = 7");
	expect_refused(f, STORE_E_VERSION);
	alter(f, "PRAGMA user_version = 8");
	expect_refused(f, STORE_E_CORRUPT);
}

FIXTURE_TEST(test_truncated_file_is_refused)
{
	struct fixture *f = *state;
	struct stat st;

	write_file(f, 3000);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(truncate(f->path, st.st_size - 1), 0);
	expect_refused(f, STORE_E_TRUNCATED);
	assert_int_equal(truncate(f->path, 16384), 0);
	expect_refused(f, STORE_E_TRUNCATED);
	assert_int_equal(truncate(f->path, 60), 0);
	expect_refused(f, STORE_E_TRUNCATED);
}

/* Whatever is overwritten, opening and reading everything ends with rows or with a code. */
FIXTURE_TEST(test_damaged_pages_give_a_code)
{
	struct fixture *f = *state;
	struct stat st;
	unsigned refused = 0;

	write_file(f, 2000);
	assert_int_equal(stat(f->path, &st), 0);
	for (off_t at = 100; at < st.st_size; at += 5003) {
		unsigned char was[64], junk[64];
		struct store_reader *r = NULL;
		int fd = open(f->path, O_RDWR);

		memset(junk, 0xa5, sizeof(junk));
		assert_true(pread(fd, was, sizeof(was), at) > 0);
		assert_true(pwrite(fd, junk, sizeof(junk), at) > 0);
		if (store_open(f->path, &f->error, &r) == 0) {
			const struct gpuctr_record *record = NULL;
			struct store_cursor *c = NULL;
			int result = store_records(r, 1, 0, 0, &c);

			while (result == 0 && (result = store_next_record(c, &record)) == 0 &&
			       record) {
				assert_true(record->duration_ns >= -1);
			}
			refused += result != 0;
			store_cursor_free(c);
			store_reader_free(r);
		} else {
			refused++;
			assert_true(f->error.code > 0 && f->error.message[0]);
		}
		assert_true(pwrite(fd, was, sizeof(was), at) > 0);
		close(fd);
		assert_int_equal(truncate(f->path, st.st_size), 0);
	}
	assert_true(refused > 10);
	store_reader_free(open_file(f));
}

FIXTURE_TEST(test_flipped_bit_of_an_image_is_found)
{
	struct fixture *f = *state;
	const struct gpuctr_image image = { 1, 0, 1, (const uint8_t *)"0123456789", 10 };
	const struct gpuctr_image *back;
	struct store *s = create(f);
	struct store_reader *r;
	struct store_cursor *c;

	assert_int_equal(store_write_image(s, &image), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	alter(f, "UPDATE image SET data = x'30313233343536373838'");
	r = open_file(f);
	assert_int_equal(store_images(r, 1, 0, 0, &c), 0);
	assert_int_equal(store_next_image(c, &back), STORE_E_CORRUPT);
	assert_non_null(strstr(store_reader_error(r)->message, "checksum"));
	store_cursor_free(c);
	store_reader_free(r);
}

static int read_all(struct fixture *f)
{
	const struct gpuctr_record *record = NULL;
	struct store_reader *r = NULL;
	struct store_cursor *c = NULL;
	int result = store_open(f->path, &f->error, &r);

	result = result ? result : store_records(r, 1, 0, 0, &c);
	while (result == 0 && (result = store_next_record(c, &record)) == 0 && record) {
	}
	store_cursor_free(c);
	store_reader_free(r);
	return result;
}

FIXTURE_TEST(test_hostile_values_are_refused)
{
	static const char *const attacks[] = {
		"UPDATE launch SET grid_x = 4294967296 WHERE id = 2",
		"UPDATE launch SET grid_x = -1 WHERE id = 2",
		"UPDATE launch SET grid_x = 'many' WHERE id = 2",
		"UPDATE launch SET kind = 17 WHERE id = 2",
		"UPDATE launch SET kernel = 100000 WHERE id = 2",
		"UPDATE launch SET site = 100000 WHERE id = 2",
		"UPDATE launch SET active_set = 3 WHERE id = 2",
		"INSERT INTO active VALUES(1, 3, 99); UPDATE launch SET active_set = 3 WHERE id = "
		"2",
		"UPDATE launch SET process = 2 WHERE id = 2",
		"UPDATE record SET launch = 100000 WHERE idx = 5",
		"UPDATE record SET launch = 0 WHERE idx = 5",
		"UPDATE record SET launch = -1 WHERE idx = 5",
		"UPDATE record SET process = 2 WHERE idx = 5",
		"UPDATE record SET \"dram__bytes_read.sum\" = 'x' WHERE idx = 5",
		"UPDATE record SET opened = 5 WHERE idx = 5",
		"UPDATE record SET opened = -1 WHERE idx = 5",
		"UPDATE record SET payload_type = 65 WHERE idx = 5",
		"UPDATE record SET numbers = x'80' WHERE idx = 5",
		"UPDATE record SET numbers = zeroblob(3) || x'ffffffffffffffffffffff' WHERE idx = "
		"5",
		"UPDATE site SET parent = 4 WHERE id = 1",
		"UPDATE site SET parent = 2, depth = 3 WHERE id = 2",
		"UPDATE site SET parent = 77777 WHERE id = 2",
		"UPDATE site SET id = 5000000000 WHERE id = 4",
		"UPDATE site SET depth = 9 WHERE id = 1",
		"UPDATE site SET kind = 5 WHERE id = 1",
		"UPDATE site SET number = 3 WHERE id = 1",
		"UPDATE record SET clock = 3 WHERE idx = 5",
		"UPDATE record SET clock = 0 WHERE idx = 5", /* but it has a duration */
		"UPDATE record SET duration_ns = -1 WHERE idx = 5",
		"UPDATE kernel SET registers = -2 WHERE id = 1",
		"UPDATE kernel SET static_shared_bytes = 2147483648 WHERE id = 1",
		"UPDATE process SET id = -4",
		"UPDATE process SET measured = 'all'",
		"UPDATE device SET idx = -1",
		"UPDATE meta SET value = 'no' WHERE key = 'complete'",
		"UPDATE meta SET value = -3 WHERE key = 'passes'",
		"UPDATE column_def SET idx = 7 WHERE idx = 1",
		"DELETE FROM column_def WHERE idx = 2",
		"DROP TABLE notice",
		"DROP TABLE image; CREATE VIEW image AS WITH RECURSIVE x(first) AS (SELECT 1 UNION "
		"ALL SELECT"
		" first + 1 FROM x) SELECT 1 AS process, first, 1 AS count, 0 AS size, 0 AS crc32, "
		"'' AS data FROM x",
		"ALTER TABLE record ADD COLUMN more",
		"ALTER TABLE notice ADD COLUMN more AS (length(hex(zeroblob(100000000))))",
		"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'count"
		" INTEGER', 'count INTEGER CHECK(length(hex(zeroblob(100000000))) > 0)') WHERE"
		" name = 'image'",
		"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'clock"
		" INTEGER', 'clock INTEGER CHECK(length(hex(zeroblob(100000000))) > 0)') WHERE"
		" name = 'record'",
		"ALTER TABLE record RENAME COLUMN clock TO watch",
		"CREATE TABLE more(a CHECK(length(hex(zeroblob(100000000))) > 0)); PRAGMA"
		" ignore_check_constraints = ON; INSERT INTO more SELECT idx FROM record",
		"CREATE INDEX more ON record(length(hex(zeroblob(clock))))",
		"CREATE TRIGGER more AFTER INSERT ON record BEGIN DELETE FROM record; END",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
		write_file(f, 20);
		assert_int_equal(read_all(f), 0);
		if (strncmp(attacks[i], "DROP TABLE image", 16) == 0 ||
		    strncmp(attacks[i], "ALTER TABLE record RENAME", 25) == 0) {
			alter(f, "DROP VIEW records");
		}
		alter(f, attacks[i]);
		if (read_all(f) != STORE_E_CORRUPT) {
			fail_msg("not refused: %s", attacks[i]);
		}
		assert_int_equal(unlink(f->path), 0);
	}
}

static void put_be(unsigned char *p, uint64_t value, size_t n)
{
	while (n > 0) {
		p[--n] = (unsigned char)value;
		value >>= 8;
	}
}

/* An inner page of a table whose cells all lead to the page child. */
static void make_inner(unsigned char *page, size_t size, unsigned child)
{
	enum { HEAD = 12, CELLS = 1000, CELL = 5 };
	size_t content = size - CELLS * CELL;

	memset(page, 0, size);
	page[0] = 5;
	put_be(page + 3, CELLS, 2);
	put_be(page + 5, content, 2);
	put_be(page + 8, child, 4);
	for (size_t i = 0; i < CELLS; i++) {
		put_be(page + HEAD + 2 * i, content + i * CELL, 2);
		put_be(page + content + i * CELL, child, 4);
		page[content + i * CELL + 4] = 1; /* the key */
	}
}

/* Under the root there are inner pages, each of which names the next a thousand times, down to the
 * rows of before: a file of 300 KiB that has 10^18 of each row. */
static void make_endless(struct fixture *f, const char *table)
{
	enum { SIZE = 16384, LEVELS = 6 };
	unsigned char header[100], page[SIZE];
	char sql[96];
	unsigned root, last;
	int fd;

	snprintf(sql, sizeof(sql), "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", table);
	root = (unsigned)query(f, sql);
	fd = open(f->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pread(fd, page, SIZE, (off_t)(root - 1) * SIZE), SIZE);
	last = (unsigned)header[28] << 24 | header[29] << 16 | header[30] << 8 | header[31];
	assert_int_equal(pwrite(fd, page, SIZE, (off_t)last++ * SIZE), SIZE);
	for (unsigned i = 0; i < LEVELS; i++) {
		make_inner(page, SIZE, last);
		assert_int_equal(pwrite(fd, page, SIZE,
					i + 1 < LEVELS ? (off_t)last++ * SIZE
						       : (off_t)(root - 1) * SIZE),
				 SIZE);
	}
	put_be(header + 28, last, 4);
	assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
	close(fd);
}

FIXTURE_TEST(test_a_tree_without_end_is_refused)
{
	static const char *const tables[] = { "column_def", "metric_def", "process", "record" };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		write_file(f, 20);
		make_endless(f, tables[i]);
		expect_refused(f, STORE_E_CORRUPT);
		assert_int_equal(unlink(f->path), 0);
	}
}

FIXTURE_TEST(test_unknown_meta_keys_are_left_alone)
{
	struct fixture *f = *state;

	write_file(f, 3);
	alter(f, "INSERT INTO meta VALUES('later', 'x'), (x'00', 1)");
	assert_int_equal(read_all(f), 0);
}
