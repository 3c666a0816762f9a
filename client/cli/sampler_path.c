/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/sampler_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
