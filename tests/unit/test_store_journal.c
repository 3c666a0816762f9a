/* SPDX-License-Identifier: Apache-2.0 */

/* What somebody puts beside a capture that is written: a journal whose roll-back would change the
 * file, and after which SQLite removes the file that the journal names. Links client/store. */

#include "tests/unit/store_fixture.h"

#include <sys/prctl.h>

#include "client/store/internal.h"

enum { STRANGER = 65534, SECTOR = 512, PAGE = 16384 };

static const unsigned char magic[8] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };

static void put_be32(FILE *file, uint32_t value)
{
	const unsigned char bytes[4] = { (unsigned char)(value >> 24), (unsigned char)(value >> 16),
					 (unsigned char)(value >> 8), (unsigned char)value };

	assert_int_equal(fwrite(bytes, 1, sizeof(bytes), file), sizeof(bytes));
}

/* No page is in it: what was written later is cut off, and the victim removed. */
static void write_journal(const char *path, uint32_t pages, const char *victim)
{
	FILE *file = fopen(path, "w");
	uint32_t sum = 0;

	assert_non_null(file);
	fwrite(magic, 1, sizeof(magic), file);
	put_be32(file, 0);
	put_be32(file, 0);
	put_be32(file, pages);
	put_be32(file, SECTOR);
	put_be32(file, PAGE);
	fseek(file, SECTOR, SEEK_SET);
	put_be32(file, 0x40000000 / PAGE + 1);
	for (const char *p = victim; *p; p++) {
		sum += (unsigned char)*p;
		fputc(*p, file);
	}
	put_be32(file, (uint32_t)strlen(victim));
	put_be32(file, sum);
	fwrite(magic, 1, sizeof(magic), file);
	assert_int_equal(fclose(file), 0);
}

struct attack {
	char victim[128], journal[128];
};

static void make_victim(struct fixture *f, struct attack *a)
{
	FILE *file;

	snprintf(a->victim, sizeof(a->victim), "%s/victim", f->folder);
	snprintf(a->journal, sizeof(a->journal), "%s-journal", f->path);
	file = fopen(a->victim, "w");
	assert_non_null(file);
	fputs("what must not be lost\n", file);
	assert_int_equal(fclose(file), 0);
}

static void plant(struct attack *a, bool as_stranger)
{
	unlink(a->journal);
	write_journal(a->journal, 1, a->victim);
	if (as_stranger) {
		assert_int_equal(chown(a->journal, STRANGER, STRANGER), 0);
	}
}

static void expect_records(struct fixture *f, uint64_t n)
{
	struct store_reader *r = open_file(f);

	assert_int_equal(store_count_rows(r), 0);
	assert_int_equal(store_info(r)->processes[0].records, n);
	store_reader_free(r);
}

static void commit(struct store *s)
{
	assert_int_equal(store_finish(s, &all_well), 0);
}

FIXTURE_TEST(a_strangers_journal_changes_nothing)
{
	struct fixture *f = *state;
	struct attack a;
	struct store *s;

	if (geteuid() != 0) {
		print_message("SKIP: only root can make a file of another user's\n");
		skip();
	}
	s = create(f);
	make_victim(f, &a);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	commit(s);
	for (unsigned i = 0; i < 3; i++) {
		plant(&a, true);
		assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i), NULL),
				 0);
		commit(s);
		assert_int_equal(access(a.victim, F_OK), 0);
	}
	store_close(s);
	expect_records(f, 3);
}

/* As left by a program of ours that was killed: what it says of the file is done, no more. */
FIXTURE_TEST(a_journal_of_ours_removes_no_other_file)
{
	struct fixture *f = *state;
	struct attack a;
	struct store *s = create(f);

	make_victim(f, &a);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	commit(s);
	plant(&a, false);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL),
			 STORE_E_CORRUPT);
	store_close(s);
	assert_int_equal(access(a.victim, F_OK), 0);
}

/* A second name of a file of ours that begins as a journal does that is done with. */
FIXTURE_TEST(a_journal_with_two_names_is_not_written_to)
{
	struct fixture *f = *state;
	struct attack a;
	struct stat st;
	struct store *s = create(f);

	make_victim(f, &a);
	assert_int_equal(truncate(a.victim, 0), 0);
	assert_int_equal(truncate(a.victim, 100), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	commit(s);
	assert_int_equal(link(a.victim, a.journal), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL), 0);
	commit(s);
	store_close(s);
	assert_int_equal(stat(a.victim, &st), 0);
	assert_int_equal(st.st_size, 100);
	expect_records(f, 1);
}

static struct store_options replacing(struct fixture *f)
{
	return (struct store_options){ .path = f->path,
				       .force = true,
				       .plan = &f->synthetic.plan,
				       .driver = "",
				       .version = "" };
}

FIXTURE_TEST(what_is_replaced_is_not_rolled_back)
{
	struct fixture *f = *state;
	const struct store_options options = replacing(f);
	struct attack a;
	struct store *s;

	write_file(f, 3);
	make_victim(f, &a);
	plant(&a, false);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(access(a.victim, F_OK), 0);
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL), 0);
	commit(s);
	store_close(s);
	expect_records(f, 1);
}

/* What is set up beside a file has a name that nobody can know, or take away. */
FIXTURE_TEST(a_file_in_the_way_of_the_new_one)
{
	struct fixture *f = *state;
	const struct store_options options = replacing(f);
	char name[128];
	struct store *s = NULL;

	write_file(f, 3);
	snprintf(name, sizeof(name), "%s.new.%d", f->path, (int)getpid());
	assert_int_equal(mkdir(name, 0700), 0);
	assert_int_equal(store_create(&options, &f->error, &s), 0);
	store_close(s);
	assert_int_equal(rmdir(name), 0);
}

/* Puts a file and a link in turn at the path, until it is killed. */
static pid_t exchange(const struct fixture *f, const char *victim)
{
	char other[128];
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0) {
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(other, sizeof(other), "%s.other", f->path);
	for (;;) {
		close(open(other, O_WRONLY | O_CREAT, 0600));
		rename(other, f->path);
		usleep(1000);
		if (symlink(victim, other) == 0) {
			rename(other, f->path);
		}
	}
}

/* Also where the link comes between the look at what is there and the replacing of it. */
FIXTURE_TEST(a_link_is_never_written_through)
{
	struct fixture *f = *state;
	const struct store_options options = replacing(f);
	struct attack a;
	struct stat before, after;
	struct store *s;
	unsigned made = 0;
	pid_t pid;

	make_victim(f, &a);
	assert_int_equal(stat(a.victim, &before), 0);
	assert_int_equal(symlink(a.victim, f->path), 0);
	assert_int_equal(store_create(&options, &f->error, &s), STORE_E_PATH);
	pid = exchange(f, a.victim);
	while (made < 20) {
		if (store_create(&options, &f->error, &s) == 0) {
			made++;
			store_close(s);
		}
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(stat(a.victim, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_size, before.st_size);
	snprintf(f->path, sizeof(f->path), "%s/victim-journal", f->folder);
	assert_int_equal(access(f->path, F_OK), -1);
}

/* Its pages go to the file before the commit, as in the middle of one. */
static void die_in_a_commit(struct store *s)
{
	static const char sql[] =
		"PRAGMA cache_spill = ON; PRAGMA cache_size = 10; BEGIN; WITH RECURSIVE n(i) AS "
		"(SELECT 1"
		" UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO meta SELECT 'key' || i,"
		" hex(zeroblob(500)) FROM n";

	_exit(sqlite3_exec(s->db, sql, NULL, NULL, NULL));
}

/* Its journal lies beside where the file has moved to. */
FIXTURE_TEST(a_replacement_that_is_killed_in_a_commit)
{
	struct fixture *f = *state;
	const struct store_options options = replacing(f);
	struct attack a;
	struct store *s;
	int status;
	pid_t pid;

	write_file(f, 3);
	make_victim(f, &a);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		assert_int_equal(store_create(&options, &f->error, &s), 0);
		store_write_process(s, &f->synthetic.process);
		store_write_record(s, synthetic_record(&f->synthetic, 0), NULL);
		commit(s);
		die_in_a_commit(s);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SQLITE_OK);
	assert_int_equal(access(a.journal, F_OK), 0);
	expect_records(f, 1);
	assert_int_equal(access(a.journal, F_OK), 0);
}
