/* SPDX-License-Identifier: Apache-2.0 */

/* "standby": starts a program that may be captured later. The program replaces the client
 * (exec). */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/agent_path.h"
#include "client/cli/child.h"
#include "client/cli/say.h"
#include "proto/base/buf.h"

struct standby_options {
	const char *socket, *agent;
};

static const struct option_def defs[] = {
	{ 0, "socket", "PATH", "of the daemon; it may come later",
	  OPTION_AT(TEXT, struct standby_options, socket) },
	{ 0, "agent", "PATH", "of libgpuctr-agent.so, as the program sees it",
	  OPTION_AT(TEXT, struct standby_options, agent) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* Reports why there is no agent, because gpuctr_standby_environment() does not. */
static void refuse_agent(const char *path)
{
	CLEAN_BUF struct buf b = { 0 };
	bool is_read = access(path, R_OK) == 0;

	if (is_read) {
		buf_printf(&b, "%s is no agent library: PROGRAM would run without it", path);
	} else {
		buf_printf(&b, "the agent %s cannot be read (%s)", path, strerror(errno));
	}
	say_error("no-agent", buf_string(&b),
		  is_read ? "Name libgpuctr-agent.so with --agent."
			  : "Install gpuctr-agent, or name it with --agent.");
}

static int set_environment(const char *socket, const char *agent)
{
	char **v;
	int r = gpuctr_standby_environment(socket, agent, &v);

	if (r == GPUCTR_E_NO_AGENT) {
		refuse_agent(agent_path(agent));
		return EXIT_REFUSED;
	}
	if (r == 0) {
		child_tell_replaced((const char *const *)v);
		for (size_t i = 0; r == 0 && v[i]; i++) {
			char *equals = strchr(v[i], '=');

			*equals = '\0';
			r = setenv(v[i], equals + 1, 1) == 0 ? 0 : -errno;
		}
		unsetenv("GPUCTR_TOKEN"); /* variables of a capture that this process itself belongs
					     to */
		free(v);
	}
	if (r != 0) {
		say_usage("%s", strerror(r < 0 ? -r : EIO));
	}
	return r == 0 ? 0 : EXIT_REFUSED;
}

static int start(char **command, const char *socket, const char *agent)
{
	int status;
	char *path;

	if (!command[0]) {
		say_usage("no program given: gpuctr-client standby -- PROGRAM [ARG...]");
		return EXIT_REFUSED;
	}
	path = child_find_or_say(command[0], &status);
	if (!path) {
		return status;
	}
	status = set_environment(socket, agent);
	if (status == 0) {
		execv(path, command);
		say_usage("%s: cannot be run: %s", command[0], strerror(errno));
		status = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	free(path);
	return status;
}

static int exec_standby(const struct verb *const *verbs, int argc, char **argv)
{
	struct standby_options o = { 0 };
	int rest, status = verb_read(&verb_standby, argc, argv, &o, &rest);

	return status < 0 ? start(argv + rest, o.socket, o.agent) : status;
}

const struct verb verb_standby = {
	.name = "standby",
	.usage = "standby [OPTION...] [--] PROGRAM [ARG...]",
	.summary = "start PROGRAM so that it can be captured later",
	.details =
		"PROGRAM takes the client's place and runs unmeasured. See `gpuctr-client status` "
		"and\n"
		"`gpuctr-client capture`. Its exit status is its own; 125, 126 and 127 as for "
		"run.\n",
	.examples = "  gpuctr-client standby python net.py &\n"
		    "  gpuctr-client status\n",
	.takes = "PROGRAM",
	.options = defs,
	.runs = true,
	.exec = exec_standby,
};
