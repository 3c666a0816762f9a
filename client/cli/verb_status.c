/* SPDX-License-Identifier: Apache-2.0 */

/* "status": shows the daemon, its GPUs, who measures and who waits. */

#include "client/cli/verb.h"

#include <unistd.h>

#include "client/cli/request.h"
#include "client/cli/status.h"
#include "client/cli/terminal.h"

struct status_options {
	const char *socket; /* NULL: the default */
	bool json;
};

static const struct option_def defs[] = {
	{ 0, "json", NULL, "one JSON object, see gpuctr-status(5)",
	  OPTION_AT(FLAG, struct status_options, json) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct status_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static void on_status_for_people(const struct gpuctr_status *status,
				 const struct gpuctr_error *error, void *userdata)
{
	struct request *request = userdata;

	if (status) {
		status_text(&request->b, status, terminal_has_style(STDOUT_FILENO));
	}
	request_answer(request, error);
}

static void on_status_for_programs(const struct gpuctr_status *status,
				   const struct gpuctr_error *error, void *userdata)
{
	struct request *request = userdata;

	if (status) {
		status_json(&request->b, status);
	}
	request_answer(request, error);
}

static int exec_status(const struct verb *const *verbs, int argc, char **argv)
{
	struct status_options o = { 0 };
	struct request request;
	int status = verb_read_all(&verb_status, argc, argv, &o);

	if (status >= 0) {
		return status;
	}
	if (!request_open(&request, o.socket)) {
		return request.status;
	}
	return request_finish(&request, gpuctr_get_status(request.g,
							  o.json ? on_status_for_programs
								 : on_status_for_people,
							  &request));
}

const struct verb verb_status = {
	.name = "status",
	.usage = "status [--json]",
	.summary = "show the daemon, its GPUs, captures and queue",
	.examples = "  gpuctr-client status\n"
		    "  gpuctr-client status --json | jq '.gpus[].name'\n",
	.options = defs,
	.exec = exec_status,
};
