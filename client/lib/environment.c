/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/internal.h"
#include "proto/base/clean.h"
#include "proto/wire/limits.h"

/* The variables by which a program finds the agent, and the agent the daemon. libcuda and NVTX load
 * the library that their variables name. Nothing is preloaded, so a program that uses neither never
 * loads the agent.
 *
 * With GPUCTR_TOKEN the program is part of the capture that has the token, from its beginning. With
 * GPUCTR_STANDBY it registers and waits for a capture. */

enum { VARIABLES = 4 };

const char *environment_agent(const char *agent)
{
	if (!agent) {
		agent = getenv("GPUCTR_AGENT");
	}
	return agent && agent[0] ? agent : GPUCTR_AGENT_PATH;
}

/* What is at the path need not be there yet: the daemon may come later. */
void environment_absolute(const char *path, size_t limit, char ret[PATH_MAX])
{
	CLEAN_FREE char *folder = path[0] == '/' ? NULL : getcwd(NULL, 0);

	if (!folder || (size_t)snprintf(ret, PATH_MAX, "%s/%s", folder, path) >= limit) {
		snprintf(ret, PATH_MAX, "%s", path);
	}
}

int environment_make(const char *socket, const char *agent, const char *last, char ***ret,
		     struct refusal *r)
{
	char agent_path[PATH_MAX], socket_path[PATH_MAX], *text;
	size_t room = 3 * PATH_MAX + strlen(last) + 256, n = 0;
	char **v;

	environment_absolute(environment_agent(agent), PATH_MAX, agent_path);
	environment_absolute(socket, ENVIRONMENT_SOCKET_BYTES, socket_path);
	if (access(agent_path, R_OK) < 0) {
		refusal_set(r, GPUCTR_E_NO_AGENT, "Install gpuctr-agent, or name it with --agent.",
			    "the agent %.512s cannot be read (%s)", agent_path, strerror(errno));
		return r->code;
	}
	v = malloc((VARIABLES + 1) * sizeof(*v) + room);
	if (!v) {
		return -ENOMEM;
	}
	text = (char *)(v + VARIABLES + 1);
	v[0] = text;
	n += (size_t)snprintf(text + n, room - n, "CUDA_INJECTION64_PATH=%s", agent_path) + 1;
	v[1] = text + n;
	n += (size_t)snprintf(text + n, room - n, "NVTX_INJECTION64_PATH=%s", agent_path) + 1;
	v[2] = text + n;
	n += (size_t)snprintf(text + n, room - n, "GPUCTR_SOCKET=%s", socket_path) + 1;
	v[3] = text + n;
	snprintf(text + n, room - n, "%s", last);
	v[4] = NULL;
	*ret = v;
	return 0;
}

const char *const *gpuctr_capture_environment(struct gpuctr_capture *c, const char *agent)
{
	char token[LIMIT_TOKEN_BYTES + sizeof("GPUCTR_TOKEN=")];
	struct refusal refusal;
	char **v;
	int r;

	if (!c->token) {
		connection_fail(c->g, GPUCTR_E_BAD_REQUEST, "the capture is not ready",
				"Wait for on_ready.");
		return NULL;
	}
	if (c->permit != GPUCTR_PERMIT_NONE) {
		return permit_environment(c, agent);
	}
	snprintf(token, sizeof(token), "GPUCTR_TOKEN=%s", c->token);
	r = environment_make(c->g->path, agent, token, &v, &refusal);
	if (r != 0) {
		if (r > 0) {
			connection_refuse(c->g, &refusal);
		}
		return NULL;
	}
	free(c->environment);
	c->environment = v;
	return (const char *const *)v;
}

int gpuctr_standby_environment(const char *socket, const char *agent, char ***ret)
{
	struct refusal refusal;

	return environment_make(socket ? socket : gpuctr_default_socket(), agent,
				"GPUCTR_STANDBY=1", ret, &refusal);
}
