/* SPDX-License-Identifier: Apache-2.0 */

/* How long "gpuctr-client report" and "export" take for a capture of many kernels, and how much
 * memory: makes two files in the folder given (default: the current one), reports on each by
 * several keys and exports it to /dev/null in each format. What SQLite alone takes to check the
 * file's pages and to hand out every value of the tables that are read is the floor; each line
 * tells how many times the floor's processor time it took, which holds on a machine that does other
 * things as well.
 *
 *	bench_report [FOLDER [KERNELS]]
 *
 * layers: 256 ranges that come again and again, as a program has them that names its layers. emit:
 * two ranges of their own for each kernel, as PyTorch's emit_nvtx() makes them, with the messages
 * of the lengths that it makes. */

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/store/store.h"
#include "tests/bench/synthetic.h"

enum { OPERATORS = 40, KERNELS_A_STEP = 1000 };

/* --- files ----------------------------------------------------------------------------------- */

struct emitted {
	struct made_site step, outer, inner;
};

/* The sites of the kernel with this index, which come again in each step. */
static const struct made_site *emit(struct emitted *e, uint64_t index)
{
	unsigned in_step = (unsigned)(index % KERNELS_A_STEP);
	char text[256];

	snprintf(text, sizeof(text), "iteration %llu",
		 (unsigned long long)(index / KERNELS_A_STEP));
	make_site(&e->step, NULL, 1, text);
	snprintf(text, sizeof(text),
		 "aten::operator_%u, seq = %llu, op_id = %llu, sizes = [[64, %u, 56, 56], [64, 64, "
		 "3, 3], [], [], []]",
		 in_step % OPERATORS, (unsigned long long)index, (unsigned long long)index * 2,
		 64u << in_step % 4);
	make_site(&e->outer, &e->step, 2 + 2 * in_step, text);
	snprintf(text, sizeof(text), "aten::inner_%u, op_id = %llu, sizes = [[64, %u, 56, 56], []]",
		 in_step % OPERATORS, (unsigned long long)index * 2 + 1, 64u << in_step % 4);
	make_site(&e->inner, &e->outer, 3 + 2 * in_step, text);
	return &e->inner;
}

static int write_file(const char *path, uint64_t n, bool emitting)
{
	static struct synthetic s;
	struct emitted e;
	struct store_options options = {
		.path = path, .force = true, .plan = &s.plan, .driver = "", .version = "bench"
	};
	const struct gpuctr_end end = { .totals = { .seen = n, .measured = n },
					.processes = 1,
					.error = { 0, "", "" } };
	struct store_error error;
	struct store *store;

	synthetic_init(&s);
	if (store_create(&options, &error, &store)) {
		fprintf(stderr, "bench_report: %s\n", error.message);
		return -1;
	}
	store_write_process(store, &s.process);
	for (uint64_t i = 0; i < n; i++) {
		struct gpuctr_record record = *synthetic_record(&s, i);

		if (emitting) {
			put_into(&record, emit(&e, i));
		}
		if (store_write_record(store, &record, NULL)) {
			break;
		}
	}
	store_finish(store, &end);
	if (store_last_error(store)->code) {
		fprintf(stderr, "bench_report: %s\n", store_last_error(store)->message);
		n = 0;
	}
	store_close(store);
	return n > 0 ? 0 : -1;
}

/* By a child: a process that is started counts what its parent held as its own. */
static int make_file(const char *path, uint64_t n, bool emitting)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		_exit(write_file(path, n, emitting) ? 1 : 0);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0 ? -1 : 0;
}

/* --- reports --------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static double processor_s(const struct rusage *usage)
{
	return seconds(usage->ru_utime) + seconds(usage->ru_stime);
}

/* Hands out every value, as a reader must. */
static int step_through(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	volatile double seen = 0;

	while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			if (sqlite3_column_type(stmt, i) == SQLITE_TEXT) {
				seen = seen + sqlite3_column_bytes(stmt, i);
			} else {
				seen = seen + sqlite3_column_double(stmt, i);
			}
		}
		rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? 0 : -1;
}

static int read_plainly(const char *file)
{
	static const char *const statements[] = {
		"PRAGMA quick_check(1)",
		"SELECT * FROM site ORDER BY process, id",
		"SELECT * FROM launch",
		"SELECT * FROM record ORDER BY id",
	};
	sqlite3 *db;
	int r = sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL) ? -1 : 0;

	for (size_t i = 0; r == 0 && i < sizeof(statements) / sizeof(statements[0]); i++) {
		r = step_through(db, statements[i]);
	}
	sqlite3_close(db);
	return r;
}

/* Processor time; less than 0: it cannot be read. */
static double measure_floor(const char *file)
{
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		_exit(read_plainly(file) ? 1 : 0);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status != 0) {
		fprintf(stderr, "bench_report: %s cannot be read\n", file);
		return -1;
	}
	return processor_s(&usage);
}

/* Of gpuctr-client. */
struct command {
	const char *verb, *option, *value;
};

static int run_command(const char *file, const struct command *c, double floor_s)
{
	double began = now();
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout)) {
			_exit(126);
		}
		execl(TEST_CLIENT, TEST_CLIENT, c->verb, c->option, c->value, file, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status != 0) {
		fprintf(stderr, "bench_report: %s %s %s failed\n", c->verb, c->option, c->value);
		return -1;
	}
	printf("  %s %s %-20s %6.2f s (user %.2f, system %.2f, %.2f floors), %ld MiB", c->verb,
	       c->option, c->value, now() - began, seconds(usage.ru_utime), seconds(usage.ru_stime),
	       processor_s(&usage) / floor_s, usage.ru_maxrss / 1024);
	return 0;
}

static int bench_file(const char *folder, const char *name, uint64_t n, bool emitting)
{
	static const struct command commands[] = {
		{ "report", "--by", "kernel" },
		{ "report", "--by", "op" },
		{ "report", "--by", "nvtx" },
		{ "report", "--by", "layer,dir" },
		{ "report", "--by", "op,shape,kernel" },
		{ "export", "--to", "chrome" },
		{ "export", "--to", "csv" },
		{ "export", "--to", "jsonl" },
		{ "export", "--to", "folded" },
		{ "report", "--html", "/dev/null" },
	};
	char path[4096];
	struct stat st;
	double floor_s;
	int r;

	snprintf(path, sizeof(path), "%s/bench-%s.gpuctr", folder, name);
	r = make_file(path, n, emitting);
	if (r == 0 && stat(path, &st) == 0) {
		printf("%s: %llu kernels, %lld MiB\n", name, (unsigned long long)n,
		       (long long)st.st_size / 1048576);
	}
	floor_s = r == 0 ? measure_floor(path) : 0;
	r = floor_s < 0 ? -1 : r;
	printf("  floor: %.2f s of a processor\n", floor_s);
	fflush(stdout);
	for (size_t i = 0; r == 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		double began = now();

		r = run_command(path, &commands[i], floor_s);
		printf(", %.0f kernels/s\n", (double)n / (now() - began));
		fflush(stdout);
	}
	unlink(path);
	return r;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : ".";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;

	return bench_file(folder, "layers", n, false) || bench_file(folder, "emit", n, true);
}
