/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/internal.h"
#include "proto/base/clean.h"

/* The environment variables by which a program finds the agent, and the agent finds the daemon.
 * libcuda and NVTX load the library that their variables name. Nothing is preloaded, so a program
 * that uses neither never loads the agent.
 *
 * With GPUCTR_TOKEN the program is part of the capture that has the token, from its beginning. With
 * GPUCTR_STANDBY it registers and waits for a capture.
 *
 * The variables of a permit name another library. Profilers set CUDA_INJECTION64_PATH themselves
 * (ncu, nsys), and some ask for the counters outside of the program that uses CUDA (nsys): so the
 * permit's library is preloaded unless the user asks otherwise, before libraries of LD_PRELOAD. */

enum { SOCKET_BYTES = sizeof(((struct sockaddr_un *)NULL)->sun_path) };

static const char permit_library[] = "libgpuctr-permit.so";

/* The agent's path: the one given, or $GPUCTR_AGENT, or the installed one. */
static const char *find_agent(const char *agent)
{
	if (!agent) {
		agent = getenv("GPUCTR_AGENT");
	}
	return agent && agent[0] ? agent : GPUCTR_AGENT_PATH;
}

/* Makes the path absolute, for a program that changes its folder. Nothing need exist at the path
 * yet, because the daemon may start later. A path that cannot be made absolute, or would reach the
 * limit, stays as it is. */
static void make_absolute(const char *path, size_t limit, char ret[PATH_MAX])
{
	CLEAN_FREE char *folder = path[0] == '/' ? NULL : getcwd(NULL, 0);

	if (!folder || (size_t)snprintf(ret, PATH_MAX, "%s/%s", folder, path) >= limit) {
		snprintf(ret, PATH_MAX, "%s", path);
	}
}

/* Copies variables into one block, which ends with NULL. Returns NULL if out of memory. */
static char **make_block(const char *const (*variables)[2], size_t n)
{
	size_t room = 0;
	char **v, *text;

	for (size_t i = 0; i < n; i++) {
		room += strlen(variables[i][0]) + 1 + strlen(variables[i][1]) + 1;
	}
	v = malloc((n + 1) * sizeof(*v) + room);
	if (!v) {
		return NULL;
	}
	text = (char *)(v + n + 1);
	for (size_t i = 0; i < n; i++) {
		v[i] = text;
		text += sprintf(text, "%s=%s", variables[i][0], variables[i][1]) + 1;
	}
	v[n] = NULL;
	return v;
}

static bool has_text(const char *data, size_t n, const char *text)
{
	return memmem(data, n, text, strlen(text) + 1) != NULL;
}

static bool exports_injection(int fd, size_t n)
{
	const char *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	bool ret;

	if (data == MAP_FAILED) {
		return false;
	}
	ret = memcmp(data, ELFMAG, SELFMAG) == 0 && data[EI_CLASS] == ELFCLASS64 &&
	      has_text(data, n, "InitializeInjection") &&
	      has_text(data, n, "InitializeInjectionNvtx2");
	munmap((void *)data, n);
	return ret;
}

/* Does the file hold the agent? CUDA and NVTX report no error for a file that they cannot load, or
 * that lacks the functions for which they look. (libcuda itself contains the name of one.) */
static bool is_agent(const char *path)
{
	CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= EI_NIDENT &&
	       exports_injection(fd, (size_t)st.st_size);
}

/* 0, -ENOMEM, or a code with r filled. */
static int make_environment(const char *socket, const char *agent, const char *name,
			    const char *value, char ***ret, struct refusal *r)
{
	char agent_path[PATH_MAX], socket_path[PATH_MAX];
	const char *const variables[][2] = { { "CUDA_INJECTION64_PATH", agent_path },
					     { "NVTX_INJECTION64_PATH", agent_path },
					     { "GPUCTR_SOCKET", socket_path },
					     { name, value } };

	make_absolute(find_agent(agent), PATH_MAX, agent_path);
	make_absolute(socket, SOCKET_BYTES, socket_path);
	if (access(agent_path, R_OK) < 0) {
		refusal_set(r, GPUCTR_E_NO_AGENT, "Install gpuctr-agent, or name it with --agent.",
			    "the agent %.512s cannot be read (%s)", agent_path, strerror(errno));
		return r->code;
	}
	if (!is_agent(agent_path)) {
		refusal_set(r, GPUCTR_E_NO_AGENT, "Name libgpuctr-agent.so with --agent.",
			    "%.512s is no agent library: programs would run without it",
			    agent_path);
		return r->code;
	}
	*ret = make_block(variables, ARRAY_SIZE(variables));
	return *ret ? 0 : -ENOMEM;
}

/* --- permits --- */

/* The permit's library, in the folder of the agent. */
static void find_library(const char *agent, char ret[PATH_MAX])
{
	char path[PATH_MAX];
	const char *slash;

	snprintf(path, sizeof(path), "%s", find_agent(agent));
	slash = strrchr(path, '/');
	snprintf(path + (slash ? slash + 1 - path : 0),
		 sizeof(path) - (slash ? (size_t)(slash + 1 - path) : 0), "%s", permit_library);
	make_absolute(path, PATH_MAX, ret);
}

/* Checks the path of a library to preload, because the dynamic linker takes a space or a colon for
 * its end, and reports a missing library on the program's stderr. 0, or a code with r filled. */
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

/* The value of LD_PRELOAD: the library, and those preloaded already. NULL: out of memory. */
static char *list_libraries(const struct gpuctr_capture *c, const char *path)
{
	const char *others = c->permit == GPUCTR_PERMIT_BY_PRELOAD ? getenv("LD_PRELOAD") : NULL;
	char *text;
	int n = asprintf(&text, "%s%s%s", path, others && *others ? ":" : "", others ? others : "");

	return n < 0 ? NULL : text;
}

static int make_permit(const struct gpuctr_capture *c, const char *agent, char ***ret,
		       struct refusal *r)
{
	bool preloads = c->permit == GPUCTR_PERMIT_BY_PRELOAD;
	char path[PATH_MAX], socket_path[PATH_MAX];
	CLEAN_FREE char *libraries = NULL;

	find_library(agent, path);
	if (check_library(path, preloads, r) != 0) {
		return r->code;
	}
	make_absolute(c->g->path, SOCKET_BYTES, socket_path);
	libraries = list_libraries(c, path);
	if (libraries) {
		const char *const variables[][2] = {
			{ preloads ? "LD_PRELOAD" : "CUDA_INJECTION64_PATH", libraries },
			{ "GPUCTR_PERMIT_SOCKET", socket_path },
			{ "GPUCTR_PERMIT", c->token }
		};

		*ret = make_block(variables, ARRAY_SIZE(variables));
	}
	return libraries && *ret ? 0 : -ENOMEM;
}

/* --- what programs ask for --- */

const char *const *gpuctr_capture_environment(struct gpuctr_capture *c, const char *agent)
{
	struct refusal refusal;
	char **v = NULL;
	int r;

	if (!c->token) {
		connection_fail(c->g, GPUCTR_E_BAD_REQUEST, "the capture is not ready",
				"Wait for on_ready.");
		return NULL;
	}
	r = c->permit != GPUCTR_PERMIT_NONE
		    ? make_permit(c, agent, &v, &refusal)
		    : make_environment(c->g->path, agent, "GPUCTR_TOKEN", c->token, &v, &refusal);
	if (r > 0) {
		connection_refuse(c->g, &refusal);
	} else if (r < 0) {
		connection_fail(c->g, GPUCTR_E_INTERNAL, "there is no memory for the environment",
				"");
	}
	if (r != 0) {
		return NULL;
	}
	free(c->environment);
	c->environment = v;
	return (const char *const *)v;
}

int gpuctr_standby_environment(const char *socket, const char *agent, char ***ret)
{
	struct refusal refusal;

	return make_environment(socket ? socket : gpuctr_default_socket(), agent, "GPUCTR_STANDBY",
				"1", ret, &refusal);
}
