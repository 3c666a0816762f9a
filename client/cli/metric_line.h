/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "proto/base/buf.h"

/* Appends a line of "metrics": head, the name, its kind if it is not NULL, its unit. */
void metric_line(struct buf *b, const char *head, const char *name, const char *kind,
		 const char *unit);
