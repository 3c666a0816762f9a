/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampler_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"

static const char name[] = "gpuctr-sampler";

static bool find_beside(char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof(name));
	char *slash;

	if (n <= 0) {
		return false;
	}
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash) {
		memcpy(slash + 1, name, sizeof(name));
	}
	return slash && access(ret, X_OK) == 0;
}

bool sampler_path_find(char ret[PATH_MAX])
{
	const char *named = getenv("GPUCTR_SAMPLER");

	if (named && *named) {
		snprintf(ret, PATH_MAX, "%s", named);
		return access(ret, X_OK) == 0;
	}
	if (find_beside(ret)) {
		return true;
	}
	snprintf(ret, PATH_MAX, "%s", GPUCTR_SAMPLER_PATH);
	return access(ret, X_OK) == 0;
}

void sampler_path_tell_silent(const char *gpu, pid_t pid)
{
	say("the sampler of GPU %s (pid %d) has not begun for %d s, and is given up: the driver or "
	    "CUPTI does not answer it, or $GPUCTR_SAMPLER is none. The kernel's log may have "
	    "errors (Xid) of that GPU; `nvidia-smi -pm 1` spares the driver the setting up",
	    gpu, (int)pid, (int)(SAMPLER_BEGIN_NS / CLOCK_NS_PER_S));
}
