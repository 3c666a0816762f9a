/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* Writes the status as OpenMetrics 1.0 if open, else as Prometheus' text format 0.0.4. s NULL:
 * there is no status, because of error. began_ns: Unix time at which the daemon's counts began. */
void metrics_write(struct buf *b, bool open, const struct gpuctr_status *s, uint64_t began_ns,
		   int error);
