/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/signals.h"

/* A client with a loop, in a process of its own; the test interrupts it. */

enum { LONG_MS = 60000 };

struct client {
	pid_t pid;
	int ready[2];
};

static void say_ready(void)
{
	if (write(STDOUT_FILENO, "", 1) != 1) {
		_exit(99);
	}
}

/* Never looks for signals. */
static void hang(struct signals *s, struct child *child)
{
	(void)s;
	(void)child;
	for (;;) {
		poll(NULL, 0, 1000);
	}
}

/* As the loop of a run, which ends with its program. */
static void go_on(struct signals *s, struct child *child)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int signo;
	int n = 0;

	while (n < 3) {
		poll(&p, 1, -1);
		while (signals_next(s, &signo)) {
			if (signo == SIGINT) {
				n++;
				say_ready();
			}
			if (signo == SIGCHLD && child_reap(child)) {
				_exit(child->status);
			}
		}
	}
	_exit(3);
}

/* Acts on the first signal, and on no other. */
static void take_one(struct signals *s, struct child *child)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int signo;

	poll(&p, 1, -1);
	if (!signals_next(s, &signo) || signo != SIGINT) {
		_exit(96);
	}
	signals_release(s);
	say_ready();
	hang(s, child);
}

static void expect_ready(struct client *c)
{
	char byte;

	assert_int_equal(read(c->ready[0], &byte, 1), 1);
}

/* A script says that it is ready with a line. */
static void begin(struct client *c, const char *script,
		  void (*loop)(struct signals *s, struct child *child))
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };

	assert_int_equal(pipe(c->ready), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		struct child child = { 0 };
		struct signals s;

		setpgid(0, 0);
		signal(SIGHUP, SIG_DFL); /* nohup(1) may have started the tests, or a shell in
					  * the background, whose children ignore SIGINT */
		signal(SIGINT, SIG_DFL);
		if (signals_open(&s, &child, false) < 0) {
			_exit(98);
		}
		dup2(c->ready[1], STDOUT_FILENO);
		if (!script) {
			say_ready();
		} else if (child_start(&child, "/bin/sh", argv, NULL, &s.inherited) < 0) {
			_exit(97);
		} else {
			say_ready(); /* the client may know the program later than this begins */
		}
		loop(&s, &child);
	}
	close(c->ready[1]);
	if (script) {
		expect_ready(c);
	}
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid != 0;
}

/* Until it ends by that: several of one kind that are pending are one. */
static void interrupt(const struct client *c, int signo)
{
	for (int i = 0; i < LONG_MS / 10 && !has_ended(c->pid); i++) {
		kill(c->pid, signo);
		poll(NULL, 0, 10);
	}
}

static int end_of(struct client *c)
{
	int status = -1;

	for (int i = 0; waitpid(c->pid, &status, WNOHANG) == 0; i++) {
		if (i == LONG_MS / 10) {
			kill(-c->pid, SIGKILL);
			fail_msg("the client goes on");
		}
		poll(NULL, 0, 10);
	}
	close(c->ready[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(the_second_signal_ends_a_client_that_is_held_up)
{
	static const int signos[] = { SIGINT, SIGTERM, SIGHUP };
	struct client c;

	for (size_t i = 0; i < ARRAY_SIZE(signos); i++) {
		begin(&c, NULL, hang);
		expect_ready(&c);
		kill(c.pid, SIGINT);
		interrupt(&c, signos[i]);
		assert_in_range(end_of(&c), 129, 128 + SIGTERM);
	}
}

TEST(the_second_signal_ends_a_client_that_acts_on_the_first)
{
	struct client c;

	begin(&c, NULL, take_one);
	expect_ready(&c);
	kill(c.pid, SIGINT);
	expect_ready(&c);
	kill(c.pid, SIGINT);
	assert_int_equal(end_of(&c), 128 + SIGINT);
}

/* The program gets each of them, and the client lives, whatever its loop does. */
TEST(a_program_has_its_signals)
{
	struct client c;

	begin(&c,
	      "trap 'n=1$n; echo' INT; echo; until [ \"$n\" = 111 ]; do sleep 0.05; done; exit 7",
	      go_on);
	expect_ready(&c);
	for (int i = 0; i < 3; i++) {
		kill(c.pid, SIGINT);
		expect_ready(&c);
	}
	assert_int_equal(end_of(&c), 7);
	begin(&c, "trap 'echo' INT; echo; while :; do sleep 0.05; done", hang);
	for (int i = 0; i < 4; i++) {
		expect_ready(&c);
		kill(c.pid, SIGINT);
	}
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	kill(-c.pid, SIGKILL);
	assert_int_equal(end_of(&c), 128 + SIGKILL);
}

TEST(each_signal_that_is_read_is_an_event)
{
	struct client c;
	char byte;

	begin(&c, NULL, go_on);
	while (read(c.ready[0], &byte, 1) == 1) {
		kill(c.pid, SIGINT);
	}
	assert_int_equal(end_of(&c), 3);
	begin(&c, "echo; exit 5", go_on);
	assert_int_equal(end_of(&c), 5);
}

static void fill(int fd)
{
	static const char data[4096];

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, data, sizeof(data)) > 0) {
	}
	while (write(fd, data, 1) > 0) {
	}
	fcntl(fd, F_SETFL, 0);
}

static bool catches(pid_t pid, int signo)
{
	char path[64], line[128];
	unsigned long long caught = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "SigCgt: %llx", &caught);
	}
	fclose(f);
	return caught >> (signo - 1) & 1;
}

/* The real one, which cannot say that there is no daemon, because nobody reads what it says. */
TEST(a_client_whose_words_nobody_reads)
{
	struct client c;

	assert_int_equal(pipe(c.ready), 0);
	fill(c.ready[1]);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		setpgid(0, 0);
		setenv("GPUCTR_SOCKET", "/nonexistent/socket", 1);
		dup2(c.ready[1], STDERR_FILENO);
		execl(TEST_CLIENT, TEST_CLIENT, "--", "true", NULL);
		_exit(99);
	}
	close(c.ready[1]);
	for (int i = 0; i < LONG_MS / 10 && !catches(c.pid, SIGINT); i++) {
		poll(NULL, 0, 10);
	}
	assert_true(catches(c.pid, SIGINT));
	interrupt(&c, SIGINT);
	assert_int_equal(end_of(&c), 128 + SIGINT);
}

/* What was blocked or handled is as before. */
TEST(it_leaves_nothing)
{
	struct child child = { 0 };
	struct sigaction action;
	struct signals s;

	assert_int_equal(signals_open(&s, &child, false), 0);
	assert_false(signals_next(&s, &(int){ 0 }));
	signals_close(&s);
	signals_close(&s);
	assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
	assert_true(action.sa_handler == SIG_DFL);
}
