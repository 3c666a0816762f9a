/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/internal.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* One socket, one input and one output buffer. Calls only append to the output. gpuctr_dispatch()
 * alone reads answers and calls handlers, so a handler never runs inside another call. When the
 * connection breaks, the next dispatch reports this once to all open requests and captures. */

enum { HELLO_TIMEOUT_S = 5, HELLO_ATTEMPTS = 3, READ_BYTES = 256 * 1024 };

const char *gpuctr_version(void)
{
	return GPUCTR_VERSION;
}

const char *gpuctr_error_name(int code)
{
	return status_to_string(code);
}

const char *gpuctr_default_socket(void)
{
	const char *path = getenv("GPUCTR_SOCKET");

	return path && path[0] ? path : GPUCTR_DEFAULT_SOCKET;
}

int gpuctr_fd(const struct gpuctr *g)
{
	return g->fd;
}

short gpuctr_events(const struct gpuctr *g)
{
	return (short)(POLLIN | (buffer_length(&g->out) ? POLLOUT : 0));
}

/* --- connecting --- */

/* The kernel lets only the socket's group connect, so the daemon never sees other users. In a
 * container the group may have no name. */
static int refuse_outsider(struct gpuctr *g)
{
	const char *remedy = "Its folder or socket is not open to you: ask the administrator.";
	char name[64], text[256];
	const struct group *group;
	struct refusal r;
	struct stat st;

	if (stat(g->path, &st) == 0 && (st.st_mode & S_IWGRP) != 0 && st.st_gid != 0) {
		group = getgrgid(st.st_gid);
		snprintf(name, sizeof(name), "%u", (unsigned)st.st_gid);
		snprintf(text, sizeof(text),
			 "Ask the administrator to add you to the group %s (`usermod -aG %s "
			 "USER`), then log in again or use `newgrp`.",
			 group ? group->gr_name : name, group ? group->gr_name : name);
		remedy = text;
	}
	refusal_set(&r, GPUCTR_E_NOT_ALLOWED, remedy,
		    "uid %u may not measure on this machine: it may not connect to %s",
		    (unsigned)geteuid(), g->path);
	return connection_refuse(g, &r);
}

static int connect_to(struct gpuctr *g)
{
	/* The limit also ends a connect() that waits because the daemon does not accept. */
	const struct timeval limit = { .tv_sec = HELLO_TIMEOUT_S };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char text[512];
	int e;

	if (strlen(g->path) >= sizeof(a.sun_path)) {
		return connection_fail(g, GPUCTR_E_NO_DAEMON, "the socket's path is too long",
				       "Use a shorter one.");
	}
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", g->path);
	g->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (g->fd >= 0) {
		setsockopt(g->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	if (g->fd >= 0 && connect(g->fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
		return 0;
	}
	e = errno;
	if (e == EACCES) {
		return refuse_outsider(g);
	}
	snprintf(text, sizeof(text), "no gpucountd answers at %s (%s)", g->path, strerror(e));
	return connection_fail(g, GPUCTR_E_NO_DAEMON, text,
			       "Start it with `systemctl start gpucountd`, or name its socket with "
			       "--socket.");
}

static int wait_welcome(struct gpuctr *g, uint64_t by)
{
	struct wire_message m;
	int r;

	while ((r = wire_next(&g->in, &g->arena, &m)) == FRAME_E_MORE) {
		struct pollfd p = { g->fd, POLLIN, 0 };
		uint64_t now = clock_now_ns();

		if (now >= by || poll(&p, 1, (int)((by - now) / CLOCK_NS_PER_MS) + 1) == 0) {
			return connection_fail(g, GPUCTR_E_NO_DAEMON, "gpucountd does not answer",
					       "See `systemctl status gpucountd`.");
		}
		if (buffer_receive(&g->in, g->fd, READ_BYTES, MSG_DONTWAIT) < 0) {
			return connection_fail(g, GPUCTR_E_DISCONNECTED,
					       "gpucountd closed the connection",
					       "See `systemctl status gpucountd`.");
		}
	}
	if (r == 0 && m.type == WIRE_REFUSAL) {
		return connection_fail(g, refusal_code(m.refusal.code), m.refusal.message,
				       m.refusal.remedy);
	}
	if (r != 0 || m.type != WIRE_WELCOME || m.welcome.version != PROTO_VERSION) {
		return connection_fail(
			g, GPUCTR_E_PROTOCOL,
			"what answers there does not speak this version of gpucountd's protocol",
			"Use a client and daemon of the same release.");
	}
	return 0;
}

static int introduce(struct gpuctr *g, const char *program, uint64_t by)
{
	char name[LIMIT_NAME_BYTES];
	struct wire_message hello = {
		.type = WIRE_HELLO,
		.hello = { .version = PROTO_VERSION, .program = name },
	};
	int r;

	connection_name(program, name, sizeof(name));
	if (g->fd >= 0) {
		close(g->fd);
		buffer_deinit(&g->in);
		buffer_deinit(&g->out);
	}
	r = connect_to(g);
	if (r == 0) {
		r = connection_send(g, &hello);
	}
	return r == 0 ? wait_welcome(g, by) : r;
}

/* A daemon that stops closes connections that it has just accepted, without an answer. Its
 * successor may soon listen on the same socket, so the client connects again, which is harmless
 * because it has sent no request yet. */
int gpuctr_connect(const char *path, const char *program, struct gpuctr **ret)
{
	uint64_t by = clock_now_ns() + HELLO_TIMEOUT_S * CLOCK_NS_PER_S;
	struct gpuctr *g = calloc(1, sizeof(*g));
	int r = GPUCTR_E_DISCONNECTED;

	if (!g || !(g->path = strdup(path ? path : gpuctr_default_socket()))) {
		free(g);
		*ret = NULL;
		return -ENOMEM;
	}
	g->fd = -1;
	g->error = (struct gpuctr_error){ 0, "", "" };
	arena_init(&g->arena, LIMIT_UNPACKED_BYTES);
	arena_init(&g->scratch, LIMIT_UNPACKED_BYTES);
	list_init(&g->requests);
	list_init(&g->captures);
	*ret = g;
	for (int i = 0; i < HELLO_ATTEMPTS && r == GPUCTR_E_DISCONNECTED; i++) {
		r = introduce(g, program, by);
	}
	if (r != 0) {
		g->broken = r;
	}
	return r;
}

struct gpuctr *gpuctr_disconnect(struct gpuctr *g)
{
	if (!g) {
		return NULL;
	}
	if (g->fd >= 0) {
		close(g->fd);
	}
	requests_free_all(g);
	captures_free_all(g);
	buffer_deinit(&g->in);
	buffer_deinit(&g->out);
	arena_deinit(&g->arena);
	arena_deinit(&g->scratch);
	free(g->path);
	free(g);
	return NULL;
}

/* --- dispatch --- */

static int break_connection(struct gpuctr *g, int code, const char *message, const char *remedy)
{
	struct refusal kept; /* a copy, because handlers may cause other errors */
	struct gpuctr_error e;

	connection_fail(g, code, message, remedy);
	g->broken = code;
	kept = g->refusal;
	e = (struct gpuctr_error){ code, kept.message, kept.remedy };
	requests_fail_all(g, &e);
	captures_fail_all(g, &e);
	return code;
}

static int handle_message(struct gpuctr *g, const struct wire_message *m)
{
	if (m->type == WIRE_REFUSAL && m->refusal.request == 0) {
		return break_connection(g, refusal_code(m->refusal.code), m->refusal.message,
					m->refusal.remedy);
	}
	if (requests_handle(g, m) != 0) {
		return 0;
	}
	return captures_handle(g, m);
}

static int handle_input(struct gpuctr *g)
{
	struct wire_message m;
	int r;

	while ((r = wire_next(&g->in, &g->arena, &m)) == 0) {
		r = handle_message(g, &m);
		if (r != 0) {
			break;
		}
	}
	if ((r == -EPROTO || r == GPUCTR_E_PROTOCOL) && !g->broken) {
		return break_connection(g, GPUCTR_E_PROTOCOL,
					"gpucountd sent what this library does not understand",
					"Use a client and daemon of the same release.");
	}
	return r == FRAME_E_MORE ? 0 : r;
}

int gpuctr_dispatch(struct gpuctr *g, int timeout_ms)
{
	struct pollfd p = { g->fd, gpuctr_events(g), 0 };
	int r;

	if (g->broken) {
		return g->broken;
	}
	if (poll(&p, 1, timeout_ms) <= 0) {
		return 0;
	}
	buffer_send(&g->out, g->fd, MSG_DONTWAIT);
	if ((p.revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
		return 0;
	}
	r = buffer_receive(&g->in, g->fd, READ_BYTES, MSG_DONTWAIT);
	if (r == -ENOMEM) {
		return break_connection(g, GPUCTR_E_PROTOCOL,
					"there is no memory for what gpucountd sent", "");
	}
	if (r < 0) {
		return break_connection(g, GPUCTR_E_DISCONNECTED, "gpucountd closed the connection",
					"See `systemctl status gpucountd`.");
	}
	return handle_input(g);
}
