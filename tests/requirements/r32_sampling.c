/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include "tests/requirements/requirement.h"
#include "tests/system/footprint.h"

/* R32: who samples a whole GPU is a process of its user's, without a privilege, which has nothing
 * of the client's; it asks for the GPU as others do, and leaves nothing behind. */

enum { DESCRIPTORS_MAX = 64 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FILTER = 0 }; /* box_none.c */
#else
enum { FILTER = 2 };
#endif

/* Metrics of two sets: each turn asks the daemon anew. */
#define TURNS                                                                                 \
	"dram__bytes_read.sum,dram__bytes_write.sum,dram__bytes.sum,lts__t_bytes.sum,lts__t_" \
	"sectors_op_read.sum"

static struct program *start_run(struct fixture *f, const char *hold)
{
	return fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", "dram__bytes_read.sum",
			      "-o", fixture_path(f, "run.gpuctr"), "-f",
			      stream_to(fixture_path(f, "records")), "--", FAKEAPP, "--kernels",
			      "200", "--exit", "3", hold ? "--hold" : NULL, hold, NULL);
}

/* --- privileges ------------------------------------------------------------------------------ */

static unsigned long long field(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, base);
}

static size_t expect_no_powers(pid_t pid)
{
	static const char *const none[] = { "\nCapEff:", "\nCapPrm:", "\nCapInh:", "\nCapAmb:" };
	struct dirent *entry;
	char path[64];
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL) {
		char status[400];
		CLEAN_FREE char *text = NULL;

		if (entry->d_name[0] == '.') {
			continue;
		}
		snprintf(status, sizeof(status), "%s/%s/status", path, entry->d_name);
		text = read_file(status);
		for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
			assert_true(field(text, none[i], 16) == 0);
		}
		assert_int_equal(field(text, "\nUid:", 10), USER_ANN);
		assert_int_equal(field(text, "\nNoNewPrivs:", 10), 1);
		assert_int_equal(field(text, "\nSeccomp:", 10), FILTER);
		n++;
	}
	closedir(d);
	return n;
}

/* Where the descriptor leads; "" when there is none. */
static void where(pid_t pid, int fd, char ret[PATH_MAX])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, ret, PATH_MAX - 1);
	ret[n > 0 ? n : 0] = '\0';
}

/* Pipes to the client, the user's standard error, and what the driver and the library of the permit
 * opened: no capture file, no stream of records, no connection of the client's. */
static void expect_nothing_of_the_clients(pid_t sampler, pid_t client)
{
	char own[PATH_MAX], theirs[PATH_MAX];

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		where(sampler, fd, own);
		assert_null(strstr(own, "run.gpuctr"));
		assert_null(strstr(own, "records"));
		assert_true(fd > STDOUT_FILENO || strncmp(own, "pipe:", 5) == 0);
		for (int k = STDERR_FILENO + 1;
		     strncmp(own, "socket:", 7) == 0 && k < DESCRIPTORS_MAX; k++) {
			where(client, k, theirs);
			assert_string_not_equal(own, theirs);
		}
	}
}

SAMPLING_TEST(a_sampler_is_its_users_process)
{
	struct fixture *f = *state;
	struct program *client;
	size_t threads;
	pid_t sampler;

	fixture_need_perfmon();
	unsetenv("GPUCTR_FAKE_RESTRICTED");
	fixture_start_daemon(f, NULL);
	client = start_run(f, "middle");
	fixture_wait_held(f, 1);
	sampler = process_child(client->pid, "gpuctr-sampler");
	assert_true(sampler > 0);
	threads = expect_no_powers(sampler);
	expect_nothing_of_the_clients(sampler, client->pid);
	fixture_release(f);
	expect_exit(client, 3);
	requirement_figure("R32",
			   "a sampler's %zu threads have no capability and can gain none, and "
			   "nothing of the client's is open in it",
			   threads);
}

/* It asks the daemon under its filter, and can do nothing else outside of itself. */
SAMPLING_TEST(a_sampler_that_is_taken_over_is_shut_in)
{
	struct fixture *f = *state;
	struct program *client;

	fixture_need_perfmon();
	if (FILTER == 0) {
		fixture_skip("a sanitizer's run time needs what the filter forbids");
	}
	unsetenv("GPUCTR_FAKE_RESTRICTED");
	setenv("GPUCTR_FAKE_EXEC", "1", 1);
	fixture_start_daemon(f, NULL);
	client = fixture_client(f, USER_ANN, "--mode", "sample", "--metrics", TURNS, "--", FAKEAPP,
				"--kernels", "6000", "--grids", "13", "--blocks", "6000",
				"--sleep-us", "400", "--exit", "3", NULL);
	expect_exit(client, 3);
	expect_message(client, "execve: Operation not permitted; a socket of the network: "
			       "Operation not permitted; ptrace: Operation not permitted\n");
	expect_message(client, " turns of 2 sets, a change takes ");
	expect_no_message(client, "no longer measured");
	assert_true(fixture_counter(f, "profiler_granted") >= 4);
	expect_no_objects(f);
}

/* --- its turn -------------------------------------------------------------------------------- */

static void expect_refused(struct program *client, const char *text)
{
	expect_exit(client, 125);
	expect_output(client, "");
	expect_message(client, text);
}

SAMPLING_TEST(nobody_samples_beside_another_user)
{
	struct fixture *f = *state;
	struct program *bob;

	fixture_need_two_users();
	fixture_start_daemon(f, NULL);
	bob = fixture_run(f, USER_BOB, "/bin/sleep", "1000", NULL);
	fixture_set_process(f, 0, bob->pid);
	expect_refused(start_run(f, NULL), "error[gpu-shared]");
	assert_int_equal(fixture_counter(f, "profiler_granted"), 0);
	expect_no_owner(f);
}

/* --- and nothing stays ------------------------------------------------------------------------ */

static size_t count_entries(const char *path)
{
	struct dirent *entry;
	size_t n = 0;
	DIR *d = opendir(path);

	while (d && (entry = readdir(d)) != NULL) {
		n += entry->d_name[0] != '.';
	}
	if (d) {
		closedir(d);
	}
	return n;
}

SAMPLING_TEST(many_runs_leave_nothing)
{
	size_t runs = requirement_amount(20, 100), shared = count_entries("/dev/shm"), programs;
	struct fixture *f = *state;
	struct footprint before;
	long grown;

	fixture_limit(900);
	fixture_start_daemon(f, "--set", "captures-per-minute=1000", NULL);
	expect_exit(start_run(f, NULL), 3);
	footprint_take(f, &before);
	programs = f->n_programs;
	for (size_t i = 0; i < runs; i++) {
		expect_exit(start_run(f, NULL), 3);
		fixture_wait_for_orphans(f, NULL);
		fixture_forget_programs(f, programs);
	}
	grown = expect_no_leak(f, &before);
	assert_true(count_entries("/dev/shm") <= shared);
	requirement_figure("R32",
			   "%zu sampled runs: no process, descriptor, object or shared memory is "
			   "left, the daemon has grown by %ld KiB at most",
			   runs, grown);
	expect_service(f, PATIENCE_MS);
}
