/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs that wait for captures: they register, clients list them, and captures name them. */

#include "daemon/front/peer.h"
#include "daemon/broker/capture.h"

struct front;

/* Called when p has sent a hello without a token. */
void standby_register(struct peer *p, const struct wire_agent_hello *h);

peer_handler handle_processes;

/* Closes the connections of processes among ids that have ended while another process still holds
 * their socket. To be called before the next two functions. */
void standby_look_for_ended(struct front *f, const struct wire_u32s *ids);

/* The user whose processes ids name, if the client may name them; else the client's user. */
uid_t standby_target(const struct peer *client, const struct wire_u32s *ids);

/* Attaches c to the processes that ids name, all of one user. Leaves out processes that have ended
 * or that another capture measures; the client is notified when the capture begins. If none is
 * left, returns a code with r filled, and c is attached to none. */
int standby_choose(struct peer *client, struct capture *c, const struct wire_u32s *ids,
		   struct refusal *r);

/* The subset of gpus on which c's processes compute according to t; 0: none. */
uint64_t standby_gpus(const struct capture *c, const struct wire_tenants_reply *t, uint64_t gpus);

/* Detaches c, a permit, which has named processes only for their GPUs, once these are known. */
void standby_forget(struct capture *c);

/* Begins to measure the processes, in the order in which they were named. */
void standby_begin(struct front *f, struct capture *c);

/* Called when a process that stays connected has said goodbye to its capture. */
void standby_on_goodbye(struct peer *p);
