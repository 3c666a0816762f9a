/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/requests.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/utf8.h"
#include "daemon/front/admission.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/standby.h"
#include "proto/wire/limits.h"

enum { QUESTIONS_MAX = 8 };

int handle_hello(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct wire_message answer = {
		.type = WIRE_WELCOME,
		.welcome = { .version = PROTO_VERSION, .daemon = GPUCTR_VERSION },
	};
	struct refusal r;

	if (peer_refuse_version(p, m->hello.version, &r)) {
		return 0;
	}
	snprintf(p->program, sizeof(p->program), "%s", m->hello.program);
	utf8_repair(p->program);
	if (!admission_allows_questions(p->front, &p->credentials, &r)) {
		peer_turn_away(p, &r);
		return 0;
	}
	p->role = PEER_CLIENT;
	peer_send(p, &answer);
	return 0;
}

void requests_on_reload(struct front *f)
{
	list_for_each_safe(l, &f->peers) {
		struct peer *p = list_entry(l, struct peer, link);
		struct refusal r;

		if (p->role == PEER_CLIENT && list_is_empty(&p->captures) &&
		    !admission_allows_questions(f, &p->credentials, &r)) {
			peer_turn_away(p, &r);
		}
	}
}

static void refuse_question(struct peer *p, uint32_t request, int why)
{
	struct refusal r;

	if (why == -EDQUOT) {
		account_refuse(p->account, &r);
	} else {
		refusal_set(&r, GPUCTR_E_INTERNAL, "Try again in a moment; the daemon restarts it.",
			    "the process that knows the metrics does not answer");
	}
	peer_refuse_counted(p, request, &r);
}

static void on_answer(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	struct peer *p = owner;

	if (m) {
		peer_send(p, m);
	} else {
		refuse_question(p, request, -EPIPE);
	}
}

/* Questions take the planner's time from other users, so at most QUESTIONS_MAX of a client may
 * wait, and a user may ask questions_per_minute. */
static bool asks_too_much(struct peer *p, uint32_t request)
{
	struct front *f = p->front;
	const struct credentials *c = &p->credentials;
	struct refusal r;

	if (rpc_client_count(&f->planner, p) >= QUESTIONS_MAX) {
		refusal_set(&r, GPUCTR_E_QUOTA, "Wait for the answers first.",
			    "%d of your questions wait for their answer", QUESTIONS_MAX);
	} else if (!c->host_root &&
		   !rate_take(&f->questions, policy_user(c->uid, c->host_root),
			      f->config.questions_per_minute, clock_now_ns(), NULL)) {
		refusal_set(&r, GPUCTR_E_QUOTA, "Wait a minute.",
			    "you asked for more than %u lists of metrics and plans within a "
			    "minute, which is the limit",
			    f->config.questions_per_minute);
	} else {
		return false;
	}
	peer_refuse_counted(p, request, &r);
	return true;
}

static void ask(struct peer *p, const struct wire_message *m, uint32_t request)
{
	struct wire_message q = *m;
	const char **chip =
		m->type == WIRE_PLAN_REQUEST ? &q.plan_request.chip : &q.metrics_request.chip;
	int r;

	*chip = admission_chip(p->front, *chip);

	if (asks_too_much(p, request)) {
		return;
	}
	r = rpc_client_request(&p->front->planner, p->account, &q, on_answer, p, request);
	if (r < 0) {
		refuse_question(p, request, r);
	}
}

int handle_metrics(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	ask(p, m, m->metrics_request.request);
	return 0;
}

int handle_plan(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	ask(p, m, m->plan_request.request);
	return 0;
}

int handle_status(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct front *f = p->front;
	struct wire_message answer = { .type = WIRE_STATUS_REPLY, .status_reply = f->machine };
	struct refusal trouble;

	answer.status_reply.request = m->status_request.request;
	answer.status_reply.daemon = GPUCTR_VERSION;
	answer.status_reply.uptime_ns = clock_now_ns() - f->started_ns;
	answer.status_reply.peers = f->n_peers;
	answer.status_reply.trouble_code = (uint32_t)describe_trouble(f, &trouble);
	answer.status_reply.trouble = trouble.message;
	answer.status_reply.trouble_remedy = trouble.remedy;
	answer.status_reply.gpus = describe_gpus(f, &f->message, UINT64_MAX);
	answer.status_reply.captures = describe_captures(f, &f->message, &p->credentials);
	answer.status_reply.counts = describe_counts(f, &f->message, &p->credentials);
	peer_send(p, &answer);
	return 0;
}

/* --- table of handlers --- */

/* All messages that users may send, with their roles. A message that is not in the table, or not
 * for the peer's role, ends the connection. The front checks the policy when a client introduces
 * itself, and checks it for GPUs when the client opens a capture. An agent needs the token of a
 * capture of its own uid. From then on a peer acts only on captures of its own. */

static const struct {
	enum wire_type type;
	enum peer_role role;
	peer_handler *handle;
} table[] = {
	{ WIRE_HELLO, PEER_NEW, handle_hello },
	{ WIRE_AGENT_HELLO, PEER_NEW, handle_agent_hello },
	{ WIRE_PERMISSION_REQUEST, PEER_NEW, handle_permission },

	{ WIRE_METRICS_REQUEST, PEER_CLIENT, handle_metrics },
	{ WIRE_PLAN_REQUEST, PEER_CLIENT, handle_plan },
	{ WIRE_STATUS_REQUEST, PEER_CLIENT, handle_status },
	{ WIRE_OPEN_CAPTURE, PEER_CLIENT, handle_open_capture },
	{ WIRE_CLOSE_CAPTURE, PEER_CLIENT, handle_close_capture },
	{ WIRE_PROCESSES_REQUEST, PEER_CLIENT, handle_processes },
	{ WIRE_JOB_BEGIN, PEER_CLIENT, handle_job_begin },
	{ WIRE_JOB_END, PEER_CLIENT, handle_job_end },

	{ WIRE_PROCESS, PEER_AGENT, handle_process },
	{ WIRE_RECORDS, PEER_AGENT, handle_records },
	{ WIRE_RAW_IMAGE, PEER_AGENT, handle_raw_image },
	{ WIRE_PROGRESS, PEER_AGENT, handle_progress },
	{ WIRE_NOTICE, PEER_AGENT, handle_notice },
	{ WIRE_GOODBYE, PEER_AGENT, handle_goodbye },
};

int dispatch_frame(struct peer *p, const struct frame *frame)
{
	struct arena *a = &p->front->message;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct wire_message m;
		int r;

		if (table[i].type != frame->type || table[i].role != p->role) {
			continue;
		}
		r = wire_decode(a, frame->type, frame->payload, frame->size, &m);
		r = r == 0 ? table[i].handle(p, &m, frame) : r;
		arena_reset(a);
		return r;
	}
	return WIRE_E_UNKNOWN;
}

void dispatch_closed(struct peer *p)
{
	switch (p->role) {
	case PEER_CLIENT:
		capture_events_on_client_closed(p);
		break;
	case PEER_AGENT:
		agent_on_closed(p);
		break;
	case PEER_PERMISSION:
		permission_on_closed(p);
		break;
	case PEER_NEW:
		break;
	}
}
