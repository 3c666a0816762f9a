/* SPDX-License-Identifier: Apache-2.0 */

/* A capture file of anybody's making, read to its end. A file of noise is seldom a database, so an
 * input may also be a list of changes to a good one: bytes of the file, values of its tables, or
 * SQL. Whatever it is, store_open() or a cursor gives a code, or values within their ranges. */

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>
#include <zlib.h>

#include "client/store/reader.h"
#include "client/store/schema.h"
#include "tests/fuzz/fuzz.h"

enum { ROWS = 3, SQL_STEPS_MAX = 1000, SQL_LENGTH_MAX = 100000 };

static struct {
	unsigned char *data;
	sqlite3_int64 size;
	char path[64];
	int fd;
} base;

/* --- the good file --- */

static const char rows[] =
	"INSERT INTO meta VALUES('version', '0.1.0'), ('command', 'train'), ('host', 'h'),"
	" ('user', 'u'), ('driver', '580'), ('chip', 'GH100'), ('created_ns', 5), ('passes', 1),"
	" ('groups', 1), ('complete', 1), ('end_code', 0), ('seen', 3), ('measured', 3);"
	"INSERT INTO column_def VALUES(0, 'dram__bytes.sum', 'byte', 0);"
	"INSERT INTO metric_def VALUES(0, 'dram__bytes.sum');"
	"INSERT INTO process(id, pid, program, cupti, driver, recorded_from)"
	" VALUES(1, 99, 'train', '13', '580', '');"
	"INSERT INTO device VALUES(1, 0, 'GPU-0', 'H200', 'GH100', 1980, 2619);"
	"INSERT INTO kernel VALUES(1, 1, 'kernel(float*)', '_Z6kernelPf', 0, 8);"
	"INSERT INTO meta VALUES('argv.0', 'python'), ('argv.1', 'train.py'),"
	" ('gpu.3.uuid', 'GPU-0'), ('gpu.3.name', 'H200'), ('gpu.3.chip', 'GH100');"
	"INSERT INTO site VALUES(1, 1, 0, '', 'step N', '', '', 0, 1, 1, 0),"
	" (1, 2, 1, 'domain', 'inner', '[[1]]', 'category', 5, 2, 2, 1);"
	"INSERT INTO place VALUES(1, 'aten::add', NULL, 'fprop', 'layer');"
	"INSERT INTO active VALUES(1, 1, 1), (1, 1, 2);"
	"INSERT INTO mark VALUES(1, 2, 5, 6, 1, 7, x'1804');"
	"INSERT INTO image VALUES(1, 0, 3, 3, 891568578, 'abc');"
	"INSERT INTO notice VALUES(1, 74, 'CUPTI failed', 'try again');";

static void must(sqlite3 *db, const char *sql)
{
	char *message = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
		fuzz_fail("%s", message);
	}
}

/* A block of one row, of zeros but for what makes a sample's length and kind of a copy sound. */
static void add_block(sqlite3 *db, const char *sql, unsigned columns, unsigned one)
{
	uint8_t row[8 * 8] = { 0 };
	sqlite3_stmt *stmt;
	int size = (int)(8 * columns);

	row[8 * one] = 1;
	fuzz_check(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
	sqlite3_bind_int64(stmt, 1, (int64_t)crc32_z(0, row, (size_t)size));
	sqlite3_bind_blob(stmt, 2, row, size, SQLITE_STATIC);
	fuzz_check(sqlite3_step(stmt) == SQLITE_DONE);
	sqlite3_finalize(stmt);
}

static void make_base(void)
{
	static const struct gpuctr_column column = { "dram__bytes.sum", "byte", 0 };
	char *record = schema_format_record(&column, 1),
	     *views = schema_format_views(&column, 1, false);
	char sql[512];
	sqlite3 *db;

	fuzz_check(sqlite3_open(":memory:", &db) == SQLITE_OK && record && views);
	snprintf(sql, sizeof(sql),
		 "PRAGMA page_size = 512; PRAGMA application_id = %d; PRAGMA user_version = %d;",
		 STORE_APPLICATION_ID, STORE_FORMAT);
	must(db, sql);
	must(db, schema_tables);
	must(db, record);
	must(db, schema_sample_tables);
	must(db, "INSERT INTO meta VALUES('samples', 1)");
	add_block(db, "INSERT INTO sample_block VALUES('GPU-0', 10000, 5, 1, ?, ?)", 3, 1);
	add_block(db, "INSERT INTO copy_block VALUES(1, 1, ?, ?)", 7, 0);
	must(db, views);
	must(db, rows);
	must(db, "INSERT INTO launch VALUES"
		 " (1, 1, 0, 1, 1, 1, 1, 32, 1, 1, 0, 0, 0, 7, 1, 2, 0, 1, 2),"
		 " (2, 1, 0, 1, 1, 1, 1, 32, 1, 1, 0, 0, 0, 7, 1, 2, 1, 1, 2)");
	for (int i = 0; i < ROWS; i++) {
		snprintf(sql, sizeof(sql),
			 "INSERT INTO record VALUES((1 << 40) + %d, 1, %d, %d, %d, 100, 50, 2, 1,"
			 " 1, 7, 4, 6, x'0804', 4096.0)",
			 i, i, 1 + i % 2, i);
		must(db, sql);
	}
	base.data = sqlite3_serialize(db, "main", &base.size, 0);
	fuzz_check(base.data);
	sqlite3_free(record);
	sqlite3_free(views);
	sqlite3_close(db);
}

static void remove_file(void)
{
	unlink(base.path);
}

static void prepare(void)
{
	/* Pages that are allocated ahead would be most of the time. */
	sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
	sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 0);
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	make_base();
	snprintf(base.path, sizeof(base.path), "%s/fuzz_capture.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	base.fd = mkstemp(base.path);
	fuzz_check(base.fd >= 0);
	atexit(remove_file);
}

static void write_file(const uint8_t *data, size_t size)
{
	fuzz_check(ftruncate(base.fd, 0) == 0);
	fuzz_check(pwrite(base.fd, data, size, 0) == (ssize_t)size);
}

/* --- changes --- */

static void write_patched(struct fuzz_input *in)
{
	size_t size = (size_t)base.size, cut = (size_t)fuzz_take_uint(in, 2);
	uint8_t *copy = malloc(size);

	fuzz_check(copy);
	memcpy(copy, base.data, size);
	while (in->size > 3) {
		size_t at = (size_t)fuzz_take_uint(in, 2) % size, n = fuzz_take_u8(in) % 32;

		n = n < in->size ? n : in->size;
		n = n < size - at ? n : size - at;
		memcpy(copy + at, fuzz_take(in, n), n);
	}
	write_file(copy, cut != 0 && cut < size ? cut : size);
	free(copy);
}

static int give_up(void *unused)
{
	(void)unused;
	return 1;
}

static sqlite3 *open_copy(void)
{
	unsigned char *copy = sqlite3_malloc64((sqlite3_uint64)base.size);
	sqlite3 *db;

	fuzz_check(copy && sqlite3_open(":memory:", &db) == SQLITE_OK);
	memcpy(copy, base.data, (size_t)base.size);
	fuzz_check(sqlite3_deserialize(db, "main", copy, base.size, base.size,
				       SQLITE_DESERIALIZE_FREEONCLOSE |
					       SQLITE_DESERIALIZE_RESIZEABLE) == SQLITE_OK);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, SQL_LENGTH_MAX);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_progress_handler(db, SQL_STEPS_MAX, give_up, NULL);
	return db;
}

static void write_copy(sqlite3 *db)
{
	sqlite3_int64 size = 0;
	unsigned char *data = sqlite3_serialize(db, "main", &size, 0);

	write_file(data ? data : (const uint8_t *)"", data ? (size_t)size : 0);
	sqlite3_free(data);
	sqlite3_close(db);
}

static void bind_some(sqlite3_stmt *stmt, struct fuzz_input *in)
{
	static const int64_t edges[] = { -1,	    0,	       1,	  INT32_MAX, UINT32_MAX,
					 INT64_MAX, INT64_MIN, 1LL << 40, 1LL << 22, 4096 };
	uint8_t kind = fuzz_take_u8(in);
	size_t n;

	switch (kind % 6) {
	case 0:
		sqlite3_bind_null(stmt, 1);
		break;
	case 1:
		sqlite3_bind_int64(stmt, 1, edges[fuzz_take_u8(in) % (sizeof(edges) / 8)]);
		break;
	case 2:
		sqlite3_bind_int64(stmt, 1, (int64_t)fuzz_take_number(in));
		break;
	case 3:
		sqlite3_bind_double(stmt, 1, (double)fuzz_take_number(in) / 7);
		break;
	default:
		n = fuzz_take_u8(in) % 64;
		n = n < in->size ? n : in->size;
		if (kind % 6 == 4) {
			sqlite3_bind_text(stmt, 1, (const char *)fuzz_take(in, n), (int)n,
					  SQLITE_TRANSIENT);
		} else {
			sqlite3_bind_blob(stmt, 1, fuzz_take(in, n), (int)n, SQLITE_TRANSIENT);
		}
		break;
	}
}

/* One value of one row becomes another, of any type. */
static void edit(sqlite3 *db, struct fuzz_input *in)
{
	static const char *const tables[] = { "meta",	      "column_def", "metric_def", "process",
					      "device",	      "kernel",	    "site",	  "active",
					      "record",	      "mark",	    "image",	  "notice",
					      "sample_block", "copy_block" };
	const char *table = tables[fuzz_take_u8(in) % 14], *name;
	unsigned column = fuzz_take_u8(in), row = fuzz_take_u8(in) % 8;
	sqlite3_stmt *stmt;
	char sql[256];

	snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
	fuzz_check(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
	name = sqlite3_column_name(stmt, (int)column % sqlite3_column_count(stmt));
	snprintf(sql, sizeof(sql),
		 "UPDATE %s SET \"%s\" = ?1 WHERE \"%s\" IS (SELECT \"%s\" FROM %s LIMIT 1 OFFSET "
		 "%u)",
		 table, name, name, name, table, row);
	sqlite3_finalize(stmt);
	fuzz_check(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK);
	bind_some(stmt, in);
	sqlite3_step(stmt); /* a constraint may say no */
	sqlite3_finalize(stmt);
}

static void write_edited(struct fuzz_input *in)
{
	sqlite3 *db = open_copy();

	while (in->size > 3) {
		edit(db, in);
	}
	write_copy(db);
}

static void write_altered(struct fuzz_input *in)
{
	sqlite3 *db = open_copy();
	char *sql = fuzz_take_text(in, 4096);

	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	free(sql);
	write_copy(db);
}

/* --- reading --- */

static size_t read_text(const char *text)
{
	return strlen(text);
}

static void check_site(const struct gpuctr_site *r)
{
	fuzz_check(r->id != 0);
	fuzz_check(r->depth == (r->parent ? r->parent->depth + 1 : 0));
	read_text(r->domain);
	read_text(r->name);
	read_text(r->sizes);
	fuzz_check(r->kind <= GPUCTR_SITE_ENGINE && r->numbered <= GPUCTR_NUMBER_SEQ);
	read_text(r->category);
}

static void check_numbers(const struct gpuctr_site *site, const struct gpuctr_occurrence *at)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < site->n_numbers; i++) {
		sum ^= at->numbers[i];
	}
	(void)sum;
}

static void check_record(const struct store_reader *r, const struct store_kernels *d,
			 const struct gpuctr_record *record)
{
	double sum = 0;

	fuzz_check(record->kind <= GPUCTR_LAUNCH_GRAPH && record->clock <= GPUCTR_CLOCK_GPU);
	fuzz_check((record->duration_ns == -1) == (record->clock == GPUCTR_CLOCK_NONE));
	fuzz_check(record->index <= STORE_INDEX_MAX);
	if (record->kernel) {
		fuzz_check(record->kernel >= d->items && record->kernel < d->items + d->n);
		read_text(record->kernel->name);
		read_text(record->kernel->mangled);
	}
	if (record->site) {
		check_site(record->site);
		check_numbers(record->site, &record->at);
	}
	fuzz_check(record->opened <= (record->site ? record->site->depth + 1 : 0));
	for (size_t i = 0; i < record->n_active; i++) {
		check_site(record->active[i]);
	}
	for (size_t i = 0; i < store_info(r)->plan.n_columns; i++) {
		sum += record->values[i];
	}
	(void)sum;
}

static void read_records(struct store_reader *r, unsigned process, const struct store_kernels *d)
{
	const struct gpuctr_record *record;
	struct store_cursor *c;

	if (store_records(r, process, 0, 0, &c) != 0) {
		return;
	}
	while (store_next_record(c, &record) == 0 && record) {
		check_record(r, d, record);
	}
	store_cursor_free(c);
}

static void read_images(struct store_reader *r, unsigned process)
{
	const struct gpuctr_image *image;
	struct store_cursor *c;
	unsigned sum = 0;

	if (store_images(r, process, 0, 0, &c) != 0) {
		return;
	}
	while (store_next_image(c, &image) == 0 && image) {
		for (size_t i = 0; i < image->size; i++) {
			sum += image->data[i];
		}
	}
	(void)sum;
	store_cursor_free(c);
}

static void read_marks(struct store_reader *r, unsigned process)
{
	const struct gpuctr_mark *mark;
	struct store_cursor *c;

	if (store_marks(r, process, &c) != 0) {
		return;
	}
	while (store_next_mark(c, &mark) == 0 && mark) {
		if (mark->site) {
			check_site(mark->site);
			check_numbers(mark->site, &mark->at);
		}
	}
	store_cursor_free(c);
}

static void read_notices(struct store_reader *r)
{
	const struct gpuctr_notice *notices;
	size_t n;

	if (store_notices(r, &notices, &n) != 0) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		read_text(notices[i].error.message);
		read_text(notices[i].error.remedy);
	}
}

static void read_samples(struct store_reader *r)
{
	const struct store_samples *s;
	struct store_blocks *b;
	double sum = 0;

	if (store_samples(r, &b) != 0) {
		return;
	}
	while (store_next_samples(b, &s) == 0 && s) {
		size_t n_metrics = store_info(r)->plan.n_metrics;

		read_text(s->gpu);
		fuzz_check(s->n > 0 && s->interval_ns > 0 && s->times[0][0] > 0);
		for (size_t i = 0; i < s->n; i++) {
			fuzz_check(s->times[i][1] > s->times[i][0]);
			fuzz_check(i == 0 || s->times[i][0] >= s->times[i - 1][1]);
		}
		for (size_t i = 0; i < s->n * n_metrics; i++) {
			sum += s->values[i];
		}
	}
	(void)sum;
	store_blocks_free(b);
}

static void read_copies(struct store_reader *r, unsigned process)
{
	const struct gpuctr_copy *copies;
	struct store_blocks *b;
	size_t n;

	if (store_copies(r, process, &b) != 0) {
		return;
	}
	while (store_next_copies(b, &copies, &n) == 0 && copies) {
		for (size_t i = 0; i < n; i++) {
			fuzz_check(copies[i].kind <= GPUCTR_COPY_LOST);
			fuzz_check(copies[i].start_ns >= 0 && copies[i].duration_ns >= 0);
		}
	}
	store_blocks_free(b);
}

static void read_process(struct store_reader *r, const struct store_process *p)
{
	struct store_kernels kernels;

	read_text(p->process.program);
	for (size_t i = 0; i < p->process.n_devices; i++) {
		read_text(p->process.devices[i].uuid);
	}
	if (store_load_kernels(r, p->process.process, &kernels) != 0) {
		return;
	}
	read_records(r, p->process.process, &kernels);
	read_images(r, p->process.process);
	read_marks(r, p->process.process);
	read_copies(r, p->process.process);
}

static void read_all(void)
{
	const struct store_info *info;
	struct store_reader *r = NULL;
	struct store_error e = { 0 };
	int result = store_open(base.path, &e, &r);

	if (result != 0) {
		fuzz_check(!r && e.code == result && e.message[0] != '\0');
		return;
	}
	info = store_info(r);
	result = store_count_rows(r);
	fuzz_check(store_reader_error(r)->code == result);
	read_text(info->version);
	read_text(info->command);
	read_text(info->plan.chip);
	for (size_t i = 0; i < info->plan.n_columns; i++) {
		read_text(info->plan.columns[i].name);
	}
	for (size_t i = 0; i < info->n_processes && i < 16; i++) {
		read_process(r, &info->processes[i]);
	}
	read_notices(r);
	read_samples(r);
	store_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	if (!base.data) {
		prepare();
	}
	switch (fuzz_take_u8(&in) % 4) {
	case 0:
		write_patched(&in);
		break;
	case 1:
		write_edited(&in);
		break;
	case 2:
		write_altered(&in);
		break;
	default:
		write_file(in.data, in.size);
		break;
	}
	read_all();
	return 0;
}
