/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/raw.h"

/* What docs/internals/privileges.md says of each process, compared with the daemon's while a
 * program is measured. The daemon is started by root and by hand, so the supervisor's filter and
 * the bounding set are not those of the document; tests/packages/run compares these as well. */

enum { ROWS_MAX = 8, COLUMNS_MAX = 12, CELL_MAX = 32 };

struct table {
	char cells[ROWS_MAX][COLUMNS_MAX]
		  [CELL_MAX]; /* the first row has the names of the columns */
	size_t n_rows, n_columns;
};

/* Cells of a line "| a | b |". Returns their number. */
static size_t split_row(char *line, char (*cells)[CELL_MAX])
{
	size_t n = 0;
	char *save = NULL;

	for (char *cell = strtok_r(line, "|\n", &save); cell && n < COLUMNS_MAX;
	     cell = strtok_r(NULL, "|\n", &save)) {
		if (sscanf(cell, " %31s", cells[n]) == 1) {
			n++;
		}
	}
	return n;
}

static void read_table(struct table *t)
{
	FILE *f = fopen(TEST_PRIVILEGES, "r");
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && strncmp(line, "| Name |", 8) != 0) {
	}
	do {
		if (strncmp(line, "|---", 4) != 0) {
			assert_true(t->n_rows < ROWS_MAX);
			t->n_columns = split_row(line, t->cells[t->n_rows++]);
		}
	} while (fgets(line, sizeof(line), f) && line[0] == '|');
	fclose(f);
	assert_int_equal(t->n_rows, 6);
	assert_int_equal(t->n_columns, 8);
}

/* The first word of a field of /proc/PID/status. */
static void read_field(const char *status, const char *name, char *ret)
{
	char key[CELL_MAX + 3];
	const char *place;

	snprintf(key, sizeof(key), "\n%s:", name);
	place = strncmp(status, key + 1, strlen(key + 1)) == 0 ? status : strstr(status, key);
	assert_non_null(place);
	assert_int_equal(sscanf(strchr(place, ':') + 1, " %31s", ret), 1);
}

/* A sanitizer needs calls that the filters forbid. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool has_filters = false;
#else
static const bool has_filters = true;
#endif

static bool is_compared(const char *process, const char *column)
{
	if (strcmp(column, "Seccomp") == 0) {
		return has_filters && strcmp(process, "gpucountd") != 0;
	}
	return strcmp(column, "CapBnd") != 0;
}

static void expect_row(const struct table *t, size_t row, pid_t pid)
{
	const char *process = t->cells[row][0];
	CLEAN_FREE char *status = NULL;
	char path[64], seen[CELL_MAX];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = read_file(path);
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *column = t->cells[0][i];

		read_field(status, column, seen);
		if (is_compared(process, column) && strcmp(seen, t->cells[row][i]) != 0) {
			fail_msg("%s of %s is %s, not %s", column, process, seen, t->cells[row][i]);
		}
	}
}

SYSTEM_TEST(processes_are_as_documented)
{
	struct fixture *f = *state;
	struct table t = { .n_rows = 0 };

	fixture_need_perfmon();
	read_table(&t);
	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels", "1000000",
		       "--sleep-us", "1000", NULL);
	expect_text_soon(f->daemon->err, "permission granted: ");
	for (size_t i = 1; i < t.n_rows; i++) {
		bool first = strcmp(t.cells[i][0], "gpucountd") == 0;

		expect_row(&t, i, first ? f->daemon->pid : fixture_worker(f, t.cells[i][0]));
	}
}

/* Whatever groups who starts it is in: real, effective, saved and of files, and those beside. */
SYSTEM_TEST(nothing_of_roots_groups_is_left)
{
	static const char *const names[] = { "gpucountd", "front", "granter", "gpu", "planner" };
	static const gid_t wheel[] = { 4242 };
	gid_t before[64];
	struct fixture *f = *state;
	int n = getgroups(ARRAY_SIZE(before), before);

	fixture_need_root();
	assert_true(n >= 0);
	assert_int_equal(setgroups(1, wheel), 0);
	fixture_start_daemon(f, NULL);
	assert_int_equal(setgroups((size_t)n, before), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		pid_t pid = i == 0 ? f->daemon->pid : fixture_worker(f, names[i]);
		CLEAN_FREE char *status = NULL;
		unsigned gids[4];
		char path[64], beside[256] = "";

		snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
		status = read_file(path);
		assert_int_equal(sscanf(strstr(status, "\nGid:"), "\nGid: %u %u %u %u", &gids[0],
					&gids[1], &gids[2], &gids[3]),
				 4);
		for (size_t k = 0; k < ARRAY_SIZE(gids); k++) {
			assert_int_not_equal(gids[k], 0);
		}
		sscanf(strstr(status, "\nGroups:"), "\nGroups:%255[^\n]", beside);
		assert_null(strstr(beside, "4242"));
	}
}

static void read_descriptor(pid_t pid, int fd, char *ret, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
}

enum { DESCRIPTORS_MAX = 64 };

/* A socket or the file of the supervisor that pid has as well; empty: there is none. */
static void find_shared(pid_t supervisor, pid_t pid, const char *file, char ret[256])
{
	char theirs[256];

	for (int i = 3; i < DESCRIPTORS_MAX; i++) {
		read_descriptor(pid, i, ret, 256);
		if (strstr(ret, "signalfd") || strcmp(ret, file) == 0) {
			return;
		}
		for (int k = 3; k < DESCRIPTORS_MAX && strncmp(ret, "socket:", 7) == 0; k++) {
			read_descriptor(supervisor, k, theirs, sizeof(theirs));
			if (strcmp(ret, theirs) == 0) {
				return;
			}
		}
	}
	ret[0] = '\0';
}

/* None of who is not the front has what the supervisor has: the sockets that listen, the audit log,
 * the link over which settings and new workers come, and its signals. */
static void expect_nothing_shared(pid_t supervisor, pid_t pid, const char *file)
{
	char shared[256];

	find_shared(supervisor, pid, file, shared);
	assert_string_equal(shared, "");
}

SYSTEM_TEST(workers_have_nothing_of_the_supervisors)
{
	static const char *const names[] = { "granter", "gpu", "planner" };
	struct fixture *f = *state;
	char setting[192], audit[160], seen[256];
	pid_t pids[ARRAY_SIZE(names)];

	fixture_need_root_to_look();
	snprintf(audit, sizeof(audit), "%s", fixture_path(f, "audit"));
	snprintf(setting, sizeof(setting), "audit-file=%s", audit);
	fixture_start_daemon(f, "--set", setting, NULL);
	read_descriptor(f->daemon->pid, 3, seen, sizeof(seen));
	assert_string_not_equal(seen, ""); /* it can be looked at */
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		pids[i] = fixture_worker(f, names[i]);
		expect_nothing_shared(f->daemon->pid, pids[i], audit);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) { /* those that replace them */
		pid_t now = pids[i];

		assert_int_equal(kill(pids[i], SIGKILL), 0);
		for (uint64_t by = now_ms() + PATIENCE_MS; now == pids[i] && now_ms() < by;) {
			sleep_ms(10);
			now = fixture_worker(f, names[i]);
		}
		assert_int_not_equal(now, pids[i]);
		expect_nothing_shared(f->daemon->pid, now, audit);
	}
}

enum { PROCESSES = 5, STRAY_FD = 40 };

static const char *const processes[PROCESSES] = { "gpucountd", "front", "granter", "gpu",
						  "planner" };

static pid_t process_at(const struct fixture *f, size_t i)
{
	return i == 0 ? f->daemon->pid : fixture_worker(f, processes[i]);
}

/* Where the first mapping whose line has name in it begins; 0: there is none. */
static unsigned long find_mapping(pid_t pid, const char *name)
{
	CLEAN_FREE char *maps = NULL;
	unsigned long begin = 0;
	char path[64];
	char *line;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = read_file(path);
	line = maps ? strstr(maps, name) : NULL;
	while (line && line > maps && line[-1] != '\n') {
		line--;
	}
	if (line) {
		sscanf(line, "%lx-", &begin);
	}
	return begin;
}

static void expect_layouts_of_their_own(const struct fixture *f)
{
	static const char *const names[] = { "/gpucountd", "/libc.so", "[stack]" };

	for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
		unsigned long begins[PROCESSES];

		for (size_t i = 0; i < PROCESSES; i++) {
			begins[i] = find_mapping(process_at(f, i), names[k]);
			assert_int_not_equal(begins[i], 0);
			for (size_t j = 0; j < i; j++) {
				if (begins[i] == begins[j]) {
					fail_msg("%s of %s and %s is at %lx", names[k],
						 processes[j], processes[i], begins[i]);
				}
			}
		}
	}
}

/* Who has taken over one of them knows no address of another, nor of one that comes after it. */
SYSTEM_TEST(processes_have_layouts_of_their_own)
{
	CLEAN_FREE char *randomize = read_file("/proc/sys/kernel/randomize_va_space");
	struct fixture *f = *state;

	fixture_need_root_to_look();
	if (!randomize || atoi(randomize) != 2) {
		fixture_skip("the kernel does not randomize address spaces");
	}
	fixture_start_daemon(f, NULL);
	expect_layouts_of_their_own(f);
	for (size_t i = PROCESSES - 1; i > 0; i--) { /* the front last: all others go with it */
		assert_int_equal(kill(process_at(f, i), SIGKILL), 0);
		expect_service_soon(f, PATIENCE_MS);
		expect_layouts_of_their_own(f);
	}
}

/* Whoever has started the daemon may have left a file open for it. */
SYSTEM_TEST(workers_have_nothing_of_who_started_the_daemon)
{
	struct fixture *f = *state;
	char stray[256], seen[256];
	int fd = memfd_create("stray", 0);

	fixture_need_root_to_look();
	assert_int_equal(dup2(fd, STRAY_FD), STRAY_FD);
	close(fd);
	read_descriptor(getpid(), STRAY_FD, stray, sizeof(stray));
	fixture_start_daemon(f, NULL);
	close(STRAY_FD);
	read_descriptor(f->daemon->pid, STRAY_FD, seen, sizeof(seen));
	assert_string_equal(seen, stray);
	for (size_t i = 1; i < PROCESSES; i++) {
		for (int k = 0; k < DESCRIPTORS_MAX; k++) {
			read_descriptor(process_at(f, i), k, seen, sizeof(seen));
			assert_string_not_equal(seen, stray);
		}
	}
}

/* What a worker is told comes from the supervisor alone. */
SYSTEM_TEST(nobody_else_starts_a_worker)
{
	struct fixture *f = *state;
	struct program *p = fixture_run(f, USER_ANN, TEST_DAEMON, "--worker", "granter", NULL);

	expect_exit(p, 2);
	expect_text_soon(p->err, "--worker is for the daemon itself");
}

/* Supplementary groups count, however many there are. */
SYSTEM_TEST(a_member_of_very_many_groups_is_let_in)
{
	struct fixture *f = *state;
	gid_t groups[5000];

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-groups=7777", NULL);
	assert_int_equal(chmod(f->socket, 0666), 0); /* the kernel would keep her away */
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		groups[i] = (gid_t)(10000 + i);
	}
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	raw_expect_refused(raw_connect(f, USER_ANN), GPUCTR_E_NOT_ALLOWED);
	groups[ARRAY_SIZE(groups) - 1] = 7777;
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	close(raw_client(f, USER_ANN));
	assert_int_equal(setgroups(0, NULL), 0);
}

/* Nor what a program of a capture has sent. */
SYSTEM_TEST(the_front_holds_no_device)
{
	struct fixture *f = *state;
	char link[256];
	pid_t front;

	fixture_need_root_to_look();
	fixture_start_daemon(f, NULL);
	fixture_client(f, USER_ANN, "--metrics", "memory", "--", FAKEAPP, "--kernels", "100",
		       "--hold", "middle", NULL);
	fixture_wait_held(f, 1);
	front = fixture_worker(f, "front");
	for (int i = 0; i < DESCRIPTORS_MAX; i++) {
		read_descriptor(front, i, link, sizeof(link));
		assert_null(strstr(link, "nvidia"));
	}
	fixture_release(f);
}
