/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/clean.h"
#include "daemon/front/front.h"
#include "daemon/front/requests.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/standby.h"

/* All that users may send, and in which role. A message that is not in the table, or not for the
 * peer's role, ends the connection. Policy is checked when a client introduces itself, and for its
 * GPUs when it opens a capture. An agent needs the token of a capture of its own uid. From then on
 * a peer acts only on captures of its own. */

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
