/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "proto/base/utf8.h"
#include "daemon/front/decision.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/session.h"
#include "proto/wire/limits.h"

/* Agents. What one sends is checked for whose it is, counted, and passed to the client as the bytes
 * it came in: records are never opened here. A client that reads slower than its agents write fills
 * its queue up to a mark, then the agents are not read; they have their own bounded queues and
 * count what no longer fits. */

static void refuse_agent(struct peer *p, int code, const char *remedy, const char *message)
{
	struct refusal r;

	refusal_set(&r, code, remedy, "%s", message);
	decision_of_peer(p, NULL, AUDIT_REFUSED, &r, 0);
	peer_refuse(p, 0, &r);
	if (!p->closing) {
		peer_close_when_sent(p);
	}
}

static void send_process(struct process *process, const char *program, const char *recorded_from)
{
	struct wire_message m = {
		.type = WIRE_PROCESS,
		.process = {
			.capture = process->capture->id,
			.process = process->id,
			.pid = (uint32_t)process->pid,
			.program = program,
			.recorded_from = recorded_from,
		},
	};

	if (process->capture->client) {
		peer_send(process->capture->client, &m);
	}
}

static void send_agent_welcome(struct peer *p, struct capture *c)
{
	const char *uuids[LIMIT_GPUS];
	struct wire_message m = { .type = WIRE_AGENT_WELCOME };
	size_t n = describe_uuids(p->front, c->claim.gpus, uuids);

	m.agent_welcome = (struct wire_agent_welcome){
		PROTO_VERSION,
		0,
		c->id,
		p->process->id,
		c->plan,
		c->options.kernel_regex,
		c->options.launch_skip,
		c->options.launch_count,
		c->options.raw_images,
		{ n, uuids },
	};
	peer_send(p, &m);
}

int handle_agent_hello(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_agent_hello *h = &m->agent_hello;
	struct capture *c = registry_find_token(&p->front->registry, h->token);
	char text[256];

	(void)frame;
	if (!c || c->uid != p->credentials.uid || !capture_is_live(c)) {
		refuse_agent(p, GPUCTR_E_BAD_TOKEN, "Start the program with gpuctr-client.",
			     "no capture of yours is open under this token");
		return 0;
	}
	if (h->recorded_from[0] && strcmp(h->chip, c->plan.chip) != 0) {
		snprintf(text, sizeof(text),
			 "the recording is of a %.60s, the capture was planned for %.60s", h->chip,
			 c->plan.chip);
		refuse_agent(p, GPUCTR_E_CHIP_MISMATCH,
			     "Name the recording's chip with --chip and use --recorded.", text);
		return 0;
	}
	if (!h->recorded_from[0] && c->recorded) {
		refuse_agent(p, GPUCTR_E_NO_GPU,
			     "Play a recording with gpuctr-replay, or leave out --recorded.",
			     "this capture leases no GPU: only a recording can answer it");
		return 0;
	}
	p->process = process_new(c, p->credentials.pid, p);
	if (!p->process) {
		refuse_agent(p, GPUCTR_E_QUOTA, "Measure fewer processes at a time.",
			     "too many processes in this capture");
		return 0;
	}
	p->role = PEER_AGENT;
	snprintf(p->program, sizeof(p->program), "%s", h->program);
	utf8_repair(p->program);
	c->state = WIRE_CAPTURE_RUNNING;
	send_process(p->process, h->program, h->recorded_from);
	send_agent_welcome(p, c);
	return 0;
}

/* Is the message about the agent's own process? An agent whose capture has ended is closing. */
static bool is_own(const struct peer *p, uint32_t capture, uint32_t process)
{
	return p->process && p->process->id == process && p->process->capture->id == capture;
}

/* A user who has much waiting already gets no more of it for clients that do not read just now:
 * what is left is for those that do. */
static bool is_behind(const struct peer *client)
{
	return peer_backlog(client) > PEER_OUT_HIGH_BYTES ||
	       (peer_backlog(client) > 0 && account_is_high(client->account));
}

static int forward(struct peer *p, const struct frame *frame)
{
	struct peer *client = p->process->capture->client;

	if (!client) {
		return 0;
	}
	peer_send_raw(client, frame->payload - FRAME_HEADER_BYTES,
		      FRAME_HEADER_BYTES + frame->size);
	if (!client->closing && is_behind(client)) {
		peer_pause(p);
	}
	return 0;
}

int handle_process(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct wire_message out = *m;

	(void)frame;
	if (!is_own(p, m->process.capture, m->process.process)) {
		return WIRE_E_MALFORMED;
	}
	out.process.pid = (uint32_t)p->process->pid;
	out.process.program = p->program;
	if (p->process->capture->client) {
		peer_send(p->process->capture->client, &out);
	}
	return 0;
}

int handle_records(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	if (!is_own(p, m->records.capture, m->records.process)) {
		return WIRE_E_MALFORMED;
	}
	p->process->records += m->records.count;
	return forward(p, frame);
}

int handle_raw_image(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	return is_own(p, m->raw_image.capture, m->raw_image.process) ? forward(p, frame)
								     : WIRE_E_MALFORMED;
}

int handle_notice(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	int r;

	if (!is_own(p, m->notice.capture, m->notice.process)) {
		return WIRE_E_MALFORMED;
	}
	r = forward(p, frame);
	if (m->notice.code == GPUCTR_E_STALLED) {
		session_on_stalled(p->front, p->process->capture, m->notice.message,
				   m->notice.remedy);
	}
	return r;
}

int handle_progress(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct wire_message out = { .type = WIRE_PROGRESS };
	struct capture *c;

	(void)frame;
	if (!is_own(p, m->progress.capture, m->progress.process)) {
		return WIRE_E_MALFORMED;
	}
	c = p->process->capture;
	p->process->totals = m->progress.totals;
	out.progress = (struct wire_progress){ c->id, 0, capture_totals(c) };
	if (c->client) {
		peer_send(c->client, &out);
	}
	return 0;
}

int handle_goodbye(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	(void)frame;
	if (p->process) {
		p->process->totals = m->goodbye.totals;
		p->process->said_goodbye = true;
	}
	peer_close_when_sent(p);
	return 0;
}

void agent_on_closed(struct peer *p)
{
	struct process *process = p->process;
	struct wire_message m = { .type = WIRE_PROCESS_END };
	struct capture *c;

	if (!process) {
		return; /* its capture ended first */
	}
	c = process->capture;
	process_settle(process);
	m.process_end = (struct wire_process_end){ c->id, process->id, process->totals,
						   process->said_goodbye };
	p->process = NULL;
	process_free(process);
	if (c->client) {
		peer_send(c->client, &m);
	}
	session_on_process_gone(p->front, c);
}
