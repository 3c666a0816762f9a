/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts a capture file by an exporter, for "export" and "merge". */

#include "client/report/exporter.h"

struct export_options {
	const char *verb; /* the first word of messages */
	const struct exporter *exporter;
	struct exporter_options more;
	const char *path; /* of the output; "-": standard output */
	const char *capture;
	bool force;
};

/* Returns the exit status; errors were reported. */
int export_capture(const struct export_options *o);

extern const struct exporter export_jsonl; /* the live stream, from a file */
extern const struct exporter export_csv;   /* for spreadsheets and SQL: a row for each kernel */
