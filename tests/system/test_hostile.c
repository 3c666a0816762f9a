/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/nvidia/rm.h"
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

static void show_fds(pid_t pid)
{
	char path[64], entry[320], link[256];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)) != NULL) {
		ssize_t n;

		snprintf(entry, sizeof(entry), "%s/%.200s", path, e->d_name);
		n = readlink(entry, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		print_error("%s %s\n", e->d_name, link);
	}
	if (d) {
		closedir(d);
	}
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
			show_fds(b->front);
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

SYSTEM_TEST(bad_payloads_end_their_own_connection)
{
	static const char *const payloads[] = {
		"\xff",
		"\x08",
		"\x1a\xff\xff\xff\xff\x0f",
		"\x1a\x02\xc0\x80",
		"\x1a\x01\xff",
		"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
	};
	struct fixture *f = *state;
	struct bystander b;
	uint64_t random = 77;
	uint8_t *noise = malloc(LIMIT_FRAME_BYTES);

	bystander_begin(&b, f);
	for (size_t i = 0; i < ARRAY_SIZE(payloads); i++) {
		int fd = raw_connect(f, USER_ANN);

		assert_true(raw_send_header(fd, (uint32_t)strlen(payloads[i]), WIRE_HELLO, 0));
		assert_true(raw_send_bytes(fd, payloads[i], strlen(payloads[i]), -1));
		raw_expect_refused(fd, GPUCTR_E_PROTOCOL);
		bystander_read(&b);
	}
	for (int round = 0; round < 20;
	     round++) { /* frames of the largest size, of noise and of empty messages */
		int fd = raw_client(f, USER_ANN);

		for (size_t i = 0; i < LIMIT_FRAME_BYTES; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			noise[i] = round % 2 ? (uint8_t)(random >> 56) : i % 2 ? 0 : 0x12;
		}
		raw_send_header(fd, LIMIT_FRAME_BYTES, WIRE_OPEN_CAPTURE, 0);
		raw_send_bytes(fd, noise, LIMIT_FRAME_BYTES, -1);
		raw_expect_refused(fd, GPUCTR_E_PROTOCOL);
		bystander_read(&b);
	}
	free(noise);
	bystander_end(&b, f);
}

/* Half messages are normal: a hello may come byte by byte, and a peer may go at any of them. */
SYSTEM_TEST(pieces_are_put_together)
{
	const struct wire_message hello = { .type = WIRE_HELLO,
					    .hello = { PROTO_VERSION, "piecewise" } };
	struct fixture *f = *state;
	struct bystander b;
	struct buffer frame = { 0 };
	struct arena a;
	unsigned fds;
	int fd;

	bystander_begin(&b, f);
	fds = fds_at_rest(&b);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&a, &frame, &hello), 0);
	for (size_t n = 0; n <= buffer_length(&frame); n++) { /* goes in the middle */
		fd = raw_connect(f, USER_ANN);
		assert_true(raw_send_bytes(fd, frame.data, n, -1));
		close(fd);
		bystander_read(&b);
	}
	fd = raw_connect(f, USER_ANN);
	for (size_t i = 0; i < buffer_length(&frame); i++) {
		assert_true(raw_send_bytes(fd, frame.data + i, 1, -1));
		bystander_read(&b);
	}
	assert_int_equal(raw_receive(fd, &a).type, WIRE_WELCOME);
	assert_int_equal(shutdown(fd, SHUT_WR), 0); /* says nothing more */
	raw_expect_closed(fd);
	buffer_deinit(&frame);
	arena_deinit(&a);
	expect_fds(&b, fds);
	bystander_end(&b, f);
}

SYSTEM_TEST(a_storm_of_connections)
{
	struct fixture *f = *state;
	struct bystander b;
	unsigned fds;

	bystander_begin(&b, f);
	fds = fds_at_rest(&b);
	for (int i = 0; i < 3000; i++) {
		int fd = raw_connect(f, USER_ANN);

		if (i % 3 == 0) {
			raw_send_header(fd, 0, (uint16_t)i, 0);
		}
		close(fd);
		if (i % 100 == 0) {
			bystander_read(&b);
		}
	}
	expect_fds(&b, fds);
	bystander_end(&b, f);
}

SYSTEM_TEST(a_user_has_so_many_connections)
{
	struct fixture *f = *state;
	int fds[200], refused = 0;

	fixture_need_root();
	fixture_start_daemon(f, "--set", "connections-per-user=20", NULL);
	for (size_t i = 0; i < 20; i++) {
		fds[i] = raw_client(f, USER_ANN);
	}
	for (size_t i = 20; i < 30; i++) {
		raw_expect_refused(raw_connect(f, USER_ANN), GPUCTR_E_QUOTA);
		refused++;
	}
	assert_int_equal(refused, 10);
	expect_service(f, 1000); /* Bob is not affected */
	for (size_t i = 0; i < 20; i++) {
		close(fds[i]);
	}
	close(raw_client(f, USER_ANN));
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

/* --- agents --- */

SYSTEM_TEST(an_agent_with_a_wrong_token_is_refused)
{
	static const char *const tokens[] = { "0", "0123456789abcdef0123456789abcdef" };
	struct fixture *f = *state;
	struct bystander b;

	bystander_begin(&b, f);
	for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
		const struct wire_message hello = {
			.type = WIRE_AGENT_HELLO,
			.agent_hello = { .version = PROTO_VERSION, .token = tokens[i] },
		};
		int fd = raw_connect(f, USER_ANN);

		assert_true(raw_send(fd, &hello, -1));
		raw_expect_refused(fd, GPUCTR_E_BAD_TOKEN);
	}
	if (geteuid() == 0) {
		const struct wire_message hello = {
			.type = WIRE_AGENT_HELLO,
			.agent_hello = { .version = PROTO_VERSION, .token = recorder_token(&b.r) },
		};
		int fd = raw_connect(f, USER_ANN); /* Bob's */

		assert_true(raw_send(fd, &hello, -1));
		raw_expect_refused(fd, GPUCTR_E_BAD_TOKEN);
	}
	bystander_end(&b, f);
}

SYSTEM_TEST(an_agent_speaks_only_for_itself)
{
	struct fixture *f = *state;
	struct bystander b;
	uint32_t process;

	bystander_begin(&b, f);
	for (int i = 0; i < 6; i++) {
		int fd = raw_agent(f, USER_BOB, recorder_token(&b.r), &process);
		struct wire_message m[] = {
			{ .type = WIRE_RECORDS,
			  .records = { b.r.id + 1, process, 0, 1, { 0, NULL } } },
			{ .type = WIRE_RECORDS,
			  .records = { b.r.id, 1, 0, 1, { 0, NULL } } }, /* the bystander's program
									  */
			{ .type = WIRE_PROGRESS, .progress = { b.r.id, 1, { .seen = 5 } } },
			{ .type = WIRE_NOTICE, .notice = { b.r.id, 1, 1, "not me", "" } },
			{ .type = WIRE_RAW_IMAGE,
			  .raw_image = { .capture = b.r.id, .process = 1 } },
			{ .type = WIRE_PROCESS, .process = { .capture = b.r.id, .process = 1 } },
		};

		assert_true(raw_send(fd, &m[i], -1));
		raw_expect_refused(fd, GPUCTR_E_PROTOCOL);
		bystander_read(&b);
	}
	bystander_end(&b, f);
}

/* Records that cannot be read are left out and told; those of the others are not touched. */
SYSTEM_TEST(an_agent_that_sends_rubbish_is_told_of)
{
	static const uint8_t rubbish[] = { 0xff, 0xff, 0xff, 0xff };
	struct fixture *f = *state;
	struct bystander b;
	uint32_t process;
	uint64_t by;
	int fd;

	bystander_begin(&b, f);
	fd = raw_agent(f, USER_BOB, recorder_token(&b.r), &process);
	for (int i = 0; i < 10; i++) {
		const struct wire_message m = {
			.type = WIRE_RECORDS,
			.records = { b.r.id, process, 0, 10, { sizeof(rubbish), rubbish } },
		};

		assert_true(raw_send(fd, &m, -1));
	}
	for (by = now_ms() + PATIENCE_MS; !recorder_has_notice(&b.r, GPUCTR_E_PROTOCOL);) {
		assert_true(now_ms() < by);
		recorder_for(&b.r, 10);
	}
	close(fd);
	for (by = now_ms() + PATIENCE_MS; b.r.unclean == 0;) {
		assert_true(now_ms() < by);
		recorder_for(&b.r, 10);
	}
	b.r.totals.measured = 0;
	recorder_until_records(&b.r, b.r.records + 100);
	program_kill(b.program, SIGTERM);
	expect_signal(b.program, SIGTERM);
	recorder_close(&b.r);
	assert_int_equal(b.r.disorder, 0);
	assert_int_equal(b.r.gaps, 0);
	expect_balance(&b.r.totals);
	recorder_disconnect(&b.r);
	expect_service(f, 1000);
}

/* A client may end only what is its own. */
SYSTEM_TEST(captures_of_others_are_out_of_reach)
{
	struct fixture *f = *state;
	struct bystander b;
	int fd;

	bystander_begin(&b, f);
	fd = raw_client(f, USER_ANN);
	for (uint32_t id = 0; id < 10; id++) {
		const struct wire_message close_it = { .type = WIRE_CLOSE_CAPTURE,
						       .close_capture = { id } };

		assert_true(raw_send(fd, &close_it, -1));
	}
	recorder_for(&b.r, 50);
	assert_false(b.r.ended);
	close(fd);
	bystander_end(&b, f);
}

/* --- slow readers --- */

/* A client that asks and asks and never reads is not read either, until it does. */
SYSTEM_TEST(a_client_that_never_reads_is_not_read)
{
	const struct wire_message ask = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };
	const struct timeval patience = { .tv_usec = 200 * 1000 };
	struct fixture *f = *state;
	struct bystander b;
	unsigned asked = 0;
	struct arena a;
	int fd;

	bystander_begin(&b, f);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	fd = raw_client(f, USER_ANN);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	while (asked < 200000 && raw_send(fd, &ask, -1)) {
		asked++;
		recorder_for(&b.r, asked % 1000 == 0);
	}
	assert_true(asked < 200000);
	for (unsigned i = 0; i < asked; i++) {
		assert_int_equal(raw_receive(fd, &a).type, WIRE_STATUS_REPLY);
		recorder_for(&b.r, i % 1000 == 0);
	}
	close(fd);
	arena_deinit(&a);
	bystander_end(&b, f);
}

/* What was produced is what was delivered and what was counted as dropped, to the last kernel,
 * although the reader stopped for a while; a capture on the other GPU does not notice. */
SYSTEM_TEST(a_slow_client_loses_nothing_uncounted)
{
	struct fixture *f = *state;
	struct recorder slow, good;
	struct program *p, *q;

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	fixture_start_daemon(f, NULL);
	{
		static const char *const gpus[] = { "0", "1" };
		struct gpuctr_capture_options o = recorder_options();

		o.n_gpus = 1;
		o.gpus = &gpus[0];
		recorder_connect(&slow, f, USER_ANN);
		recorder_open(&slow, &o);
		o.gpus = &gpus[1];
		recorder_connect(&good, f, USER_BOB);
		recorder_open(&good, &o);
	}
	p = recorder_start(&slow, f, FAKEAPP, "--kernels", "400000", NULL);
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	q = recorder_start(&good, f, FAKEAPP, "--kernels", "1500", "--sleep-us", "1000", NULL);
	while (good.records < 1500) { /* meanwhile nobody reads for the slow one */
		assert_int_equal(gpuctr_dispatch(good.g, 20), 0);
	}
	expect_exit(q, 0);
	recorder_close(&good);
	assert_int_equal(good.totals.measured, 1500);
	assert_int_equal(good.totals.dropped, 0);
	while (count_text(p->out, "done") == 0) {
		recorder_for(&slow, 20);
	}
	recorder_for(&slow, 200);
	expect_exit(p, 0);
	recorder_close(&slow);
	assert_int_equal(slow.totals.seen, 400000);
	assert_int_equal(slow.records, slow.totals.measured);
	assert_int_equal(slow.totals.measured + slow.totals.dropped, 400000);
	assert_int_equal(slow.totals.lost + slow.totals.failed + slow.totals.unready, 0);
	assert_int_equal(slow.disorder, 0);
	expect_balance(&slow.totals);
	recorder_disconnect(&slow);
	recorder_disconnect(&good);
}

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
