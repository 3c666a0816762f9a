/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R14: whoever asks for a lot waits for it, and nobody else does: a user's requests and questions
 * take turns with others'. Compared is how much of its work a worker does first, in its own time.
 * If this process wakes late, more has been done: what the machine has spoilt is tried again, and
 * the best of some counts. */

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

enum { REQUESTS = 500, QUESTIONS = 4 };

/* Of the front: it answers these by itself. */
static void ask_many(int fd)
{
	static const uint8_t one[] = { 2, 0, 0, 0, WIRE_STATUS_REQUEST, 0, 0, 0, 8, 1 };
	uint8_t all[REQUESTS * sizeof(one)];

	for (size_t i = 0; i < REQUESTS; i++) {
		memcpy(all + i * sizeof(one), one, sizeof(one));
	}
	assert_true(raw_send_bytes(fd, all, sizeof(all), -1));
}

/* Of the planner. */
static void ask_for_metrics(int fd)
{
	const struct wire_message ask = {
		.type = WIRE_METRICS_REQUEST,
		.metrics_request = { .request = 1, .chip = "GH100", .describe = true },
	};

	for (size_t i = 0; i < QUESTIONS; i++) {
		assert_true(raw_send(fd, &ask, -1));
	}
}

static void ask(int fd, const struct wire_message *m, enum wire_type reply)
{
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_true(raw_send(fd, m, -1));
	assert_int_equal(raw_receive(fd, &a).type, reply);
	arena_deinit(&a);
}

/* What Ann asks on each of her connections, and who computes the answers. */
struct flood {
	const char *worker, *what;
	int n;
	void (*ask)(int fd);
	int bobs; /* questions, each after the answer to the last */
};

/* While the front is stopped Ann asks on all her connections, then Bob asks, and again whenever he
 * has his answer. Returns which share of all that the worker then computes comes before his last
 * one. */
static double ask_behind(struct fixture *f, const struct flood *anns,
			 const struct wire_message *bobs, enum wire_type reply)
{
	pid_t front = fixture_worker(f, "front"), pid = fixture_worker(f, anns->worker);
	int fds[CONNECTIONS], bob = raw_client(f, USER_BOB);
	double began, answered, ended;
	struct arena a;

	ask(bob, bobs, reply); /* the first may take longer */
	for (size_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = raw_client(f, USER_ANN);
	}
	began = computed_when_idle_us(pid);
	kill(front, SIGSTOP);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		anns->ask(fds[i]);
	}
	assert_true(raw_send(bob, bobs, -1));
	kill(front, SIGCONT);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(raw_receive(bob, &a).type, reply);
	arena_deinit(&a);
	for (int i = 1; i < anns->bobs; i++) {
		ask(bob, bobs, reply);
	}
	answered = computed_us(pid);
	ended = computed_when_idle_us(pid);
	close_all(fds, CONNECTIONS);
	close(bob);
	return (answered - began) / (ended - began);
}

/* Whoever came first has a share of each round, however much was asked. */
static void expect_turns(struct fixture *f, const struct flood *anns,
			 const struct wire_message *bobs, enum wire_type reply)
{
	double share = 1;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	for (int i = 0; i < TRIES && share > 0.25; i++) {
		double now = ask_behind(f, anns, bobs, reply);

		share = now < share ? now : share;
	}
	requirement_figure(
		"R14",
		"behind %d %s of a user on each of %d connections another has %d answered "
		"after %.1f %% of the %s's work",
		anns->n, anns->what, CONNECTIONS, anns->bobs, 100 * share, anns->worker);
	assert_true(share <= 0.25);
}

SYSTEM_TEST(requests_of_a_user_do_not_hold_up_others)
{
	static const struct flood anns = { "front", "requests", REQUESTS, ask_many, 1 };
	const struct wire_message bobs = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };

	expect_turns(*state, &anns, &bobs, WIRE_STATUS_REPLY);
}

SYSTEM_TEST(questions_of_a_user_do_not_hold_up_others)
{
	static const struct flood anns = { "planner", "questions", QUESTIONS, ask_for_metrics, 5 };
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	const struct wire_message bobs = {
		.type = WIRE_PLAN_REQUEST,
		.plan_request = { 1, "GH100", { 1, metrics } },
	};

	expect_turns(*state, &anns, &bobs, WIRE_PLAN_REPLY);
}
