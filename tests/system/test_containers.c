/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/on_demand.h"

/* Whose programs in standby a user lists and captures: pids of a container, its cgroup, its root,
 * and programs of others. */

/* In a container one knows a program by its number there. */
SYSTEM_TEST(a_container_has_its_own_pids)
{
	static const char script[] =
		"\"$1\" standby -- \"$2\" --kernels 400000 --sleep-us 500 & p=$!\n"
		"until \"$1\" status | grep -q \"^ *$p \"; do sleep 0.05; done\n"
		"\"$1\" capture --pid $p --metrics dram__bytes_read.sum --mode range "
		"--stream=\"$3\" -f & c=$!\n"
		"until grep -qs '\"type\":\"kernel\"' \"$3\"; do sleep 0.05; done\n"
		"kill -TERM $c; wait $c; s=$?; kill -9 $p; exit $s\n";
	struct fixture *f = *state;
	const char *path = fixture_path(f, "inside.jsonl");

	fixture_need_root();
	if (system("unshare --pid --fork true 2>/dev/null") != 0) {
		fixture_skip("needs a pid namespace of its own");
	}
	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false);
	expect_exit(fixture_run(f, USER_SELF, "/usr/bin/unshare", "--pid", "--fork", "/bin/sh",
				"-c", script, "sh", CLIENT, FAKEAPP, path, NULL),
		    0);
	on_demand_expect_measured(path, "dram__bytes_read.sum");
}

/* /proc is that of the namespace around it, and has another process, or none, at its number. */
SYSTEM_TEST(a_namespace_without_a_proc_of_its_own)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_root();
	if (system("unshare --pid --fork true 2>/dev/null") != 0) {
		fixture_skip("needs a pid namespace of its own");
	}
	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false);
	p = fixture_client(f, USER_SELF, "-f", "-o", fixture_path(f, "file"), "--metrics",
			   "dram__bytes_read.sum", "--", "/usr/bin/unshare", "--pid", "--fork",
			   "/bin/sh", "-c", "\"$1\" --kernels 2000 --sleep-us 500; exit 0", "sh",
			   FAKEAPP, NULL);
	expect_exit(p, 0);
	assert_int_equal(message_number(p, " measured"), 2000);
}

#define CONTAINER_END "00000000000000000000000000000000000000000000000000000000"

/* A cgroup as Docker names that of a container, whose id is ours; "": none can be made here. */
static void make_cgroup(char *path, size_t size, char *id, size_t id_size)
{
	static const char *const hierarchies[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified",
						   "/sys/fs/cgroup/systemd" };
	char procs[64];

	snprintf(id, id_size, "%08x" CONTAINER_END, (unsigned)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(hierarchies); i++) {
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", hierarchies[i]);
		snprintf(path, size, "%s/docker-%s.scope", hierarchies[i], id);
		if (access(procs, W_OK) == 0 && mkdir(path, 0755) == 0) {
			return;
		}
	}
	path[0] = '\0';
}

static bool enter_cgroup(const char *path, pid_t pid)
{
	char procs[256];
	FILE *f;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	f = fopen(procs, "we");
	return f && (fprintf(f, "%d\n", pid) > 0) & (fclose(f) == 0);
}

static void remove_cgroup(const char *path)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (rmdir(path) < 0 && errno == EBUSY && now_ms() < by) {
		sleep_ms(10);
	}
}

/* What is shown is the kernel's name of the cgroup, and what it says by its form. */
SYSTEM_TEST(programs_are_shown_with_their_container)
{
	static const char script[] =
		"until grep -q \"docker-$3\" /proc/self/cgroup; do sleep 0.05; done\n"
		"exec \"$1\" standby -- \"$2\" --kernels 400000 --sleep-us 500";
	struct fixture *f = *state;
	char cgroup[160], id[72], text[160];
	struct program *in, *out, *c;

	fixture_need_root();
	make_cgroup(cgroup, sizeof(cgroup), id, sizeof(id));
	if (!cgroup[0]) {
		fixture_skip("no cgroup can be made here");
	}
	fixture_start_daemon(f, NULL);
	out = on_demand_start(f, USER_ANN);
	in = fixture_run(f, USER_ANN, "/bin/sh", "-c", script, "sh", CLIENT, FAKEAPP, id, NULL);
	if (!enter_cgroup(cgroup, in->pid)) {
		program_kill(in, SIGKILL);
		program_kill(out, SIGKILL);
		remove_cgroup(cgroup);
		fixture_skip("a cgroup of a test's own takes no process here");
	}
	snprintf(text, sizeof(text), "\"derived\":{\"container\":\"%s\",\"runtime\":\"docker\"}",
		 id);
	on_demand_wait_listed(f, USER_ANN, in, text);
	on_demand_wait_listed(f, USER_ANN, out, "\"derived\":{}");
	snprintf(text, sizeof(text), "/docker-%s.scope", id);
	c = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(c, 0);
	assert_int_equal(count_text(c->out, text), 1);
	assert_int_equal(count_text(c->out, "CONTAINER (CGROUP)"), 1);
	program_kill(in, SIGKILL);
	program_kill(out, SIGKILL);
	remove_cgroup(cgroup);
}

/* As in a rootless container: inside they are root, the kernel knows better. */
SYSTEM_TEST(roots_of_user_namespaces_see_their_own)
{
	/* The shell alone: other programs end at once with the thread sanitizer preloaded. */
	static const char script[] =
		"while read -r key uid rest; do test \"$key\" != Uid: || break; done "
		"< /proc/self/status\n"
		"test \"$uid\" = 0 && \"$1\" status --json";
	struct fixture *f = *state;
	struct program *of[2], *status;
	char pid[2][32];

	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	fixture_need_two_users();
	if (system("setpriv --reuid 1234 --regid 1234 --clear-groups unshare --user "
		   "--map-root-user true 2>/dev/null") != 0) {
		fixture_skip("users may make no user namespace here");
	}
	fixture_start_daemon(f, NULL);
	fixture_check_leaks(false);
	for (int i = 0; i < 2; i++) {
		of[i] = on_demand_start(f, USER_ANN + i);
		on_demand_wait_listed(f, USER_ANN + i, of[i], "\"capture\":0");
		snprintf(pid[i], sizeof(pid[i]), "\"pid\":%d,", of[i]->pid);
	}
	for (int i = 0; i < 2; i++) {
		status =
			fixture_run(f, USER_ANN + i, "/usr/bin/unshare", "--user",
				    "--map-root-user", "/bin/sh", "-c", script, "sh", CLIENT, NULL);
		expect_exit(status, 0);
		assert_int_equal(count_text(status->out, pid[i]), 1);
		assert_int_equal(count_text(status->out, pid[1 - i]), 0);
	}
	program_kill(of[0], SIGKILL);
	program_kill(of[1], SIGKILL);
}
