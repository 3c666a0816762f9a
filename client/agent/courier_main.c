/* SPDX-License-Identifier: Apache-2.0 */
/* gpuctr-courier: holds an agent's connection to the daemon (courier.h).
 *
 * The first thread reads from the socket, and notices the program's end; a second thread writes. It
 * sends what the program has queued even after the program's end.
 *
 * In standby, the courier wakes the agent's thread only while the thread has no new seccomp filter.
 * Otherwise it lets the thread sleep for good, and refuses captures itself. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/agent/confined.h"
#include "client/agent/connection.h"
#include "client/agent/courier_shared.h"
#include "client/agent/descriptor.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

enum {
	IDLE_MS = 5000,
	BUSY_MS = 250,
	FULL_MS = 2, /* pause while the ring is full */
	ENDING_MS = 100,
	ORDER_MS = 20,
	DRAIN_S = 10, /* to send what an ended program has queued */
	SEND_MS = 5,  /* at a time, so that looks need not wait for the daemon */
	QUIT_MS = 5000,
	STACK_BYTES = 64 * 1024,
};

static struct courier_shared *shared;
static bool tied = true; /* the program's end of the socket pair is still open */

/* --- looking --- */

enum view { VIEW_CLEAR, VIEW_FILTERED, VIEW_GONE };

/* Looks at the agent's thread. If its status can no longer be read, it counts as filtered. */
static enum view look(void)
{
	pid_t thread = atomic_load(&shared->thread);
	struct filters now;
	uid_t uid;
	int r = filters_of_task(shared->process, thread ? thread : shared->process, &now, &uid);

	if (r == -ENOENT) {
		return VIEW_GONE;
	}
	if (thread && (r < 0 || filters_differ(shared->first, now))) {
		atomic_store(&shared->filtered, 1);
	}
	if (r == 0 && uid != shared->uid && atomic_load(&shared->idle)) {
		shutdown(COURIER_SOCKET, SHUT_RDWR); /* the program has a new user */
	}
	return atomic_load(&shared->filtered) ? VIEW_FILTERED : VIEW_CLEAR;
}

static void look_at_other(void)
{
	pid_t thread = atomic_load(&shared->other_thread);
	struct filters now;
	uid_t uid;

	look();
	atomic_store(&shared->other_filtered,
		     thread != 0 && (filters_of_task(shared->process, thread, &now, &uid) < 0 ||
				     filters_differ(shared->first, now)));
}

/* --- writing --- */

/* Waits while the daemon takes nothing. False: the program quits, and QUIT_MS have passed. */
static bool wait_for_daemon(void)
{
	static unsigned waited_ms;
	struct pollfd p = { COURIER_SOCKET, POLLOUT, 0 };

	if (poll(&p, 1, SEND_MS) != 0) {
		waited_ms = 0;
	} else if (atomic_load(&shared->quit)) {
		waited_ms += SEND_MS;
	}
	return waited_ms < QUIT_MS;
}

static uint32_t send_some(uint32_t n)
{
	uint32_t at = atomic_load(&shared->out.taken) % COURIER_OUT_BYTES;
	ssize_t r;

	n = n < COURIER_OUT_BYTES - at ? n : COURIER_OUT_BYTES - at;
	r = send(COURIER_SOCKET, shared->out_data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (r >= 0) {
		return (uint32_t)r;
	}
	if (errno != EINTR && (errno != EAGAIN || !wait_for_daemon())) {
		atomic_store(&shared->ended, 1);
		shutdown(COURIER_SOCKET, SHUT_RDWR);
	}
	return 0;
}

static void *write_on(void *argument)
{
	for (;;) {
		uint32_t seen = atomic_load(&shared->to_courier);
		uint32_t asked = atomic_load(&shared->look_asked), n = courier_length(&shared->out);

		if (asked != atomic_load(&shared->looked)) {
			look_at_other();
			atomic_store(&shared->looked, asked);
			courier_wake(&shared->to_program);
		} else if (n > 0 && n <= COURIER_OUT_BYTES && !atomic_load(&shared->ended)) {
			atomic_fetch_add(&shared->out.taken, send_some(n));
			courier_wake(&shared->to_program);
		} else if (atomic_load(&shared->quit) || atomic_load(&shared->rest_ms)) {
			shutdown(COURIER_SOCKET, SHUT_RDWR); /* wakes the first thread */
			return NULL;
		} else {
			futex_wait(&shared->to_courier, seen, NULL);
		}
	}
}

/* The program has ended. */
static void send_rest_and_exit(void)
{
	uint64_t by_ns = clock_now_ns() + DRAIN_S * CLOCK_NS_PER_S;

	while (courier_length(&shared->out) > 0 && !atomic_load(&shared->ended) &&
	       clock_now_ns() < by_ns) {
		poll(NULL, 0, 1);
	}
	exit(0);
}

/* --- refusing --- */

static void refuse_all_and_exit(void)
{
	struct connection l = { .fd = COURIER_SOCKET, .file = descriptor_file(COURIER_SOCKET) };
	struct wire_message m;
	int r = -EAGAIN;

	arena_init(&l.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&l.scratch, 2 * LIMIT_UNPACKED_BYTES);
	while ((r == 0 || r == -EAGAIN) && look() != VIEW_GONE) {
		struct pollfd p[2] = { { COURIER_SOCKET, POLLIN, 0 },
				       { tied ? COURIER_LIFE : -1, POLLIN, 0 } };

		poll(p, 2, IDLE_MS);
		tied = tied && p[1].revents == 0;
		r = connection_receive(&l, &m, 0);
		if (r == 0 && m.type == WIRE_AGENT_WELCOME) {
			confined_decline(&l, &m);
		}
	}
	exit(0);
}

/* --- reading --- */

/* False: the connection has ended. */
static bool read_some(void)
{
	char data[COURIER_IN_BYTES];
	uint32_t room = COURIER_IN_BYTES - courier_length(&shared->in);
	ssize_t n;

	if (atomic_load(&shared->idle) && look() == VIEW_FILTERED) {
		refuse_all_and_exit();
	}
	n = recv(COURIER_SOCKET, data, room < sizeof(data) ? room : sizeof(data), MSG_DONTWAIT);
	if (n > 0) {
		courier_put(&shared->in, shared->in_data, COURIER_IN_BYTES, data, (uint32_t)n);
		courier_wake(&shared->to_program);
	}
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* The socket pair has closed. Either the program has ended, or has executed another; or it has
 * closed a descriptor that it does not know, and continues. An ending program's files close before
 * its threads are gone, so this looks for ENDING_MS. */
static void on_tie(void)
{
	for (int i = 0; i < ENDING_MS; i++) {
		if (look() == VIEW_GONE) {
			send_rest_and_exit();
		}
		poll(NULL, 0, 1);
	}
	tied = false;
}

static void read_on(void)
{
	bool there = true;

	while (there && !atomic_load(&shared->quit) && !atomic_load(&shared->rest_ms)) {
		bool full = courier_length(&shared->in) >= COURIER_IN_BYTES;
		struct pollfd p[2] = { { full ? -1 : COURIER_SOCKET, POLLIN, 0 },
				       { tied ? COURIER_LIFE : -1, POLLIN, 0 } };
		int n = poll(p, 2,
			     full				  ? FULL_MS
			     : atomic_load(&shared->idle) && tied ? IDLE_MS
								  : BUSY_MS);

		if (p[1].revents) {
			on_tie();
		} else if (n == 0 && look() == VIEW_GONE) {
			send_rest_and_exit();
		}
		there = !p[0].revents || read_some();
	}
}

/* --- the end --- */

static void tell_end(void)
{
	if (atomic_load(&shared->idle) && look() == VIEW_FILTERED) {
		exit(0);
	}
	atomic_store(&shared->ended, 1);
	courier_wake(&shared->to_program);
}

static void wait_tied(int ms)
{
	struct pollfd p = { tied ? COURIER_LIFE : -1, POLLIN, 0 };

	if (poll(&p, 1, ms) > 0) {
		on_tie();
	} else if (look() == VIEW_GONE) {
		exit(0);
	}
}

static void rest(void)
{
	uint64_t now_ns = clock_now_ns();
	uint64_t by_ns = now_ns + (uint64_t)atomic_load(&shared->rest_ms) * CLOCK_NS_PER_MS;

	while (now_ns < by_ns) {
		uint64_t ms = (by_ns - now_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;

		wait_tied(tied || ms < BUSY_MS ? (int)ms : BUSY_MS);
		now_ns = clock_now_ns();
	}
	if (look() == VIEW_CLEAR) {
		atomic_store(&shared->rested, 1);
		courier_wake(&shared->to_program);
	}
}

/* The connection has ended. */
static void wait_for_order(void)
{
	while (!atomic_load(&shared->quit) && !atomic_load(&shared->rest_ms)) {
		wait_tied(ORDER_MS);
	}
}

static void close_all_others(void)
{
	struct rlimit limit;

	close(0);
	close(1);
	close(2);
	if (syscall(SYS_close_range, COURIER_LIFE + 1, ~0U, 0) < 0 &&
	    getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		for (rlim_t fd = COURIER_LIFE + 1; fd < limit.rlim_cur && fd < 65536; fd++) {
			close((int)fd);
		}
	}
}

int main(void)
{
	pthread_attr_t attributes;
	pthread_t writer;
	uint32_t starts = COURIER_STARTS;

	setsid();
	close_all_others();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, COURIER_SHARED, 0);
	if (shared == MAP_FAILED || chdir("/") < 0) {
		return 1;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (pthread_create(&writer, &attributes, write_on, NULL) != 0) {
		return 1;
	}
	if (!atomic_compare_exchange_strong(&shared->start, &starts, COURIER_READY)) {
		return 1; /* the program has given up waiting */
	}
	courier_wake(&shared->to_program);
	if (shared->has_socket) {
		read_on();
	}
	tell_end();
	wait_for_order();
	pthread_join(writer, NULL); /* it has sent the queued bytes */
	close(COURIER_SOCKET);
	if (atomic_load(&shared->rest_ms)) {
		rest();
	}
	return 0;
}
