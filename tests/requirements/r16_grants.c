/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

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
 * bare round trips a permission takes. */

enum { RATIO_P50_MAX = 8, RATIO_P99_MAX = 10, BLOCK = 500, FIRST_OBJECT = 0x5c100000 };

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

static void ask_daemon(struct fixture *f, const struct wire_message *m, int device,
		       struct latencies *l)
{
	uint64_t began = clock_now_ns();
	struct raw_answer answer = raw_ask(f, USER_SELF, m, device);

	latencies_add(l, clock_now_ns() - began);
	assert_true(answer.granted);
}

static void permissions_come_soon(void **state)
{
	const size_t blocks = requirement_amount(20, 200);
	struct latencies bare = { 0 }, granted = { 0 };
	uint32_t object = FIRST_OBJECT;
	int device = raw_control_device();
	const struct gpuctr_capture_options options = recorder_options();
	struct fixture *f = *state;
	double p50, p99;
	struct recorder r;
	char echo[128];
	pid_t pid;

	fixture_limit(180);
	fixture_start_daemon(f, NULL);
	expect_service(f, 1000);
	pid = start_echo(f, echo, sizeof(echo));
	recorder_connect(&r, f, USER_SELF);
	recorder_open(&r, &options);
	recorder_until(&r, &r.ready);
	for (size_t i = 0; i < blocks; i++) {
		for (int k = 0; k < BLOCK; k++) {
			const struct wire_message m =
				raw_permission(recorder_token(&r), 0xc1d00001, object++);

			ask_daemon(f, &m, device, &granted);
			ask_echo(echo, &m, device, &bare);
		}
	}
	p50 = latencies_us(&granted, 50) / latencies_us(&bare, 50);
	p99 = latencies_us(&granted, 99) / latencies_us(&bare, 99);
	requirement_figure("R16",
			   "%zu permissions: p50 %.0f us, p99 %.0f us; a bare round trip "
			   "%.0f, %.0f; ratio %.1f, %.1f",
			   blocks * BLOCK, latencies_us(&granted, 50), latencies_us(&granted, 99),
			   latencies_us(&bare, 50), latencies_us(&bare, 99), p50, p99);
	if (requirement_times_count()) {
		assert_true(p50 <= RATIO_P50_MAX && p99 <= RATIO_P99_MAX);
	}
	recorder_close(&r);
	recorder_disconnect(&r);
	close(device);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect_service(f, 1000);
	latencies_deinit(&bare);
	latencies_deinit(&granted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYSTEM_TEST(permissions_come_soon),
	};

	return SYSTEM_RUN(tests);
}
