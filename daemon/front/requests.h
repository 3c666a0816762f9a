/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Introductions and questions: everything that does not change a capture. Handlers return 0, a
 * WIRE_E_* (refused as malformed, then closed) or -errno (closed). */

#include "daemon/front/peer.h"
#include "proto/wire/frame.h"

int handle_hello(struct peer *p, const struct wire_message *m, const struct frame *frame);
/* True, and the peer was refused, with *r set: it speaks another version of the protocol. */
bool requests_refuse_version(struct peer *p, uint32_t version, struct refusal *r);
/* Closes peers that are not allowed any more and have no capture. */
void requests_on_reload(struct front *f);

int handle_metrics(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_plan(struct peer *p, const struct wire_message *m, const struct frame *frame);
int handle_status(struct peer *p, const struct wire_message *m, const struct frame *frame);
