/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports to the broker what happens to captures. */

#include "daemon/broker/broker.h"
#include "daemon/front/peer.h"

struct front;

/* Messages of clients, handled in opening.c and capture_events.c. */
peer_handler handle_open_capture, handle_close_capture;

/* Messages of agents, handled in agents.c; handle_permission is in permission.c. */
peer_handler handle_agent_hello, handle_process, handle_records, handle_raw_image, handle_progress,
	handle_notice, handle_goodbye, handle_permission;

/* Reports to the broker what has happened to c, with the texts of the event, and carries out the
 * broker's decision: c may be freed on return. */
void capture_events_report(struct front *f, struct capture *c, enum event_type type);
void capture_events_report_why(struct front *f, struct capture *c, enum event_type type, int code,
			       const char *message, const char *remedy);

/* Only reports the event to the broker; the hook carry_out() carries out the decision later. */
void capture_events_note(struct front *f, struct capture *c, enum event_type type, int code,
			 const char *message, const char *remedy);

/* Reports to the broker whether a granter runs, and the settings. */
void capture_events_look_around(struct front *f);

/* Events of captures. */
void capture_events_on_planned(struct front *f, struct capture *c);
void capture_events_on_client_closed(struct peer *p);
void capture_events_on_client_drained(struct peer *p);
void capture_events_on_granter_lost(struct front *f);
void capture_events_on_granter_back(struct front *f);
void capture_events_on_driver_hung(struct front *f, uint64_t gpus);
void capture_events_on_jobs_changed(struct front *f, uint64_t changed);
void capture_events_on_reload(struct front *f);
void capture_events_on_gpu_back(struct front *f);
void capture_events_on_tick(struct front *f);

/* Ends every capture with the code, because the daemon stops. */
void capture_events_end_all(struct front *f, int code, const char *message, const char *remedy);

/* The connection that waits for a permission is closed; the audit log still notes the request. */
void permission_on_closed(struct peer *p);

/* Is p an agent whose client is behind? The front reads p again when the client has read or is
 * gone. Until then it reads no agent of the capture, so that none overtakes the waiting ones. */
bool agent_hold_back(struct peer *p);

/* An agent's connection is closed: the capture ends if it waited for this agent only. */
void agent_on_closed(struct peer *p);
