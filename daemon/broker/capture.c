/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/wire/limits.h"

void registry_init(struct registry *r)
{
	*r = (struct registry){ 0 };
	list_init(&r->captures);
}

static int make_token(char *token)
{
	uint8_t random[(CAPTURE_TOKEN_BYTES - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		return -EIO;
	}
	for (size_t i = 0; i < sizeof(random); i++) {
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	}
	return 0;
}

struct capture *capture_new(struct registry *r)
{
	struct capture *c;

	if (r->n >= CAPTURES_MAX) {
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c || make_token(c->token) < 0) {
		free(c);
		return NULL;
	}
	c->id = ++r->last_id;
	c->state = WIRE_CAPTURE_PLANNING;
	c->end_message = c->end_remedy = "";
	arena_init(&c->arena, 2 * LIMIT_UNPACKED_BYTES);
	claim_init(&c->claim, 0);
	list_init(&c->client_link);
	list_init(&c->processes);
	list_append(&r->captures, &c->link);
	r->n++;
	return c;
}

void capture_set_account(struct capture *c, struct account *a)
{
	c->account = account_ref(a);
	c->arena.quota = &a->bytes;
}

struct capture *capture_free(struct registry *r, struct capture *c)
{
	if (c) {
		list_remove(&c->link);
		list_remove(&c->client_link);
		r->n--;
		arena_deinit(&c->arena);
		account_unref(c->account);
		explicit_bzero(c->token, sizeof(c->token));
		free(c);
	}
	return NULL;
}

struct capture *registry_find(struct registry *r, uint32_t id)
{
	list_for_each(l, &r->captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->id == id) {
			return c;
		}
	}
	return NULL;
}

static bool tokens_equal(const char *a, const char *b)
{
	unsigned difference = 0;

	for (size_t i = 0; i < CAPTURE_TOKEN_BYTES - 1; i++) {
		difference |= (unsigned)(a[i] ^ b[i]);
	}
	return difference == 0;
}

struct capture *registry_find_token(struct registry *r, const char *token)
{
	if (strlen(token) != CAPTURE_TOKEN_BYTES - 1) {
		return NULL;
	}
	list_for_each(l, &r->captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (tokens_equal(c->token, token)) {
			return c;
		}
	}
	return NULL;
}

unsigned registry_count_uid(const struct registry *r, uid_t uid)
{
	unsigned n = 0;

	list_for_each(l, (struct list *)(uintptr_t)&r->captures) {
		n += list_entry(l, struct capture, link)->uid == uid;
	}
	return n;
}

/* A message is copied by taking it over the wire to ourselves: the arena then owns every part. */
static int copy_message(struct arena *a, const struct wire_message *in, struct wire_message *ret)
{
	struct arena scratch;
	struct buffer b = { 0 };
	int r;

	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	r = wire_encode_payload(&scratch, &b, in);
	if (r == 0 && wire_decode(a, in->type, b.data, buffer_length(&b), ret) != 0) {
		r = -ENOMEM;
	}
	arena_deinit(&scratch);
	buffer_deinit(&b);
	return r;
}

int capture_set_options(struct capture *c, const struct wire_open_capture *options)
{
	struct wire_message in = { .type = WIRE_OPEN_CAPTURE, .open_capture = *options }, out;
	int r = copy_message(&c->arena, &in, &out);

	if (r == 0) {
		c->options = out.open_capture;
	}
	return r;
}

int capture_set_plan(struct capture *c, const struct wire_plan *plan)
{
	struct wire_message in = { .type = WIRE_PLAN_REPLY, .plan_reply = { 0, *plan } }, out;
	int r = copy_message(&c->arena, &in, &out);

	if (r == 0) {
		c->plan = out.plan_reply.plan;
	}
	return r;
}

bool capture_is_live(const struct capture *c)
{
	return c->state == WIRE_CAPTURE_READY || c->state == WIRE_CAPTURE_RUNNING;
}

struct process *process_new(struct capture *c, pid_t pid, void *peer)
{
	struct process *p;

	if (c->n_attached >= CAPTURE_PROCESSES_MAX) {
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		return NULL;
	}
	p->capture = c;
	p->id = ++c->n_processes;
	p->pid = pid;
	p->peer = peer;
	list_append(&c->processes, &p->link);
	c->n_attached++;
	return p;
}

static void totals_add(struct wire_totals *sum, const struct wire_totals *t)
{
	sum->seen += t->seen;
	sum->measured += t->measured;
	sum->filtered += t->filtered;
	sum->capturing += t->capturing;
	sum->unready += t->unready;
	sum->failed += t->failed;
	sum->dropped += t->dropped;
	sum->lost += t->lost;
}

static uint64_t totals_accounted(const struct wire_totals *t)
{
	return t->measured + t->filtered + t->capturing + t->unready + t->failed + t->dropped +
	       t->lost;
}

void process_settle(struct process *p)
{
	uint64_t accounted;

	if (p->totals.measured < p->records) {
		p->totals.measured = p->records;
	}
	accounted = totals_accounted(&p->totals);
	if (p->totals.seen > accounted) {
		p->totals.lost += p->totals.seen - accounted;
	} else {
		p->totals.seen = accounted;
	}
}

struct process *process_free(struct process *p)
{
	if (p) {
		totals_add(&p->capture->ended, &p->totals);
		p->capture->n_attached--;
		list_remove(&p->link);
		free(p);
	}
	return NULL;
}

struct wire_totals capture_totals(const struct capture *c)
{
	struct wire_totals sum = c->ended;

	list_for_each(l, (struct list *)(uintptr_t)&c->processes) {
		totals_add(&sum, &list_entry(l, struct process, link)->totals);
	}
	return sum;
}
