/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/leases.h"

#include <errno.h>
#include <sys/socket.h>

void outbox_init(struct outbox *o, int link)
{
	o->link = link;
	o->error = 0;
	o->first = o->n = 0;
}

static int send_one(const struct outbox *o, const struct granter_reply *p)
{
	ssize_t n;

	do {
		n = send(o->link, p, sizeof(*p), MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

void outbox_say(struct outbox *o, const struct granter_reply *p)
{
	struct granter_reply copy = *p;
	int r = -EAGAIN;

	copy.size = sizeof(copy);
	if (o->error == 0 && o->n == 0) {
		r = send_one(o, &copy);
	}
	if (r == 0 || o->error != 0) {
		return;
	}
	if (r != -EAGAIN || o->n == OUTBOX_MAX) {
		o->error = r != -EAGAIN ? r : -ENOBUFS;
		return;
	}
	o->waiting[(o->first + o->n++) % OUTBOX_MAX] = copy;
}

void outbox_flush(struct outbox *o)
{
	int r = o->error;

	while (r == 0 && o->n > 0) {
		r = send_one(o, &o->waiting[o->first]);
		if (r == 0) {
			o->first = (o->first + 1) % OUTBOX_MAX;
			o->n--;
		}
	}
	o->error = r == -EAGAIN ? 0 : r;
}
