/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/between.h"

#include <endian.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/wire/frame.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/system/raw.h"

/* Frames go up one by one, bytes come down as they are; whoever closes first, both are closed. */

static bool take(int socket, void *data, size_t n)
{
	return n == 0 || recv(socket, data, n, MSG_WAITALL) == (ssize_t)n;
}

static bool pass_frame_up(struct between *b)
{
	static uint8_t frame[FRAME_HEADER_BYTES + LIMIT_FRAME_BYTES];
	uint32_t size;
	uint16_t type;

	if (!take(b->client, frame, FRAME_HEADER_BYTES)) {
		return false;
	}
	memcpy(&size, frame, sizeof(size));
	memcpy(&type, frame + 4, sizeof(type));
	size = le32toh(size);
	if (size > LIMIT_FRAME_BYTES || !take(b->client, frame + FRAME_HEADER_BYTES, size)) {
		return false;
	}
	if (le16toh(type) == WIRE_OPEN_CAPTURE) {
		sem_post(&b->held);
		sem_wait(&b->let_go);
	}
	return raw_send_bytes(b->daemon, frame, FRAME_HEADER_BYTES + size, -1);
}

static void *pass_down(void *argument)
{
	struct between *b = argument;
	uint8_t data[4096];
	ssize_t n;

	while ((n = recv(b->daemon, data, sizeof(data), 0)) > 0 &&
	       raw_send_bytes(b->client, data, (size_t)n, -1)) {
	}
	shutdown(b->client, SHUT_RDWR);
	return NULL;
}

static void *pass_up(void *argument)
{
	struct between *b = argument;

	b->client = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC);
	if (b->client < 0) {
		return NULL;
	}
	pthread_create(&b->down, NULL, pass_down, b);
	while (pass_frame_up(b)) {
	}
	shutdown(b->daemon, SHUT_RDWR);
	pthread_join(b->down, NULL);
	close(b->client);
	return NULL;
}

void between_begin(struct between *b, struct fixture *f, int uid)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(b->socket, sizeof(b->socket), "%s", fixture_path(f, "between"));
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", b->socket);
	sem_init(&b->held, 0, 0);
	sem_init(&b->let_go, 0, 0);
	b->daemon = raw_connect(f, uid);
	b->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(b->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(chmod(b->socket, 0666), 0);
	assert_int_equal(listen(b->listener, 1), 0);
	assert_int_equal(pthread_create(&b->up, NULL, pass_up, b), 0);
}

void between_wait_held(struct between *b)
{
	struct timespec by;

	clock_gettime(CLOCK_REALTIME, &by);
	by.tv_sec += PATIENCE_MS / 1000;
	assert_int_equal(sem_timedwait(&b->held, &by), 0);
}

void between_let_go(struct between *b)
{
	sem_post(&b->let_go);
}

void between_end(struct between *b)
{
	shutdown(b->listener, SHUT_RDWR);
	pthread_join(b->up, NULL);
	close(b->listener);
	close(b->daemon);
	sem_destroy(&b->held);
	sem_destroy(&b->let_go);
}
