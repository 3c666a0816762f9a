/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/nvidia/rm.h"
#include "tests/system/recorder.h"

/* gpucountd-doctor: what it says of a machine and a daemon that are well, and of each thing that is
 * not, by its grade, its cause and its remedy; and its exit status. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_FILTERED = false };
#else
enum { IS_FILTERED = true };
#endif

/* Of a daemon that is well: a build with a sanitizer has no filters, which root is told. */
static int well(int uid)
{
	return IS_FILTERED || uid != USER_SELF || geteuid() != 0 ? 0 : 1;
}

/* The doctor finds gpuctr-client by PATH, in the folder of client. Shells leave memory at their
 * end, which is no finding of ours. */
static struct program *start_with(struct fixture *f, const char *client, int uid,
				  const char *option, const char *value)
{
	CLEAN_FREE char *path = NULL, *before = strdup(getenv("PATH"));
	bool leaks = fixture_check_leaks(false);
	struct program *p;

	assert_true(asprintf(&path, "%.*s:%s", (int)(strrchr(client, '/') - client), client,
			     before) > 0);
	setenv("PATH", path, 1);
	p = fixture_run(f, uid, TEST_DOCTOR, "--socket", f->socket, option, value, NULL);
	setenv("PATH", before, 1);
	fixture_check_leaks(leaks);
	return p;
}

static struct program *start(struct fixture *f, int uid, const char *option, const char *value)
{
	return start_with(f, CLIENT, uid, option, value);
}

/* What it printed at its end with this status; free it. */
static char *heard(struct program *p, int status)
{
	char *text;

	expect_exit(p, status);
	text = read_file(p->out);
	assert_non_null(text);
	return text;
}

static char *ask(struct fixture *f, int uid, const char *option, const char *value, int status)
{
	return heard(start(f, uid, option, value), status);
}

static char *ask_by_sudo(struct fixture *f, const char *uid, int status)
{
	char *text;

	setenv("SUDO_UID", uid, 1);
	text = ask(f, USER_SELF, NULL, NULL, status);
	unsetenv("SUDO_UID");
	return text;
}

/* The line of what, with this grade, holds the text, and the line below it the remedy. */
static void expect_line(const char *text, const char *grade, const char *what, const char *says,
			const char *remedy)
{
	char begin[64], line[1024];
	const char *place, *end;

	snprintf(begin, sizeof(begin), "%-8s %-11s ", grade, what);
	place = strstr(text, begin);
	end = place ? strchr(place, '\n') : NULL;
	if (!end) {
		fail_msg("no '%s' in\n%s", begin, text);
	}
	snprintf(line, sizeof(line), "%.*s", (int)(end - place), place);
	if (!strstr(line, says)) {
		fail_msg("'%s' does not say '%s'", line, says);
	}
	snprintf(line, sizeof(line), "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
	if (remedy && (!strstr(line, "remedy: ") || !strstr(line, remedy))) {
		fail_msg("the remedy of %s is '%s', without '%s'", what, line, remedy);
	}
}

/* Of root, or who runs the test, with this setting, which may be NULL. */
static void expect_finding(struct fixture *f, const char *setting, int status, const char *grade,
			   const char *what, const char *says, const char *remedy)
{
	CLEAN_FREE char *text = ask(f, USER_SELF, setting ? "--set" : NULL, setting, status);

	expect_line(text, grade, what, says, remedy);
}

/* --- all is well --- */

SAMPLING_TEST(a_daemon_that_runs_is_well)
{
	struct fixture *f = *state;
	char *text;

	fixture_start_daemon(f, NULL);
	text = ask(f, USER_SELF, "--set", "lease-max=5min", well(USER_SELF));
	expect_line(text, "ok", "settings", "as they should be", NULL);
	expect_line(text, "ok", "socket", f->socket, NULL);
	expect_line(text, "ok", "answer", "all is well", NULL);
	expect_line(text, "ok", "files", "agent, permit and sampler", NULL);
	expect_line(text, "ok", "driver", "580.", NULL);
	expect_line(text, "ok", "CUPTI", "version ", NULL);
	expect_line(text, "ok", "GPUs", "0 Fake H200 (GH100)", NULL);
	if (geteuid() == 0 && !IS_FILTERED) {
		expect_line(text, "fault", "seccomp", "without a filter", "sanitizers");
	} else if (fixture_has_capability(CAP_PERFMON)) {
		expect_line(text, "ok", "daemon", "each worker has its filter", NULL);
		assert_non_null(strstr(text, "\nfaults: 0, "));
	} else if (geteuid() == 0) {
		expect_line(text, "warning", "capability", "no CAP_PERFMON", "as root");
	}
	free(text);
}

SAMPLING_TEST(a_daemon_that_a_manager_started_is_found)
{
	struct fixture *f = *state;
	int socket = fixture_open_socket(f);
	char *text;

	fixture_need_perfmon();
	fixture_start_activated_daemon(f, socket);
	text = ask(f, USER_SELF, NULL, NULL, well(USER_SELF));
	expect_line(text, "ok", "answer", "all is well", NULL);
	if (IS_FILTERED) {
		expect_line(text, "ok", "daemon", "each worker has its filter", NULL);
	}
	free(text);
	close(socket);
}

SAMPLING_TEST(a_machine_without_a_daemon_is_looked_at_too)
{
	struct fixture *f = *state;
	char *text;

	text = ask(f, USER_SELF, NULL, NULL, 1);
	expect_line(text, "ok", "settings", "as they should be", NULL);
	expect_line(text, "fault", "socket", "there is no socket", "systemctl enable");
	assert_null(strstr(text, " answer "));
	free(text);
}

/* --- a permit, end to end --- */

SAMPLING_TEST(a_profiler_of_the_callers_is_given_the_counters)
{
	static const char *const nobodies[] = { "0", "4294967295", "4294967296", "root" };
	struct fixture *f = *state;
	char *text;

	fixture_need_two_users();
	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	text = ask(f, USER_ANN, NULL, NULL, 0);
	expect_line(text, "ok", "permit", "is given the counters", NULL);
	free(text);
	text = ask_by_sudo(f, "1235", well(USER_SELF));
	expect_line(text, "ok", "permit", "user 1235 starts is given the counters", NULL);
	free(text);
	expect_message(f->daemon, fixture_user(USER_BOB, ""));
	for (size_t i = 0; i < ARRAY_SIZE(nobodies); i++) {
		text = ask_by_sudo(f, nobodies[i], well(USER_SELF));
		expect_line(text, "warning", "permit", "refuses nothing to root", "by sudo");
		free(text);
	}
}

SAMPLING_TEST(counters_that_others_hold_are_no_fault)
{
	const struct gpuctr_capture_options options = recorder_options();
	struct fixture *f = *state;
	struct recorder holder;
	char *text;

	fixture_need_two_users();
	fixture_start_daemon(f, NULL);
	recorder_connect(&holder, f, USER_BOB);
	recorder_open(&holder, &options);
	recorder_until(&holder, &holder.ready);
	text = ask(f, USER_ANN, NULL, NULL, 0);
	expect_line(text, "warning", "permit", "gets none now", "when they are free");
	free(text);
	recorder_disconnect(&holder);
}

SAMPLING_TEST(a_driver_that_refuses_the_daemon_too_is_a_fault)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_two_users();
	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	fixture_set_knob(f, "rm_status", RM_STATUS_INSUFFICIENT_PERMISSIONS);
	text = ask(f, USER_ANN, NULL, NULL, 1);
	expect_line(text, "fault", "permit", "a profiler no counters: CUPTI refuses", "journalctl");
	free(text);
}

/* --- something is not --- */

SAMPLING_TEST(wrong_settings_are_a_fault_and_the_rest_is_looked_at)
{
	struct fixture *f = *state;
	char *text;

	fixture_start_daemon(f, NULL);
	text = ask(f, USER_SELF, "--set", "lease-max=x", 1);
	expect_line(text, "fault", "settings", "'x' is not a time", "Correct it");
	expect_line(text, "ok", "GPUs", "Fake H200", NULL);
	free(text);
	expect_finding(f, "allow-users=no-such-user", well(USER_SELF), "warning", "settings",
		       "allow-users: there is no user 'no-such-user'", "Correct");
	expect_finding(f, "user=no-such-user", 1, "fault", "user", "no such user",
		       "systemd-sysusers");
}

SAMPLING_TEST(wrong_options_are_no_finding)
{
	struct program *p = start(*state, USER_SELF, "--no-such-option", NULL);

	expect_exit(p, 2);
	expect_message(p, "see --help");
	expect_output(p, "");
}

/* Root asks as the daemon's user, for whom a folder of root's is closed. */
SAMPLING_TEST(an_audit_file_that_cannot_be_written_is_a_fault)
{
	struct fixture *f = *state;
	const char *folder = fixture_path(f, "closed");
	char setting[200];
	char *text;

	assert_int_equal(mkdir(folder, geteuid() == 0 ? 0755 : 0555), 0);
	snprintf(setting, sizeof(setting), "audit-file=%s/audit", folder);
	fixture_start_daemon(f, NULL);
	text = ask(f, USER_SELF, "--set", setting, geteuid() == 0 ? 1 : 0);
	if (geteuid() == 0) {
		expect_line(text, "fault", "settings", "Permission denied; make it", NULL);
	} else {
		expect_line(text, "warning", "settings", "Permission denied; make it", "as root");
	}
	free(text);
}

SAMPLING_TEST(no_gpu_is_a_fault_in_the_daemons_words)
{
	struct fixture *f = *state;
	char *text;

	setenv("GPUCTR_FAKE_GPUS", "0", 1);
	fixture_start_daemon(f, NULL);
	text = ask(f, USER_SELF, NULL, NULL, 1);
	expect_line(text, "fault", "answer", "the driver shows no GPU", "nvidia-smi");
	assert_null(strstr(text, " permit   ")); /* it would fail for the same reason */
	free(text);
}

SAMPLING_TEST(users_who_cannot_read_the_agent_are_a_fault)
{
	struct fixture *f = *state;
	const char *agent = fixture_path(f, "agent");

	fixture_start_daemon(f, NULL);
	close(open(agent, O_CREAT | O_CLOEXEC, 0)); /* which root can read */
	setenv("GPUCTR_AGENT", agent, 1);
	expect_finding(f, NULL, 1, "fault", "files", agent, "gpuctr-agent");
}

SAMPLING_TEST(a_daemon_that_hangs_is_a_fault)
{
	struct fixture *f = *state;
	pid_t front;
	char *text;

	fixture_need_root_to_look();
	fixture_start_daemon(f, NULL);
	front = fixture_worker(f, "front");
	kill(front, SIGSTOP);
	text = ask_by_sudo(f, "1234", 1);
	kill(front, SIGCONT);
	expect_line(text, "fault", "answer", "does not answer", "journalctl");
	assert_null(strstr(text, " permit   ")); /* it would hang as well, and blame the driver */
	free(text);
}

SAMPLING_TEST(a_socket_tells_whom_it_lets_in)
{
	struct fixture *f = *state;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	chmod(f->socket, 0660);
	expect_finding(f, NULL, well(USER_SELF), "ok", "socket", "the group root may connect",
		       NULL);
	expect_finding(f, "allow-users=1234", well(USER_SELF), "warning", "socket",
		       "the settings let in others", "SocketMode=0666");
	expect_finding(f, "allow-groups=1235", well(USER_SELF), "warning", "socket",
		       "the settings let in others", "SocketMode=0666");
	assert_int_equal(chown(f->socket, 0, USER_BOB), 0);
	expect_finding(f, "allow-groups=1235", well(USER_SELF), "ok", "socket",
		       "may connect, and the settings decide", NULL);
	chmod(f->socket, 0600);
	expect_finding(f, NULL, well(USER_SELF), "warning", "socket", "only its owner",
		       "SocketMode=");
	assert_int_equal(chown(f->socket, USER_BOB, USER_BOB), 0);
	expect_finding(f, NULL, 1, "fault", "socket", "belongs to uid 1235", "Remove it");
}

/* Who is not allowed may look as well, at what they may see. */
SAMPLING_TEST(an_ordinary_user_is_told_what_they_may_know)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_root();
	fixture_start_strict_daemon(f, NULL);
	chmod(f->socket, 0666);
	/* The daemon alone knows the fake driver. */
	text = ask(f, USER_ANN, NULL, NULL, access("/proc/driver/nvidia/version", F_OK) < 0);
	expect_line(text, "warning", "answer", "uid 1234 may not measure", "as root");
	free(text);
}

/* --- workers that are not as they must be: processes with a daemon's names --- */

enum { WORKERS = 4 };

static const char *const names[WORKERS] = { "front", "granter", "gpu", "planner" };

struct workers {
	size_t n;
	unsigned capabilities[WORKERS]; /* 1 << CAP_KILL; HAS_PERFMON */
	bool unfiltered[WORKERS];
	uid_t uid; /* of all of them; 0: root */
};

enum { HAS_KILL = 1 << CAP_KILL, HAS_PERFMON = 1 << 30 };

static void keep_capabilities(unsigned kept)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	uint32_t low = kept & HAS_KILL, high = kept & HAS_PERFMON ? CAP_TO_MASK(CAP_PERFMON) : 0;
	struct __user_cap_data_struct data[2] = { { .effective = low, .permitted = low },
						  { .effective = high, .permitted = high } };

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

static _Noreturn void be_worker(const struct workers *w, size_t i, int ready)
{
	if (w->uid != 0 && setresuid(w->uid, w->uid, w->uid) < 0) {
		_exit(1);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, names[i]);
	keep_capabilities(w->capabilities[i]);
	if (!w->unfiltered[i]) {
		load_filter();
	}
	if (write(ready, "r", 1) != 1) {
		_exit(1);
	}
	for (;;) {
		pause();
	}
}

/* They inherit the socket, at which none of them answers. The pipe that is set ends with the last
 * of them. */
static pid_t start_workers(const struct workers *w, int *ret_end)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "gpucountd");
		for (size_t i = 0; i < w->n; i++) {
			if (fork() == 0) {
				be_worker(w, i, ready[1]);
			}
		}
		for (;;) {
			pause();
		}
	}
	close(ready[1]);
	for (size_t i = 0; i < w->n; i++) {
		assert_int_equal(read(ready[0], &byte, 1), 1);
	}
	*ret_end = ready[0];
	return pid;
}

SAMPLING_TEST(each_worker_has_its_filter_and_its_capability)
{
	const struct {
		const char *grade, *what, *says;
		struct workers workers;
	} rows[] = {
		{ "ok", "daemon", "each worker", { 4, { 0, HAS_PERFMON, HAS_PERFMON, 0 }, { 0 } } },
		{ "warning", "capability", "granter (pid ", { 4, { 0 }, { 0 } } },
		{ "fault", "capability", "front (pid ", { 4, { HAS_PERFMON }, { 0 } } },
		{ "fault", "capability", "granter (pid ", { 4, { 0, HAS_KILL }, { 0 } } },
		{ "fault",
		  "capability",
		  "gpu (pid ",
		  { 4, { 0, 0, HAS_KILL | HAS_PERFMON }, { 0 } } },
		{ "fault", "seccomp", "front (pid ", { 4, { 0 }, { true } } },
		{ "fault",
		  "seccomp",
		  "planner (pid ",
		  { 4, { 0 }, { false, false, false, true } } },
		{ "fault", "daemon", "without its planner", { 3, { 0 }, { 0 } } },
	};
	struct fixture *f = *state;
	char client[128], byte;
	int socket, end;

	fixture_need_perfmon();
	if (prctl(PR_GET_SECCOMP) != 0) {
		fixture_skip("a container has put a filter on every process: none is without");
	}
	snprintf(client, sizeof(client), "%s", fixture_path(f, "gpuctr-client"));
	assert_int_equal(symlink("/bin/false", client), 0);
	socket = fixture_open_socket(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = start_workers(&rows[i].workers, &end);
		char *text = heard(start_with(f, client, USER_SELF, NULL, NULL), 1);

		expect_line(text, rows[i].grade, rows[i].what, rows[i].says, NULL);
		free(text);
		kill(pid, SIGKILL);
		assert_int_equal(read(end, &byte, 1), 0);
		close(end);
	}
	close(socket);
}

/* Daemons at other sockets, before and behind this one in the list of processes. */
SAMPLING_TEST(the_daemon_is_the_one_that_listens)
{
	const struct workers others = { 4, { HAS_KILL, HAS_KILL, HAS_KILL, HAS_KILL }, { 0 } };
	struct fixture *f = *state;
	struct fixture elsewhere;
	pid_t before, after;
	int ends[2], socket;
	char *text;

	fixture_need_perfmon();
	snprintf(elsewhere.socket, sizeof(elsewhere.socket), "%s", fixture_path(f, "other"));
	socket = fixture_open_socket(&elsewhere);
	before = start_workers(&others, &ends[0]);
	fixture_start_daemon(f, NULL);
	after = start_workers(&others, &ends[1]);
	text = ask(f, USER_SELF, NULL, NULL, well(USER_SELF));
	assert_null(strstr(text, "capability that it must not have"));
	free(text);
	kill(before, SIGKILL);
	kill(after, SIGKILL);
	close(ends[0]);
	close(ends[1]);
	close(socket);
}

/* In a mount namespace of their own users can listen at the same path. */
SAMPLING_TEST(a_daemon_that_a_user_has_made_up_is_not_believed)
{
	const struct workers made_up = { 4, { 0 }, { true, true, true, true }, USER_BOB };
	struct fixture *f = *state;
	int end, socket;
	char *text;
	pid_t pid;

	fixture_need_perfmon();
	socket = fixture_open_socket(f);
	pid = start_workers(&made_up, &end);
	assert_int_equal(unlink(f->socket), 0);
	fixture_start_daemon(f, NULL);
	text = ask(f, USER_SELF, NULL, NULL, well(USER_SELF));
	if (IS_FILTERED) {
		expect_line(text, "ok", "daemon", "each worker", NULL);
	}
	free(text);
	kill(pid, SIGKILL);
	close(end);
	close(socket);
}
