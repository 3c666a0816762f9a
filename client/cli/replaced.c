/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/replaced.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/say.h"
#include "proto/base/buf.h"
#include "proto/base/clean.h"

static bool sets(const char *const *added, const char *name)
{
	size_t length = strlen(name);

	for (; *added; added++) {
		if (strncmp(*added, name, length) == 0 && (*added)[length] == '=') {
			return true;
		}
	}
	return false;
}

/* An agent, as of a client around this one, is no other tool. */
static const char *tool_of(const char *name)
{
	const char *value = getenv(name);
	const char *slash = value ? strrchr(value, '/') : NULL;
	bool ours = value && strcmp(slash ? slash + 1 : value, "libgpuctr-agent.so") == 0;

	return value && *value && !ours ? value : NULL;
}

void replaced_tell(const char *const *added)
{
	static const char *const names[] = { "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH" };
	CLEAN_BUF struct buf text = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *tool = sets(added, names[i]) ? tool_of(names[i]) : NULL;

		if (tool) {
			buf_printf(&text, "%s%s=%s", n++ > 0 ? " and " : "", names[i], tool);
		}
	}
	if (n > 0) {
		buf_printf(&text, "%s replaced by the agent: this program runs without %s",
			   n > 1 ? " are" : " is", n > 1 ? "these tools" : "that tool");
		say_warning("replaced", buf_string(&text),
			    "CUDA and NVTX load one library each. Use the other tool in a run "
			    "without gpuctr-client, or load it by LD_PRELOAD if it allows that.");
	}
}
