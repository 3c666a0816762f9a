/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "proto/base/buf.h"

/* Appends a line of "metrics": head, the metric's name, its kind unless NULL, its unit. */
void metric_line(struct buf *b, const char *head, const char *name, const char *kind,
		 const char *unit);

/* Prints how many passes the metrics need, and which fit together. socket, chip: NULL: default.
 * Returns the exit status. */
int metrics_fit(const char *socket, const char *chip, const struct strings *metrics);
