/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "daemon/front/admission.h"
#include "daemon/front/decision.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/permits.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/standby.h"
#include "daemon/front/users.h"
#include "proto/wire/expression.h"
#include "proto/wire/limits.h"

/* From a client's request to a planned capture: quotas, GPUs, the plan. What cannot be measured is
 * refused here, before anything runs. The broker then decides when the capture begins. */

static void refuse_open(struct front *f, struct capture *c, int code, const char *remedy,
			const char *message)
{
	capture_events_report_why(f, c, EVENT_REFUSED, code, message, remedy);
}

/* Appends the columns of a group to text as one option, with before in front of it. */
static size_t append_group(const struct wire_plan *plan, uint32_t group, const char *before,
			   char *text, size_t size)
{
	size_t n = strlen(text), begin = n;

	for (size_t i = 0; i < plan->columns.n && n < size - 300; i++) {
		if (plan->columns.v[i].group == group) {
			n += (size_t)snprintf(text + n, size - n, "%s%s", n == begin ? before : ",",
					      plan->columns.v[i].name);
		}
	}
	return n - begin;
}

/* Writes one sentence to text: why the plan cannot be measured. */
static void describe_passes(const struct capture *c, const struct wire_plan *plan, char *text,
			    size_t size)
{
	const struct wire_column *several = wire_plan_find_ungrouped(plan);

	if (several) {
		snprintf(text, size, "%s needs several passes by itself, and no launch is repeated",
			 several->name);
	} else if (plan->groups > LIMIT_GROUPS) {
		snprintf(text, size,
			 "these metrics need %u groups of one pass each, and %d at most take turns "
			 "in one run",
			 plan->groups, LIMIT_GROUPS);
	} else {
		snprintf(text, size, "these metrics need %u passes, and %s of one", plan->passes,
			 c->recorded ? "a recording is" : "raw counter data are");
	}
}

static void refuse_passes(struct front *f, struct capture *c, const struct wire_plan *plan)
{
	char message[160], remedy[LIMIT_TEXT_BYTES] = "", tail[LIMIT_TEXT_BYTES / 2] = "";

	describe_passes(c, plan, message, sizeof(message));
	if (plan->groups > 0) {
		snprintf(remedy, sizeof(remedy),
			 "Measure in %s of one pass:", plan->groups == 1 ? "one run" : "runs");
	}
	for (uint32_t g = 0; g < plan->groups; g++) {
		append_group(plan, g, g ? "; --metrics " : " --metrics ", remedy,
			     sizeof(remedy) - sizeof(tail));
	}
	if (append_group(plan, plan->groups, " needs several passes by itself: ", tail,
			 sizeof(tail)) > 0) {
		snprintf(remedy + strlen(remedy), sizeof(remedy) - strlen(remedy), "%s",
			 plan->groups ? "." : "This");
		snprintf(remedy + strlen(remedy), sizeof(remedy) - strlen(remedy),
			 "%s%s. Ask for what it is made of, or leave it out",
			 plan->groups ? " This" : "", tail);
	}
	snprintf(remedy + strlen(remedy), sizeof(remedy) - strlen(remedy), ".");
	refuse_open(f, c, GPUCTR_E_TOO_MANY_PASSES, remedy, message);
}

/* True if the plan cannot be measured in one run; the capture was refused then. */
static bool refuse_plan(struct front *f, struct capture *c, const struct wire_plan *plan)
{
	if (plan->passes == 1 || capture_may_measure_groups(c, plan)) {
		return false;
	}
	refuse_passes(f, c, plan);
	return true;
}

/* Writes an audit line for a trace of another user's programs: it shows what they do, and has no
 * lease with a line of its own. Fills r if the line cannot be written. */
static int note_trace(struct front *f, struct capture *c, struct refusal *r)
{
	if (!c->options.trace || c->target == c->uid) {
		return 0;
	}
	c->traces = decision_of_capture(f, c, AUDIT_TRACE_GRANTED, 0, NULL) == 0;
	if (!c->traces) {
		decision_refusal(f, r);
		return r->code;
	}
	return 0;
}

/* Called when the plan is known (for a permit or a trace it is empty): makes the remaining checks,
 * and answers. */
static void finish_opening(struct front *f, struct capture *c, const struct wire_plan *plan)
{
	struct peer *client = c->client;
	struct wire_message answer = { .type = WIRE_OPENED };
	struct refusal refusal;
	struct arena a;

	if (admission_lost(f, c) != 0) {
		refuse_open(f, c, GPUCTR_E_NOT_ALLOWED,
			    "Measure within a job of your own, or take another GPU with "
			    "--devices.",
			    "a GPU that was asked for belongs to another job now");
		return;
	}
	if (!admission_still_allows(f, &client->credentials, c, &refusal)) {
		refuse_open(f, c, refusal.code, refusal.remedy, refusal.message);
		return;
	}
	if (c->options.processes.n > 0 && list_is_empty(&c->processes)) {
		refuse_open(f, c, GPUCTR_E_AGENT_LOST,
			    "Ask for the list of those that are there now.",
			    "the processes that were to be measured have ended");
		return;
	}
	if (!c->options.permit && !c->options.trace && refuse_plan(f, c, plan)) {
		return;
	}
	if (capture_set_plan(c, plan) < 0) {
		account_refuse(c->account, &refusal);
		refuse_open(f, c, refusal.code, refusal.remedy, refusal.message);
		return;
	}
	if (note_trace(f, c, &refusal) != 0) {
		refuse_open(f, c, refusal.code, refusal.remedy, refusal.message);
		return;
	}
	arena_init(&a, 64 * 1024);
	answer.opened = (struct wire_opened){
		c->request,	   c->id,	c->plan,  describe_gpus(f, &a, c->reservation.gpus),
		f->machine.driver, c->recorded, c->owner,
	};
	peer_send(c->client, &answer);
	arena_deinit(&a);
	capture_events_on_planned(f, c);
}

static void on_planned(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	struct capture *c = owner;

	if (!m) {
		refuse_open(f, c, GPUCTR_E_INTERNAL,
			    "Try again in a moment; the daemon restarts it.",
			    "the process that knows the metrics does not answer");
	} else if (m->type != WIRE_PLAN_REPLY) {
		refuse_open(f, c, (int)m->refusal.code, m->refusal.remedy, m->refusal.message);
	} else {
		finish_opening(f, c, &m->plan_reply.plan);
	}
}

/* Checked here: an agent would find a wrong expression only after the program has started. */
static int check_kernels(const char *expression, struct refusal *r)
{
	regex_t regex;

	if (expression[0] == '\0') {
		return 0;
	}
	if (expression_compile(&regex, expression, r) != 0) {
		return r->code;
	}
	regfree(&regex);
	return 0;
}

/* A trace reads no counter, so it has nothing to replay or to permit. */
static int check_trace(const struct wire_open_capture *o, struct refusal *r)
{
	if (o->permit || o->selection.raw_images) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Ask for one or the other.",
			    "a trace records when kernels ran and no more: it has no counter data, "
			    "and permits nothing");
		return r->code;
	}
	return 0;
}

static int check_open(struct peer *p, const struct wire_open_capture *o, uint64_t *ret_gpus,
		      struct refusal *r)
{
	struct front *f = p->front;
	uid_t user = policy_user(p->credentials.uid, p->credentials.host_root);

	if (f->stopping) {
		refusal_set(r, GPUCTR_E_STOPPING, "Try again once it is back.",
			    "the daemon is going down");
	} else if (o->recorded && o->processes.n > 0) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Ask for one of them.",
			    "a process in standby plays no recording");
	} else if (o->permit && permits_check(o, r) != 0) {
		return r->code;
	} else if (o->trace && check_trace(o, r) != 0) {
		return r->code;
	} else if (!p->credentials.host_root &&
		   !rate_take(&f->opens, user, f->config.captures_per_minute, clock_now_ns(),
			      NULL)) {
		refusal_set(r, GPUCTR_E_QUOTA, "Wait a minute.",
			    "you opened more than %u captures within a minute, which is the limit",
			    f->config.captures_per_minute);
	} else if (registry_count_user(&f->registry, user) >= f->config.captures_per_user) {
		refusal_set(r, GPUCTR_E_QUOTA,
			    "End one of them first; `gpuctr-client status` lists them.",
			    "you have %u captures open, which is the limit",
			    f->config.captures_per_user);
	} else if (admission_allows(f, &p->credentials,
				    r) && /* settings may have changed since its hello */
		   check_kernels(o->selection.kernel_regex, r) == 0 &&
		   !o->recorded && describe_machine_trouble(f, r) == 0) {
		standby_look_for_ended(f, &o->processes);
		return admission_choose(f, &p->credentials, standby_target(p, &o->processes), o,
					ret_gpus, r);
	}
	return r->code;
}

/* The request names processes and no GPUs: which GPUs the processes use is not known yet. */
static bool names_processes_alone(const struct wire_open_capture *o)
{
	return o->processes.n > 0 && o->gpus.n == 0;
}

/* Refuses at once, even when the planner is busy, a client that does not wait for held GPUs. */
static int check_free(const struct front *f, uid_t user, const struct wire_open_capture *o,
		      uint64_t gpus, struct refusal *r)
{
	const struct reservation *blocker;
	struct reservation probe;
	struct arena a;

	reservation_init(&probe, gpus, user);
	blocker = o->no_wait && !o->recorded && !o->trace && !names_processes_alone(o)
			  ? arbiter_blocker(&f->arbiter, &probe)
			  : NULL;
	if (!blocker) {
		return 0;
	}
	arena_init(&a, 16 * 1024);
	refusal_set(r, GPUCTR_E_GPU_BUSY, "Leave out --wait 0 to queue, or try again later.",
		    "the GPU's counters are held by %s",
		    capture_describe_holder(&a, list_entry(blocker, struct capture, reservation)));
	arena_deinit(&a);
	return r->code;
}

static const char *planned_chip(const struct front *f, const struct wire_open_capture *o,
				uint64_t gpus)
{
	for (size_t i = 0; !o->recorded && i < f->machine.gpus.n; i++) {
		if ((gpus >> i & 1) != 0) {
			return f->machine.gpus.v[i].chip;
		}
	}
	return admission_chip(f, o->chip);
}

static void refuse_at_once(struct peer *p, uint32_t request, const struct refusal *r)
{
	decision_of_peer(p, r);
	peer_refuse(p, request, r);
}

/* Stores the GPUs for which c will wait. */
static void reserve(struct front *f, struct capture *c, uint64_t gpus)
{
	reservation_init(&c->reservation, gpus, policy_user(c->uid, c->host_root));
}

/* Called when the GPUs are known: sends the request to the planner. */
static void plan(struct front *f, struct capture *c, uint64_t gpus)
{
	const struct peer *client = c->client;
	struct wire_message q = { .type = WIRE_PLAN_REQUEST };
	struct refusal refusal;
	int r;

	if (c->options.permit) {
		standby_forget(c);
	}
	c->by_job = admission_by_job(f, &client->credentials, gpus);
	reserve(f, c, c->recorded ? 0 : gpus);
	if (c->options.permit || (c->options.trace && c->options.metrics.n == 0)) {
		finish_opening(f, c,
			       &(struct wire_plan){ .chip = planned_chip(f, &c->options, gpus) });
		return;
	}
	q.plan_request = (struct wire_plan_request){
		.chip = planned_chip(f, &c->options, gpus),
		.metrics = c->options.metrics,
	};
	r = rpc_client_request(&f->planner, c->account, &q, on_planned, c, 0);
	if (r == -EDQUOT) {
		account_refuse(c->account, &refusal);
		refuse_open(f, c, refusal.code, refusal.remedy, refusal.message);
	} else if (r < 0) {
		refuse_open(f, c, GPUCTR_E_INTERNAL,
			    "Try again in a moment; the daemon restarts it.",
			    "the process that knows the metrics is not running");
	}
}

static void on_seen(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	struct capture *c = registry_find(&f->registry, request);
	uint64_t seen = 0;

	if (!c || c->state != CAPTURE_PLANNING) {
		return;
	}
	if (m && m->type == WIRE_TENANTS_REPLY && m->tenants_reply.known) {
		seen = standby_gpus(c, &m->tenants_reply, c->reservation.gpus);
	}
	plan(f, c, seen ? seen : c->reservation.gpus);
}

/* Chooses the GPUs on which the processes compute now; all of gpus if none computes yet or if the
 * gpu process does not know. */
static void find_gpus(struct front *f, struct capture *c, uint64_t gpus)
{
	struct wire_message q = { .type = WIRE_TENANTS_REQUEST, .tenants_request = { 0, gpus } };

	reserve(f, c, gpus);
	if (rpc_client_request(&f->gpu, NULL, &q, on_seen, NULL, c->id) < 0) {
		plan(f, c, gpus);
	}
}

/* A new capture of client p with a copy of its request; NULL with r filled. */
static struct capture *new_capture(struct peer *p, const struct wire_open_capture *o,
				   struct refusal *r)
{
	struct registry *all = &p->front->registry;
	struct capture *c = capture_new(all);
	struct wire_open_capture request = *o;
	struct permits_texts texts;

	if (!c) {
		refusal_set(r, GPUCTR_E_QUOTA, "Try again later.",
			    "the daemon has no room for another capture");
		return NULL;
	}
	capture_set_account(c, p->account);
	if (o->permit) {
		permits_describe(&request, &texts);
	}
	if (capture_set_options(c, &request) < 0) {
		account_refuse(p->account, r);
		return capture_free(all, c);
	}
	c->uid = c->target = p->credentials.uid;
	c->pid = p->credentials.pid;
	c->host_root = p->credentials.host_root;
	c->recorded = o->recorded;
	c->request = o->request;
	if (standby_choose(p, c, &o->processes, r) != 0) {
		return capture_free(all, c);
	}
	c->target = o->permit ? c->uid : c->target;
	/* The permissions go to the target's programs, which get the token. So an entitlement of
	 * the user who opens the capture does not apply to them. */
	c->device = c->target == c->uid &&
		    policy_allows_device(&p->front->config.policy, &p->credentials);
	users_name(p->front->users, c->uid, c->user, sizeof(c->user));
	if (c->target != c->uid) {
		users_name(p->front->users, c->target, c->owner, sizeof(c->owner));
	}
	c->client = p;
	list_append(&p->captures, &c->client_link);
	return c;
}

int handle_open_capture(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_open_capture *o = &m->open_capture;
	struct front *f = p->front;
	struct refusal refusal = { 0 };
	struct capture *c = NULL;
	uint64_t gpus = 0;

	if (check_open(p, o, &gpus, &refusal) == 0 &&
	    check_free(f, policy_user(p->credentials.uid, p->credentials.host_root), o, gpus,
		       &refusal) == 0) {
		c = new_capture(p, o, &refusal);
	}
	if (!c) {
		refuse_at_once(p, o->request, &refusal);
	} else if (names_processes_alone(o)) {
		find_gpus(f, c, gpus);
	} else {
		plan(f, c, gpus);
	}
	return 0;
}
