/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/standby.h"

#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "tests/system/footprint.h"
#include "tests/system/raw.h"

/* Programs that wait for captures, as the daemon sees them: the test is the agents and the clients.
 * All of them are one process, whose pid the kernel tells; leases are shared, or that process of
 * root's would stand in the way of other users. */

enum { IDLE = 2000, IDLE_BYTES_MAX = 64 << 20, IDLE_BYTES_OF = 10000 };

static void start(struct fixture *f)
{
	fixture_start_daemon(f, "--set", "sharing=shared", NULL);
}

static void wait_for_count(int client, size_t n)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (standby_count(client) != n) {
		assert_true(now_ms() < by);
		sleep_ms(10);
	}
}

/* --- registering --- */

#define FIXTURE_TEST(f) TEST_WITH(f, standby_setup, standby_teardown)

FIXTURE_TEST(a_program_registers_and_is_listed)
{
	struct fixture *f = *state;
	struct gpuctr_registered_process p = { 0 };
	struct standby_agent a;
	int client;

	start(f);
	client = raw_client(f, USER_ANN);
	assert_int_equal(standby_list(client, &p), 0);
	a = standby_register(f, USER_ANN);
	assert_int_equal(standby_list(client, &p), 1);
	assert_int_equal(p.process, a.id);
	assert_int_equal(p.pid, getpid());
	assert_int_equal(p.uid, geteuid() == 0 ? USER_ANN : geteuid());
	assert_string_equal(p.program, "python3");
	assert_int_equal(p.capture, 0);
	assert_string_equal(p.holder, "");
	assert_int_equal(p.n_claims, 2);
	assert_string_equal(p.claims[0], "SLURM_JOB_ID=4711");
	assert_string_equal(p.claims[1], "RANK=3");
	close(a.fd);
	wait_for_count(client, 0);
	close(client);
}

FIXTURE_TEST(a_long_list_comes_in_frames)
{
	enum { MANY = 600 };
	static struct standby_agent a[MANY];
	struct fixture *f = *state;
	struct gpuctr_registered_process p = { 0 };
	int client;

	start(f);
	for (size_t i = 0; i < MANY; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	client = raw_client(f, USER_ANN);
	assert_int_equal(standby_list(client, &p), MANY);
	assert_int_equal(p.process, a[MANY - 1].id);
	for (size_t i = 0; i < MANY; i++) {
		close(a[i].fd);
	}
	close(client);
}

FIXTURE_TEST(others_are_neither_listed_nor_captured)
{
	struct fixture *f = *state;
	struct standby_agent a;
	int bob, root;

	fixture_need_two_users();
	start(f);
	a = standby_register(f, USER_ANN);
	bob = raw_client(f, USER_BOB);
	root = raw_client(f, USER_SELF);
	assert_int_equal(standby_count(bob), 0);
	assert_int_equal(standby_count(root), 1);
	standby_wish(bob, 1, &a.id);
	standby_expect_refusal(bob, GPUCTR_E_NOT_ALLOWED, "is none of yours");
	expect_text_soon(f->daemon->err, fixture_user(USER_ANN, "")); /* the log knows whose */
	standby_expect_silence(a.fd);
	close(bob);
	close(root);
	close(a.fd);
}

FIXTURE_TEST(the_quota_is_its_own)
{
	struct fixture *f = *state;
	struct standby_agent a[8], more;
	int client;

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", "registered-per-user=8", "--set", "connections-per-user=2",
			     NULL);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	standby_hello(f, USER_ANN, &more);
	raw_expect_refused(more.fd, GPUCTR_E_QUOTA);
	client = raw_client(f, USER_ANN); /* nor do they count among the connections */
	assert_int_equal(standby_count(client), ARRAY_SIZE(a));
	more = standby_register(f, USER_BOB);
	close(more.fd);
	close(a[0].fd);
	wait_for_count(client, ARRAY_SIZE(a) - 1);
	a[0] = standby_register(f, USER_ANN);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
		close(a[i].fd);
	}
	close(client);
}

/* Whoever comes first leaves as many places as it takes. */
FIXTURE_TEST(one_user_does_not_keep_others_out)
{
	struct fixture *f = *state;
	struct standby_agent ann[5], bob[2], more;

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", "registered=10", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ann); i++) {
		ann[i] = standby_register(f, USER_ANN);
	}
	standby_hello(f, USER_ANN, &more);
	raw_expect_refused(more.fd, GPUCTR_E_QUOTA);
	expect_text_soon(f->daemon->err, "as many as are left for all other users");
	for (size_t i = 0; i < ARRAY_SIZE(bob); i++) {
		bob[i] = standby_register(f, USER_BOB);
	}
	standby_hello(f, USER_BOB, &more);
	raw_expect_refused(more.fd, GPUCTR_E_QUOTA);
	for (size_t i = 0; i < 3; i++) { /* root of the machine takes what is left */
		standby_register(f, USER_SELF);
	}
	standby_hello(f, USER_SELF, &more);
	raw_expect_refused(more.fd, GPUCTR_E_QUOTA);
	for (size_t i = 0; i < ARRAY_SIZE(ann); i++) {
		close(ann[i].fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bob); i++) {
		close(bob[i].fd);
	}
}

/* --- captures --- */

FIXTURE_TEST(three_captures_one_after_another)
{
	struct fixture *f = *state;
	struct gpuctr_registered_process p = { 0 };
	struct standby_agent a, b;
	uint32_t ids[2];
	int client, device;

	start(f);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	ids[0] = b.id; /* in the order in which they are named */
	ids[1] = a.id;
	client = raw_client(f, USER_ANN);
	device = raw_control_device();
	for (unsigned round = 1; round <= 3; round++) {
		struct wire_message m, permission;
		uint32_t id;

		standby_wish(client, 2, ids);
		id = standby_expect_ready(client);
		standby_expect_welcome(&a);
		standby_expect_welcome(&b);
		assert_int_equal(a.capture, id);
		assert_int_equal(b.number, 1);
		assert_int_equal(a.number, 2);
		m = standby_expect(client, WIRE_PROCESS);
		assert_int_equal(m.process.process, 1);
		assert_int_equal(m.process.pid, getpid());
		assert_string_equal(m.process.program, "python3");
		assert_int_equal(standby_expect(client, WIRE_PROCESS).process.process, 2);
		assert_int_equal(standby_list(client, &p), 2);
		assert_int_equal(p.capture, id);
		assert_non_null(strstr(p.holder, "capture, pid"));
		permission = raw_permission(a.token, (uint32_t)RAW_CLIENT, 0x5c0000e0);
		assert_true(raw_ask(f, USER_ANN, &permission, device).granted);

		standby_close_capture(client, id);
		standby_expect_stop(&a, 0);
		standby_expect_stop(&b, 0);
		standby_goodbye(&a, 10 * round);
		m = standby_expect(client, WIRE_PROCESS_END);
		assert_int_equal(m.process_end.process, 2);
		assert_true(m.process_end.clean);
		assert_int_equal(m.process_end.totals.measured, 10 * round);
		standby_goodbye(&b, 1);
		assert_int_equal(standby_expect(client, WIRE_PROCESS_END).process_end.process, 1);
		m = standby_expect(client, WIRE_CAPTURE_END);
		assert_int_equal(m.capture_end.code, 0);
		assert_int_equal(m.capture_end.processes, 2);
		assert_int_equal(m.capture_end.totals.measured, 10 * round + 1);
		assert_int_equal(standby_list(client, &p), 2);
		assert_int_equal(p.capture, 0);
		assert_false(raw_ask(f, USER_ANN, &permission, device).granted);
		for (uint64_t by = now_ms() + PATIENCE_MS;
		     fixture_count(f, "objects", "0x5c0000e0") != 0;) {
			assert_true(now_ms() < by);
			sleep_ms(10);
		}
	}
	close(device);
	close(client);
	close(a.fd);
	close(b.fd);
	expect_no_owner(f);
}

FIXTURE_TEST(what_cannot_be_captured_says_why)
{
	struct fixture *f = *state;
	struct standby_agent a;
	uint32_t unknown = 4711, some[2], id;
	char text[64];
	int client, other;

	start(f);
	a = standby_register(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	other = raw_client(f, USER_ANN);
	standby_wish(client, 1, &unknown);
	standby_expect_refusal(client, GPUCTR_E_BAD_REQUEST, "no process 4711 is in standby");
	some[0] = a.id;
	some[1] = unknown;
	standby_wish(client, 2, some);
	standby_expect_refusal(client, GPUCTR_E_BAD_REQUEST, "no process 4711 is in standby");
	standby_wish(client, 1, &a.id); /* a refused wish holds nothing */
	id = standby_expect_ready(client);
	standby_expect_welcome(&a);
	standby_wish(other, 1, &a.id);
	snprintf(text, sizeof(text), "is measured by capture %u of ", id);
	standby_expect_refusal(other, GPUCTR_E_GPU_BUSY, text);
	close(a.fd);
	standby_expect(client, WIRE_PROCESS);
	assert_false(standby_expect(client, WIRE_PROCESS_END).process_end.clean);
	standby_wish(other, 1, &a.id);
	snprintf(text, sizeof(text), "process %u has ended", a.id);
	standby_expect_refusal(other, GPUCTR_E_BAD_REQUEST, text);
	close(client);
	close(other);
}

static void expect_left_out(int client, uint32_t capture, uint32_t process, int code,
			    const char *text)
{
	struct wire_message m = standby_expect(client, WIRE_NOTICE);

	assert_int_equal(m.notice.capture, capture);
	assert_int_equal(m.notice.process, 0);
	assert_int_equal(m.notice.registered, process);
	assert_int_equal(m.notice.code, code);
	if (!strstr(m.notice.message, text)) {
		fail_msg("told \"%s\", not \"%s\"", m.notice.message, text);
	}
}

/* Between the list and the wish some end, and some while it waits for its turn: the others are
 * measured, and the client is told. */
FIXTURE_TEST(those_that_have_ended_are_left_out_and_told)
{
	struct fixture *f = *state;
	struct standby_agent holder, a, b, c;
	uint32_t ids[3], first, id;
	int client, other, watcher;

	start(f);
	holder = standby_register(f, USER_ANN);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	c = standby_register(f, USER_ANN);
	ids[0] = a.id;
	ids[1] = b.id;
	ids[2] = c.id;
	other = raw_client(f, USER_ANN);
	watcher = raw_client(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	close(a.fd);
	wait_for_count(watcher, 3);
	standby_wish(other, 1, &holder.id);
	first = standby_expect_ready(other);
	standby_expect_welcome(&holder);
	standby_wish(client, 3, ids);
	id = standby_expect(client, WIRE_OPENED).opened.capture;
	standby_expect(client, WIRE_QUEUED);
	close(b.fd);
	wait_for_count(watcher, 2);
	standby_close_capture(other, first);
	standby_expect_stop(&holder, 0);
	standby_goodbye(&holder, 1);
	assert_int_equal(standby_expect(client, WIRE_READY).ready.capture, id);
	standby_expect_welcome(&c);
	assert_int_equal(c.number, 1);
	expect_left_out(client, id, a.id, GPUCTR_E_AGENT_LOST, "has ended");
	expect_left_out(client, id, b.id, GPUCTR_E_AGENT_LOST, "has ended");
	assert_int_equal(standby_expect(client, WIRE_PROCESS).process.process, 1);
	standby_close_capture(client, id);
	standby_expect_stop(&c, 0);
	close(client);
	close(other);
	close(watcher);
	close(c.fd);
	close(holder.fd);
}

/* Between the list and the wish another capture takes some. */
FIXTURE_TEST(those_that_are_busy_are_left_out_and_told)
{
	struct fixture *f = *state;
	struct standby_agent a, b;
	uint32_t ids[3], first, id;
	int client, other;
	char text[64];

	setenv("GPUCTR_FAKE_GPUS", "2", 1);
	start(f);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	ids[0] = a.id;
	ids[1] = ids[2] = b.id; /* twice is once */
	other = raw_client(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	standby_wish_on(other, "0", 1, &a.id);
	first = standby_expect_ready(other);
	standby_expect_welcome(&a);
	standby_wish_on(client, "1", 3, ids);
	id = standby_expect_ready(client);
	snprintf(text, sizeof(text), "is measured by capture %u of ", first);
	expect_left_out(client, id, a.id, GPUCTR_E_GPU_BUSY, text);
	assert_int_equal(standby_expect(client, WIRE_PROCESS).process.process, 1);
	standby_expect_welcome(&b);
	assert_int_equal(b.capture, id);
	standby_expect_silence(a.fd);
	standby_close_capture(client, id);
	standby_expect_stop(&b, 0);
	standby_goodbye(&b, 1);
	standby_expect(client, WIRE_PROCESS_END);
	assert_int_equal(standby_expect(client, WIRE_CAPTURE_END).capture_end.processes, 1);
	standby_expect_silence(a.fd); /* the other capture's goes on */
	close(client);
	close(other);
	close(a.fd);
	close(b.fd);
}

FIXTURE_TEST(a_client_that_goes_lets_them_go)
{
	struct fixture *f = *state;
	struct standby_agent a;
	int client;

	start(f);
	a = standby_register(f, USER_ANN);
	for (int closes = 0; closes < 2; closes++) { /* with a word before, and without */
		uint32_t id;

		client = raw_client(f, USER_ANN);
		standby_wish(client, 1, &a.id);
		id = standby_expect_ready(client);
		standby_expect_welcome(&a);
		standby_expect(client, WIRE_PROCESS); /* unread, it would be a reset */
		if (closes) {
			standby_close_capture(client, id);
		}
		close(client);
		standby_expect_stop(&a, closes ? 0 : GPUCTR_E_DISCONNECTED);
		standby_goodbye(&a, 1);
		standby_expect_silence(a.fd); /* it is not closed */
	}
	client = raw_client(f, USER_ANN);
	standby_wish(client, 1, &a.id);
	standby_expect_ready(client);
	standby_expect_welcome(&a);
	close(client);
	close(a.fd);
	expect_no_owner(f);
}

FIXTURE_TEST(who_says_no_goodbye_is_closed)
{
	struct fixture *f = *state;
	struct standby_agent a;
	int client;

	start(f);
	a = standby_register(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	standby_wish(client, 1, &a.id);
	standby_expect_ready(client);
	standby_expect_welcome(&a);
	close(client);
	standby_expect_stop(&a, GPUCTR_E_DISCONNECTED);
	raw_expect_closed(a.fd);
	a = standby_register(f, USER_ANN);
	close(a.fd);
	expect_no_owner(f);
}

/* What it says of a capture that it is not in ends its connection, as with any agent. */
FIXTURE_TEST(who_waits_has_nothing_to_say)
{
	struct fixture *f = *state;
	struct standby_agent a;
	struct wire_message m = { .type = WIRE_PROGRESS };

	start(f);
	a = standby_register(f, USER_ANN);
	standby_goodbye(&a, 5); /* of a capture that has just ended */
	standby_expect_silence(a.fd);
	assert_true(raw_send(a.fd, &m, -1));
	raw_expect_refused(a.fd, GPUCTR_E_PROTOCOL);
}

/* Nor does it count for a capture that names it and has had no turn. */
FIXTURE_TEST(who_waits_for_a_turn_has_nothing_to_say)
{
	struct fixture *f = *state;
	struct standby_agent a, b;
	int first, second;
	uint32_t id;

	start(f);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	first = raw_client(f, USER_ANN);
	second = raw_client(f, USER_ANN);
	standby_wish(first, 1, &a.id);
	standby_expect_ready(first);
	standby_expect_welcome(&a);
	standby_wish(second, 1, &b.id);
	id = standby_expect(second, WIRE_OPENED).opened.capture;
	standby_expect(second, WIRE_QUEUED);
	standby_goodbye(&b, 1000);
	sleep_ms(100);
	standby_close_capture(second, id);
	assert_int_equal(standby_expect(second, WIRE_CAPTURE_END).capture_end.totals.seen, 0);
	close(first);
	close(second);
	close(a.fd);
	close(b.fd);
}

FIXTURE_TEST(nobody_waits_for_those_that_have_ended)
{
	struct fixture *f = *state;
	struct standby_agent a, b;
	int client, waiting;
	uint32_t id;

	start(f);
	a = standby_register(f, USER_ANN);
	b = standby_register(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	waiting = raw_client(f, USER_ANN);
	standby_wish(client, 1, &a.id);
	id = standby_expect_ready(client);
	standby_expect_welcome(&a);
	standby_wish(waiting, 1, &b.id);
	standby_expect(waiting, WIRE_OPENED);
	standby_expect(waiting, WIRE_QUEUED);
	standby_expect_silence(b.fd); /* its turn has not come */
	close(b.fd);
	assert_int_equal(standby_expect(waiting, WIRE_CAPTURE_END).capture_end.code,
			 GPUCTR_E_AGENT_LOST);
	standby_close_capture(client, id);
	standby_expect_stop(&a, 0);
	close(a.fd);
	close(client);
	close(waiting);
	expect_no_owner(f);
}

/* --- which GPUs --- */

static void tell_where_it_runs(struct fixture *f, const char *gpu)
{
	FILE *file = fopen(fixture_path(f, "nvml_processes"), "w");

	assert_non_null(file);
	fprintf(file, "%s %d\n", gpu, (int)getpid());
	assert_int_equal(fclose(file), 0);
}

FIXTURE_TEST(a_capture_leases_the_gpus_that_its_processes_use)
{
	struct fixture *f = *state;
	struct standby_agent a;
	uint32_t id;
	int client;

	setenv("GPUCTR_FAKE_GPUS", "3", 1);
	start(f);
	unsetenv("GPUCTR_FAKE_GPUS");
	a = standby_register(f, USER_ANN);
	client = raw_client(f, USER_ANN);
	for (int i = 0; i < 3; i++) { /* seen nowhere; seen on one; named */
		struct wire_message m;

		if (i == 1) {
			tell_where_it_runs(f, "1");
		}
		standby_wish_on(client, i == 2 ? "2" : NULL, 1, &a.id);
		m = standby_expect(client, WIRE_OPENED);
		id = m.opened.capture;
		assert_int_equal(m.opened.gpus.n, i == 0 ? 3 : 1);
		assert_int_equal(m.opened.gpus.v[0].index, i);
		standby_expect(client, WIRE_READY);
		standby_expect_welcome(&a);
		assert_int_equal(a.n_gpus, i == 0 ? 3 : 1);
		standby_close_capture(client, id);
		standby_expect_stop(&a, 0);
		standby_goodbye(&a, 1);
		standby_expect(client, WIRE_PROCESS);
		standby_expect(client, WIRE_PROCESS_END);
		standby_expect(client, WIRE_CAPTURE_END);
	}
	close(client);
	close(a.fd);
}

/* --- root --- */

FIXTURE_TEST(root_measures_others_and_the_log_names_them)
{
	struct fixture *f = *state;
	struct wire_message permission, whole;
	struct raw_answer answer;
	struct standby_agent ann, bob;
	uint32_t ids[2];
	int root, device;

	fixture_need_two_users();
	fixture_start_daemon(f, "--set", "sharing=shared", "--set", "operator-captures=yes", NULL);
	ann = standby_register(f, USER_ANN);
	bob = standby_register(f, USER_BOB);
	root = raw_client(f, USER_SELF);
	ids[0] = ann.id;
	ids[1] = bob.id;
	standby_wish(root, 2, ids);
	standby_expect_refusal(root, GPUCTR_E_BAD_REQUEST, "several users");
	standby_wish(root, 1, ids);
	standby_expect_ready(root);
	standby_expect_welcome(&ann);
	expect_text_soon(f->daemon->err, fixture_user(USER_ANN, ""));
	expect_text_soon(f->daemon->err, "measures programs of");
	device = raw_control_device();
	permission = raw_permission(ann.token, (uint32_t)RAW_CLIENT, 0x5c0000e0);
	assert_false(raw_ask(f, USER_BOB, &permission, device).granted);
	whole = permission; /* root's entitlement does not come with root's token */
	whole.permission_request.client_target = whole.permission_request.context_target = 0;
	answer = raw_ask(f, USER_ANN, &whole, device);
	assert_false(answer.granted);
	assert_int_equal(answer.code, GPUCTR_E_NOT_ALLOWED);
	assert_true(raw_ask(f, USER_ANN, &permission, device).granted);
	close(device);
	close(root);
	close(ann.fd);
	close(bob.fd);
	expect_no_owner(f);
}

/* --- the daemon's end, and its costs --- */

FIXTURE_TEST(they_register_again_with_the_next_daemon)
{
	struct fixture *f = *state;
	struct standby_agent a;
	int client;

	start(f);
	a = standby_register(f, USER_ANN);
	fixture_stop_daemon(f);
	raw_expect_closed(a.fd);
	start(f);
	client = raw_client(f, USER_ANN);
	assert_int_equal(standby_count(client), 0);
	a = standby_register(f, USER_ANN);
	assert_int_equal(standby_count(client), 1);
	close(a.fd);
	close(client);
}

/* Of the front: clock ticks that it has worked. */
static unsigned long worked(struct fixture *f)
{
	char path[64], *text;
	unsigned long user = 0, system = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)fixture_worker(f, "front"));
	text = read_file(path);
	assert_non_null(text);
	assert_int_equal(sscanf(strrchr(text, ')') + 2,
				"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
				&system),
			 2);
	free(text);
	return user + system;
}

FIXTURE_TEST(two_thousand_cost_nearly_nothing)
{
	static struct standby_agent a[IDLE];
	struct fixture *f = *state;
	struct footprint before, after;
	struct rlimit limit;
	unsigned long begin;
	long kib;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 2 * IDLE || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		fixture_skip("not as many descriptors may be open");
	}
	start(f);
	close(standby_register(f, USER_ANN).fd);
	footprint_take(f, &before);
	for (size_t i = 0; i < IDLE; i++) {
		a[i] = standby_register(f, USER_ANN);
	}
	footprint_take(f, &after);
	begin = worked(f);
	sleep_ms(3000);
	begin = worked(f) - begin;
	kib = after.of[1].resident_kib - before.of[1].resident_kib;
	print_message("%d programs in standby: %ld KiB, %.2f KiB each; %lu ms of work in 3 s\n",
		      IDLE, kib, (double)kib / IDLE, begin * 1000 / sysconf(_SC_CLK_TCK));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(kib * 1024 / IDLE <= IDLE_BYTES_MAX / IDLE_BYTES_OF);
#endif
	/* A tenth of a second in three: what is looked at regularly is not looked at for each. */
	assert_true(begin * 1000 / sysconf(_SC_CLK_TCK) <= 100);
	for (size_t i = 0; i < IDLE; i++) {
		close(a[i].fd);
	}
}
