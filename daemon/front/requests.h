/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Introductions and questions: everything that does not change a capture. */

#include "daemon/front/peer.h"

peer_handler handle_hello, handle_metrics, handle_plan, handle_status;

/* True, and the peer was refused, with *r set: it speaks another version of the protocol. */
bool requests_refuse_version(struct peer *p, uint32_t version, struct refusal *r);
/* Closes peers that are not allowed any more and have no capture. */
void requests_on_reload(struct front *f);
