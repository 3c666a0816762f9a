/* SPDX-License-Identifier: Apache-2.0 */

/* "status": the daemon, its GPUs, who measures and who waits. */

#include "client/cli/verb.h"

#include <unistd.h>

#include "client/cli/request.h"
#include "client/cli/status_json.h"
#include "client/cli/status_text.h"
#include "client/cli/terminal.h"

static const struct option_def defs[] = {
	{ REQUEST_OPTION_JSON, "json", NULL, "one JSON object, see gpuctr-status(5)" },
	REQUEST_OPTIONS,
	{ 0, NULL, NULL, NULL },
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
	struct request_options o;
	struct request request;
	int status = request_parse(&o, &verb_status, argc, argv);

	(void)verbs;
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
