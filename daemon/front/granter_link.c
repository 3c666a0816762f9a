/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/granter_link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/base/clean.h"
#include "daemon/base/clock.h"
#include "daemon/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/control.h"
#include "daemon/front/front.h"
#include "daemon/front/session.h"

/* Packets of fixed structs, so there is nothing to parse. The socket's own buffer is the queue:
 * when it is full the granter hangs in the driver, and the caller is told that it is busy. Only the
 * end of a lease must not get lost, since the granter would hold its GPUs until it runs out: it is
 * kept and tried again. */

enum { GRANTER_LINK_TIMEOUT_S = 5 };

struct pending {
	struct list link;
	uint64_t id;
	uint64_t deadline_ns;
	granter_link_done done;
	void *owner;
};

void granter_link_init(struct granter_link *l, struct front *f)
{
	*l = (struct granter_link){ .front = f };
	list_init(&l->pending);
	watch_init(&l->watch);
}

static void complete(struct granter_link *l, struct pending *p, const struct granter_reply *reply)
{
	struct pending copy = *p;

	list_remove(&p->link);
	free(p);
	if (copy.done) {
		copy.done(l->front, copy.owner, reply);
	}
}

void granter_link_detach(struct granter_link *l)
{
	watch_close(&l->watch);
	l->n_closing = 0; /* its leases end with the granter */
	while (!list_is_empty(&l->pending)) {
		complete(l, list_entry(l->pending.next, struct pending, link), NULL);
	}
}

static void handle_reply(struct granter_link *l, const struct granter_reply *reply)
{
	if (reply->op == GRANTER_EXPIRED) {
		session_on_lease_expired(l->front, reply->lease);
		return;
	}
	list_for_each(i, &l->pending) {
		struct pending *p = list_entry(i, struct pending, link);

		if (p->id == reply->id) {
			complete(l, p, reply);
			return;
		}
	}
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct granter_link *l = h->data;
	struct granter_reply reply;
	ssize_t n = -1;

	(void)events;
	errno = EPIPE;
	if (status == 0) {
		n = recv(l->watch.fd, &reply, sizeof(reply), MSG_DONTWAIT);
	}
	if (n == (ssize_t)sizeof(reply) && reply.size == sizeof(reply)) {
		handle_reply(l, &reply);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	log_warning("lost the granter: every lease is over");
	granter_link_detach(l);
	session_on_granter_lost(l->front);
}

int granter_link_attach(struct granter_link *l, int fd)
{
	bool replaces = granter_link_is_up(l);
	int r;

	granter_link_detach(l);
	if (replaces) {
		session_on_granter_lost(
			l->front); /* the new one came before we read the end of the old */
	}
	r = watch_open(&l->watch, &l->front->loop, fd, on_poll, l);
	if (r == 0) {
		session_on_granter_back(l->front);
	}
	return r;
}

static int send_request(struct granter_link *l, struct granter_request *q, int fd,
			granter_link_done done, void *owner)
{
	struct pending *p;
	ssize_t n;

	if (l->watch.fd < 0) {
		return -ENOTCONN;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		return -ENOMEM;
	}
	q->size = sizeof(*q);
	q->id = ++l->last_id;
	*p = (struct pending){
		.id = q->id,
		.deadline_ns = clock_now_ns() + GRANTER_LINK_TIMEOUT_S * CLOCK_NS_PER_S,
		.done = done,
		.owner = owner,
	};
	n = fdpass_send(l->watch.fd, q, sizeof(*q), fd, MSG_DONTWAIT);
	if (n < 0) {
		free(p);
		return (int)n;
	}
	list_append(&l->pending, &p->link);
	front_arm_tick(l->front);
	return 0;
}

static int send_closing(struct granter_link *l)
{
	int r = 0;

	while (l->n_closing > 0 && r == 0) {
		struct granter_request q = { .op = GRANTER_CLOSE,
					     .lease = l->closing[l->n_closing - 1] };

		r = send_request(l, &q, -1, NULL, NULL);
		l->n_closing -= r == 0;
	}
	return r;
}

int granter_link_request(struct granter_link *l, struct granter_request *q, int fd,
			 granter_link_done done, void *owner)
{
	int r = send_closing(l);

	return r < 0 ? r : send_request(l, q, fd, done, owner);
}

void granter_link_close_lease(struct granter_link *l, uint64_t lease)
{
	for (size_t i = 0; i < l->n_closing; i++) {
		if (l->closing[i] == lease) {
			return;
		}
	}
	/* There is room for as many as the granter has. */
	if (l->watch.fd >= 0 && l->n_closing < ARRAY_SIZE(l->closing)) {
		l->closing[l->n_closing++] = lease;
		send_closing(l);
		front_arm_tick(l->front);
	}
}

bool granter_link_is_idle(const struct granter_link *l)
{
	return list_is_empty(&l->pending) && l->n_closing == 0;
}

void granter_link_forget(struct granter_link *l, const void *owner)
{
	list_for_each(i, &l->pending) {
		struct pending *p = list_entry(i, struct pending, link);

		if (p->owner == owner) {
			p->done = NULL;
		}
	}
}

void granter_link_tick(struct granter_link *l, uint64_t now_ns)
{
	struct pending *p;

	send_closing(l);
	p = list_entry(l->pending.next, struct pending, link);
	if (list_is_empty(&l->pending) || p->deadline_ns > now_ns) {
		return;
	}
	log_warning("the granter did not answer within %d s: every lease is over",
		    GRANTER_LINK_TIMEOUT_S);
	control_send(l->front->control, CONTROL_HUNG_GRANTER, -1);
	granter_link_detach(l);
	session_on_granter_lost(l->front);
}
