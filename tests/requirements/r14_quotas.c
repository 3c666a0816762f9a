/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/broker/account.h"
#include "daemon/front/peer.h"
#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"

/* R14: what a user may have waiting in the daemon: 16 MiB, and all users 768 MiB. Each refusal says
 * which quota it was. Numbers of connections and captures are counted in the front's box
 * (front_crowd), and that others have their share of the time all the same is r14_turns.c. */

enum {
	CONNECTIONS = 64,
	USER_CROWD = 5000, /* the first of many users */
};

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		close(fds[i]);
	}
}

/* The front's memory now, beyond before. */
static long front_growth_kib(struct fixture *f, const struct footprint *before)
{
	struct footprint now;

	footprint_take(f, &now);
	return now.of[1].resident_kib - before->of[1].resident_kib;
}

static void expect_bounded(struct fixture *f, const struct footprint *before, const char *what)
{
	long kib = front_growth_kib(f, before);

	requirement_figure("R14", "%s: the front holds %.1f MiB more", what, (double)kib / 1024);
	if (requirement_times_count()) { /* a sanitizer keeps what is freed */
		assert_true(kib <= (ACCOUNT_BYTES_MAX >> 10) + FOOTPRINT_GROWTH_KIB);
	}
}

/* --- bytes --- */

/* To all at the same time, as much as each takes, until all has been taken or nothing is for so
 * long. */
static void send_side_by_side(const int *fds, size_t n, const uint8_t *data, size_t size,
			      int patience_ms)
{
	size_t sent[CONNECTIONS] = { 0 };
	struct pollfd p[CONNECTIONS];
	size_t open = n;

	while (open > 0) {
		for (size_t i = 0; i < n; i++) {
			p[i] = (struct pollfd){ sent[i] < size ? fds[i] : -1, POLLOUT, 0 };
		}
		if (poll(p, n, patience_ms) <= 0) {
			return;
		}
		for (size_t i = 0; i < n; i++) {
			ssize_t r = p[i].revents ? send(fds[i], data + sent[i], size - sent[i],
							MSG_DONTWAIT | MSG_NOSIGNAL)
						 : 0;

			sent[i] = r < 0 ? size : sent[i] + (size_t)r;
			open -= p[i].revents && sent[i] == size;
		}
	}
}

static uint8_t *make_large_frame(uint16_t type)
{
	uint8_t *frame = calloc(1, FRAME_HEADER_BYTES + LIMIT_FRAME_BYTES);

	assert_non_null(frame);
	memcpy(frame, (const uint8_t[]){ 0, 0, LIMIT_FRAME_BYTES >> 16, 0, (uint8_t)type }, 5);
	return frame;
}

/* Halves of frames, as large as they may be, on all connections. Nobody ends them: they do not even
 * fill the account, because above a mark one is read at a time, and that one is closed. */
SYSTEM_TEST(halves_of_frames)
{
	struct latencies quiet = { 0 }, during = { 0 };
	struct fixture *f = *state;
	CLEAN_FREE uint8_t *frame = make_large_frame(WIRE_OPEN_CAPTURE);
	struct footprint before;
	int fds[CONNECTIONS], bob;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	bob = raw_client(f, USER_BOB);
	load_take_footprint(f, &before);
	load_ask(bob, &quiet, 300);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = raw_client(f, USER_ANN);
	}
	send_side_by_side(fds, CONNECTIONS, frame, LIMIT_FRAME_BYTES, 1000);
	expect_bounded(f, &before, "64 connections with nearly a frame of 1 MiB each");
	load_ask(bob, &during, 300);
	requirement_figure("R14", "another user's p99 meanwhile / before: %.2f",
			   latencies_us(&during, 99) / latencies_us(&quiet, 99));
	expect_text_soon(f->daemon->err, "holds up its siblings with half a message");
	expect_service(f, 1000);
	close_all(fds, CONNECTIONS);
	expect_no_leak(f, &before);
	close(bob);
	latencies_deinit(&quiet);
	latencies_deinit(&during);
}

enum {
	EACH = 4,   /* connections of a user, whose halves stay below what makes them take turns */
	MANY = 250, /* more than there is memory for, as many as there are connections for */
	HALVES_NEED_MIB = 2 * (ACCOUNT_ALL_BYTES_MAX >> 20),
};

static void need_memory(unsigned mib)
{
	char *text = read_file("/proc/meminfo");
	const char *line = text ? strstr(text, "MemAvailable:") : NULL;
	bool enough = line && strtoul(line + strlen("MemAvailable:"), NULL, 10) >> 10 >= mib;

	free(text); /* before a skip, which does not return */
	if (!requirement_times_count() || !enough) {
		fixture_skip("a sanitizer, or a machine without memory for it");
	}
}

/* The same by as many users as it takes, all of whom may measure, and each is within its share.
 * Others are served again when the halves have had their time. */
SYSTEM_TEST(halves_of_frames_of_many_users)
{
	static int fds[MANY * EACH];
	struct fixture *f = *state;
	CLEAN_FREE uint8_t *frame = NULL;
	struct footprint before;
	long kib;

	fixture_need_root();
	need_memory(HALVES_NEED_MIB);
	frame = make_large_frame(WIRE_OPEN_CAPTURE);
	fixture_start_daemon(f, NULL);
	close(raw_client(f, USER_ANN));
	load_take_footprint(f, &before);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = raw_client(f, USER_CROWD + (int)(i / EACH));
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i += EACH) {
		send_side_by_side(fds + i, EACH, frame, LIMIT_FRAME_BYTES, 1000);
	}
	kib = front_growth_kib(f, &before);
	requirement_figure(
		"R14",
		"%d users who may measure, with nearly %d frames of 1 MiB each: the front "
		"holds %.1f MiB more",
		MANY, EACH, (double)kib / 1024);
	assert_true(kib <= (ACCOUNT_ALL_BYTES_MAX >> 10) + 16 * FOOTPRINT_GROWTH_KIB);
	close(raw_client(f, USER_SELF)); /* root is served all the while */
	expect_text_soon(f->daemon->err, "has sent half a message and no more: closed");
	expect_service_soon(f, PATIENCE_MS);
	sleep_ms(1000 * PEER_PATIENCE_S);
	kib = front_growth_kib(f, &before);
	requirement_figure("R14", "and %.1f MiB when these have had their time",
			   (double)kib / 1024);
	assert_true(kib <= 3 * (ACCOUNT_ALL_BYTES_MAX >> 12)); /* malloc keeps some of it */
	close_all(fds, ARRAY_SIZE(fds));
}

/* Reads a message: is it that the account is full? */
static bool hears_quota(struct pollfd *p)
{
	struct wire_message m;
	bool told = false;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (raw_next(p->fd, &a, &m)) {
		told = m.type == WIRE_REFUSAL && m.refusal.code == GPUCTR_E_QUOTA &&
		       m.refusal.request == 0;
	} else {
		p->fd = -1;
	}
	arena_deinit(&a);
	return told;
}

/* Reads on all of them side by side, because who was cut off is not waited for long. Returns how
 * many were told why, of so many. */
static unsigned count_told(const int *fds, unsigned cut_off)
{
	struct pollfd p[CONNECTIONS];
	unsigned told = 0;

	for (size_t i = 0; i < CONNECTIONS; i++) {
		p[i] = (struct pollfd){ fds[i], POLLIN, 0 };
	}
	while (told < cut_off && poll(p, CONNECTIONS, PATIENCE_MS) > 0) {
		for (size_t i = 0; i < CONNECTIONS; i++) {
			told += p[i].revents && hears_quota(&p[i]);
		}
	}
	return told;
}

/* All metrics with their descriptions, asked for on all connections and never read. */
SYSTEM_TEST(answers_that_nobody_reads)
{
	const struct wire_message ask = {
		.type = WIRE_METRICS_REQUEST,
		.metrics_request = { .request = 1, .chip = "GH100", .describe = true },
	};
	const unsigned patience_ms = requirement_times_count() ? PATIENCE_MS : 5000;
	struct fixture *f = *state;
	struct footprint before;
	unsigned cut_off, told;
	int fds[CONNECTIONS];
	uint64_t by;

	fixture_need_root();
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	load_take_footprint(f, &before);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = raw_client(f, USER_ANN);
	}
	by = now_ms() + patience_ms;
	while (count_text(f->daemon->err, "cut off") == 0 && now_ms() < by) {
		for (size_t i = 0; i < CONNECTIONS; i++) {
			raw_send(fds[i], &ask, -1);
		}
		sleep_ms(50);
	}
	expect_bounded(f, &before, "answers that nobody reads, on 64 connections");
	cut_off = (unsigned)count_text(f->daemon->err, "cut off");
	told = count_told(fds, cut_off);
	requirement_figure("R14", "%u of them were cut off, %u told why", cut_off, told);
	/* Slow answers, as a sanitizer's, are held back by what is not read before the account is
	 * full. */
	assert_true(told > 0 || (cut_off == 0 && !requirement_times_count()));
	expect_service(f, 2000);
	close_all(fds, CONNECTIONS);
	expect_no_leak(f, &before);
}
