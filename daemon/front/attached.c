/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/attached.h"

#include <stdio.h>

#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/peer.h"
#include "proto/base/clock.h"
#include "proto/wire/limits.h"

/* The messages to a client about a process of its capture. */

static void send_process(struct process *process, const char *program, const char *recorded_from,
			 const struct wire_strings *labels)
{
	struct wire_message m = {
		.type = WIRE_PROCESS,
		.process = {
			.capture = process->capture->id,
			.process = process->number,
			.pid = (uint32_t)process->pid,
			.program = program,
			.recorded_from = recorded_from,
			.claims = *labels,
		},
	};

	peer_send_client(process->capture, &m);
}

static void send_agent_welcome(struct process *process)
{
	struct peer *p = process->peer;
	struct capture *c = process->capture;
	const char *uuids[LIMIT_GPUS];
	struct wire_message m = { .type = WIRE_AGENT_WELCOME };
	size_t n = describe_uuids(p->front, c->reservation.gpus, uuids);

	m.agent_welcome = (struct wire_agent_welcome){
		.version = PROTO_VERSION,
		.capture = c->id,
		.process = process->number,
		.plan = c->plan,
		.selection = c->options.selection,
		.gpus = { n, uuids },
		.token = c->token,
		.trace = c->options.trace,
	};
	peer_send(p, &m);
}

void attached_welcome(struct process *p, const char *recorded_from,
		      const struct wire_strings *labels)
{
	const struct peer *peer = p->peer;

	p->counted_ns = clock_wall_ns();
	send_process(p, peer->program, recorded_from, labels);
	send_agent_welcome(p);
}

void attached_report_left_out(const struct process *p, const char *message)
{
	peer_notify_client(p->capture, (struct wire_notice){
					       .process = p->number,
					       .code = GPUCTR_E_QUOTA,
					       .message = message,
					       .remedy = "What it has said before tells what is "
							 "wrong.",
				       });
}

static void report_notices(const struct process *p)
{
	char text[128];

	if (p->notices > ATTACHED_NOTICES_MAX) {
		snprintf(text, sizeof(text), "%llu notices of pid %d were left out",
			 (unsigned long long)(p->notices - ATTACHED_NOTICES_MAX), (int)p->pid);
		attached_report_left_out(p, text);
	}
}

void attached_report_end(struct front *f, struct process *p)
{
	struct capture *c = p->capture;
	struct wire_message m = { .type = WIRE_PROCESS_END };
	uint64_t now_ns = clock_wall_ns();

	stats_settle(&f->stats, p);
	report_notices(p);
	m.process_end = (struct wire_process_end){
		.capture = c->id,
		.process = p->number,
		.totals = p->totals,
		.clean = p->said_goodbye,
		.uncounted_ns =
			!p->said_goodbye && now_ns > p->counted_ns ? now_ns - p->counted_ns : 0,
	};
	peer_send_client(c, &m);
}
