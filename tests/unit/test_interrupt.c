/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/interrupt.h"

/* A client whose loop is held up, in a process of its own; the test interrupts it. */

enum { PATIENCE_MS = 300, LONG_MS = 60000 };

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

/* As the loop of a run that sends signals to nobody, and ends with its program. */
static void go_on(struct signals *s, struct child *child)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	struct signal_event event;
	int n = 0;

	while (n < 3) {
		poll(&p, 1, -1);
		while (signals_next(s, &event)) {
			if (event.signo == SIGINT) {
				n++;
				say_ready();
			}
			if (event.signo == SIGCHLD && child_reap(child)) {
				_exit(child->status);
			}
		}
	}
	_exit(3);
}

static void begin_with(struct client *c, const char *script,
		       void (*loop)(struct signals *s, struct child *child), int patience_ms)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };

	assert_int_equal(pipe(c->ready), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		struct interrupt interrupt = { 0 };
		struct child child = { 0 };
		struct signals s;

		setpgid(0, 0);
		signal(SIGHUP, SIG_DFL); /* nohup(1) may have started the tests */
		if (signals_open(&s) < 0) {
			_exit(98);
		}
		interrupt_begin(&interrupt, &s, &child, patience_ms);
		dup2(c->ready[1], STDOUT_FILENO);
		if (!script) {
			say_ready();
		} else if (child_start(&child, "/bin/sh", argv, NULL, &s.inherited) < 0) {
			_exit(97);
		}
		loop(&s, &child);
	}
	close(c->ready[1]);
}

static void begin(struct client *c, const char *script,
		  void (*loop)(struct signals *s, struct child *child))
{
	begin_with(c, script, loop, PATIENCE_MS);
}

static void expect_ready(struct client *c)
{
	char byte;

	assert_int_equal(read(c->ready[0], &byte, 1), 1);
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
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_client_that_is_held_up_ends)
{
	static const int signos[] = { SIGINT, SIGTERM, SIGHUP };
	struct client c;

	for (size_t i = 0; i < ARRAY_SIZE(signos); i++) {
		begin(&c, NULL, hang);
		expect_ready(&c);
		kill(c.pid, signos[i]);
		assert_int_equal(end_of(&c), 128 + signos[i]);
	}
}

/* It gets the signal, and says with what it ends. */
TEST(its_program_ends_first)
{
	struct client c;

	begin(&c, "trap 'exit 7' INT; echo; while :; do sleep 0.05; done", hang);
	expect_ready(&c);
	kill(c.pid, SIGINT);
	assert_int_equal(end_of(&c), 7);
	begin(&c, "echo; while :; do sleep 0.05; done", hang);
	expect_ready(&c);
	kill(c.pid, SIGTERM);
	assert_int_equal(end_of(&c), 128 + SIGTERM);
}

TEST(a_program_that_goes_on_is_waited_for)
{
	struct client c;

	begin(&c,
	      "trap 'told=1' INT; echo; until [ $told ]; do sleep 0.05; done; sleep 1.2; exit 9",
	      hang);
	expect_ready(&c);
	kill(c.pid, SIGINT);
	assert_int_equal(end_of(&c), 9);
}

/* Each signal when the one before was taken, and long enough after it. */
static int end_by_three(int patience_ms)
{
	struct client c;
	char byte;

	begin_with(&c, NULL, go_on, patience_ms);
	while (read(c.ready[0], &byte, 1) == 1 && kill(c.pid, SIGINT) == 0) {
		poll(NULL, 0, 2 * patience_ms);
	}
	return end_of(&c);
}

TEST(a_client_that_goes_on_is_left_alone)
{
	static const int patience_ms[] = { PATIENCE_MS, 2000, 8000 };
	struct client c;
	int status = -1;

	for (size_t i = 0; i < ARRAY_SIZE(patience_ms) && status != 3; i++) {
		status = end_by_three(patience_ms[i]); /* else it was stalled for so long */
	}
	assert_int_equal(status, 3);
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

static bool blocks(pid_t pid, int signo)
{
	char path[64], line[128];
	unsigned long long blocked = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "SigBlk: %llx", &blocked);
	}
	fclose(f);
	return blocked >> (signo - 1) & 1;
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
	/* A thread sanitizer blocks every signal for a moment as a program begins. */
	for (int i = 0; i < LONG_MS / 10 && (!blocks(c.pid, SIGINT) || blocks(c.pid, SIGALRM));
	     i++) {
		poll(NULL, 0, 10);
	}
	assert_true(blocks(c.pid, SIGINT) && !blocks(c.pid, SIGALRM));
	kill(c.pid, SIGINT);
	assert_int_equal(end_of(&c), 128 + SIGINT);
}

TEST(it_ends_when_it_is_told)
{
	struct interrupt i = { 0 };
	struct child child = { 0 };
	struct signals s;

	assert_int_equal(signals_open(&s), 0);
	interrupt_begin(&i, &s, &child, LONG_MS);
	assert_true(i.running);
	interrupt_end(&i);
	assert_false(i.running);
	interrupt_end(&i);
	signals_release(&s);
	signals_close(&s);
}
