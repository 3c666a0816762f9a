/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"

/* What the daemon says to the manager that started it, and when. The test is the manager: it
 * listens on $NOTIFY_SOCKET. tests/packages/run has the real one. */

struct manager {
	int fd;
	char text[1024]; /* the last message */
};

static void manager_open(struct manager *m, struct fixture *f)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify", f->folder);
	m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(m->fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setenv("NOTIFY_SOCKET", a.sun_path, 1);
}

static void manager_close(struct manager *m)
{
	unsetenv("NOTIFY_SOCKET");
	close(m->fd);
}

/* The next message with this line, before any with the line not. */
static void expect_told(struct manager *m, const char *line, const char * not )
{
	struct pollfd p = { m->fd, POLLIN, 0 };

	do {
		ssize_t n;

		if (poll(&p, 1, PATIENCE_MS) != 1) {
			fail_msg("the manager is not told %s", line);
		}
		n = recv(m->fd, m->text, sizeof(m->text) - 1, 0);
		m->text[n > 0 ? n : 0] = '\0';
		if (not &&strstr(m->text, not )) {
			fail_msg("the manager is told %s before %s", not, line);
		}
	} while (!strstr(m->text, line));
}

/* Microseconds of the monotonic clock, which the manager compares with when it asked. */
static uint64_t told_usec(const struct manager *m)
{
	const char *place = strstr(m->text, "MONOTONIC_USEC=");

	assert_non_null(place);
	return strtoull(place + strlen("MONOTONIC_USEC="), NULL, 10);
}

static const char *write_settings(struct fixture *f, const char *text)
{
	const char *path = fixture_path(f, "settings");
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fchmod(fileno(file), 0644), 0);
	fputs(text, file);
	fclose(file);
	return path;
}

static int status_as(struct fixture *f, int uid)
{
	struct program *p = fixture_client(f, uid, "status", NULL);

	program_wait(p);
	return p->status;
}

/* --- tests --- */

SYSTEM_TEST(a_start_is_told_when_connections_are_served)
{
	struct fixture *f = *state;
	struct manager m;

	manager_open(&m, f);
	fixture_start_daemon(f, NULL);
	expect_told(&m, "READY=1", NULL);
	expect_told(&m, "WATCHDOG=1", NULL);
	fixture_stop_daemon(f);
	expect_told(&m, "STOPPING=1", NULL);
	manager_close(&m);
}

SYSTEM_TEST(a_reload_lasts_until_the_settings_hold)
{
	struct fixture *f = *state;
	struct manager m;
	const char *settings = write_settings(f, "allow-users = 1234\n");
	uint64_t before;

	fixture_need_root();
	manager_open(&m, f);
	fixture_start_strict_daemon(f, "--config", settings, NULL);
	expect_told(&m, "READY=1", NULL);
	assert_int_not_equal(status_as(f, USER_BOB), 0);
	for (int i = 0; i < 20; i++) {
		bool allowed = i % 2 == 0;

		write_settings(f, allowed ? "allow-users = 1234, 1235\n" : "allow-users = 1234\n");
		before = clock_now_ns() / 1000;
		program_kill(f->daemon, SIGHUP);
		expect_told(&m, "RELOADING=1", "READY=1");
		assert_in_range(told_usec(&m), before, clock_now_ns() / 1000);
		expect_told(&m, "READY=1", "RELOADING=1");
		assert_int_equal(status_as(f, USER_BOB) == 0, allowed);
	}
	manager_close(&m);
}

SYSTEM_TEST(a_reload_of_wrong_settings_is_over_too)
{
	struct fixture *f = *state;
	struct manager m;
	const char *settings = write_settings(f, "allow-users = *\n");

	manager_open(&m, f);
	fixture_start_strict_daemon(f, "--config", settings, NULL);
	expect_told(&m, "READY=1", NULL);
	write_settings(f, "leaze-max = 5min\n");
	program_kill(f->daemon, SIGHUP);
	expect_told(&m, "RELOADING=1", "READY=1");
	expect_told(&m, "READY=1", NULL);
	expect_message(f->daemon, "unknown key 'leaze-max'");
	assert_int_equal(status_as(f, USER_BOB), 0);
	manager_close(&m);
}

/* The front that should answer dies: its successor has the settings from its birth. */
SYSTEM_TEST(a_reload_outlives_the_front)
{
	struct fixture *f = *state;
	struct manager m;
	const char *settings = write_settings(f, "allow-users = 1234\n");
	pid_t front;

	fixture_need_root();
	manager_open(&m, f);
	fixture_start_strict_daemon(f, "--config", settings, NULL);
	expect_told(&m, "READY=1", NULL);
	front = fixture_worker(f, "front");
	assert_int_equal(kill(front, SIGSTOP), 0);
	write_settings(f, "allow-users = 1235\n");
	program_kill(f->daemon, SIGHUP);
	expect_told(&m, "RELOADING=1", "READY=1");
	assert_int_equal(kill(front, SIGKILL), 0);
	expect_told(&m, "READY=1", NULL);
	assert_int_equal(status_as(f, USER_BOB), 0);
	assert_int_not_equal(status_as(f, USER_ANN), 0);
	manager_close(&m);
}

static void check_audit(struct fixture *f, const char *setting, int status)
{
	struct program *p =
		fixture_run(f, USER_ANN, TEST_DAEMON, "--check-config", "--set", setting, NULL);

	expect_exit(p, status);
	if (status != 0) {
		expect_message(p, "make it and its folder writable");
	}
}

/* Before anybody is refused for it. Ann stands for the daemon's user: whose it is, is the same. */
SYSTEM_TEST(a_reload_tells_that_the_audit_file_cannot_be_opened)
{
	struct fixture *f = *state;
	struct manager m;
	struct program *p;
	char folder[96], setting[160];

	fixture_need_root();
	snprintf(folder, sizeof(folder), "%s", fixture_path(f, "log"));
	snprintf(setting, sizeof(setting), "audit-file=%s/audit", folder);
	assert_int_equal(mkdir(folder, 0777), 0);
	manager_open(&m, f);
	check_audit(f, setting, 0);
	fixture_start_daemon(f, "--set", setting, NULL);
	expect_told(&m, "READY=1", NULL);
	snprintf(setting, sizeof(setting), "%s/audit", folder);
	assert_int_equal(unlink(setting), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	snprintf(setting, sizeof(setting), "audit-file=%s/audit", folder);

	check_audit(f, setting, 2);
	program_kill(f->daemon, SIGHUP);
	expect_told(&m, "RELOADING=1", NULL);
	expect_told(&m, "READY=1", NULL);
	expect_message(f->daemon, "settings read again, but the audit file cannot be opened");
	p = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "audit log cannot be written"), 1);

	assert_int_equal(chmod(folder, 0777), 0);
	check_audit(f, setting, 0);
	program_kill(f->daemon, SIGHUP);
	expect_told(&m, "RELOADING=1", NULL);
	expect_told(&m, "READY=1", NULL);
	p = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(p, 0);
	assert_int_equal(count_text(p->out, "audit log"), 0);
	manager_close(&m);
}

/* Ends by itself, with this status and these words, and has not listened. */
static void expect_answer(struct fixture *f, const char *const *argv, int status, const char *out,
			  const char *err)
{
	struct program *p = fixture_runv(f, USER_SELF, argv);

	expect_exit(p, status);
	expect_no_message(p, "listening");
	if (out[0]) {
		assert_int_equal(count_text(p->out, out), 1);
	}
	if (err[0]) {
		expect_message(p, err);
	}
	assert_int_not_equal(access(f->socket, F_OK), 0);
}

SYSTEM_TEST(what_is_asked_is_answered_and_nothing_starts)
{
	struct fixture *f = *state;
	const char *const helps[] = { "-h", "--help" }, *const versions[] = { "-V", "--version" };

	for (size_t i = 0; i < ARRAY_SIZE(helps); i++) {
		expect_answer(f, (const char *[]){ TEST_DAEMON, "-s", f->socket, helps[i], NULL },
			      0, "Usage: gpucountd", "");
		expect_answer(f, (const char *[]){ TEST_DAEMON, helps[i], "-s", f->socket, NULL },
			      0, "Usage: gpucountd", "");
		expect_answer(f,
			      (const char *[]){ TEST_DAEMON, versions[i], "-s", f->socket, NULL },
			      0, "gpucountd ", "");
	}
	expect_answer(f, (const char *[]){ TEST_DAEMON, "-s", f->socket, "start", NULL }, 2, "",
		      "unexpected argument 'start'");
	expect_answer(f, (const char *[]){ TEST_DAEMON, "-s", f->socket, "--helm", NULL }, 2, "",
		      "see --help");
	expect_answer(f, (const char *[]){ TEST_DAEMON, "-s", f->socket, "--check-config", NULL },
		      0, "", "");
}

/* A service that is restarted on a slow machine: its socket is open, and nobody reads. The library
 * waits for five seconds. */
SYSTEM_TEST(who_asks_waits_for_a_daemon_that_is_slow_to_answer)
{
	struct fixture *f = *state;
	struct program *p;
	pid_t front;

	fixture_need_root_to_look();
	fixture_start_daemon(f, NULL);
	front = fixture_worker(f, "front");
	assert_int_equal(kill(front, SIGSTOP), 0);
	p = fixture_client(f, USER_BOB, "status", NULL);
	sleep_ms(7000);
	expect_running(p);
	assert_int_equal(kill(front, SIGCONT), 0);
	expect_exit(p, 0);
	expect_no_message(p, "does not answer");
}

/* Runs on as Bob until it is killed: what has the socket's name in Bob's folder is now this, now a
 * link to a file of root's. */
static pid_t start_symlinker(const char *name, const char *victim)
{
	char moved[160];
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0) {
		return pid;
	}
	snprintf(moved, sizeof(moved), "%s.moved", name);
	if (setresgid(USER_BOB, USER_BOB, USER_BOB) < 0 ||
	    setresuid(USER_BOB, USER_BOB, USER_BOB) < 0) {
		_exit(1);
	}
	for (;;) {
		if (rename(name, moved) == 0 && symlink(victim, name) == 0) {
			usleep(1000);
			unlink(name);
		}
	}
}

SYSTEM_TEST(a_socket_in_a_folder_of_somebody_else_is_refused)
{
	struct fixture *f = *state;
	char folder[96], victim[96];
	struct stat st;
	pid_t racer;

	fixture_need_root();
	snprintf(folder, sizeof(folder), "%s", fixture_path(f, "theirs"));
	snprintf(victim, sizeof(victim), "%s", fixture_path(f, "victim"));
	snprintf(f->socket, sizeof(f->socket), "%.80s/socket", folder);
	close(open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(chown(folder, USER_BOB, USER_BOB), 0);
	racer = start_symlinker(f->socket, victim);
	for (int i = 0; i < 20; i++) {
		struct program *p = fixture_run(f, USER_SELF, TEST_DAEMON, "-s", f->socket, NULL);

		expect_exit(p, 1);
		expect_message(p, "theirs belongs to uid 1235");
	}
	assert_int_equal(kill(racer, SIGKILL), 0);
	waitpid(racer, NULL, 0);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

/* Only a socket is what a predecessor leaves behind. */
SYSTEM_TEST(a_file_in_the_sockets_place_is_left_alone)
{
	static const char text[] = "somebody's";
	struct fixture *f = *state;
	CLEAN_FREE char *left = NULL;
	struct program *p;
	FILE *file = fopen(f->socket, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	p = fixture_run(f, USER_SELF, TEST_DAEMON, "-s", f->socket, NULL);
	expect_exit(p, 1);
	expect_message(p, "File exists and is no socket; choose another --socket, or remove it");
	left = read_file(f->socket);
	assert_string_equal(left, text);
}

/* What is left of a name that is cut would be somebody else's place. */
SYSTEM_TEST(a_name_that_is_too_long_is_not_cut)
{
	char name[80], folder[160], link[96];
	struct fixture *f = *state;
	struct program *p;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(folder, sizeof(folder), "%s", fixture_path(f, name));
	snprintf(link, sizeof(link), "%s", fixture_path(f, "l"));
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(symlink(folder, link), 0);
	snprintf(f->socket, sizeof(f->socket), "%.70s/ssssssssssssssss", link);
	p = fixture_run(f, USER_SELF, TEST_DAEMON, "-s", f->socket, NULL);
	expect_exit(p, 1);
	expect_message(p, "File name too long");
	assert_int_equal(rmdir(folder), 0); /* nothing is in it */
}

/* Who connects may be gone before it is accepted, and others wait behind it. */
SYSTEM_TEST(a_socket_that_is_handed_over_does_not_block)
{
	struct fixture *f = *state;
	CLEAN_FD int socket = fixture_open_socket(f);

	assert_int_equal(fcntl(socket, F_GETFL) & O_NONBLOCK, 0);
	fixture_start_activated_daemon(f, socket);
	assert_int_not_equal(fcntl(socket, F_GETFL) & O_NONBLOCK, 0);
}

/* systemd starts it again for as long as a connection waits, and gives the socket up after ten
 * starts in ten seconds: everybody who comes is answered, and no start is over within a second. */
SYSTEM_TEST(wrong_settings_keep_nobody_waiting)
{
	struct fixture *f = *state;
	CLEAN_FD int socket = fixture_open_socket(f);
	struct program *waits = fixture_client(f, USER_ANN, "status", NULL), *comes, *daemon;
	uint64_t begin;

	sleep_ms(50);
	begin = now_ms();
	daemon = fixture_activate_daemon(f, socket, "leaze-max=5min");
	expect_exit(waits, 1);
	expect_message(waits, "remedy: See `systemctl status gpucountd`");
	comes = fixture_client(f, USER_ANN, "status", NULL);
	expect_exit(comes, 1);
	expect_message(comes, "gpucountd closed the connection");
	expect_exit(daemon, 2);
	expect_message(daemon, "did you mean 'lease-max'?");
	assert_true(now_ms() - begin > 1000);
	/* Corrected, it serves. */
	fixture_start_activated_daemon(f, socket);
	expect_service(f, fixture_time(5000));
}

/* --- the socket's mode --- */

static void expect_gate(struct fixture *f, const char *setting, mode_t mode, gid_t group)
{
	mode_t before = umask(0077);
	struct stat st;

	fixture_start_strict_daemon(f, "--set", setting, NULL);
	umask(before);
	assert_int_equal(stat(f->socket, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, mode);
	assert_int_equal(st.st_gid, group);
	fixture_stop_daemon(f);
}

/* Whatever the mask; for one group alone where the settings let in nobody else. */
SYSTEM_TEST(the_socket_is_open_to_whom_the_settings_let_in)
{
	struct fixture *f = *state;

	expect_gate(f, "allow-users=*", 0666, getegid());
	expect_gate(f, "job-owners=yes", 0666, getegid());
	expect_gate(f, "lease-max=5min", 0660, getegid());
	if (geteuid() == 0) {
		expect_gate(f, "allow-groups=1234", 0660, 1234);
		expect_gate(f, "group-gpus=1234 0", 0660, 1234);
		expect_gate(f, "allow-groups=1234 1235", 0666, 0);
	}
}

/* The client says it, because the daemon does not hear of it. */
SYSTEM_TEST(who_is_not_in_the_sockets_group_is_told_how_to_get_in)
{
	struct fixture *f = *state;
	struct program *p;

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-groups=1234", NULL);
	expect_exit(fixture_client(f, USER_ANN, "status", NULL), 0);
	p = fixture_client(f, USER_BOB, "status", NULL);
	expect_exit(p, 1);
	expect_message(
		p,
		"error[not-allowed]: uid 1235 may not measure on this machine: it may not connect");
	expect_message(
		p, "remedy: Ask the administrator to add you to the group 1234 (`usermod -aG 1234");
	p = fixture_client(f, USER_BOB, "--metrics", "memory", "--", FAKEAPP, NULL);
	expect_exit(p, 125);
	expect_output(p, "");
	expect_message(p, "error[not-allowed]");
	assert_int_equal(count_text(f->daemon->err, "1235"), 0);
	assert_int_equal(chown(f->socket, 0, 0), 0); /* nobody is asked to join root's group */
	p = fixture_client(f, USER_BOB, "status", NULL);
	expect_exit(p, 1);
	expect_message(p, "not open to you: ask the administrator");
}

/* --- the socket of a predecessor --- */

static struct program *start_beside(struct fixture *f)
{
	return fixture_run(f, USER_SELF, TEST_DAEMON, "-s", f->socket, "-v", "--set",
			   "allow-users=*", NULL);
}

/* False: it has waited for its predecessor, which is held up on a busy machine, and has ended. */
static bool listens_soon(struct program *p)
{
	while (program_is_running(p)) {
		if (count_text(p->err, "listening on") > 0) {
			return true;
		}
		sleep_ms(2);
	}
	expect_exit(p, 1);
	expect_message(p, "Address already in use by another gpucountd");
	return false;
}

/* A start waits for 2 s. */
static void start_again(struct fixture *f)
{
	int tries = 0;

	do {
		assert_true(tries++ < 5);
		f->daemon = start_beside(f);
	} while (!listens_soon(f->daemon));
}

/* False: the start had ended before. */
static bool listens_after_death(struct fixture *f)
{
	struct program *before = f->daemon;

	f->daemon = start_beside(f);
	while (program_is_running(f->daemon) && !process_is_asleep(f->daemon->pid)) {
		sleep_ms(2);
	}
	program_kill(before, SIGKILL);
	expect_signal(before, SIGKILL);
	return listens_soon(f->daemon);
}

/* How long a front outlives its supervisor is the kernel's affair; here it lives for sure. */
SYSTEM_TEST(a_start_before_the_supervisors_death_succeeds)
{
	struct fixture *f = *state;
	int tries = 1;

	fixture_start_daemon(f, NULL);
	while (!listens_after_death(f)) {
		assert_true(tries++ < 5);
		start_again(f);
	}
	assert_int_equal(status_as(f, USER_SELF), 0);
}

/* Two, or fewer if the daemon has ended. */
static void take_probes(struct fixture *f, int socket)
{
	struct pollfd p = { socket, POLLIN, 0 };
	uint64_t by = now_ms() + PATIENCE_MS;

	for (int n = 0; n < 2 && program_is_running(f->daemon);) {
		if (poll(&p, 1, 20) == 1) {
			close(accept(socket, NULL, NULL));
			n++;
		} else if (now_ms() > by) {
			fail_msg("the daemon does not look whether somebody listens");
		}
	}
}

/* The test is the predecessor, which goes away once the start has had to try again. */
static bool listens_after_probes(struct fixture *f)
{
	int socket;

	unlink(f->socket);
	socket = fixture_open_socket(f);
	f->daemon = start_beside(f);
	take_probes(f, socket);
	close(socket);
	return listens_soon(f->daemon);
}

SYSTEM_TEST(a_start_waits_until_nobody_listens)
{
	struct fixture *f = *state;
	int tries = 1;

	while (!listens_after_probes(f)) {
		assert_true(tries++ < 5);
	}
	expect_no_message(f->daemon, "cannot listen");
}

/* In the end, and whoever listens keeps the socket. */
static void expect_start_refused(struct fixture *f)
{
	struct stat before, after;
	uint64_t begin = now_ms();
	struct program *p;

	assert_int_equal(stat(f->socket, &before), 0);
	p = start_beside(f);
	expect_exit(p, 1);
	expect_message(p, "Address already in use by another gpucountd");
	assert_true(now_ms() - begin >= 2000);
	assert_int_equal(stat(f->socket, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
}

SYSTEM_TEST(a_second_daemon_is_refused)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	expect_start_refused(f);
	assert_int_equal(status_as(f, USER_SELF), 0);
}

/* The first look fills the backlog. */
SYSTEM_TEST(a_second_daemon_is_refused_by_one_that_hangs)
{
	struct fixture *f = *state;
	int socket = fixture_open_socket(f);

	assert_int_equal(listen(socket, 0), 0);
	expect_start_refused(f);
	close(socket);
}

SYSTEM_TEST(settings_that_others_could_have_written_are_refused)
{
	struct fixture *f = *state;
	const char *settings = write_settings(f, "allow-users = *\n");
	struct program *p;

	assert_int_equal(chmod(settings, 0666), 0);
	p = fixture_run(f, USER_SELF, TEST_DAEMON, "-s", f->socket, "-c", settings, NULL);
	expect_exit(p, 2);
	expect_message(p, "settings can be written by others (mode 0666): chmod go-w it");
	assert_int_equal(chmod(settings, 0644), 0);
	fixture_start_strict_daemon(f, "--config", settings, NULL);
	assert_int_equal(chmod(settings, 0666), 0);
	program_kill(f->daemon, SIGHUP);
	expect_text_soon(f->daemon->err, "the settings are not taken over");
}
