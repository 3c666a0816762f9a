/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* The status as one JSON object on one line, with an end of line. gpuctr-status(5) documents its
 * members: these keep their names and meanings, and others may be added. */
void status_json(struct buf *b, const struct gpuctr_status *status);

/* "planning", "queued", ... */
const char *status_state_name(enum gpuctr_capture_state state);
