/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* Peers that mean no good, and those that do not keep up. While they are at it, Bob's capture goes
 * on: whole, in order, to its end. */

struct bystander {
	struct recorder r;
	struct program *program;
	pid_t front;
};

static void bystander_begin(struct bystander *b, struct fixture *f)
{
	fixture_start_daemon(f, NULL);
	recorder_connect(&b->r, f, USER_BOB);
	b->program =
		recorder_start(&b->r, f, FAKEAPP, "--kernels", "100000", "--sleep-us", "500", NULL);
	b->front = fixture_worker(f, "front");
	recorder_until_records(&b->r, 100);
}

/* For a moment; on a slow machine its program would have to drop records otherwise. */
static void bystander_read(struct bystander *b)
{
	recorder_for(&b->r, 1);
}

static void bystander_end(struct bystander *b, struct fixture *f)
{
	uint64_t records = b->r.records;

	recorder_until_records(&b->r, records + 100); /* still at it */
	program_kill(b->program, SIGTERM);
	expect_signal(b->program, SIGTERM);
	recorder_close(&b->r);
	assert_int_equal(b->r.disorder, 0);
	assert_int_equal(b->r.gaps, 0);
	assert_int_equal(b->r.records, b->r.totals.measured);
	assert_int_equal(b->r.totals.dropped, 0);
	expect_balance(&b->r.totals);
	recorder_disconnect(&b->r);
	assert_int_equal(fixture_worker(f, "front"), b->front); /* not a new one */
	expect_service(f, 1000);
}

/* Before anything is done: the bystander's program may have asked for a grant a moment ago. */
static unsigned fds_at_rest(struct bystander *b)
{
	unsigned n = 0;
	int steady = 0;

	for (int i = 0; i < 500 && steady < 20; i++) {
		unsigned now = (unsigned)process_descriptors(b->front);

		steady = now == n ? steady + 1 : 0;
		n = now;
		sleep_ms(10);
		bystander_read(b);
	}
	return n;
}

/* No more, soon and to stay: connections may still be waiting to be accepted, and what a user sent
 * is closed by a thread of its own, which may have been at one when they were counted. */
static void expect_fds(struct bystander *b, unsigned n)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	size_t now = 0;

	for (int steady = 0; steady < 20;) {
		if (now_ms() >= by) {
			fail_msg("%zu descriptors instead of %u", now, n);
		}
		now = process_descriptors(b->front);
		steady = now <= n && now + 1 >= n ? steady + 1 : 0;
		sleep_ms(10);
		bystander_read(b);
	}
}

/* --- frames --- */

SYSTEM_TEST(bad_frames_end_their_own_connection)
{
	static const struct {
		uint32_t size;
		uint16_t type, zero;
	} headers[] = {
		{ LIMIT_FRAME_BYTES + 1, WIRE_HELLO, 0 },
		{ UINT32_MAX, WIRE_HELLO, 0 },
		{ 0x80000000, WIRE_HELLO, 0 },
		{ 4, WIRE_HELLO, 1 },
		{ 0, WIRE_HELLO, 0xffff },
		{ 0, 0, 0 },
		{ 0, 0xffff, 0 },
		{ 0, 99, 0 },
		{ 0, WIRE_RECORD_COLUMNS, 0 },
		{ 0, WIRE_WELCOME, 0 },
		{ 0, WIRE_REFUSAL, 0 },
		{ 0, WIRE_READY, 0 },
		{ 0, WIRE_CAPTURE_END, 0 },
		{ 0, WIRE_RECORDS, 0 },
		{ 0, WIRE_GOODBYE, 0 },
		{ 0, WIRE_STATUS_REQUEST, 0 },
		{ 0, WIRE_OPEN_CAPTURE, 0 },
		{ 0, WIRE_HELLO, 0 }, /* of version 0 */
	};
	struct fixture *f = *state;
	struct bystander b;

	bystander_begin(&b, f);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		int fd = raw_connect(f, USER_ANN);

		assert_true(raw_send_header(fd, headers[i].size, headers[i].type, headers[i].zero));
		raw_expect_refused(fd, GPUCTR_E_PROTOCOL);
		bystander_read(&b);
	}
	for (uint16_t type = 0; type < 60; type++) { /* and once it is a client */
		const bool allowed = type == WIRE_METRICS_REQUEST || type == WIRE_PLAN_REQUEST ||
				     type == WIRE_STATUS_REQUEST || type == WIRE_OPEN_CAPTURE ||
				     type == WIRE_CLOSE_CAPTURE || type == WIRE_PROCESSES_REQUEST ||
				     type == WIRE_JOB_BEGIN || type == WIRE_JOB_END;
		int fd = raw_client(f, USER_ANN);

		assert_true(raw_send_header(fd, 0, type, 0));
		if (allowed) {
			close(fd);
		} else {
			raw_expect_refused(fd, GPUCTR_E_PROTOCOL);
		}
		bystander_read(&b);
	}
	bystander_end(&b, f);
}

/* Supplementary groups count, however many there are. */
SYSTEM_TEST(a_member_of_very_many_groups_is_let_in)
{
	struct fixture *f = *state;
	gid_t groups[5000];

	fixture_need_root();
	fixture_start_strict_daemon(f, "--set", "allow-groups=7777", NULL);
	assert_int_equal(chmod(f->socket, 0666), 0); /* the kernel would keep her away */
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		groups[i] = (gid_t)(10000 + i);
	}
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	raw_expect_refused(raw_connect(f, USER_ANN), GPUCTR_E_NOT_ALLOWED);
	groups[ARRAY_SIZE(groups) - 1] = 7777;
	assert_int_equal(setgroups(ARRAY_SIZE(groups), groups), 0);
	close(raw_client(f, USER_ANN));
	assert_int_equal(setgroups(0, NULL), 0);
}

/* --- descriptors --- */

SYSTEM_TEST(descriptors_are_taken_only_where_they_belong)
{
	static const size_t numbers[] = { 1, 2, 3, 253 };
	const struct wire_message hello = { .type = WIRE_HELLO, .hello = { PROTO_VERSION, "fds" } };
	struct fixture *f = *state;
	struct bystander b;
	struct buffer frame = { 0 };
	struct arena a;
	unsigned fds;

	bystander_begin(&b, f);
	fds = fds_at_rest(&b);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&a, &frame, &hello), 0);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		int fd = raw_connect(f, USER_ANN);

		raw_send_descriptors(fd, frame.data, buffer_length(&frame), STDIN_FILENO,
				     numbers[i]);
		if (numbers[i] == 1) { /* it comes along unclaimed; a second one is too much */
			assert_int_equal(raw_receive(fd, &a).type, WIRE_WELCOME);
			raw_send_descriptors(fd, frame.data, 4, STDIN_FILENO, 1);
		}
		raw_expect_closed(fd);
		expect_fds(&b, fds); /* none stays */
	}
	buffer_deinit(&frame);
	arena_deinit(&a);
	bystander_end(&b, f);
}

/* --- slow readers --- */

/* The front holds no device, and the granter nothing but its link. */
SYSTEM_TEST(the_front_opens_no_device)
{
	struct fixture *f = *state;
	char path[64], link[256], entry[320];
	struct bystander b;
	struct dirent *e;
	DIR *d;

	fixture_need_root_to_look();
	bystander_begin(&b, f);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)b.front);
	d = opendir(path);
	while (d && (e = readdir(d)) != NULL) {
		ssize_t n;

		snprintf(entry, sizeof(entry), "%s/%.200s", path, e->d_name);
		n = readlink(entry, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (strstr(link, "nvidia")) {
			fail_msg("the front holds %s", link);
		}
	}
	assert_non_null(d);
	closedir(d);
	bystander_end(&b, f);
}
