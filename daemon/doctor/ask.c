/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"

/* A blocking client that asks two questions. */

struct asker {
	int fd;
	struct buffer in;
	struct arena arena, scratch;
};

static int dial(const char *path)
{
	const struct timeval patience = { .tv_sec = ASK_PATIENCE_S };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEAN_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		return -errno;
	}
	if (strlen(path) >= sizeof(a.sun_path)) {
		return -ENAMETOOLONG;
	}
	memcpy(a.sun_path, path, strlen(path) + 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		return -errno;
	}
	return TAKE_FD(fd);
}

pid_t ask_listener(const char *path)
{
	CLEAN_FD int fd = dial(path);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		return 0;
	}
	return peer.pid;
}

static int say(struct asker *k, const struct wire_message *m)
{
	struct buffer out = { 0 };
	int r = wire_encode(&k->scratch, &out, m);

	if (r == 0 && send(k->fd, out.data + out.start, buffer_length(&out), MSG_NOSIGNAL) < 0) {
		r = -errno;
	}
	arena_reset(&k->scratch);
	buffer_deinit(&out);
	return r;
}

/* The next message; it is valid until the one after it. */
static int hear(struct asker *k, struct wire_message *ret)
{
	struct frame f;
	int r;

	while ((r = frame_parse(k->in.data + k->in.start, buffer_length(&k->in), &f)) ==
	       FRAME_E_MORE) {
		ssize_t n;

		if (buffer_reserve(&k->in, 4096) < 0) {
			return -ENOMEM;
		}
		n = recv(k->fd, k->in.data + k->in.end, k->in.size - k->in.end, 0);
		if (n <= 0) {
			return n == 0 ? -ECONNRESET : errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		k->in.end += (size_t)n;
	}
	arena_reset(&k->arena);
	if (r != 0 || wire_decode(&k->arena, f.type, f.payload, f.size, ret) != 0) {
		return -EPROTO;
	}
	buffer_consume(&k->in, FRAME_HEADER_BYTES + f.size);
	return 0;
}

static enum ask_result judge(const struct wire_message *m, struct ask_answer *ret)
{
	if (m->type == WIRE_REFUSAL) {
		snprintf(ret->message, sizeof(ret->message), "%s", m->refusal.message);
		return ASK_REFUSED;
	}
	if (m->type != WIRE_STATUS_REPLY) {
		snprintf(ret->message, sizeof(ret->message), "it says something else");
		return ASK_SILENT;
	}
	if (m->status_reply.trouble_code == 0) {
		return ASK_WELL;
	}
	snprintf(ret->message, sizeof(ret->message), "%s", m->status_reply.trouble);
	snprintf(ret->remedy, sizeof(ret->remedy), "%s", m->status_reply.trouble_remedy);
	return ASK_TROUBLED;
}

static int converse(struct asker *k, struct wire_message *ret)
{
	const struct wire_message hello = { .type = WIRE_HELLO,
					    .hello = { PROTO_VERSION, 0, "gpucountd --doctor" } };
	const struct wire_message ask = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };
	int r = say(k, &hello);

	r = r < 0 ? r : hear(k, ret);
	if (r < 0 || ret->type != WIRE_WELCOME) {
		return r;
	}
	r = say(k, &ask);
	return r < 0 ? r : hear(k, ret);
}

enum ask_result ask_daemon(const char *path, struct ask_answer *ret)
{
	struct asker k = { .fd = dial(path) };
	enum ask_result result = ASK_SILENT;
	struct wire_message m;
	int r = k.fd < 0 ? k.fd : 0;

	*ret = (struct ask_answer){ 0 };
	arena_init(&k.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&k.scratch, LIMIT_UNPACKED_BYTES);
	r = r < 0 ? r : converse(&k, &m);
	if (r == 0) {
		result = judge(&m, ret);
	} else {
		snprintf(ret->message, sizeof(ret->message), "%s", strerror(-r));
	}
	if (k.fd >= 0) {
		close(k.fd);
	}
	buffer_deinit(&k.in);
	arena_deinit(&k.arena);
	arena_deinit(&k.scratch);
	return result;
}
