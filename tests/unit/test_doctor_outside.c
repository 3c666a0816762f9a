/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/doctor/apart.h"
#include "daemon/doctor/ask.h"
#include "daemon/doctor/outside.h"
#include "daemon/doctor/running.h"

/* What the doctor finds of a daemon that runs: processes with a daemon's names, whose capabilities
 * and filters are the test's. */

enum { FINDINGS_MAX = 16 };

struct worker {
	bool perfmon, others, filtered;
};

static struct finding findings[FINDINGS_MAX];
static size_t n_findings;
static pid_t listener;
static enum ask_result answer;

/* --- instead of ask.c --- */

pid_t ask_listener(const char *path)
{
	(void)path;
	return listener;
}

enum ask_result ask_daemon(const char *path, struct ask_answer *ret)
{
	(void)path;
	*ret = (struct ask_answer){ "the answer", "the remedy" };
	return answer;
}

/* --- a daemon --- */

static void keep_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)kept, .permitted = (uint32_t)kept },
		{ .effective = (uint32_t)(kept >> 32), .permitted = (uint32_t)(kept >> 32) }
	};

	if (syscall(SYS_capset, &header, data) < 0) {
		_exit(1);
	}
}

static void load_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_fprog program = { 1, &allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		_exit(1);
	}
}

static void be_worker(const char *name, const struct worker *w, int ready)
{
	uint64_t kept = (w->perfmon ? UINT64_C(1) << CAP_PERFMON : 0) |
			(w->others ? UINT64_C(1) << CAP_KILL : 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	keep_capabilities(kept);
	if (w->filtered) {
		load_filter();
	}
	if (write(ready, "r", 1) != 1) {
		_exit(1);
	}
	for (;;) {
		pause();
	}
}

/* n of its workers, in the order of running_names. */
static pid_t start_daemon(const struct worker *workers, size_t n)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "gpucountd");
		for (size_t i = 0; i < n; i++) {
			if (fork() == 0) {
				be_worker(running_names[i], &workers[i], ready[1]);
			}
		}
		for (;;) {
			pause();
		}
	}
	close(ready[1]);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(read(ready[0], &byte, 1), 1);
	}
	close(ready[0]);
	listener = pid;
	return pid;
}

static void end_daemon(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* --- findings --- */

static void take(struct finding_sink *sink, const struct finding *f)
{
	(void)sink;
	assert_true(n_findings < FINDINGS_MAX);
	findings[n_findings++] = *f;
}

static char folder[] = "/tmp/gpuctr-unit.XXXXXX";
static struct config config;

static int make_socket(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	if (!mkdtemp(folder)) {
		return -1;
	}
	snprintf(config.socket, sizeof(config.socket), "%s/socket", folder);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", config.socket);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || chmod(config.socket, 0666) < 0) {
		return -1;
	}
	close(fd);
	return 0;
}

static int remove_socket(void **state)
{
	(void)state;
	unlink(config.socket);
	return rmdir(folder);
}

static bool look(void)
{
	struct finding_sink sink = { take };

	n_findings = 0;
	return outside_look(&config, &sink).runs;
}

static void expect_finding(const char *what, enum finding_grade grade, const char *text)
{
	for (size_t i = 0; i < n_findings; i++) {
		if (strcmp(findings[i].what, what) == 0 && findings[i].grade == grade &&
		    strstr(findings[i].text, text)) {
			return;
		}
	}
	for (size_t i = 0; i < n_findings; i++) {
		print_message("%d %s: %s\n", findings[i].grade, findings[i].what, findings[i].text);
	}
	fail_msg("not found: %s: %s", what, text);
}

static void expect_of(const struct worker *workers, const char *what, enum finding_grade grade,
		      const char *text)
{
	pid_t pid = start_daemon(workers, RUNNING_WORKERS);

	assert_true(look());
	expect_finding(what, grade, text);
	end_daemon(pid);
}

/* --- tests --- */

static void filters_are_looked_at_in_each_worker(void **state)
{
	struct worker workers[RUNNING_WORKERS] = { { .filtered = true },
						   { .filtered = true },
						   { .filtered = true },
						   { .filtered = true } };
	char text[64];

	(void)state;
	if (prctl(PR_GET_SECCOMP) != 0) {
		unit_skip("a container has put a filter on every process: none is without");
	}
	expect_of(workers, "seccomp", FINDING_OK, "each worker has its filter");
	for (int i = 0; i < RUNNING_WORKERS; i++) {
		workers[i].filtered = false;
		snprintf(text, sizeof(text), "%s (pid ", running_names[i]);
		expect_of(workers, "seccomp", FINDING_FAULT, text);
		workers[i].filtered = true;
	}
}

static void two_workers_have_one_capability(void **state)
{
	struct worker workers[RUNNING_WORKERS] = {
		[RUNNING_GRANTER] = { .perfmon = true }, [RUNNING_GPU] = { .perfmon = true }
	};
	char text[64];

	(void)state;
	if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_PERFMON) != 1 ||
	    prctl(PR_CAPBSET_READ, CAP_KILL) != 1) {
		unit_skip("needs root with CAP_PERFMON");
	}
	expect_of(workers, "capability", FINDING_OK, "nothing else, the others nothing");
	for (int i = 0; i < RUNNING_WORKERS; i++) {
		const struct worker before = workers[i];

		snprintf(text, sizeof(text), "%s (pid ", running_names[i]);
		workers[i].others = true;
		expect_of(workers, "capability", FINDING_FAULT, text);
		workers[i] = (struct worker){ .perfmon = !before.perfmon };
		expect_of(workers, "capability", before.perfmon ? FINDING_WARNING : FINDING_FAULT,
			  before.perfmon ? "without CAP_PERFMON" : text);
		workers[i] = before;
	}
}

static void a_worker_that_is_missing_is_named(void **state)
{
	const struct worker workers[RUNNING_WORKERS] = { 0 };
	pid_t pid = start_daemon(workers, RUNNING_PLANNER);

	(void)state;
	assert_true(look());
	expect_finding("daemon", FINDING_FAULT, "without its planner");
	end_daemon(pid);
}

/* Another daemon, of a user's own perhaps, is not the one of this socket. */
static void the_daemon_is_the_one_that_listens(void **state)
{
	const struct worker workers[RUNNING_WORKERS] = { 0 };
	pid_t first = start_daemon(workers, RUNNING_WORKERS);
	pid_t second = start_daemon(workers, RUNNING_WORKERS);
	struct running d;

	(void)state;
	assert_true(running_is_any());
	running_find(first, &d);
	assert_int_equal(d.pid, first);
	assert_int_equal(d.uid, getuid());
	running_find(second, &d);
	assert_int_equal(d.pid, second);
	running_find(getpid(), &d); /* a manager that has started both */
	assert_true(d.pid == first || d.pid == second);
	end_daemon(second);
	running_find(second, &d);
	assert_int_equal(d.pid, 0);
	assert_false(look());
	expect_finding("daemon", FINDING_OK, "none runs at this socket");
	end_daemon(first);
}

static void what_it_answers_is_a_finding(void **state)
{
	const struct worker workers[RUNNING_WORKERS] = { 0 };
	static const struct {
		enum ask_result answer;
		enum finding_grade grade;
		const char *text;
	} rows[] = {
		{ ASK_WELL, FINDING_OK, "all is well" },
		{ ASK_TROUBLED, FINDING_FAULT, "the answer" },
		{ ASK_REFUSED, FINDING_WARNING, "does not answer this user: the answer" },
		{ ASK_SILENT, FINDING_FAULT, "does not answer at " },
	};
	pid_t pid = start_daemon(workers, RUNNING_WORKERS);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		answer = rows[i].answer;
		assert_true(look());
		expect_finding("answer", rows[i].grade, rows[i].text);
	}
	end_daemon(pid);
}

static void everybody_may_connect_to_the_socket(void **state)
{
	(void)state;
	listener = 0;
	look();
	expect_finding("socket", FINDING_OK, config.socket);
	assert_int_equal(chmod(config.socket, 0660), 0);
	look();
	expect_finding("socket", FINDING_WARNING, "has mode 660");
	assert_int_equal(chmod(config.socket, 0666), 0);
}

/* --- a look that ends its process --- */

static void look_and_end(struct finding_sink *sink, void *userdata)
{
	int how = *(int *)userdata;

	finding_tell(sink, FINDING_OK, "seccomp", "", "before");
	finding_tell(sink, FINDING_STEP, "CUPTI", "", "%s", "");
	if (how < 0) {
		raise(-how);
	} else if (how > 0) {
		_exit(how);
	}
	finding_tell(sink, FINDING_OK, "CUPTI", "", "behind");
}

static void the_step_that_ended_a_look_is_a_fault(void **state)
{
	static const struct {
		int how;
		enum finding_grade grade;
		const char *text;
	} rows[] = {
		{ -SIGKILL, FINDING_FAULT, "looking at it ended by signal 9" },
		{ 3, FINDING_FAULT, "looking at it ended with status 3" },
		{ 0, FINDING_OK, "behind" },
	};
	struct finding_sink sink = { take };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int how = rows[i].how;

		n_findings = 0;
		apart_run(&sink, look_and_end, &how);
		assert_int_equal(n_findings, 2);
		expect_finding("seccomp", FINDING_OK, "before");
		expect_finding("CUPTI", rows[i].grade, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_are_looked_at_in_each_worker),
		cmocka_unit_test(two_workers_have_one_capability),
		cmocka_unit_test(a_worker_that_is_missing_is_named),
		cmocka_unit_test(the_daemon_is_the_one_that_listens),
		cmocka_unit_test(what_it_answers_is_a_finding),
		cmocka_unit_test(everybody_may_connect_to_the_socket),
		cmocka_unit_test(the_step_that_ended_a_look_is_a_fault),
	};

	return cmocka_run_group_tests(tests, make_socket, remove_socket);
}
