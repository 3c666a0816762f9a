/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R8: a GPU has one lease at a time; it runs out at its end; what was granted under it is gone from
 * the driver within 100 ms; and then the next in the queue is served. */

enum { REVOKED_MS = 100, LEASE_MAX_S = 3, ROOT_HANDLE = 0xc1d00001, FREE = 0x29 };

/* --- what the driver has seen --- */

/* Unix time at which the driver freed the object; 0: it has not. */
static uint64_t freed_ns(struct fixture *f, uint32_t object)
{
	CLEAN_FREE char *log = read_file(fixture_path(f, "ioctl.log"));
	unsigned long long ns, last = 0;
	unsigned nr, handle;
	char *save = NULL;

	for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%llu %*d %*u %*d %x %*u %*x %*x %*x %x", &ns, &nr, &handle) ==
			    3 &&
		    nr == FREE && handle == object) {
			last = ns;
		}
	}
	return last;
}

static uint64_t wait_freed_ns(struct fixture *f, uint32_t object)
{
	uint64_t ns;

	wait_until((ns = freed_ns(f, object)) != 0);
	return ns;
}

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

static void count_time(double ms, double *worst)
{
	*worst = ms > *worst ? ms : *worst;
	if (requirement_times_hold()) {
		assert_true(ms <= REVOKED_MS);
	}
}

static uint32_t next_object(void)
{
	static uint32_t object = 0x5c100000;

	return object++;
}

static bool is_granted(struct fixture *f, int uid, const char *token, int device, uint32_t object)
{
	const struct wire_message m = raw_permission(token, ROOT_HANDLE, object);

	return raw_ask_patiently(f, uid, &m, device).granted;
}

/* --- the end of a lease --- */

struct holder {
	struct fixture *f;
	int socket, device, agent;
	uint32_t capture, process, object;
	char token[64];
	uint64_t ends_ns; /* Unix time, at the latest */
};

/* Ann's, until it is ready. */
static void open_holder(struct holder *h, struct fixture *f)
{
	static const char *const metrics[] = { "dram__bytes_read.sum" };
	const struct wire_message open = {
		.type = WIRE_OPEN_CAPTURE,
		.open_capture = { .request = 1, .metrics = { 1, metrics } },
	};
	struct wire_message m;
	struct arena a;

	*h = (struct holder){ .f = f, .agent = -1, .device = raw_control_device() };
	h->socket = raw_client(f, USER_ANN);
	assert_true(raw_send(h->socket, &open, -1));
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	do {
		m = raw_receive(h->socket, &a);
		assert_int_not_equal(m.type, WIRE_CAPTURE_END);
	} while (m.type != WIRE_READY);
	h->capture = m.ready.capture;
	h->ends_ns = clock_wall_ns() + LEASE_MAX_S * CLOCK_NS_PER_S;
	snprintf(h->token, sizeof(h->token), "%s", m.ready.token);
	arena_deinit(&a);
}

static void close_holder(struct holder *h)
{
	const struct wire_message close_it = { .type = WIRE_CLOSE_CAPTURE,
					       .close_capture = { h->capture } };

	assert_true(raw_send(h->socket, &close_it, -1));
}

/* None where the machine was too busy to ask in time. */
static void get_object(struct holder *h)
{
	uint32_t object = next_object();
	bool granted = is_granted(h->f, USER_ANN, h->token, h->device, object);

	assert_true(granted || clock_wall_ns() >= h->ends_ns);
	h->object = granted ? object : 0;
}

static void free_holder(struct holder *h)
{
	close(h->socket);
	close(h->device);
	if (h->agent >= 0) {
		close(h->agent);
	}
}

/* Given back, or gone: what was granted is freed at once. */
SYSTEM_TEST(what_is_given_back_is_freed)
{
	size_t rounds = requirement_amount(50, 5000);
	struct fixture *f = *state;
	double worst = 0;

	fixture_limit(3000);
	setenv("GPUCTR_FAKE_LOG_KIB", "4096", 1);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < rounds; i++) {
		struct holder h;
		uint64_t begin;

		open_holder(&h, f);
		get_object(&h);
		begin = clock_wall_ns();
		if (i % 2) {
			close_holder(&h);
		} else {
			shutdown(h.socket, SHUT_RDWR);
		}
		count_time(ms_between(begin, wait_freed_ns(f, h.object)), &worst);
		assert_false(is_granted(f, USER_ANN, h.token, h.device, next_object()));
		free_holder(&h);
	}
	expect_service(f, PATIENCE_MS);
	requirement_figure("R8", "%zu leases given back or left: objects freed within %.1f ms",
			   rounds, worst);
}

/* Less than 0: its program could not attach before the end. */
static double expire(struct fixture *f)
{
	const struct gpuctr_capture_options options = recorder_options();
	struct recorder next;
	struct holder h;
	uint64_t come_ns;
	double ms = -1;

	open_holder(&h, f);
	recorder_connect(&next, f, USER_BOB); /* else it had no end */
	recorder_open(&next, &options);
	recorder_until(&next, &next.opened);
	come_ns = clock_wall_ns();
	h.ends_ns = come_ns + CLOCK_NS_PER_S > h.ends_ns ? come_ns + CLOCK_NS_PER_S : h.ends_ns;
	get_object(&h);
	if (h.object) {
		h.agent = raw_agent(f, USER_ANN, h.token, &h.process);
		ms = ms_between(h.ends_ns, wait_freed_ns(f, h.object));
		close(h.agent); /* it has been told to stop */
		h.agent = -1;
	}
	assert_false(is_granted(f, USER_ANN, h.token, h.device, next_object()));
	recorder_until(&next, &next.ready);
	assert_true(is_granted(f, USER_BOB, recorder_token(&next), h.device, next_object()));
	recorder_close(&next);
	assert_int_equal(next.end_code, 0);
	recorder_disconnect(&next);
	free_holder(&h);
	return ms;
}

/* In every state of its capture it does so by the table of broker.c (tests/unit/test_broker.c), and
 * while an object is asked for in the granter's box. */
SYSTEM_TEST(a_lease_runs_out)
{
	size_t rounds = requirement_amount(4, 100);
	struct fixture *f = *state;
	double worst = 0;

	fixture_limit(3000);
	setenv("GPUCTR_FAKE_LOG_KIB", "4096", 1);
	fixture_start_daemon(f, "--set", "lease-max=3s", NULL);
	for (size_t i = 0; i < rounds; i++) {
		double ms = -1;

		for (int tries = 0; ms < 0 && tries < 20; tries++) {
			ms = expire(f);
		}
		assert_true(ms >= 0);
		count_time(ms, &worst);
	}
	expect_no_objects(f);
	requirement_figure("R8",
			   "%zu leases run out: objects freed within %.1f ms, the next user served",
			   rounds, worst);
}

/* A front that hangs answers for no lease. When it goes on it hears so, and serves again. */
SYSTEM_TEST(a_front_that_hangs_keeps_no_lease)
{
	struct fixture *f = *state;
	uint64_t begin, freed;
	struct holder h;

	fixture_start_daemon(f, NULL);
	open_holder(&h, f);
	get_object(&h);
	begin = clock_wall_ns();
	kill(fixture_worker(f, "front"), SIGSTOP);
	freed = wait_freed_ns(f, h.object);
	kill(fixture_worker(f, "front"), SIGCONT);
	expect_text_soon(f->daemon->err, "the front says nothing: every lease is over");
	expect_text_soon(f->daemon->err, "lease revoked: ");
	expect_service_soon(f, PATIENCE_MS);
	free_holder(&h);
	expect_no_objects(f);
	requirement_figure("R8", "a front that hangs: objects freed after %.1f s",
			   ms_between(begin, freed) / 1e3);
}
