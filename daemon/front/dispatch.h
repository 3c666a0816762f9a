/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/front/peer.h"
#include "proto/wire/frame.h"

/* Decodes one frame of p and calls its handler. 0; WIRE_E_*: refuse and close; -errno: close. */
int dispatch_frame(struct peer *p, const struct frame *frame);

/* p is closing: informs all modules that hold a reference to p. */
void dispatch_closed(struct peer *p);
