/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/descriptors.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/fdpass.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/front.h"

/* The front's own thread never closes a descriptor that a user has sent. Nor may the kernel have to
 * close one in recvmsg(): before each message the front makes sure that the descriptor table has
 * room for all that the message may bring. When room is short, senders wait, and admitted peers
 * take precedence over new ones.
 *
 * A connection is shut down first, so nobody can put anything more into it. When it then holds
 * nothing unread, closing it cannot block, and it is closed at once; this is true for every
 * well-behaved peer. Other connections, and all received descriptors, go to the reaper and stay
 * charged to their user until they are really closed. A user whose descriptors hang there has that
 * many fewer connections, is refused further ones, and is not read from above ACCOUNT_RECEIVED_MAX.
 * Other users' connections are closed all the same. */

enum {
	DESCRIPTORS_OWN =
		64, /* the front's own descriptors: links, sockets, at times a file of /proc */
};

static size_t room_left(const struct front *f)
{
	size_t used = f->n_descriptors + DESCRIPTORS_OWN, room = fd_reaper_room();

	return room > used ? room - used : 0;
}

bool descriptors_may_accept(const struct front *f)
{
	return room_left(f) > 2 * FDPASS_MAX;
}

bool descriptors_may_receive(const struct front *f, bool let_in)
{
	return room_left(f) >= (let_in ? FDPASS_MAX : 2 * FDPASS_MAX);
}

bool descriptors_may_send(const struct account *a, struct refusal *r)
{
	char user[ACCOUNT_USER_BYTES];

	if (a->received < ACCOUNT_RECEIVED_MAX) {
		return true;
	}
	refusal_set(r, GPUCTR_E_QUOTA, "Try again once they are closed.",
		    "the daemon still closes %u descriptors that %s has sent", a->received,
		    account_user(a, user));
	return false;
}

void descriptors_add_connection(struct front *f, struct account *a)
{
	f->n_descriptors++;
	if (a) {
		account_ref(a)->connections++;
	}
}

void descriptors_add_received(struct front *f, struct account *a, size_t n)
{
	f->n_descriptors += n;
	for (size_t i = 0; i < n; i++) {
		account_ref(a)->received++;
	}
}

static void on_closed(const struct closing *c, void *userdata)
{
	struct account *a = c->owner;
	struct front *f = userdata;

	f->n_descriptors--;
	if (a && c->kind == CLOSING_CONNECTION) {
		a->connections--;
	} else if (a) {
		a->received--;
	}
	account_unref(a);
}

void descriptors_close_connection(struct front *f, struct account *a, int fd)
{
	const struct closing c = { fd, CLOSING_CONNECTION, a ? a->uid : (uid_t)-1, a };
	int unread = 0;

	shutdown(fd, SHUT_RDWR);
	if (ioctl(fd, FIONREAD, &unread) == 0 && unread == 0) {
		close(fd);
		on_closed(&c, f);
	} else {
		fd_reaper_close(&c, 1);
	}
}

void descriptors_close_received(struct front *f, struct account *a, const int *fds, size_t n)
{
	struct closing c[FDPASS_MAX];

	for (size_t i = 0; i < n; i++) {
		c[i] = (struct closing){ fds[i], CLOSING_RECEIVED, a->uid, a };
	}
	fd_reaper_close(c, n);
}

int descriptors_init(struct front *f)
{
	return fd_reaper_init(&f->loop, on_closed, f);
}
