/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/internal.h"
#include "proto/wire/limits.h"

/* The variables of a permit. Profilers set CUDA_INJECTION64_PATH themselves (ncu, nsys), and some
 * ask for the counters outside of the program that uses CUDA (nsys): so the library is preloaded
 * unless that is asked for otherwise. What is preloaded already comes after it. */

static const char library[] = "libgpuctr-permit.so";

/* Beside the agent. */
static void find_library(const char *agent, char ret[PATH_MAX])
{
	char path[PATH_MAX];
	const char *slash;

	snprintf(path, sizeof(path), "%s", environment_agent(agent));
	slash = strrchr(path, '/');
	snprintf(path + (slash ? slash + 1 - path : 0),
		 sizeof(path) - (slash ? (size_t)(slash + 1 - path) : 0), "%s", library);
	environment_absolute(path, PATH_MAX, ret);
}

/* 0, or a code with r filled. The dynamic linker takes a space or a colon for the end of a path,
 * and tells of a library that is not there on the program's stderr. */
static int check_library(const char *path, bool preloads, struct refusal *r)
{
	if (access(path, R_OK) < 0) {
		refusal_set(r, GPUCTR_E_NO_AGENT, "Install gpuctr-agent, or name it with --agent.",
			    "the library %.512s cannot be read (%s)", path, strerror(errno));
		return r->code;
	}
	if (preloads && strpbrk(path, " :")) {
		refusal_set(r, GPUCTR_E_NO_AGENT, "Put it into a folder whose path has neither.",
			    "the library %.512s cannot be preloaded: its path has a space or a "
			    "colon",
			    path);
		return r->code;
	}
	return 0;
}

static char *format_loading(const struct gpuctr_capture *c, const char *path)
{
	const char *others = getenv("LD_PRELOAD");
	char *text = NULL;
	int n = c->permit == GPUCTR_PERMIT_BY_INJECTION
			? asprintf(&text, "CUDA_INJECTION64_PATH=%s", path)
			: asprintf(&text, "LD_PRELOAD=%s%s%s", path, others && *others ? ":" : "",
				   others ? others : "");

	return n < 0 ? NULL : text;
}

const char *const *permit_environment(struct gpuctr_capture *c, const char *agent)
{
	char path[PATH_MAX], socket_path[PATH_MAX], *loading, *text;
	struct refusal refusal;
	size_t room, n;
	char **v;

	find_library(agent, path);
	if (check_library(path, c->permit == GPUCTR_PERMIT_BY_PRELOAD, &refusal) != 0) {
		connection_refuse(c->g, &refusal);
		return NULL;
	}
	environment_absolute(c->g->path, ENVIRONMENT_SOCKET_BYTES, socket_path);
	loading = format_loading(c, path);
	room = (loading ? strlen(loading) : 0) + strlen(socket_path) + LIMIT_TOKEN_BYTES + 128;
	v = loading ? malloc(4 * sizeof(*v) + room) : NULL;
	if (!v) {
		free(loading);
		connection_fail(c->g, GPUCTR_E_INTERNAL, "there is no memory for the environment",
				"");
		return NULL;
	}
	text = (char *)(v + 4);
	v[0] = text;
	n = (size_t)snprintf(text, room, "%s", loading) + 1;
	v[1] = text + n;
	n += (size_t)snprintf(text + n, room - n, "GPUCTR_PERMIT_SOCKET=%s", socket_path) + 1;
	v[2] = text + n;
	snprintf(text + n, room - n, "GPUCTR_PERMIT=%s", c->token);
	v[3] = NULL;
	free(loading);
	free(c->environment);
	c->environment = v;
	return (const char *const *)v;
}
