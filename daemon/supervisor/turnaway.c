/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/supervisor/turnaway.h"

#include <poll.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "daemon/supervisor/privilege.h"
#include "daemon/supervisor/sockets.h"

/* A connection that nobody accepts makes systemd start the service again as soon as it has failed.
 * After ten starts in ten seconds systemd gives up the socket too, and refuses a start with
 * settings that have been corrected. So waiting clients are answered, and the daemon takes two
 * seconds to fail: then only real faults reach that limit. */

enum { TURNAWAY_MS = 2000, LISTENERS_MAX = 16, BURST = 64 };

static int make_refusal(struct buffer *ret)
{
	const struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { 0, GPUCTR_E_NO_DAEMON,
			     "gpucountd does not start: its settings are wrong",
			     "`gpucountd --check-config` names the line; when it is corrected: "
			     "`systemctl restart gpucountd`." },
	};
	struct arena scratch;
	int r;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	r = wire_encode(&scratch, ret, &m);
	arena_deinit(&scratch);
	return r;
}

/* Bytes from these clients are not read, so they cannot do harm. */
static void answer(int listener, const struct buffer *refusal)
{
	for (int i = 0; i < BURST; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			return;
		}
		send(fd, refusal->data + refusal->start, buffer_length(refusal), MSG_NOSIGNAL);
		close(fd);
	}
}

void turnaway_run(void)
{
	uint64_t by = clock_now_ns() + TURNAWAY_MS * CLOCK_NS_PER_MS, now;
	struct pollfd polled[LISTENERS_MAX];
	int fds[LISTENERS_MAX];
	size_t n = sockets_take_passed(fds, LISTENERS_MAX);
	struct buffer refusal = { 0 };

	if (n == 0 || privilege_enter(false) < 0 || make_refusal(&refusal) != 0) {
		return;
	}
	sd_notify(0, "STATUS=The settings are wrong: see gpucountd --check-config.");
	for (size_t i = 0; i < n; i++) {
		polled[i] = (struct pollfd){ fds[i], POLLIN, 0 };
	}
	while ((now = clock_now_ns()) < by) {
		poll(polled, n, (int)((by - now) / CLOCK_NS_PER_MS) + 1);
		for (size_t i = 0; i < n; i++) {
			answer(fds[i], &refusal);
		}
	}
	buffer_deinit(&refusal);
}
