/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* Appends the daemon, its GPUs, captures and queue; headings in bold where styled. */
void status_text(struct buf *b, const struct gpuctr_status *status, bool styled);
