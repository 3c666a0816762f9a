/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/capture.h"

#include <errno.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/broker/policy.h"
#include "daemon/broker/process.h"
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
	c->state = CAPTURE_PLANNING;
	c->end_message = c->end_remedy = "";
	arena_init(&c->arena, 2 * LIMIT_UNPACKED_BYTES);
	reservation_init(&c->reservation, 0, 0);
	list_init(&c->client_link);
	list_init(&c->processes);
	for (size_t i = 0; i < CAPTURE_EFFECTS_MAX; i++) {
		c->effects[i].capture = c;
		list_init(&c->effects[i].link);
	}
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
		for (size_t i = 0; i < CAPTURE_EFFECTS_MAX; i++) {
			list_remove(&c->effects[i].link);
		}
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

unsigned registry_count_user(const struct registry *r, uid_t user)
{
	unsigned n = 0;

	list_for_each(l, (struct list *)(uintptr_t)&r->captures) {
		const struct capture *c = list_entry(l, struct capture, link);

		n += policy_user(c->uid, c->host_root) == user;
	}
	return n;
}

int capture_set_options(struct capture *c, const struct wire_open_capture *options)
{
	struct wire_message in = { .type = WIRE_OPEN_CAPTURE, .open_capture = *options }, out;
	int r = wire_copy(&c->arena, &in, &out);

	if (r == 0) {
		c->options = out.open_capture;
	}
	return r;
}

int capture_set_plan(struct capture *c, const struct wire_plan *plan)
{
	struct wire_message in = { .type = WIRE_PLAN_REPLY, .plan_reply = { 0, *plan } }, out;
	int r = wire_copy(&c->arena, &in, &out);

	if (r == 0) {
		c->plan = out.plan_reply.plan;
	}
	return r;
}

bool capture_may_measure_groups(const struct capture *c, const struct wire_plan *plan)
{
	const struct wire_selection *s = &c->options.selection;

	return !s->raw_images && !c->recorded && !c->options.trace &&
	       plan->groups <= LIMIT_GROUPS && wire_plan_is_grouped(plan);
}

bool capture_is_leaseless(const struct capture *c)
{
	return c->recorded || c->options.trace;
}

bool capture_is_live(const struct capture *c)
{
	return c->state == CAPTURE_READY || c->state == CAPTURE_RUNNING;
}

bool capture_takes(const struct capture *c, pid_t pid)
{
	if (c->options.processes.n == 0) {
		return true;
	}
	list_for_each(l, (struct list *)(uintptr_t)&c->processes) {
		const struct process *p = list_entry(l, struct process, link);

		if (p->number != 0 && p->pid == pid) {
			return true;
		}
	}
	return false;
}

enum gpuctr_capture_state capture_reported_state(const struct capture *c)
{
	return c->state == CAPTURE_PLANNING  ? GPUCTR_CAPTURE_PLANNING
	       : c->state < CAPTURE_READY    ? GPUCTR_CAPTURE_QUEUED
	       : c->state == CAPTURE_READY   ? GPUCTR_CAPTURE_READY
	       : c->state == CAPTURE_RUNNING ? GPUCTR_CAPTURE_RUNNING
					     : GPUCTR_CAPTURE_ENDING;
}

const char *capture_describe_holder(struct arena *a, const struct capture *c)
{
	const char *text =
		arena_printf(a, "%s (%s, pid %d)", c->user, c->options.program, (int)c->pid);

	return text ? text : "";
}

struct gpuctr_totals capture_totals(const struct capture *c)
{
	struct gpuctr_totals sum = c->ended;

	list_for_each(l, (struct list *)(uintptr_t)&c->processes) {
		process_add_totals(&sum, &list_entry(l, struct process, link)->totals);
	}
	return sum;
}
