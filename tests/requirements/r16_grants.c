/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

#include <math.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R16: how long a permission takes: connect, ask with the open control device, hear the answer. On
 * the way are the front, the granter, and the fake driver's ioctl. For comparison the same bytes go
 * to a process that answers at once and does nothing else: what is left are the two processes of
 * the daemon in between. The aims are 200 us (p50) and 2 ms (p99); what is compared is how many
 * bare round trips a permission takes. What else runs on the machine can spoil a measurement, never
 * improve it: one that is too bad is repeated. */

enum {
	RATIO_P50_MAX = 18,
	RATIO_P99_MAX = 30,
	BLOCK = 500,
	MEASUREMENTS = 6,
	FIRST_OBJECT = 0x5c100000,
};

/* Answers each connection's first bytes with as many as a PermissionReply has. */
static pid_t start_echo(struct fixture *f, char *path, size_t size)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char data[512] = { 0 };
	pid_t pid;

	snprintf(path, size, "%s.echo", f->socket);
	assert_true(strlen(path) < sizeof(a.sun_path));
	strcpy(a.sun_path, path);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 16), 0);
	pid = fork();
	if (pid == 0) {
		for (;;) {
			int fd = accept(listener, NULL, NULL);

			recv(fd, data, sizeof(data), 0);
			send(fd, data, 10, MSG_NOSIGNAL);
			close(fd);
		}
	}
	close(listener);
	return pid;
}

static void ask_echo(const char *path, const struct wire_message *m, int device,
		     struct latencies *l)
{
	uint64_t began = clock_now_ns();
	int fd = raw_dial(path);
	char data[64];

	assert_true(raw_send(fd, m, device));
	while (recv(fd, data, sizeof(data), 0) > 0) {
	}
	close(fd);
	latencies_add(l, clock_now_ns() - began);
}

/* Who asks faster than the daemon closes is refused until it has: the time is that of the request
 * which it took. */
static void ask_daemon(struct fixture *f, const struct wire_message *m, int device,
		       struct latencies *l)
{
	uint64_t began = clock_now_ns();
	struct raw_answer answer = raw_ask(f, USER_SELF, m, device);

	while (answer.code == GPUCTR_E_QUOTA) {
		sleep_ms(1);
		began = clock_now_ns();
		answer = raw_ask(f, USER_SELF, m, device);
	}
	latencies_add(l, clock_now_ns() - began);
	assert_true(answer.granted);
}

struct asker {
	struct fixture *f;
	struct recorder recorder;
	uint32_t object; /* the next one */
	int device;
	char echo[128];
};

/* In turns, so that both meet the same moments of the machine. */
static void measure(struct asker *a, size_t blocks, struct latencies *granted,
		    struct latencies *bare)
{
	granted->n = bare->n = 0;
	for (size_t i = 0; i < blocks * BLOCK; i++) {
		const struct wire_message m =
			raw_permission(recorder_token(&a->recorder), 0xc1d00001, a->object++);

		ask_daemon(a->f, &m, a->device, granted);
		ask_echo(a->echo, &m, a->device, bare);
	}
}

/* The least of each that was measured. */
struct ratios {
	double p50, p99;
};

static void compare(struct latencies *granted, struct latencies *bare, struct ratios *least)
{
	double p50 = latencies_us(granted, 50) / latencies_us(bare, 50);
	double p99 = latencies_us(granted, 99) / latencies_us(bare, 99);

	requirement_figure("R16",
			   "%zu permissions: p50 %.0f us, p99 %.0f us; a bare round trip "
			   "%.0f, %.0f; ratio %.1f, %.1f",
			   granted->n, latencies_us(granted, 50), latencies_us(granted, 99),
			   latencies_us(bare, 50), latencies_us(bare, 99), p50, p99);
	least->p50 = p50 < least->p50 ? p50 : least->p50;
	least->p99 = p99 < least->p99 ? p99 : least->p99;
}

static bool is_soon(const struct ratios *r)
{
	return r->p50 <= RATIO_P50_MAX && r->p99 <= RATIO_P99_MAX;
}

static void expect_soon(struct asker *a)
{
	struct latencies bare = { 0 }, granted = { 0 };
	struct ratios least = { INFINITY, INFINITY };

	for (int i = 0; i < (requirement_times_count() ? MEASUREMENTS : 1) && !is_soon(&least);
	     i++) {
		measure(a, requirement_amount(20, 200), &granted, &bare);
		compare(&granted, &bare, &least);
	}
	assert_true(is_soon(&least) || !requirement_times_count());
	latencies_deinit(&bare);
	latencies_deinit(&granted);
}

SYSTEM_TEST(permissions_come_soon)
{
	const struct gpuctr_capture_options options = recorder_options();
	struct fixture *f = *state;
	struct asker a = { .f = f, .object = FIRST_OBJECT, .device = raw_control_device() };
	pid_t pid;

	fixture_limit(600);
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	pid = start_echo(f, a.echo, sizeof(a.echo));
	recorder_connect(&a.recorder, f, USER_SELF);
	recorder_open(&a.recorder, &options);
	recorder_until(&a.recorder, &a.recorder.ready);
	expect_soon(&a);
	recorder_close(&a.recorder);
	recorder_disconnect(&a.recorder);
	close(a.device);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_service(f, 1000);
}
