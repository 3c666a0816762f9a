/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/attached.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/utf8.h"
#include "daemon/front/decision.h"
#include "daemon/front/front.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/standby.h"

/* Agents. The front checks that an agent's message is about its own process, counts the message,
 * and passes the received bytes to the client: it never decodes records. When a client reads more
 * slowly than its agents write, its queue fills up to a mark, and then the front does not read the
 * agents. It checks the mark before each read: a capture may have a thousand agents, and one frame
 * of each would be too much. Agents have bounded queues of their own and count the records that do
 * not fit. When the client has read, the front reads the agents in turn.
 *
 * The number of a process's notices is bounded, since each is a line for a person to read: the
 * client hears when the bound is reached, and at the end how many notices were left out. */

static void refuse_agent(struct peer *p, int code, const char *remedy, const char *message)
{
	struct refusal r;

	refusal_set(&r, code, remedy, "%s", message);
	peer_turn_away(p, &r);
}

static int attach(struct peer *p, struct capture *c)
{
	struct processes *all = &p->front->processes;

	p->process = process_new(all, p->credentials.pid, p->credentials.uid, p);
	if (!p->process || process_attach(p->process, c) != 0) {
		p->process = process_free(all, p->process);
		return PROCESS_E_FULL;
	}
	process_begin(p->process);
	return 0;
}

/* An agent never prints, so the capture's client hears why the program is not measured. */
static void notify_not_measured(struct peer *p, struct capture *c, const char *program,
				const struct refusal *why)
{
	char text[1024];

	snprintf(text, sizeof(text), "%.100s (pid %d) is not measured: %s", program,
		 (int)p->credentials.pid, why->message);
	utf8_repair(text);
	peer_notify_client(c, (struct wire_notice){ .code = (uint32_t)why->code,
						    .message = text,
						    .remedy = why->remedy });
}

/* May the agent join the capture that its token opens? If not, refuses it. */
static bool takes_part(struct peer *p, struct capture *c, const struct wire_agent_hello *h)
{
	char text[256];

	if (c->options.processes.n > 0) {
		refuse_agent(p, GPUCTR_E_NOT_ALLOWED,
			     "Start the program in standby, and name it in a capture.",
			     "this capture measures the processes that it names, and no other");
	} else if (h->recorded_from[0] && strcmp(h->chip, c->plan.chip) != 0) {
		snprintf(text, sizeof(text),
			 "the recording is of a %.60s, the capture was planned for %.60s", h->chip,
			 c->plan.chip);
		refuse_agent(p, GPUCTR_E_CHIP_MISMATCH,
			     "Play it by `gpuctr-client gpuctr-replay FILE`, or add --recorded and "
			     "name FILE.",
			     text);
	} else if (!h->recorded_from[0] && c->recorded) {
		refuse_agent(p, GPUCTR_E_NO_GPU,
			     "Play a recording with gpuctr-replay, or leave out --recorded.",
			     "this capture leases no GPU: only a recording can answer it");
	} else {
		return true;
	}
	return false;
}

int handle_agent_hello(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_agent_hello *h = &m->agent_hello;
	struct capture *c = registry_find_token(&p->front->registry, h->token);
	struct refusal r;

	if (peer_refuse_version(p, h->version, &r)) {
		if (c && c->client && c->target == p->credentials.uid) {
			notify_not_measured(p, c, h->program, &r);
		}
		return 0;
	}
	if (h->token[0] == '\0' && h->recorded_from[0] == '\0') {
		standby_register(p, h);
		return 0;
	}
	if (!c || c->target != p->credentials.uid || !capture_is_live(c) || c->options.permit) {
		refuse_agent(p, GPUCTR_E_BAD_TOKEN, "Start the program with gpuctr-client.",
			     "no capture of yours is open under this token");
		return 0;
	}
	if (!takes_part(p, c, h)) {
		return 0;
	}
	if (attach(p, c) != 0) {
		refuse_agent(p, GPUCTR_E_QUOTA, "Measure fewer processes at a time.",
			     "too many processes in this capture");
		return 0;
	}
	p->role = PEER_AGENT;
	snprintf(p->program, sizeof(p->program), "%s", h->program);
	utf8_repair(p->program);
	capture_events_report(p->front, c, EVENT_ATTACHED);
	attached_welcome(p->process, h->recorded_from, &h->claims);
	return 0;
}

/* Is the message about the agent's own process? An agent whose capture has ended is closing. */
static bool is_own(const struct peer *p, uint32_t capture, uint32_t process)
{
	return p->process && p->process->capture && p->process->number != 0 &&
	       p->process->number == process && p->process->capture->id == capture;
}

/* A client is behind if it has much unread output. If all connections of its user together have
 * much, a client with any unread output is behind, because the remaining memory is for clients that
 * read. */
static bool is_behind(const struct peer *client)
{
	return peer_backlog(client) > PEER_OUT_HIGH_BYTES ||
	       (peer_backlog(client) > 0 && account_is_high(client->account));
}

bool agent_hold_back(struct peer *p)
{
	struct capture *c = p->process ? p->process->capture : NULL;
	const struct peer *client = c ? c->client : NULL;

	if (!client || p->process->number == 0) {
		return false; /* it would stay paused if the capture ended before it begins */
	}
	c->holds_back = !client->closing && (c->holds_back || is_behind(client));
	return c->holds_back;
}

/* Moves the process to the end of the list, so that another agent is read next. */
static void go_to_the_end(struct process *process)
{
	list_remove(&process->link);
	list_append(&process->capture->processes, &process->link);
}

static int forward(struct peer *p, const struct frame *frame)
{
	struct peer *client = p->process->capture->client;

	if (!client) {
		return 0;
	}
	peer_send_raw(client, frame->payload - FRAME_HEADER_BYTES,
		      FRAME_HEADER_BYTES + frame->size);
	if (peer_backlog(client) > 0) {
		go_to_the_end(p->process);
	}
	if (agent_hold_back(p)) {
		peer_pause(p);
	}
	return 0;
}

int handle_process(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct wire_message out = *m;

	if (!is_own(p, m->process.capture, m->process.process)) {
		return WIRE_E_MALFORMED;
	}
	out.process.pid = (uint32_t)p->process->pid;
	out.process.program = p->program;
	peer_send_client(p->process->capture, &out);
	return 0;
}

int handle_records(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	if (!is_own(p, m->records.capture, m->records.process)) {
		return WIRE_E_MALFORMED;
	}
	p->process->records += m->records.count;
	stats_note_records(&p->front->stats, m->records.count, FRAME_HEADER_BYTES + frame->size);
	return forward(p, frame);
}

int handle_raw_image(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	return is_own(p, m->raw_image.capture, m->raw_image.process) ? forward(p, frame)
								     : WIRE_E_MALFORMED;
}

static int forward_notice(struct peer *p, const struct frame *frame)
{
	uint64_t n = ++p->process->notices;
	char text[128];

	if (n <= ATTACHED_NOTICES_MAX) {
		return forward(p, frame);
	}
	if (n == ATTACHED_NOTICES_MAX + 1) {
		snprintf(text, sizeof(text),
			 "pid %d has sent %d notices: what else it says is left out and counted",
			 (int)p->process->pid, ATTACHED_NOTICES_MAX);
		attached_report_left_out(p->process, text);
	}
	return 0;
}

int handle_notice(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	int r;

	if (!is_own(p, m->notice.capture, m->notice.process)) {
		return WIRE_E_MALFORMED;
	}
	r = forward_notice(p, frame);
	if (m->notice.code == GPUCTR_E_STALLED) {
		/* Freeing the capture's driver objects releases whatever waits for them. */
		capture_events_report_why(p->front, p->process->capture, EVENT_STALLED,
					  GPUCTR_E_STALLED, m->notice.message, m->notice.remedy);
	}
	return r;
}

/* Stores the time at which the agent's counts were true. The message may have waited long in the
 * socket, so the agent sends the time. If it sends none, or a future one, the stored time stays. */
static void note_counted(struct process *process, uint64_t counted_ns)
{
	if (counted_ns > process->counted_ns && counted_ns <= clock_wall_ns()) {
		process->counted_ns = counted_ns;
	}
}

int handle_progress(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct wire_message out = { .type = WIRE_PROGRESS };
	struct gpuctr_totals before;
	struct capture *c;

	if (!is_own(p, m->progress.capture, m->progress.process)) {
		return WIRE_E_MALFORMED;
	}
	c = p->process->capture;
	before = p->process->totals;
	note_counted(p->process, m->progress.counted_ns);
	if (memcmp(&before, &m->progress.totals, sizeof(before)) == 0) {
		return 0; /* agents repeat these totals */
	}
	stats_note_kernels(&p->front->stats, &before, &m->progress.totals);
	p->process->totals = m->progress.totals;
	out.progress = (struct wire_progress){ .capture = c->id, .totals = capture_totals(c) };
	peer_send_client(c, &out);
	return 0;
}

int handle_goodbye(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	/* An agent cannot report anything about a capture that has not begun. */
	if (p->process && p->process->capture && p->process->number != 0) {
		stats_note_kernels(&p->front->stats, &p->process->totals, &m->goodbye.totals);
		p->process->totals = m->goodbye.totals;
		p->process->said_goodbye = true;
	}
	if (p->process && p->process->registered) {
		standby_on_goodbye(p);
	} else {
		peer_close_when_sent(p);
	}
	return 0;
}

void agent_on_closed(struct peer *p)
{
	struct process *process = p->process;
	struct capture *c = process ? process->capture : NULL;
	bool begun = c && process->number != 0;

	if (begun) {
		attached_report_end(p->front, process);
	}
	p->process = process_free(&p->front->processes, process);
	if (begun) {
		capture_events_report(p->front, c, EVENT_PROCESS_GONE);
	} else if (c && list_is_empty(&c->processes)) {
		capture_events_report_why(p->front, c, EVENT_DESERTED, GPUCTR_E_AGENT_LOST,
					  "the processes that were to be measured have ended",
					  "Ask for the list of those that are there now.");
	}
}
