/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/granter_link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "daemon/front/capture_events.h"

/* Requests are packets of fixed structs, so there is nothing to parse. The socket's own buffer is
 * the queue: when it is full the granter hangs, and the caller gets -EAGAIN. Only the request to
 * end a lease must not get lost, since the granter would hold the GPUs for ever: the link keeps it
 * and sends it later.
 *
 * The granter answers a request for the driver when the driver has answered, and reports a driver
 * that hangs in an event. It answers pings at once, which shows that it still runs; the same pings
 * show the granter that the front runs. */

enum { GRANTER_LINK_TIMEOUT_S = 5 };

struct pending {
	struct list link;
	uint64_t id;
	uint64_t ping_by_ns; /* 0: not a ping */
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
	l->n_closing = 0; /* leases end when their granter ends */
	l->hung_gpus = 0; /* the next granter reports anew */
	while (!list_is_empty(&l->pending)) {
		complete(l, list_entry(l->pending.next, struct pending, link), NULL);
	}
}

static void note_hung(struct granter_link *l, uint64_t gpus)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->hung_since_ns); i++) {
		if ((gpus >> i & 1) != 0) {
			l->hung_since_ns[i] = clock_now_ns() - GRANTER_HUNG_NS;
		}
	}
	l->hung_gpus |= gpus;
	capture_events_on_driver_hung(l->front, gpus);
}

/* True if the reply was an event, which no request asked for; it has been handled then. */
static bool handle_event(struct granter_link *l, const struct granter_reply *reply)
{
	switch (reply->op) {
	case GRANTER_HUNG:
		note_hung(l, reply->gpus);
		return true;
	case GRANTER_ANSWERS:
		log_notice("the driver answers again");
		l->hung_gpus &= ~reply->gpus;
		return true;
	default:
		return false;
	}
}

static void handle_reply(struct granter_link *l, const struct granter_reply *reply)
{
	if (handle_event(l, reply)) {
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
	capture_events_on_granter_lost(l->front);
}

int granter_link_attach(struct granter_link *l, int fd)
{
	bool replaces = granter_link_is_up(l);
	int r;

	granter_link_detach(l);
	if (replaces) { /* a new link replaces the old one, before its end of file was read */
		capture_events_on_granter_lost(l->front);
	}
	r = watch_open(&l->watch, &l->front->loop, fd, on_poll, l);
	if (r == 0) {
		capture_events_on_granter_back(l->front);
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
		.ping_by_ns = q->op == GRANTER_PING
				      ? clock_now_ns() + GRANTER_LINK_TIMEOUT_S * CLOCK_NS_PER_S
				      : 0,
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
	/* The array has room for all of the granter's leases. */
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

/* Deadline of the pending ping's answer; 0: no ping is pending. */
static uint64_t pinged_by_ns(const struct granter_link *l)
{
	list_for_each(i, (struct list *)(uintptr_t)&l->pending) {
		const struct pending *p = list_entry(i, struct pending, link);

		if (p->ping_by_ns != 0) {
			return p->ping_by_ns;
		}
	}
	return 0;
}

void granter_link_ping(struct granter_link *l)
{
	struct granter_request ping = { .op = GRANTER_PING };

	if (pinged_by_ns(l) == 0) {
		send_request(l, &ping, -1, NULL, NULL);
	}
}

void granter_link_tick(struct granter_link *l, uint64_t now_ns)
{
	uint64_t by_ns = pinged_by_ns(l);

	send_closing(l);
	if (by_ns == 0 || now_ns < by_ns) {
		if (!list_is_empty(&l->pending)) {
			granter_link_ping(l);
		}
		return;
	}
	log_warning("the granter did not answer within %d s: every lease is over",
		    GRANTER_LINK_TIMEOUT_S);
	control_send_worker(l->front->control, CONTROL_HUNG, WORKER_GRANTER, -1);
	granter_link_detach(l);
	capture_events_on_granter_lost(l->front);
}
