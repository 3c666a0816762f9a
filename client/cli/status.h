/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* The status as one JSON object on one line, with an end of line. gpuctr-status(5) documents its
 * members, which keep their names and meanings; others may be added. processes: objects of the
 * processes in standby, separated by commas. */
void status_json(struct buf *b, const struct gpuctr_status *status, const struct buf *processes);

/* Appends the daemon, its GPUs, captures and queue; headings in bold where styled. */
void status_text(struct buf *b, const struct gpuctr_status *status, bool styled);
