/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"

/* The status as metrics. gpuctr-exporter(8) lists them; a test compares that list with what is
 * written here. The number of lines depends on the machine (GPUs, codes, workers), never on the
 * number of users or captures. */

enum metrics_syntax {
	METRICS_OPENMETRICS, /* 1.0 */
	METRICS_PLAIN,	     /* Prometheus' text format, 0.0.4 */
	METRICS_SYNTAXES,
};

/* For an answer's Content-Type. */
const char *metrics_content_type(enum metrics_syntax syntax);

/* The syntax that a client asks for with its Accept header, which may be NULL. */
enum metrics_syntax metrics_choose(const char *accept);

/* Writes the whole text. began_ns is when the counts began, in Unix time. */
void metrics_add_status(struct buf *b, enum metrics_syntax syntax,
			const struct gpuctr_status *status, uint64_t began_ns);

/* Writes the text for when there is no status: error is the reason. */
void metrics_add_failure(struct buf *b, enum metrics_syntax syntax,
			 const struct gpuctr_error *error);
