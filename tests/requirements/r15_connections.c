/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R15: a thousand connections that do nothing, while others come, say hello, are welcomed and go,
 * 5,000 a second. All are served, and nothing is left of them. */

enum {
	IDLE = 1000,
	IDLE_OF_A_USER = 50,
	PER_SECOND = 5000,
	VISITORS = 4, /* processes, each of a user of its own */
	USER_CROWD = 5000,
	USER_VISITORS = 6000,
	WINDOW_MS = 1000,
};

/* Connects, says hello, hears the welcome. */
static unsigned visit(const char *path, unsigned worker, uint64_t round)
{
	static const uint8_t hello[] = { 2, 0, 0, 0, WIRE_HELLO, 0, 0, 0, 8, 1 };
	uint8_t answer[64];
	int fd = raw_dial(path);
	ssize_t n = -1;

	(void)worker;
	(void)round;
	if (fd >= 0 && raw_send_bytes(fd, hello, sizeof(hello), -1)) {
		n = recv(fd, answer, sizeof(answer), 0);
	}
	close(fd);
	return n > FRAME_HEADER_BYTES && answer[4] == WIRE_WELCOME;
}

static void come_and_go(struct load *l, int good, struct latencies *during, unsigned seconds)
{
	uint64_t by = now_ms() + 1000 * (uint64_t)seconds;

	load_at_daemon(l);
	while (now_ms() < by) {
		load_ask(good, during, WINDOW_MS);
	}
	load_rest(l);
}

SYSTEM_TEST(connections_come_and_go)
{
	const unsigned seconds = (unsigned)requirement_amount(10, 60);
	struct latencies before = { 0 }, during = { 0 };
	struct footprint footprint;
	struct fixture *f = *state;
	uint64_t visits, welcomes;
	int idle[IDLE], good;
	struct load load;

	fixture_need_root();
	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	load_start(&load, f, VISITORS, USER_VISITORS, visit);
	atomic_store(&load.shared->per_second, PER_SECOND);
	good = raw_client(f, USER_BOB);
	for (int i = 0; i < IDLE; i++) {
		idle[i] = raw_client(f, USER_CROWD + i / IDLE_OF_A_USER);
	}
	load_take_footprint(f, &footprint);
	load_ask(good, &before, WINDOW_MS);
	come_and_go(&load, good, &during, seconds);
	visits = atomic_load(&load.shared->rounds);
	welcomes = atomic_load(&load.shared->messages);
	requirement_figure("R15",
			   "%llu connections in %u s beside %d idle ones: %.0f a second, "
			   "%llu not welcomed",
			   (unsigned long long)visits, seconds, IDLE, (double)visits / seconds,
			   (unsigned long long)(visits - welcomes));
	requirement_figure("R15",
			   "a good client's round trip: p50 %.0f us, p99 %.0f us before; "
			   "%.0f, %.0f meanwhile",
			   latencies_us(&before, 50), latencies_us(&before, 99),
			   latencies_us(&during, 50), latencies_us(&during, 99));
	assert_int_equal(visits, welcomes);
	if (requirement_times_hold()) {
		assert_true(visits >= (uint64_t)seconds * PER_SECOND * 9 / 10);
	}
	requirement_figure("R15", "grew by at most %ld KiB", expect_no_leak(f, &footprint));
	for (int i = 0; i < IDLE; i++) { /* all are still served */
		load_ask(idle[i], &during, 0);
		close(idle[i]);
	}
	load_stop(&load);
	close(good);
	expect_service(f, 1000);
	latencies_deinit(&before);
	latencies_deinit(&during);
}

/* User and system, so far. */
static double cpu_seconds(pid_t pid)
{
	CLEAN_FREE char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	text = read_file(path);
	return (double)strtoull(text, NULL, 10) * 1e-9;
}

/* Without descriptors for one more connection, the front serves those that it has, and looks again
 * once a second: it does not spin. The limit stays with this process, so this is the last test. */
SYSTEM_TEST(without_descriptors_accepting_pauses)
{
	struct latencies served = { 0 };
	struct fixture *f = *state;
	const struct rlimit few = { 1024, 1024 };
	int fds[480], good; /* the front has some of its own, and room for what they may send */
	double cpu;
	pid_t front;

	fixture_need_root();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fixture_start_daemon(f, NULL);
	front = fixture_worker(f, "front");
	good = raw_client(f, USER_BOB);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = raw_connect(f, USER_CROWD + (int)i / IDLE_OF_A_USER);
	}
	expect_text_soon(f->daemon->err, "out of descriptors: not accepting for a second");
	cpu = cpu_seconds(front);
	sleep_ms(2000);
	cpu = cpu_seconds(front) - cpu;
	requirement_figure("R15", "without descriptors the front works %.1f %% of the time",
			   100 * cpu / 2);
	assert_true(cpu < 0.2);
	load_ask(good, &served, 10);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		close(fds[i]);
	}
	close(good);
	expect_service(f, 3000);
	latencies_deinit(&served);
}
