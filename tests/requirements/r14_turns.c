/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R14: whoever asks for a lot waits for it, and nobody else does: a user's requests take turns with
 * others'. Compared is how much of its work the front does first, in its own time. If this process
 * wakes late, more has been done: what the machine has spoilt is tried again, and the best of some
 * counts. That questions to the planner take turns is seen in the front's box (front_crowd). */

enum { CONNECTIONS = 64, TRIES = 10 };

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		close(fds[i]);
	}
}

/* How much a process has computed since it began. What else runs does not show in it. */
static double computed_us(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1000;
}

static double computed_when_idle_us(pid_t pid)
{
	double before, now = computed_us(pid);

	do {
		before = now;
		sleep_ms(50);
		now = computed_us(pid);
	} while (now > before + 1000);
	return now;
}

enum { REQUESTS = 500 };

static void ask_many(int fd)
{
	static const uint8_t one[] = { 2, 0, 0, 0, WIRE_STATUS_REQUEST, 0, 0, 0, 8, 1 };
	uint8_t all[REQUESTS * sizeof(one)];

	for (size_t i = 0; i < REQUESTS; i++) {
		memcpy(all + i * sizeof(one), one, sizeof(one));
	}
	assert_true(raw_send_bytes(fd, all, sizeof(all), -1));
}

static void ask_once(int fd)
{
	const struct wire_message m = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };

	assert_true(raw_send(fd, &m, -1));
}

static void take_answer(int fd)
{
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(raw_receive(fd, &a).type, WIRE_STATUS_REPLY);
	arena_deinit(&a);
}

/* While the front is stopped Ann asks on all her connections, then Bob asks. Returns which share of
 * all that the front then computes comes before his answer. */
static double ask_behind(struct fixture *f)
{
	pid_t front = fixture_worker(f, "front");
	int fds[CONNECTIONS], bob = raw_client(f, USER_BOB);
	double began, answered, ended;

	ask_once(bob); /* the first may take longer */
	take_answer(bob);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = raw_client(f, USER_ANN);
	}
	began = computed_when_idle_us(front);
	kill(front, SIGSTOP);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		ask_many(fds[i]);
	}
	ask_once(bob);
	kill(front, SIGCONT);
	take_answer(bob);
	answered = computed_us(front);
	ended = computed_when_idle_us(front);
	close_all(fds, CONNECTIONS);
	close(bob);
	return (answered - began) / (ended - began);
}

/* Whoever came first has a share of each round, however much was asked. */
SYSTEM_TEST(requests_of_a_user_do_not_hold_up_others)
{
	struct fixture *f = *state;
	double share = 1;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	for (int i = 0; i < TRIES && share > 0.25; i++) {
		double now = ask_behind(f);

		share = now < share ? now : share;
	}
	requirement_figure("R14",
			   "behind %d requests of a user on each of %d connections another is "
			   "answered after %.1f %% of the front's work",
			   REQUESTS, CONNECTIONS, 100 * share);
	assert_true(share <= 0.25);
}
