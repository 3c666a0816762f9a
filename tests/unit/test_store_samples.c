/* SPDX-License-Identifier: Apache-2.0 */

/* Samples and copies that a capture keeps come back to the bit, and whoever wrote them in the file,
 * a reader gets sound ones or a code. Links client/store. */

#include <zlib.h>

#include "tests/unit/store_fixture.h"

enum { SAMPLES = STORE_BLOCK_MAX + 77, COPIES = 100 };

static struct {
	int64_t times[SAMPLES][2];
	double values[SAMPLES * 8];
	struct gpuctr_copy copies[COPIES];
} made;

static const char gpu[] = "GPU-0123";

static struct store *create_keeping(struct fixture *f)
{
	const struct store_options options = { .path = f->path,
					       .plan = &f->synthetic.plan,
					       .driver = "580.159.04",
					       .version = "0.1.0",
					       .sampled = true,
					       .keeps_samples = true };
	struct store *s = NULL;

	assert_int_equal(store_create(&options, &f->error, &s), 0);
	return s;
}

static void make(size_t n_metrics)
{
	int64_t at = 1700000000000000000;

	assert_true(n_metrics <= 8);
	for (size_t i = 0; i < SAMPLES; i++) {
		at += i % 1000 == 0 ? 50000 : 0; /* some are missing */
		made.times[i][0] = at;
		at += 10000 + (int64_t)(i % 3);
		made.times[i][1] = at;
		for (size_t k = 0; k < n_metrics; k++) {
			made.values[i * n_metrics + k] = (double)(i * 7919 % 100003) * 32 + k / 3.0;
		}
	}
	made.values[5] = NAN;
	for (size_t i = 0; i < COPIES; i++) {
		made.copies[i] = (struct gpuctr_copy){
			1, GPUCTR_COPY_SET,	  (unsigned)i % 4, 7 + (unsigned)i % 3, i << 40,
			i, (int64_t)i * 1000 + 1, (int64_t)i
		};
	}
}

static void write_some(struct store *s, size_t first, size_t n, size_t n_metrics)
{
	const struct store_samples samples = { .gpu = gpu,
					       .interval_ns = 10000,
					       .n = n,
					       .times = (const int64_t(*)[2])made.times + first,
					       .values = made.values + first * n_metrics };

	assert_int_equal(store_write_samples(s, &samples), 0);
}

static void write_all(struct fixture *f)
{
	size_t n_metrics = f->synthetic.plan.n_metrics;
	struct store *s = create_keeping(f);

	make(n_metrics);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	write_some(s, 0, STORE_BLOCK_MAX, n_metrics);
	write_some(s, STORE_BLOCK_MAX, SAMPLES - STORE_BLOCK_MAX, n_metrics);
	assert_int_equal(store_write_copies(s, made.copies, COPIES), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
}

static int read_samples(struct store_reader *r, size_t *ret_n)
{
	size_t n_metrics = store_info(r)->plan.n_metrics;
	const struct store_samples *samples;
	struct store_blocks *blocks;
	int e = store_samples(r, &blocks);

	*ret_n = 0;
	assert_int_equal(e, 0);
	while ((e = store_next_samples(blocks, &samples)) == 0 && samples) {
		assert_string_equal(samples->gpu, gpu);
		assert_true(*ret_n + samples->n <= SAMPLES);
		assert_memory_equal(samples->times, made.times + *ret_n,
				    samples->n * sizeof(made.times[0]));
		assert_memory_equal(samples->values, made.values + *ret_n * n_metrics,
				    samples->n * n_metrics * sizeof(double));
		*ret_n += samples->n;
	}
	store_blocks_free(blocks);
	return e;
}

static int read_copies(struct store_reader *r, size_t *ret_n)
{
	const struct gpuctr_copy *copies;
	struct store_blocks *blocks;
	size_t n;
	int e = store_copies(r, 1, &blocks);

	*ret_n = 0;
	assert_int_equal(e, 0);
	while ((e = store_next_copies(blocks, &copies, &n)) == 0 && copies) {
		assert_true(*ret_n + n <= COPIES);
		for (size_t i = 0; i < n; i++) {
			const struct gpuctr_copy *want = &made.copies[*ret_n + i];

			assert_int_equal(copies[i].kind, want->kind);
			assert_int_equal(copies[i].device, want->device);
			assert_int_equal(copies[i].context, want->context);
			assert_true(copies[i].stream == want->stream);
			assert_true(copies[i].bytes == want->bytes);
			assert_true(copies[i].start_ns == want->start_ns);
			assert_true(copies[i].duration_ns == want->duration_ns);
		}
		*ret_n += n;
	}
	store_blocks_free(blocks);
	return e;
}

TEST_WITH(test_samples_and_copies_come_back, setup, teardown)
{
	struct fixture *f = *state;
	struct store_reader *r;
	size_t n;

	write_all(f);
	r = open_file(f);
	assert_true(store_info(r)->has_samples);
	assert_int_equal(read_samples(r, &n), 0);
	assert_int_equal(n, SAMPLES);
	assert_int_equal(read_copies(r, &n), 0);
	assert_int_equal(n, COPIES);
	store_reader_free(r);
}

/* Spans that end before they begin are in some files. */
TEST_WITH(test_times_of_which_nothing_is_known_come_back, setup, teardown)
{
	static const struct store_unknown spans[] = {
		{ gpu, 300, 200 }, { gpu, 200, 300 }, { gpu, 5, 5 }, { "", 7, INT64_MAX }
	};
	struct fixture *f = *state;
	const struct store_info *info;
	struct store *s = create_keeping(f);
	struct store_reader *r;

	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
		assert_int_equal(store_write_unknown(s, &spans[i]), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	info = store_info(r);
	assert_int_equal(info->n_unknown, 2);
	assert_true(info->unknown[0].start_ns == 200 && info->unknown[0].end_ns == 300);
	assert_string_equal(info->unknown[0].gpu, gpu);
	assert_true(info->unknown[1].start_ns == 7 && info->unknown[1].end_ns == INT64_MAX);
	store_reader_free(r);
}

/* It would end later than a time can be. */
TEST_WITH(test_a_copy_without_an_end_is_refused, setup, teardown)
{
	const int64_t half = INT64_C(1) << 62;
	struct gpuctr_copy copy = { .process = 1, .start_ns = half, .duration_ns = half };
	struct fixture *f = *state;
	const struct gpuctr_copy *copies;
	struct store_blocks *blocks;
	struct store_reader *r;
	struct store *s = create_keeping(f);
	size_t n;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_copies(s, &copy, 1), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	assert_int_equal(store_copies(r, 1, &blocks), 0);
	assert_int_equal(store_next_copies(blocks, &copies, &n), STORE_E_CORRUPT);
	store_blocks_free(blocks);
	store_reader_free(r);
}

TEST_WITH(test_other_captures_have_none, setup, teardown)
{
	struct fixture *f = *state;
	struct store_reader *r;
	size_t n;

	write_file(f, 3);
	r = open_file(f);
	assert_false(store_info(r)->has_samples);
	assert_int_equal(read_samples(r, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(read_copies(r, &n), 0);
	assert_int_equal(n, 0);
	store_reader_free(r);
}

/* What a capture records is read back before it ends, and gets its values between two rows that are
 * read. In a file that has a name or none. */
TEST_WITH(test_what_is_recorded_gets_its_values, setup, teardown)
{
	enum { RECORDS = 500 };
	struct fixture *f = *state;
	size_t n_columns = f->synthetic.plan.n_columns;
	double values[2 * 64] = { 0 };

	assert_true(n_columns <= 64);
	for (int named = 0; named < 2; named++) {
		const struct store_options options = { .path = named ? f->path : NULL,
						       .plan = &f->synthetic.plan,
						       .driver = "580.159.04",
						       .version = "0.1.0",
						       .sampled = true,
						       .keeps_samples = true };
		const struct gpuctr_record *record;
		struct store_cursor *c;
		struct store_reader *r;
		struct store *s;
		size_t n = 0;

		assert_int_equal(store_create(&options, &f->error, &s), 0);
		assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
		for (unsigned i = 0; i < RECORDS; i++) {
			struct gpuctr_record copy = *synthetic_record(&f->synthetic, i);

			copy.values = NULL;
			assert_int_equal(store_write_record(s, &copy, NULL), 0);
		}
		assert_int_equal(store_read_back(s, &f->error, &r), 0);
		assert_true(store_info(r)->has_samples);
		assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
		for (; store_next_record(c, &record) == 0 && record; n++) {
			struct gpuctr_record copy = *record;

			assert_true(isnan(record->values[0]) && !record->errors);
			assert_int_equal(record->index, n);
			copy.values = values;
			copy.errors = values + n_columns;
			copy.alike = (unsigned)n % 7;
			values[0] = (double)n / 3;
			values[n_columns] = NAN;
			values[2 * n_columns - 1] = (double)n;
			assert_int_equal(store_write_values(s, &copy), 0);
		}
		assert_int_equal(n, RECORDS);
		store_cursor_free(c);
		assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
		for (n = 0; store_next_record(c, &record) == 0 && record; n++) {
			assert_true(record->values[0] == (double)n / 3);
			assert_true(isnan(record->errors[0]) == (n_columns > 1));
			assert_true(record->errors[n_columns - 1] == (double)n);
			assert_int_equal(record->alike, n % 7);
		}
		assert_int_equal(n, RECORDS);
		store_cursor_free(c);
		store_reader_free(r);
		store_close(s);
	}
}

/* Whole blocks, so what is dropped may begin earlier; other GPUs' stay. */
TEST_WITH(test_samples_are_taken_back, setup, teardown)
{
	struct fixture *f = *state;
	size_t n_metrics = f->synthetic.plan.n_metrics, n;
	struct store *s = create_keeping(f);
	const char *const *gpus;
	struct store_reader *r;
	int64_t since_ns;

	make(n_metrics);
	for (size_t i = 0; i < 4; i++) {
		write_some(s, i * 1000, 1000, n_metrics);
	}
	assert_int_equal(store_read_back(s, &f->error, &r), 0);
	since_ns = made.times[2500][0];
	assert_int_equal(store_drop_samples(s, "GPU-other", &since_ns), 0);
	assert_true(since_ns == made.times[2500][0]);
	assert_int_equal(store_drop_samples(s, gpu, &since_ns), 0);
	assert_true(since_ns == made.times[2000][0]);
	assert_int_equal(read_samples(r, &n), 0);
	assert_int_equal(n, 2000);
	assert_int_equal(store_sampled_gpus(r, &gpus, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(gpus[0], gpu);
	since_ns = 1;
	assert_int_equal(store_drop_samples(s, gpu, &since_ns), 0);
	assert_int_equal(since_ns, 1);
	assert_int_equal(read_samples(r, &n), 0);
	assert_int_equal(n, 0);
	store_reader_free(r);
	store_close(s);
}

/* What does not go into a block, or into a file that keeps none. */
TEST_WITH(test_wrong_blocks_are_not_written, setup, teardown)
{
	struct fixture *f = *state;
	struct store *s = create_keeping(f);

	assert_true(store_write_copies(s, made.copies, 0) < 0);
	assert_true(store_write_copies(s, made.copies, STORE_BLOCK_MAX + 1) < 0);
	store_close(s);
	unlink(f->path);
	s = create(f);
	assert_true(store_write_copies(s, made.copies, 1) < 0);
	store_close(s);
}

/* One cell of the first block gets another value, and the block the checksum of that. */
static void set_cell(struct fixture *f, const char *table, size_t column, uint64_t value)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	uint8_t *bytes;
	uLongf size;
	size_t n, columns = strcmp(table, "copy_block") == 0 ? 7 : 2 + f->synthetic.plan.n_metrics;
	char sql[128];

	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	snprintf(sql, sizeof(sql), "SELECT count, data FROM %s WHERE rowid = 1", table);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = (size_t)sqlite3_column_int(stmt, 0);
	size = n * columns * 8;
	bytes = malloc(size);
	assert_int_equal(uncompress(bytes, &size, sqlite3_column_blob(stmt, 1),
				    (uLong)sqlite3_column_bytes(stmt, 1)),
			 Z_OK);
	sqlite3_finalize(stmt);
	for (size_t i = 0; i < 8; i++) {
		bytes[(column * 8 + i) * n + 1] = (uint8_t)(value >> (8 * i));
	}
	snprintf(sql, sizeof(sql), "UPDATE %s SET crc32 = ?, data = ? WHERE rowid = 1", table);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	sqlite3_bind_int64(stmt, 1, (int64_t)crc32_z(0, bytes, size));
	sqlite3_bind_blob(stmt, 2, bytes, (int)size, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	free(bytes);
}

static void expect_corrupt(struct fixture *f, bool copies)
{
	struct store_reader *r = open_file(f);
	size_t n;

	assert_int_equal(copies ? read_copies(r, &n) : read_samples(r, &n), STORE_E_CORRUPT);
	assert_true(store_reader_error(r)->message[0]);
	store_reader_free(r);
}

TEST_WITH(test_hostile_blocks_give_a_code, setup, teardown)
{
	static const struct {
		const char *table;
		size_t column;
		uint64_t value;
	} wrong[] = {
		{ "sample_block", 0, UINT64_MAX },	  /* before the one before it */
		{ "sample_block", 0, UINT64_C(1) << 62 }, /* after all time */
		{ "sample_block", 1, 0 },
		{ "sample_block", 1, UINT64_MAX - 5 },
		{ "copy_block", 0, GPUCTR_COPY_LOST + 1 }, /* no such kind */
		{ "copy_block", 1, UINT64_C(1) << 32 },
		{ "copy_block", 5, UINT64_MAX },
		{ "copy_block", 6, UINT64_C(1) << 63 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_all(f);
		set_cell(f, wrong[i].table, wrong[i].column, wrong[i].value);
		expect_corrupt(f, strcmp(wrong[i].table, "copy_block") == 0);
		unlink(f->path);
	}
}

TEST_WITH(test_damaged_blocks_give_a_code, setup, teardown)
{
	static const char *const samples[] = {
		"UPDATE sample_block SET crc32 = crc32 + 1",
		"UPDATE sample_block SET data = substr(data, 1, 100)",
		"UPDATE sample_block SET data = 'x'",
		"UPDATE sample_block SET count = count - 1",
		"UPDATE sample_block SET count = 4097",
		"UPDATE sample_block SET count = 0",
		"UPDATE sample_block SET interval_ns = 0",
		"UPDATE sample_block SET start_ns = -1",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		write_all(f);
		alter(f, samples[i]);
		expect_corrupt(f, false);
		unlink(f->path);
	}
	write_all(f);
	alter(f, "UPDATE copy_block SET crc32 = 1");
	expect_corrupt(f, true);
}

/* The tables must be there, and as we declare them. */
TEST_WITH(test_tables_of_samples_are_ours, setup, teardown)
{
	struct fixture *f = *state;

	write_all(f);
	alter(f, "DROP TABLE copy_block");
	expect_refused(f, STORE_E_CORRUPT);
	alter(f, "CREATE TABLE copy_block(process, count, crc32, data)");
	expect_refused(f, STORE_E_CORRUPT);
}
