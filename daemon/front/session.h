/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_SESSION_H
#define GPUCTR_FRONT_SESSION_H

/* The life of captures: between their client, their agents, the arbiter and the granter. */

#include "daemon/front/peer.h"
#include "proto/wire/frame.h"

struct front;

struct capture;

/* Of clients. handle_open_capture() is in opening.c. */
int handle_open_capture(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_renew(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_close_capture(struct peer *p, const struct wire_message *m, const struct frame *frame);

/* Of agents (agents.c). */
int handle_agent_hello(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_process(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_records(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_raw_image(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_progress(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_notice(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_goodbye(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_permission(struct peer *p, const struct wire_message *m, const struct frame *frame);

/* A planned capture asks for its GPUs: it is ready, queued, or refused. */
void session_take_turn(struct front *f, struct capture *c);

/* Events. */
void session_on_peer_closed(struct peer *p);
void session_on_client_drained(struct peer *p);
void session_on_lease_expired(struct front *f, uint64_t lease);
void session_on_granter_lost(struct front *f);
void session_on_driver_hung(struct front *f, uint64_t gpus);

/* why_not NULL: c may have its lease. */
void session_on_tenants_known(struct front *f, struct capture *c, const struct refusal *why_not);
/* An agent says that nothing moves any more: freeing its objects lets go of what they hold. */
void session_on_stalled(struct front *f, struct capture *c, const char *what, const char *remedy);
void session_on_foreign_tenant(struct front *f, struct capture *c, const struct refusal *why);
void session_on_jobs_changed(struct front *f);
void session_on_reload(struct front *f);
void session_on_gpus_changed(struct front *f);
void session_on_granter_back(struct front *f);
void session_on_gpu_back(struct front *f);
void session_on_tick(struct front *f, uint64_t now_ns);

/* Ends every capture with the code, for the daemon's own end. */
void session_end_all(struct front *f, int code, const char *message, const char *remedy);

/* An agent of c has gone: ends c when it was the last one waited for. */
void session_on_process_gone(struct front *f, struct capture *c);
void agent_on_closed(struct peer *p);

#endif
