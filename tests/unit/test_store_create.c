/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store_fixture.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "client/store/internal.h"

/* How a capture file comes into being, and what a failure leaves of it. */

/* --- creation and failure -------------------------------------------------------------------- */

FIXTURE_TEST(test_existing_file_is_refused_unless_forced)
{
	struct fixture *f = *state;
	struct store_options options = {
		.path = f->path, .plan = &f->synthetic.plan, .driver = "", .version = ""
	};
	struct store *s;
	struct store_reader *r;

	write_file(f, 3);
	assert_int_equal(store_check(f->path, false, &f->error), STORE_E_EXISTS);
	assert_int_equal(store_create(&options, &f->error, &s), STORE_E_EXISTS);
	assert_int_equal(store_check(f->path, true, &f->error), 0);
	options.force = true;
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL), 0);
	store_close(s);
	r = open_file(f);
	assert_int_equal(store_info(r)->n_processes, 0);
	assert_false(store_info(r)->complete);
	store_reader_free(r);
}

/* Nor one that the user may read. */
FIXTURE_TEST(test_a_temporary_file_needs_no_working_folder)
{
	struct fixture *f = *state;
	struct store_options options = { .plan = &f->synthetic.plan, .driver = "", .version = "" };
	char folder[] = "/tmp/gpuctr-gone.XXXXXX";
	CLEAN_FD int back = open(".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	struct store *s;

	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL), 0);
	store_close(s);
	assert_int_equal(fchdir(back), 0);
}

/* A run without -o has its table as far as what was recorded went. */
FIXTURE_TEST(test_a_temporary_file_that_cannot_grow_keeps_what_it_has)
{
	struct fixture *f = *state;
	struct store_options options = { .plan = &f->synthetic.plan, .driver = "", .version = "" };
	struct rlimit unlimited, limit;
	struct store_reader *reader;
	struct store_cursor *cursor;
	const struct gpuctr_record *record;
	struct store *s;
	uint64_t n = 0;
	int r = 0;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
	limit = (struct rlimit){ 24 << 20, unlimited.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; r == 0 && i < 1000000; i++) {
		r = store_write_record(s, synthetic_record(&f->synthetic, i), NULL);
	}
	setrlimit(RLIMIT_FSIZE, &unlimited);
	assert_int_equal(r, STORE_E_FULL);
	assert_non_null(strstr(store_last_error(s)->message, "a temporary file: there is no more"));
	assert_non_null(strstr(store_last_error(s)->remedy, "TMPDIR"));
	assert_true(store_saved(s) > 100000);
	assert_int_equal(store_read_back(s, &f->error, &reader), 0);
	assert_int_equal(store_records(reader, 1, 0, 0, &cursor), 0);
	while ((r = store_next_record(cursor, &record)) == 0 && record) {
		n++;
	}
	assert_int_equal(r, 0);
	assert_int_equal(n, store_saved(s));
	store_cursor_free(cursor);
	store_reader_free(reader);
	store_close(s);
}

/* It does not fill the disk. */
FIXTURE_TEST(test_a_temporary_file_leaves_half_of_the_room)
{
	struct fixture *f = *state;
	struct store_options options = { .plan = &f->synthetic.plan, .driver = "", .version = "" };
	struct statvfs room;
	sqlite3_stmt *stmt;
	struct store *s;
	double most, half;

	setenv("TMPDIR", f->folder, 1);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	unsetenv("TMPDIR");
	assert_int_equal(statvfs(f->folder, &room), 0);
	half = (double)room.f_bavail * (double)room.f_frsize / 2;
	assert_int_equal(sqlite3_prepare_v2(s->db, "PRAGMA max_page_count", -1, &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	most = (double)sqlite3_column_int64(stmt, 0) * 16384;
	sqlite3_finalize(stmt);
	assert_true(most > half * 0.9 && most < half * 1.1);
	assert_int_equal(sqlite3_exec(s->db, "PRAGMA max_page_count = 100", NULL, NULL, NULL), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < 100000 && store_last_error(s)->code == 0; i++) {
		store_write_record(s, synthetic_record(&f->synthetic, i), NULL);
	}
	assert_int_equal(store_last_error(s)->code, STORE_E_FULL);
	assert_non_null(strstr(store_last_error(s)->message, "half of what was there"));
	store_close(s);
}

FIXTURE_TEST(test_failed_replacement_leaves_the_old_file)
{
	struct fixture *f = *state;
	struct store_options options = { .path = f->path,
					 .plan = &f->synthetic.plan,
					 .force = true };
	struct store *s = NULL;
	struct store_reader *r;
	char command[160];

	write_file(f, 3);
	f->synthetic.columns[1].name = f->synthetic.columns[0].name; /* no table can have that */
	assert_true(store_create(&options, &f->error, &s) > 0);
	assert_null(s);
	r = open_file(f);
	assert_int_equal(store_count_rows(r), 0);
	assert_int_equal(store_info(r)->processes[0].records, 3);
	store_reader_free(r);
	snprintf(command, sizeof(command), "test $(ls '%s' | wc -l) = 1", f->folder);
	assert_int_equal(system(command), 0);
}

/* SQLite would roll the journal of the old file back into the new one. */
FIXTURE_TEST(test_stale_journal_is_not_applied)
{
	struct fixture *f = *state;
	struct store_options options = { .path = f->path,
					 .plan = &f->synthetic.plan,
					 .force = true,
					 .driver = "",
					 .version = "" };
	char journal[128];
	struct store *s;
	int fd;

	write_file(f, 3);
	snprintf(journal, sizeof(journal), "%s-journal", f->path);
	fd = open(journal, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "stale", 5), 5);
	close(fd);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(access(journal, F_OK), -1);
	store_close(s);
	store_reader_free(open_file(f));
}

FIXTURE_TEST(test_bad_paths_are_refused)
{
	struct fixture *f = *state;

	assert_int_equal(store_check("/dev/null", true, &f->error), STORE_E_PATH);
	assert_int_equal(store_check(f->folder, true, &f->error), STORE_E_PATH);
	assert_int_equal(store_check("/nonexistent/folder/x", false, &f->error), STORE_E_PATH);
	assert_int_equal(store_check("", false, &f->error), STORE_E_PATH);
	assert_int_equal(store_open("/nonexistent/x", &f->error, NULL), STORE_E_PATH);
	assert_string_equal(store_error_name(STORE_E_PATH), "store-path");
	assert_string_equal(store_error_name(4711), "store-unknown");
}

static void write_until_killed(struct fixture *f, int begun)
{
	struct store *s = create(f);

	if (write(begun, "", 1) != 1) {
		_exit(1);
	}
	store_write_process(s, &f->synthetic.process);
	for (unsigned i = 0;; i++) {
		store_write_record(s, synthetic_record(&f->synthetic, i), NULL);
	}
}

/* A killed writer leaves what it had committed, whole, wherever the kill falls. */
FIXTURE_TEST(test_killed_writer_leaves_a_readable_file)
{
	struct fixture *f = *state;
	uint64_t most = 0;

	for (unsigned round = 0; round < 8; round++) {
		struct store_reader *r;
		int begun[2];
		char byte;
		pid_t pid;

		assert_int_equal(pipe(begun), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			write_until_killed(f, begun[1]);
		}
		close(begun[1]);
		assert_int_equal(read(begun[0], &byte, 1), 1);
		close(begun[0]);
		usleep(300000 + round * 61000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		r = open_file(f);
		assert_false(store_info(r)->complete);
		assert_int_equal(store_count_rows(r), 0);
		for (size_t i = 0; i < store_info(r)->n_processes; i++) {
			const struct store_process *p = &store_info(r)->processes[i];

			most = p->records > most ? p->records : most;
			assert_true(p->records == 0 || p->last == p->records - 1);
		}
		store_reader_free(r);
		assert_int_equal(unlink(f->path), 0);
	}
	/* Slow machines and sanitizers commit once a second, others by count. */
	if (most == 0) {
		print_message("no commit was reached: only the empty file was checked\n");
	}
}

FIXTURE_TEST(test_failure_keeps_what_was_committed)
{
	struct fixture *f = *state;
	struct rlimit limit, unlimited;
	struct store *s = create(f);
	struct store_reader *r;
	unsigned i;
	int result = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	getrlimit(RLIMIT_FSIZE, &unlimited);
	limit = unlimited;
	limit.rlim_cur = 14 << 20;
	setrlimit(RLIMIT_FSIZE, &limit);
	for (i = 0; i < 600000 && result == 0; i++) {
		result = store_write_record(s, synthetic_record(&f->synthetic, i), NULL);
	}
	/* On a slow machine the failure may come late; it comes. */
	assert_int_equal(result, STORE_E_FULL);
	assert_int_equal(store_last_error(s)->code, STORE_E_FULL);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i), NULL),
			 STORE_E_FULL);
	assert_int_equal(store_saved(s) + store_unsaved(s), i + 1);
	assert_true(store_unsaved(s) > 0);
	assert_int_equal(store_finish(s, &all_well), STORE_E_FULL);
	setrlimit(RLIMIT_FSIZE, &unlimited);
	i = (unsigned)store_saved(s);
	store_close(s);
	r = open_file(f);
	assert_false(store_info(r)->complete);
	assert_int_equal(store_count_rows(r), 0);
	assert_int_equal(store_info(r)->n_processes ? store_info(r)->processes[0].records : 0, i);
	store_reader_free(r);
}

/* Two captures of one name: whoever is second does not take a file away that is being written, and
 * the first one notices when it lost its file all the same. */
FIXTURE_TEST(test_a_file_has_one_writer)
{
	struct fixture *f = *state;
	struct store_options options = { .path = f->path,
					 .force = true,
					 .plan = &f->synthetic.plan,
					 .driver = "",
					 .version = "" };
	struct store *first = create(f), *second;
	char other[128];

	assert_int_equal(store_write_record(first, synthetic_record(&f->synthetic, 0), NULL), 0);
	assert_int_equal(store_create(&options, &f->error, &second), STORE_E_BUSY);
	assert_non_null(strstr(f->error.message, "is being written by another program"));
	assert_int_equal(store_finish(first, &all_well), 0);
	assert_int_equal(store_create(&options, &f->error, &second), 0);
	assert_int_equal(store_write_record(first, synthetic_record(&f->synthetic, 1), NULL),
			 STORE_E_PATH);
	assert_non_null(strstr(store_last_error(first)->message, "replaced or removed"));
	assert_int_equal(store_unsaved(first), 1);
	store_close(first);
	snprintf(other, sizeof(other), "%s.moved", f->path);
	assert_int_equal(rename(f->path, other), 0);
	assert_int_equal(store_write_record(second, synthetic_record(&f->synthetic, 0), NULL),
			 STORE_E_PATH);
	assert_int_equal(store_unsaved(second), 1);
	store_close(second);
}

/* Somebody who looks at the file while it grows delays the commit and costs nothing. */
FIXTURE_TEST(test_reader_does_not_cost_records)
{
	struct fixture *f = *state;
	struct store *s = create(f);
	sqlite3 *db;
	sqlite3_stmt *stmt;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM meta", -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW); /* and keeps the lock */
	for (unsigned i = 0; i < 200000; i++) {
		assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i), NULL),
				 0);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(*) FROM record"), 200000);
}

FIXTURE_TEST(test_record_cannot_be_written_twice)
{
	struct fixture *f = *state;
	struct store *s = create(f);

	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 5), NULL), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 5), NULL),
			 STORE_E_IO);
	assert_int_equal(store_unsaved(s), 2);
	store_close(s);
}
