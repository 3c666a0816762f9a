/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/rpc_client.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "proto/wire/limits.h"

/* Every request to the gpu process or planner begins with a number, and so does every answer. The
 * link replaces the number by its own, so numbers of different clients cannot collide.
 *
 * Each question has one type of answer. A process that sends anything else was taken over or is of
 * another build: the front closes its link, and the supervisor kills it.
 *
 * Each user has one request under way. The user's next request waits, encoded and charged to the
 * user, until the first is answered, even when nobody wants that answer any more. */

enum { RPC_CLIENT_TIMEOUT_S = 20, READ_BYTES = 128 * 1024 };

struct pending {
	struct list link;
	uint32_t id;
	uint32_t request;
	enum wire_type asked;
	rpc_client_done done; /* NULL: nobody wants the answer */
	void *owner;
	struct account *payer; /* NULL: the daemon's own request */
	struct buffer frame;   /* the encoded request until it is sent */
	bool sent;
};

void rpc_client_init(struct rpc_client *l, struct front *f, const char *name, enum worker_id worker)
{
	*l = (struct rpc_client){ .front = f, .name = name, .worker = worker };
	arena_init(&l->arena, 2 * LIMIT_UNPACKED_BYTES);
	list_init(&l->pending);
	watch_init(&l->watch);
}

static void pending_free(struct pending *p)
{
	if (p->payer && p->sent) {
		p->payer->asking = false;
	}
	list_remove(&p->link);
	buffer_deinit(&p->frame);
	account_unref(p->payer);
	free(p);
}

static void complete(struct rpc_client *l, struct pending *p, const struct wire_message *m)
{
	struct pending copy = *p;

	pending_free(p);
	if (copy.done) {
		copy.done(l->front, copy.owner, copy.request, m);
	}
}

static void detach(struct rpc_client *l)
{
	watch_close(&l->watch);
	buffer_deinit(&l->in);
	buffer_deinit(&l->out);
	l->answer_by_ns = 0;
	while (!list_is_empty(&l->pending)) {
		complete(l, list_entry(l->pending.next, struct pending, link), NULL);
	}
}

void rpc_client_deinit(struct rpc_client *l)
{
	detach(l);
	arena_deinit(&l->arena);
}

/* Each of these messages, and a refusal, begins with the number of the request. */
static const struct {
	enum wire_type question, answer;
} kinds[] = {
	{ WIRE_METRICS_REQUEST, WIRE_METRICS_REPLY },
	{ WIRE_PLAN_REQUEST, WIRE_PLAN_REPLY },
	{ WIRE_TENANTS_REQUEST, WIRE_TENANTS_REPLY },
	{ WIRE_STATUS_REQUEST, WIRE_STATUS_REPLY },
};

static uint32_t *request_field(struct wire_message *m)
{
	return &m->refusal.request;
}

/* Is type an answer to the question asked, or with asked 0, to any question? The caller reads the
 * members of that type, so any other type ends the link. */
static bool is_answer(unsigned asked, enum wire_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((asked == 0 || asked == kinds[i].question) &&
		    (type == kinds[i].answer || type == WIRE_REFUSAL)) {
			return true;
		}
	}
	return false;
}

static struct pending *find_pending(struct rpc_client *l, uint32_t id)
{
	list_for_each(i, &l->pending) {
		struct pending *p = list_entry(i, struct pending, link);

		if (p->id == id && p->sent) {
			return p;
		}
	}
	return NULL;
}

static void send_next(struct rpc_client *l);

static int handle_answer(struct rpc_client *l, struct wire_message *m)
{
	struct pending *p = find_pending(l, *request_field(m));

	if (!is_answer(p ? p->asked : 0, m->type)) {
		return -EPROTO;
	}
	if (!p) {
		return 0; /* answers a request that has timed out */
	}
	*request_field(m) = p->request;
	l->answer_by_ns = 0;
	if (m->type != WIRE_METRICS_REPLY || m->metrics_reply.last) {
		complete(l, p, m);
		send_next(l);
	} else if (p->done) {
		p->done(l->front, p->owner, p->request, m);
	}
	return 0;
}

static int read_input(struct rpc_client *l)
{
	int r = buffer_receive(&l->in, l->watch.fd, READ_BYTES, MSG_DONTWAIT);
	struct wire_message m;

	while (l->watch.fd >= 0 && r == 0 && (r = wire_next(&l->in, &l->arena, &m)) == 0) {
		r = handle_answer(l, &m);
	}
	return r == FRAME_E_MORE ? 0 : r;
}

static void on_poll(uv_poll_t *h, int status, int events);

static int flush(struct rpc_client *l)
{
	int r = buffer_send(&l->out, l->watch.fd, MSG_DONTWAIT);

	if (r < 0) {
		return r;
	}
	return uv_poll_start(l->watch.poll,
			     UV_READABLE | (buffer_length(&l->out) ? UV_WRITABLE : 0), on_poll);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct rpc_client *l = h->data;
	int r = status < 0 ? -EPIPE : 0;

	if (r == 0 && (events & UV_WRITABLE) != 0) {
		r = flush(l);
	}
	if (r == 0 && (events & UV_READABLE) != 0) {
		r = read_input(l);
	}
	if (r == -EPROTO) {
		log_error("the %s process says what it was not asked", l->name);
		control_send_worker(l->front->control, CONTROL_HUNG, l->worker, -1);
	}
	if (r < 0) {
		log_warning("lost the %s process", l->name);
		detach(l);
	}
}

static void send_one(struct rpc_client *l, struct pending *p)
{
	if (buffer_append(&l->out, p->frame.data, buffer_length(&p->frame)) < 0) {
		return;
	}
	buffer_deinit(&p->frame);
	p->sent = true;
	if (p->payer) {
		p->payer->asking = true;
	}
}

/* Sends the next request of each user who has none under way. The poll finds a broken link and
 * fails all pending requests. */
static void send_next(struct rpc_client *l)
{
	list_for_each(i, &l->pending) {
		struct pending *p = list_entry(i, struct pending, link);

		if (!p->sent && !(p->payer && p->payer->asking)) {
			send_one(l, p);
		}
	}
	if (l->watch.fd >= 0 && flush(l) < 0) { /* the poll tries again */
		uv_poll_start(l->watch.poll, UV_READABLE | UV_WRITABLE, on_poll);
	}
}

int rpc_client_attach(struct rpc_client *l, int fd)
{
	detach(l);
	return watch_open(&l->watch, &l->front->loop, fd, on_poll, l);
}

int rpc_client_request(struct rpc_client *l, struct account *payer, struct wire_message *m,
		       rpc_client_done done, void *owner, uint32_t number)
{
	struct pending *p;
	int r;

	if (l->watch.fd < 0) {
		return -ENOTCONN;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		return -ENOMEM;
	}
	list_init(&p->link);
	p->id = ++l->last_id;
	p->asked = m->type;
	p->request = number;
	p->done = done;
	p->owner = owner;
	p->payer = payer ? account_ref(payer) : NULL;
	p->frame.quota = payer ? &payer->bytes : NULL;
	*request_field(m) = p->id;
	r = wire_encode(&l->front->scratch, &p->frame, m);
	arena_reset(&l->front->scratch);
	if (r < 0) {
		pending_free(p);
		return r;
	}
	list_append(&l->pending, &p->link);
	front_arm_tick(l->front);
	send_next(l);
	return 0;
}

void rpc_client_forget(struct rpc_client *l, const void *owner)
{
	list_for_each_safe(i, &l->pending) {
		struct pending *p = list_entry(i, struct pending, link);

		if (p->owner == owner && p->sent) {
			p->done = NULL;
			p->owner = NULL;
		} else if (p->owner == owner) {
			pending_free(p);
		}
	}
}

void rpc_client_tick(struct rpc_client *l, uint64_t now_ns)
{
	if (list_is_empty(&l->pending)) {
		return;
	}
	if (l->answer_by_ns == 0) {
		l->answer_by_ns = now_ns + RPC_CLIENT_TIMEOUT_S * CLOCK_NS_PER_S;
	} else if (now_ns >= l->answer_by_ns) {
		log_warning("the %s process did not answer within %d s", l->name,
			    RPC_CLIENT_TIMEOUT_S);
		control_send_worker(l->front->control, CONTROL_HUNG, l->worker, -1);
		detach(l);
	}
}

size_t rpc_client_count(const struct rpc_client *l, const void *owner)
{
	size_t n = 0;

	list_for_each(i, (struct list *)(uintptr_t)&l->pending) {
		n += list_entry(i, struct pending, link)->owner == owner;
	}
	return n;
}
