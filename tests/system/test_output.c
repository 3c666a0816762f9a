/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/lines.h"
#include "tests/system/query.h"

/* What is kept of a capture: the SQLite file and the live stream say the same, and all of it. */

static sqlite3 *open_capture(const char *path)
{
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
		fail_msg("%s: %s", path, sqlite3_errmsg(db));
	}
	return db;
}

static void expect_whole(sqlite3 *db)
{
	sqlite3_stmt *s = NULL;

	assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
	sqlite3_finalize(s);
}

/* Of two processes of four threads. On a busy machine one of them may wait for another in vain, so
 * it is tried again until all was measured. */
static void measure_whole(struct fixture *f, struct lines *ret)
{
	double unready = 1;

	for (int i = 0; i < 5 && unready > 0; i++) {
		if (i > 0) {
			lines_deinit(ret);
		}
		expect_exit(fixture_client(f, USER_ANN, "--metrics",
					   "dram__bytes_read.sum,sm__inst_executed.sum", "-f", "-o",
					   fixture_path(f, "run.gpuctr"),
					   stream_to(fixture_path(f, "records")), "--", FAKEAPP,
					   "--children", "1", "--threads", "4", "--kernels", "300",
					   "--nvtx", "--capture", NULL),
			    0);
		lines_load(ret, fixture_path(f, "records"));
		unready = line_number(lines_at(ret, "totals", 0), "unready");
	}
}

SYSTEM_TEST(file_and_stream_agree)
{
	struct fixture *f = *state;
	double sum = 0;
	struct lines l;
	sqlite3 *db;

	fixture_start_daemon(f, NULL);
	measure_whole(f, &l);
	assert_int_equal(lines_count(&l, "kernel"), 2 * 4 * 300);
	assert_true(line_number(lines_at(&l, "totals", 0), "measured") ==
		    (double)lines_count(&l, "kernel"));
	assert_true(line_number(lines_at(&l, "totals", 0), "seen") == 2 * 4 * (300 + 4));
	assert_true(line_number(lines_at(&l, "totals", 0), "capturing") == 2 * 4 * 4);
	assert_true(line_is(l.all.v[0], "capture")); /* first and last */
	assert_true(line_is(l.all.v[l.all.n - 1], "totals"));
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		sum += line_number(lines_at(&l, "kernel", i), "dram__bytes_read.sum");
	}
	db = open_capture(fixture_path(f, "run.gpuctr"));
	expect_whole(db);
	assert_true(query(db, "SELECT count(*) FROM record") == 2 * 4 * 300);
	assert_true(query(db, "SELECT sum(\"dram__bytes_read.sum\") FROM records") == sum);
	assert_true(query(db, "SELECT count(DISTINCT process) FROM record") == 2);
	assert_true(query(db, "SELECT sum(measured) FROM process WHERE ended AND clean") ==
		    2 * 4 * 300);
	assert_true(query(db, "SELECT count(*) FROM mark") == (double)lines_count(&l, "mark"));
	/* Each process counts from 0 without a gap. */
	assert_true(
		query(db,
		      "SELECT count(*) FROM (SELECT process FROM record GROUP BY process"
		      " HAVING min(idx) = 0 AND max(idx) = 1199 AND count(DISTINCT idx) = 1200)") ==
		2);
	assert_true(query(db, "SELECT count(*) FROM records WHERE kernel = 'k3(float*)' AND nvtx "
			      "GLOB 'step */epoch/layer 3'") > 0);
	assert_true(query(db, "SELECT count(*) FROM records WHERE nvtx IS NULL OR kernel IS NULL "
			      "OR uuid IS NULL") == 0);
	sqlite3_close(db);
	lines_deinit(&l);
}

/* What a run prints at its end is what `report` prints of its file. */
SAMPLING_TEST(summary_and_report_are_the_same)
{
	static const char *const modes[] = { "range", "trace", "sample" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	setenv("COLUMNS", "110", 1);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		CLEAN_FREE char *summary = NULL, *table = NULL;
		struct program *run, *report;

		run = fixture_client(f, USER_ANN, "--mode", modes[i], "-f", "-o",
				     fixture_path(f, "run.gpuctr"), "--", FAKEAPP, "--children",
				     "1", "--kernels", "300", "--nvtx", NULL);
		expect_exit(run, 0);
		report = fixture_client(f, USER_ANN, "report", fixture_path(f, "run.gpuctr"), NULL);
		expect_exit(report, 0);
		summary = read_file(run->err);
		table = read_file(report->out);
		assert_non_null(strstr(table, "kernels seen in 2 processes"));
		if (!strstr(summary, table)) {
			fail_msg("the summary\n%s\nis without the report\n%s", summary, table);
		}
	}
	unsetenv("COLUMNS");
}

/* Types what the end of a run says, one command after the other; how many there were. */
static unsigned type_next(struct fixture *f, struct program *p)
{
	CLEAN_FREE char *said = read_file(p->err);
	char *at = strstr(said, "\nnext: gpuctr-client "), command[1024];
	unsigned n = 0;

	for (at = at ? at + strlen("\nnext: ") : NULL;
	     at && strncmp(at, "gpuctr-client ", strlen("gpuctr-client ")) == 0; n++) {
		size_t length = strcspn(at, "\n");

		snprintf(command, sizeof(command), "exec %s %.*s", CLIENT,
			 (int)(length - strlen("gpuctr-client ")), at + strlen("gpuctr-client "));
		expect_exit(fixture_run(f, USER_ANN, "/bin/sh", "-c", command, NULL), 0);
		at += length;
		at += strspn(at, "\n ");
	}
	return n;
}

SYSTEM_TEST(what_is_to_be_typed_next_works)
{
	static const char *const names[] = { "run.gpuctr", "it's a *.gpuctr", "plain" };
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
				   fixture_path(f, names[i]), "--", FAKEAPP, "--kernels", "30",
				   NULL);
		expect_exit(p, 0);
		assert_int_equal(type_next(f, p), 2);
	}
	assert_int_equal(access(fixture_path(f, "run.html"), R_OK), 0);
	assert_int_equal(access(fixture_path(f, "plain.html"), R_OK), 0);
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
			   fixture_path(f, "each%%-%p.gpuctr"), "--", FAKEAPP, "--children", "2",
			   "--kernels", "30", NULL);
	expect_exit(p, 0);
	assert_int_equal(type_next(f, p), 1);
	expect_message(p, "/each%-*.gpuctr --by rank,process");
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-q", "-o",
			   fixture_path(f, "quiet.gpuctr"), "--", FAKEAPP, "--kernels", "30", NULL);
	expect_exit(p, 0);
	expect_no_message(p, "next: ");
	p = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
			   fixture_path(f, "none.gpuctr"), "--", FAKEAPP, "--kernels", "0", NULL);
	expect_exit(p, 0);
	expect_no_message(p, "next: ");
}

/* Each with its own records and totals, in folders that were not there. */
SYSTEM_TEST(each_process_has_its_file)
{
	struct fixture *f = *state;
	glob_t found;

	setenv("SLURM_JOB_ID", "77", 1);
	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
				   fixture_path(f, "of/%j/100%%.%p.gpuctr"), "--", FAKEAPP,
				   "--children", "1", "--kernels", "20", NULL),
		    0);
	unsetenv("SLURM_JOB_ID");
	assert_int_equal(glob(fixture_path(f, "of/77/100%.*.gpuctr"), 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 2);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		sqlite3 *db = open_capture(found.gl_pathv[i]);

		expect_whole(db);
		assert_true(query(db, "SELECT count(*) FROM record") == 20);
		assert_true(query(db, "SELECT count(*) FROM process") == 1);
		assert_true(query(db, "SELECT value FROM meta WHERE key = 'measured'") == 20);
		assert_true(query(db, "SELECT value FROM meta WHERE key = 'complete'") == 1);
		assert_true(query(db, "SELECT value FROM meta WHERE key LIKE "
				      "'process.%.SLURM_JOB_ID'") == 77);
		sqlite3_close(db);
	}
	globfree(&found);
}

/* The program goes on, and what could not be kept is counted. */
SYSTEM_TEST(a_process_without_a_file_is_told)
{
	struct fixture *f = *state;
	struct program *client;
	FILE *touch;
	char *err;

	fixture_start_daemon(f, NULL);
	touch = fopen(fixture_path(f, "rank.none"), "w");
	assert_non_null(touch);
	fclose(touch);
	client = fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
				fixture_path(f, "rank.%r/%p.gpuctr"), "--", FAKEAPP, "--kernels",
				"20", NULL);
	expect_exit(client, 0);
	err = read_file(client->err);
	assert_non_null(strstr(err, "is not kept"));
	assert_non_null(strstr(err, "20 not written to the file"));
	free(err);
}

/* What can be known before anything starts is refused then. */
SYSTEM_TEST(a_folder_that_cannot_be_made_is_refused)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "-o", "/proc/none/%p.gpuctr", "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "-o /proc/none/%p.gpuctr: /proc/none/: No such file or directory");
}

/* One after the other, more processes than the client may have files open: a file is closed when
 * its last process has ended. */
SYSTEM_TEST(files_of_ended_processes_are_closed)
{
	enum { PROCESSES = 40 };
	static const char limited[] = "ulimit -n 36; exec \"$@\"";
	static const char script[] =
		"for i in $(seq 40); do RANK=$i \"$0\" --kernels 2 || exit; done";
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = fixture_run(f, USER_ANN, "/bin/sh", "-c", limited, "sh",
			     built_path("client/cli/gpuctr-client"), "--metrics",
			     "dram__bytes_read.sum", "-o", fixture_path(f, "ranks/%r.gpuctr"), "--",
			     "sh", "-c", script, FAKEAPP, NULL);
	expect_exit(client, 0);
	for (int rank = 1; rank <= PROCESSES; rank++) {
		char name[64];
		sqlite3 *db;

		snprintf(name, sizeof(name), "ranks/%d.gpuctr", rank);
		db = open_capture(fixture_path(f, name));
		assert_int_equal((int)query(db, "SELECT count(*) FROM record"), 2);
		expect_whole(db);
		sqlite3_close(db);
	}
}

/* A process that has the name of one that has ended goes on in its file. */
SYSTEM_TEST(a_file_takes_a_later_process_of_its_name)
{
	static const char script[] =
		"RANK=0 \"$0\" --kernels 3; RANK=1 \"$0\" --kernels 1; RANK=0 \"$0\" --kernels 4";
	struct fixture *f = *state;
	sqlite3 *db;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(f, USER_ANN, "--metrics", "dram__bytes_read.sum", "-o",
				   fixture_path(f, "ranks/%r.gpuctr"), "--", "sh", "-c", script,
				   FAKEAPP, NULL),
		    0);
	db = open_capture(fixture_path(f, "ranks/0.gpuctr"));
	assert_int_equal((int)query(db, "SELECT count(*) FROM record"), 7);
	assert_int_equal((int)query(db, "SELECT count(*) FROM process WHERE ended"), 2);
	expect_whole(db);
	sqlite3_close(db);
}

/* Of 200,000, which are kept or told. */
static unsigned long long marks_left_out(struct fixture *f)
{
	struct program *client;
	CLEAN_FREE char *text = NULL;
	unsigned long long dropped = 0;
	const char *line;
	sqlite3 *db;

	client = fixture_client(f, USER_ANN, "-f", "-o", fixture_path(f, "run.gpuctr"), "--",
				FAKEAPP, "--marks", "200000", NULL);
	expect_exit(client, 0);
	text = read_file(client->err);
	line = strstr(text, "warning[quota]: ");
	assert_true(!line ||
		    sscanf(line, "warning[quota]: %llu NVTX marks were left out", &dropped) == 1);
	db = open_capture(fixture_path(f, "run.gpuctr"));
	expect_whole(db);
	assert_true(query(db, "SELECT count(*) FROM mark") + (double)dropped == 200000);
	sqlite3_close(db);
	return dropped;
}

/* Marks that come faster than they can be sent are left out, and the user hears how many. A busy
 * machine may set them slowly enough. */
SYSTEM_TEST(marks_that_are_left_out_are_told)
{
	struct fixture *f = *state;
	unsigned long long dropped = 0;

	fixture_need_no_thread_sanitizer("there marks may not come faster than they can be sent");
	fixture_start_daemon(f, NULL);
	for (int i = 0; i < 5 && dropped == 0; i++) {
		dropped = marks_left_out(f);
	}
#ifndef __SANITIZE_ADDRESS__ /* it is slow at that by itself */
	assert_true(dropped > 0);
#endif
}

SYSTEM_TEST(what_was_measured_survives_an_interrupt)
{
	struct fixture *f = *state;
	struct program *client;
	struct lines l;
	sqlite3 *db;

	fixture_start_daemon(f, NULL);
	client =
		fixture_client(f, USER_ANN, "--metrics", "memory", "-o",
			       fixture_path(f, "run.gpuctr"), stream_to(fixture_path(f, "records")),
			       "--", FAKEAPP, "--kernels", "100000", "--sleep-us", "1000", NULL);
	expect_text_soon(fixture_path(f, "records"), "\"type\":\"kernel\"");
	program_kill(client, SIGINT);
	expect_exit(client, 128 + SIGINT);
	lines_load(&l, fixture_path(f, "records"));
	db = open_capture(fixture_path(f, "run.gpuctr"));
	expect_whole(db);
	assert_true(lines_count(&l, "kernel") > 0);
	assert_true(query(db, "SELECT count(*) FROM record") == (double)lines_count(&l, "kernel"));
	assert_true(line_number(lines_at(&l, "totals", 0), "measured") ==
		    (double)lines_count(&l, "kernel"));
	sqlite3_close(db);
	lines_deinit(&l);
}

/* The program goes without: its fake of a device is a large file. */
SYSTEM_TEST(a_limit_on_the_files_size_costs_records_alone)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.gpuctr"), *records = fixture_path(f, "records");
	char command[768];
	struct program *p;
	sqlite3 *db;

	fixture_start_daemon(f, NULL);
	snprintf(command, sizeof(command),
		 "ulimit -Sf 3000; exec %s -o %s --stream=%s -- /bin/bash -c "
		 "'ulimit -Sf unlimited; exec %s --kernels 60000 --exit 7'",
		 CLIENT, path, records, FAKEAPP);
	p = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
	expect_exit(p, 7);
	expect_output(p, "done 60000\n");
	expect_message(p, "warning[store-full]");
	expect_message(p, "ulimit -f");
	expect_message(p, "not written to the file");
	expect_message(p, "warning[stream-failed]: File too large");
	expect_message(p, "the capture file of -o is written apart from it");
	db = open_capture(path);
	expect_whole(db);
	assert_true(query(db, "SELECT count(*) FROM record") < 60000);
	sqlite3_close(db);
	assert_int_equal(access(fixture_path(f, "run.gpuctr-journal"), F_OK), -1);
}

/* There is no other file with the records, so none is named. */
SYSTEM_TEST(a_stream_that_fails_alone_names_no_other_file)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "--stream=/dev/full", "--", FAKEAPP, "--kernels", "6000",
			   "--exit", "7", NULL);
	expect_exit(p, 7);
	expect_message(p, "warning[stream-failed]: No space left on device");
	expect_message(p, "The records from there on are lost");
	expect_message(p, "6,000 measured, 0 dropped");
	expect_no_message(p, " -o ");
}

/* Without -o a run is recorded in a temporary file, for the table at its end. Where that cannot be
 * made or written the program runs all the same, measured, and the stream has every record. */
static struct program *run_without_room(struct fixture *f, const char *before)
{
	char command[1024];
	struct program *p;

	snprintf(command, sizeof(command),
		 "set -o pipefail; (%s; exec %s --stream -- /bin/bash -c "
		 "'ulimit -Sf unlimited; exec %s --kernels 6000 --exit 7') | "
		 "grep -c '\"type\":\"kernel\"'",
		 before, CLIENT, FAKEAPP);
	p = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
	expect_exit(p, 7);
	assert_int_equal(count_text(p->out, "6000\n"), 1);
	expect_message(p, "Set TMPDIR to a folder with room, or record with -o where there is.");
	expect_message(p, "6,000 kernels seen in 1 process: 6,000 measured, 0 dropped");
	return p;
}

SYSTEM_TEST(a_run_without_room_for_its_table_goes_on)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_start_daemon(f, NULL);
	p = run_without_room(f, "ulimit -Sf 300");
	expect_message(p, "warning[store-full]: a temporary file");
	expect_message(p, "6,000 not written to the file");
	p = run_without_room(f, "export TMPDIR=/nonexistent");
	expect_message(p, "warning[store-path]: a temporary file: create: No such file");
	expect_message(p, "there is no table at the end");
}

SYSTEM_TEST(a_closed_output_has_its_remedy)
{
	struct fixture *f = *state;
	char command[512];
	struct program *p;

	fixture_start_daemon(f, NULL);
	snprintf(command, sizeof(command), "exec %s --stream -- %s --kernels 5 >&-", CLIENT,
		 FAKEAPP);
	p = fixture_run(f, USER_ANN, "/bin/sh", "-c", command, NULL);
	expect_exit(p, 0);
	expect_message(p, "warning[stream-failed]: Bad file descriptor");
	expect_message(p, "leave it open, or keep them with -o FILE");
}

/* As some launchers start programs. Neither the daemon's socket nor a file gets one of their
 * numbers, and the program finds them as it would without us. */
SYSTEM_TEST(closed_standard_files_are_no_ones_else)
{
	static const char *const closed[] = { "<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-" };
	struct fixture *f = *state;
	char command[768], name[32];
	struct program *p;

	fixture_need_no_thread_sanitizer("programs that it does not know, as ls, end at once "
					 "where it is loaded");
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(closed) / sizeof(*closed); i++) {
		snprintf(name, sizeof(name), "%zu.gpuctr", i);
		snprintf(command, sizeof(command),
			 "exec %s -o %s --stream=%s.jsonl -- /bin/bash -c "
			 "'ls -l /proc/$$/fd/[0-2] >%s.fds; exec %s --exit 7' %s",
			 CLIENT, fixture_path(f, name), fixture_path(f, name),
			 fixture_path(f, name), FAKEAPP, closed[i]);
		expect_exit(fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL), 7);
		snprintf(name, sizeof(name), "%zu.gpuctr.jsonl", i);
		assert_int_equal(count_text(fixture_path(f, name), "\"type\":\"kernel\""), 10);
		assert_int_equal(count_text(fixture_path(f, name), "\"error\":null"), 1);
		snprintf(name, sizeof(name), "%zu.gpuctr.fds", i);
		assert_int_equal(count_text(fixture_path(f, name), "/fd/"),
				 3 - (strlen(closed[i]) + 1) / 4);
	}
	for (size_t i = 0; i < 2; i++) {
		snprintf(command, sizeof(command), "exec %s %s", CLIENT,
			 i == 0 ? "status >&-" : "help >/dev/full");
		p = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
		expect_exit(p, 1);
		expect_message(p,
			       i == 0 ? "error[output]: standard output: Bad file descriptor"
				      : "error[output]: standard output: No space left on device");
	}
}

SYSTEM_TEST(too_few_descriptors_are_refused)
{
	struct fixture *f = *state;
	char command[768];

	fixture_check_leaks(false);
	fixture_start_daemon(f, NULL);
	for (unsigned n = 6; n <= 14; n++) { /* with fewer its libraries do not load */
		struct program *p;

		snprintf(command, sizeof(command), "ulimit -n %u; exec %s -o %s -f -- %s", n,
			 CLIENT, fixture_path(f, "run.gpuctr"), FAKEAPP);
		p = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
		program_wait(p);
		if (p->status != 0) {
			expect_exit(p, 125);
			expect_message(p, "oo many open files");
		}
	}
}

/* With the first two a scheduler says that the time is almost over. */
SYSTEM_TEST(signals_are_the_programs)
{
	static const int signals[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	static const char script[] = "trap 'echo got; exit 7' USR1 USR2 TERM HUP INT QUIT; "
				     "echo ready; for i in {1..600}; do sleep 0.1; done";
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct program *p;

		signal(signals[i],
		       SIG_DFL); /* nohup, or a shell, may have had it ignored: so it stays */
		p = fixture_client(f, USER_ANN, "-q", "--", "/bin/bash", "-c", script, NULL);
		expect_text_soon(p->out, "ready");
		program_kill(p, signals[i]);
		expect_exit(p, 7);
		expect_output(p, "ready\ngot\n");
	}
}

SYSTEM_TEST(an_existing_file_is_not_overwritten)
{
	struct fixture *f = *state;
	const char *path = fixture_path(f, "run.gpuctr");
	struct program *client;
	struct stat before, after;
	int fd = open(path, O_WRONLY | O_CREAT, 0666);

	assert_int_equal(write(fd, "precious", 8), 8);
	close(fd);
	fixture_start_daemon(f, NULL);
	assert_int_equal(stat(path, &before), 0);
	client =
		fixture_client(f, USER_ANN, "--metrics", "memory", "-o", path, "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, "-f");
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(before.st_ino, after.st_ino);
}

/* The reader of the stream goes away, as head does: nothing of it reaches the program. */
SYSTEM_TEST(a_reader_that_goes_away_is_no_error)
{
	struct fixture *f = *state;
	char command[768];
	struct program *p;
	uint64_t measured = 0;

	fixture_start_daemon(f, NULL);
	snprintf(command, sizeof(command),
		 "%s --metrics memory --stream=>(head -n 5 >%s) -- %s --kernels "
		 "20000 --exit 7",
		 CLIENT, fixture_path(f, "head"), FAKEAPP);
	for (int i = 0; i < 3 && measured < 20000; i++) { /* where a client is held up, some drop */
		p = fixture_run(f, USER_ANN, "/bin/bash", "-c", command, NULL);
		expect_exit(p, 7);
		expect_output(p, "done 20000\n");
		measured = message_number(p, " measured");
		assert_int_equal(measured + message_number(p, " dropped"), 20000);
	}
	assert_int_equal(measured, 20000);
}

SYSTEM_TEST(metrics_and_plans_need_no_gpu)
{
	struct fixture *f = *state;
	struct program *p;

	setenv("GPUCTR_FAKE_GPUS", "0", 1);
	fixture_start_daemon(f, NULL);
	p = fixture_client(f, USER_ANN, "metrics", "dram__*", "--chip", "GH100", "--describe",
			   NULL);
	expect_exit(p, 0);
	assert_true(count_text(p->out, "dram__bytes_read") > 0);
	assert_true(count_text(p->out, "of ranges   elapsed time and cycles") > 0);
	p = fixture_client(f, USER_ANN, "metrics", "--fit", "dram__bytes_read.sum", NULL);
	expect_exit(p, 0);
	p = fixture_client(f, USER_ANN, "metrics", "--chip", "XY999", NULL);
	assert_true(p->pid > 0);
	program_wait(p);
	assert_int_not_equal(p->status, 0);
	expect_message(p, "chip-unknown");
	expect_message(p, "GH100"); /* those there are */
}

/* Lines of both files, in whatever order, but for those that head and end a stream of JSON lines. A
 * live stream tells of a process again when more is known of it; exported is what it told last. */
static void expect_same_lines(const char *live, const char *exported)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "for f in '%s' '%s'; do grep -v -e '^{\"type\":\"capture\"' -e "
		 "'^{\"type\":\"totals\"' \"$f\" | sort >\"$f.all\"; grep -v "
		 "'^{\"type\":\"process\"' \"$f.all\" >\"$f.sorted\"; done; cmp '%s.sorted' "
		 "'%s.sorted' && test -s '%s.sorted' && test -z \"$(comm -13 '%s.all' '%s.all')\"",
		 live, exported, live, exported, live, live, exported);
	assert_int_equal(system(command), 0);
}

/* The file has what the program says of its operators, its words and its GPUs. */
static void expect_operators(const char *path)
{
	sqlite3 *db = open_capture(path);

	assert_true(query(db, "SELECT count(*) FROM records WHERE op = 'aten::relu' AND seq = 3 AND"
			      " dir = 'fprop' AND sizes IS NULL") > 0);
	assert_true(query(db, "SELECT launches FROM by_op WHERE op = 'aten::relu'") == 2 * 4 * 50);
	assert_true(query(db, "SELECT sum(launches) FROM by_nvtx WHERE depth = 0") == 2 * 4 * 50);
	assert_true(query(db, "SELECT count(*) FROM meta WHERE key GLOB 'argv.*' AND value ="
			      " '--operators'") == 1);
	assert_true(query(db, "SELECT count(*) FROM meta WHERE key GLOB 'gpu.*.uuid' AND value ="
			      " (SELECT uuid FROM device)") == 1);
	sqlite3_close(db);
}

/* What is exported of the file is what was streamed when it was written. */
SYSTEM_TEST(an_export_is_the_stream)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_exit(fixture_client(
			    f, USER_ANN, "--metrics", "dram__bytes_read.sum,sm__inst_executed.sum",
			    "-o", fixture_path(f, "run.gpuctr"), stream_to(fixture_path(f, "live")),
			    "--", FAKEAPP, "--children", "1", "--threads", "4", "--kernels", "50",
			    "--nvtx", "--operators", NULL),
		    0);
	expect_operators(fixture_path(f, "run.gpuctr"));
	expect_exit(fixture_client(f, USER_ANN, "export", fixture_path(f, "run.gpuctr"), "--to",
				   "jsonl", "-o", fixture_path(f, "exported"), NULL),
		    0);
	expect_same_lines(fixture_path(f, "live"), fixture_path(f, "exported"));
}
