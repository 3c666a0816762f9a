/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_EXPORT_H
#define CLIENT_CLI_EXPORT_H

/* A capture file through an exporter into a file, for "export" and "merge". */

#include "client/cli/options.h"
#include "client/report/exporter.h"

struct export_options {
	const char *verb; /* as messages begin */
	const struct exporter *exporter;
	struct exporter_options more;
	const char *path; /* of the output; "-": standard output; FILE.gz is compressed */
	const char *capture;
	bool force, help;
};

/* What both verbs have of the options -o, -f, --process and -h; the id of --process. */
enum { EXPORT_OPTION_PROCESS = 2100 };
bool export_take_option(struct export_options *o, int id, const char *value);
/* A number from min on, or false and told why. */
bool export_parse_number(const char *option, const char *value, unsigned min, unsigned *ret);

/* The exit status; what is wrong was told. */
int export_capture(const struct export_options *o);

#endif
