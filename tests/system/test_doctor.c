/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/nvidia/rm.h"
#include "tests/system/recorder.h"

/* "gpucountd --doctor": what it says of a machine and a daemon that are well, and of each thing
 * that is not, by its grade, its cause and its remedy; and its exit status. */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_FILTERED = false };
#else
enum { IS_FILTERED = true };
#endif

static struct program *ask(struct fixture *f, int uid, const char *option, const char *value)
{
	return fixture_run(f, uid, TEST_DAEMON, "--doctor", "--socket", f->socket, option, value,
			   NULL);
}

static struct program *ask_plainly(struct fixture *f)
{
	return ask(f, USER_SELF, "--set", "lease=5min");
}

/* Where no daemon runs, and root has not got what one needs: the exit status. */
static int root_lacks_perfmon(void)
{
	return geteuid() == 0 && !fixture_has_capability(CAP_PERFMON) ? 1 : 0;
}

/* Waits for its end; what it printed, free it. */
static char *heard(struct program *p, int status)
{
	char *text;

	expect_exit(p, status);
	text = read_file(p->out);
	assert_non_null(text);
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

static void expect_no_fault(const char *text)
{
	if (strstr(text, "fault   ")) {
		fail_msg("a fault where there is none:\n%s", text);
	}
}

/* --- all is well --- */

static void a_daemon_that_runs_is_well(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_start_daemon(f, NULL);
	text = heard(ask_plainly(f), IS_FILTERED ? 0 : 1);
	expect_line(text, "ok", "settings", "as they should be", NULL);
	expect_line(text, "ok", "daemon", "four workers", NULL);
	expect_line(text, "ok", "socket", f->socket, NULL);
	expect_line(text, "ok", "answer", "all is well", NULL);
	expect_line(text, "ok", "audit", "the log alone", NULL);
	expect_line(text, "ok", "CUPTI", "version ", NULL);
	expect_line(text, "ok", "NVML", "who computes", NULL);
	expect_line(text, "ok", "libcuda", "found", NULL);
	expect_line(text, "ok", "driver", "580.", NULL);
	expect_line(text, "ok", "GPUs", "0 Fake H200 (GH100)", NULL);
	if (fixture_has_capability(CAP_PERFMON)) {
		expect_line(text, "ok", "capability", "granter and gpu have CAP_PERFMON", NULL);
	}
	if (IS_FILTERED) {
		expect_line(text, "ok", "seccomp", "each worker", NULL);
		expect_no_fault(text);
		assert_non_null(strstr(text, "\n0 faults, "));
	} else {
		expect_line(text, "fault", "seccomp", "without a filter", "sanitizers");
	}
	free(text);
}

/* A daemon of the same name at another socket is another daemon. */
static void a_machine_without_a_daemon_is_looked_at_too(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_start_daemon(f, NULL);
	text = heard(fixture_run(f, USER_SELF, TEST_DAEMON, "--doctor", "--socket",
				 fixture_path(f, "other"), NULL),
		     root_lacks_perfmon());
	expect_line(text, "ok", "daemon", "none runs at this socket", NULL);
	expect_line(text, "warning", "socket", "nobody can connect", "systemctl enable");
	expect_line(text, "ok", "seccomp", "the kernel knows it", NULL);
	expect_line(text, "ok", "GPUs", "Fake H200", NULL);
	if (root_lacks_perfmon()) {
		expect_line(text, "fault", "capability", "not even root has CAP_PERFMON", NULL);
	} else if (geteuid() == 0) {
		expect_line(text, "ok", "capability", "has CAP_PERFMON", NULL);
	}
	assert_null(strstr(text, " answer "));
	free(text);
}

static void a_daemon_that_a_manager_started_is_found(void **state)
{
	struct fixture *f = *state;
	int socket = fixture_open_socket(f);
	char *text;

	fixture_start_activated_daemon(f, socket);
	text = heard(ask_plainly(f), IS_FILTERED ? 0 : 1);
	expect_line(text, "ok", "daemon", "four workers", NULL);
	expect_line(text, "ok", "answer", "all is well", NULL);
	free(text);
	close(socket);
}

/* --- a permit, end to end --- */

/* The doctor finds the client as any program is found. */
static char *ask_as(struct fixture *f, int uid, int status)
{
	CLEAN_FREE char *folder = strdup(CLIENT), *path = NULL, *before = strdup(getenv("PATH"));
	char *text;

	*strrchr(folder, '/') = '\0';
	assert_true(asprintf(&path, "%s:%s", folder, before) > 0);
	setenv("PATH", path, 1);
	text = heard(ask(f, uid, "--set", "lease=5min"), status);
	setenv("PATH", before, 1);
	return text;
}

static void a_profiler_of_the_callers_is_given_the_counters(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_two_users();
	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	text = ask_as(f, USER_ANN, IS_FILTERED ? 0 : 1);
	expect_line(text, "ok", "permit", "is given the counters", NULL);
	free(text);
	setenv("SUDO_UID", "1234", 1);
	text = ask_as(f, USER_SELF, IS_FILTERED ? 0 : 1);
	unsetenv("SUDO_UID");
	expect_line(text, "ok", "permit", "user 1234 starts is given the counters", NULL);
	free(text);
	text = ask_as(f, USER_SELF, IS_FILTERED ? 0 : 1);
	expect_line(text, "warning", "permit", "refuses nothing to root", "by sudo");
	free(text);
	setenv("SUDO_UID", "4294967295", 1); /* to which nobody can change */
	text = ask_as(f, USER_SELF, IS_FILTERED ? 0 : 1);
	unsetenv("SUDO_UID");
	expect_line(text, "warning", "permit", "refuses nothing to root", "by sudo");
	free(text);
}

static void counters_that_others_hold_are_no_fault(void **state)
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
	text = ask_as(f, USER_ANN, IS_FILTERED ? 0 : 1);
	expect_line(text, "warning", "permit", "gets none now", "when they are free");
	free(text);
	recorder_disconnect(&holder);
}

static void a_driver_that_refuses_the_daemon_too_is_a_fault(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_two_users();
	fixture_need_perfmon();
	fixture_start_daemon(f, NULL);
	fixture_set_knob(f, "rm_status", RM_STATUS_INSUFFICIENT_PERMISSIONS);
	text = ask_as(f, USER_ANN, 1);
	expect_line(text, "fault", "permit", "has no counters: CUPTI refuses", NULL);
	free(text);
}

/* --- something is not --- */

static void wrong_settings_are_a_fault_and_the_rest_is_looked_at(void **state)
{
	struct fixture *f = *state;
	struct program *p = ask(f, USER_SELF, "--set", "lease=x");
	char *text = heard(p, 1);

	expect_line(text, "fault", "settings", "refused", "Correct it");
	expect_message(p, "'x' is not a time");
	expect_line(text, "ok", "GPUs", "Fake H200", NULL);
	free(text);
}

static void names_that_nobody_has_are_a_warning(void **state)
{
	struct fixture *f = *state;
	struct program *p = ask(f, USER_SELF, "--set", "allow-users=no-such-user");
	char *text = heard(p, root_lacks_perfmon());

	expect_line(text, "warning", "settings", "left out", "take them out");
	expect_message(p, "allow-users: there is no user 'no-such-user'");
	free(text);
}

static void an_audit_file_that_cannot_be_written_is_a_fault(void **state)
{
	struct fixture *f = *state;
	char setting[200];
	char *text;

	snprintf(setting, sizeof(setting), "audit-file=%s/no/such/folder", f->folder);
	text = heard(ask(f, USER_SELF, "--set", setting), geteuid() == 0 ? 1 : 0);
	if (geteuid() == 0) {
		expect_line(text, "fault", "audit", "No such file", "writable");
	} else {
		expect_line(text, "warning", "audit", "not known", "as root");
	}
	free(text);
}

static void no_gpu_is_a_fault_and_the_daemon_says_so_too(void **state)
{
	struct fixture *f = *state;
	char *text;

	setenv("GPUCTR_FAKE_GPUS", "0", 1);
	fixture_start_daemon(f, NULL);
	text = heard(ask_plainly(f), 1);
	expect_line(text, "fault", "GPUs", "the driver shows no GPU", "nvidia-smi");
	expect_line(text, "fault", "answer", "the driver shows no GPU", "nvidia-smi");
	free(text);
}

static void an_old_driver_is_a_fault(void **state)
{
	struct fixture *f = *state;
	char *text;

	setenv("GPUCTR_FAKE_DRIVER", "565.56.01", 1);
	text = heard(ask_plainly(f), 1);
	expect_line(text, "fault", "GPUs", "565.56.01 does not honour", "565.57 or newer");
	free(text);
}

/* A folder of libraries with all of the vendor's but NVML. */
static void hide_nvml(struct fixture *f)
{
	static const char *const names[] = { "libcuda.so.1", "libcupti.so.13" };
	char folder[128], from[512], to[256];

	snprintf(folder, sizeof(folder), "%s/libraries", f->folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(from, sizeof(from), "%s/%s", TEST_FAKE_LIBRARIES, names[i]);
		snprintf(to, sizeof(to), "%s/%s", folder, names[i]);
		assert_int_equal(symlink(from, to), 0);
	}
	setenv("LD_LIBRARY_PATH", folder, 1);
}

static void without_nvml_every_capture_is_refused(void **state)
{
	struct fixture *f = *state;
	struct program *p;
	char *text;

	hide_nvml(f);
	p = ask_plainly(f);
	program_wait(p);
	text = read_file(p->out);
	if (strstr(text, "ok       NVML")) {
		fixture_skip("this machine has an NVML of its own");
	}
	assert_int_equal(p->status, 1 << 8);
	expect_line(text, "fault", "NVML", "every capture is refused", "sharing = shared");
	free(text);
	text = heard(ask(f, USER_SELF, "--set", "sharing=shared"), root_lacks_perfmon());
	expect_line(text, "warning", "NVML", "nobody asks", "libnvidia-ml");
	expect_line(text, "warning", "driver", "nothing tells its version", "libnvidia-ml");
	free(text);
}

static void a_machine_without_nvidia_says_what_to_install(void **state)
{
	struct fixture *f = *state;
	char *text;

	struct program *p;

	if (!IS_FILTERED) {
		fixture_skip("a sanitizer ends whoever loads libraries as NVIDIA's CUPTI does");
	}
	setenv("LD_LIBRARY_PATH", "/nonexistent", 1);
	unsetenv("LD_PRELOAD");
	p = ask_plainly(f);
	program_wait(p);
	text = read_file(p->out);
	if (strstr(text, "ok       libcuda")) {
		fixture_skip("this machine has a driver of its own");
	}
	assert_int_equal(p->status, 1 << 8);
	expect_line(text, "fault", "libcuda", "not found", "Install NVIDIA's driver");
	free(text);
}

static void a_daemon_that_hangs_is_a_fault(void **state)
{
	struct fixture *f = *state;
	pid_t front;
	char *text;

	fixture_need_root_to_look();
	fixture_start_daemon(f, NULL);
	front = fixture_worker(f, "front");
	kill(front, SIGSTOP);
	setenv("SUDO_UID", "1234", 1);
	text = ask_as(f, USER_SELF, 1);
	unsetenv("SUDO_UID");
	kill(front, SIGCONT);
	expect_line(text, "fault", "answer", "does not answer", "journalctl");
	assert_null(strstr(text, " permit ")); /* it would hang as well, and blame the driver */
	free(text);
}

static void a_socket_that_keeps_users_out_is_told(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	chmod(f->socket, 0660);
	text = heard(ask_plainly(f), IS_FILTERED ? 0 : 1);
	expect_line(text, "warning", "socket", "mode 660", "SocketMode=0666");
	assert_int_equal(chown(f->socket, USER_BOB, USER_BOB), 0);
	free(text);
	text = heard(ask_plainly(f), 1);
	expect_line(text, "fault", "socket", "belongs to uid 1235", "remove it");
	free(text);
}

/* Who is not allowed may look as well, at what they may see. */
static void an_ordinary_user_is_told_what_they_may_know(void **state)
{
	struct fixture *f = *state;
	char *text;

	fixture_need_root();
	fixture_start_strict_daemon(f, NULL);
	text = heard(ask(f, USER_ANN, "--set", "lease=5min"), IS_FILTERED ? 0 : 1);
	expect_line(text, "ok", "daemon", "four workers", NULL);
	expect_line(text, "warning", "answer", "uid 1234 may not measure", "as root");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(a_daemon_that_runs_is_well),
		SYSTEM_TEST(a_machine_without_a_daemon_is_looked_at_too),
		SYSTEM_TEST(a_daemon_that_a_manager_started_is_found),
		SYSTEM_TEST(a_profiler_of_the_callers_is_given_the_counters),
		SYSTEM_TEST(counters_that_others_hold_are_no_fault),
		SYSTEM_TEST(a_driver_that_refuses_the_daemon_too_is_a_fault),
		SYSTEM_TEST(wrong_settings_are_a_fault_and_the_rest_is_looked_at),
		SYSTEM_TEST(names_that_nobody_has_are_a_warning),
		SYSTEM_TEST(an_audit_file_that_cannot_be_written_is_a_fault),
		SYSTEM_TEST(no_gpu_is_a_fault_and_the_daemon_says_so_too),
		SYSTEM_TEST(an_old_driver_is_a_fault),
		SYSTEM_TEST(without_nvml_every_capture_is_refused),
		SYSTEM_TEST(a_machine_without_nvidia_says_what_to_install),
		SYSTEM_TEST(a_daemon_that_hangs_is_a_fault),
		SYSTEM_TEST(a_socket_that_keeps_users_out_is_told),
		SYSTEM_TEST(an_ordinary_user_is_told_what_they_may_know),
	};

	return SYSTEM_RUN(tests);
}
