/* SPDX-License-Identifier: Apache-2.0 */

/* --torch puts a folder in front of PYTHONPATH; every Python that reads PYTHONPATH loads the
 * folder's sitecustomize.py. The folder lies beside the agent, because both are loaded into the
 * program: a container that has the agent then has the folder too. */

#include "client/cli/torch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/agent_path.h"
#include "client/cli/say.h"
#include "proto/base/buf.h"
#include "proto/base/clean.h"

static bool add_folder(struct buf *b, const char *agent)
{
	CLEAN_FREE char *full = realpath(agent, NULL);
	const char *path = full ? full : agent, *slash = strrchr(path, '/');

	buf_add(b, path, slash ? (size_t)(slash + 1 - path) : 0);
	buf_text(b, "python");
	return !b->failed;
}

static bool check_file(const char *folder)
{
	CLEAN_BUF struct buf b = { 0 };
	bool good;

	buf_printf(&b, "%s/sitecustomize.py", folder);
	good = access(buf_string(&b), R_OK) == 0;
	if (!good) {
		CLEAN_BUF struct buf message = { 0 };

		buf_printf(&message, "--torch: %s cannot be read (%s)", buf_string(&b),
			   strerror(errno));
		say_error("no-agent", buf_string(&message),
			  "Install gpuctr-agent, or name one with --agent that has the folder "
			  "'python' beside it.");
	}
	return good;
}

/* An empty entry would mean the current folder. */
static bool set_environment(const char *folder, const char *what)
{
	const char *old = getenv("PYTHONPATH");
	CLEAN_BUF struct buf b = { 0 };
	bool good;

	buf_printf(&b, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "");
	good = !b.failed && setenv("PYTHONPATH", buf_string(&b), 1) == 0 &&
	       setenv("GPUCTR_TORCH", what, 1) == 0;
	if (!good) {
		say_usage("out of memory");
	}
	return good;
}

bool torch_prepare(const char *what, const char *agent)
{
	CLEAN_BUF struct buf folder = { 0 };
	bool good = false;

	if (!add_folder(&folder, agent_path(agent))) {
		say_usage("out of memory");
	} else if (strchr(buf_string(&folder), ':')) {
		say_usage("--torch: PYTHONPATH can hold no folder with a colon: %s",
			  buf_string(&folder));
	} else {
		good = check_file(buf_string(&folder)) &&
		       set_environment(buf_string(&folder), what);
	}
	return good;
}

bool torch_has_operator(const struct gpuctr_record *record)
{
	const struct gpuctr_site *site = record->site;

	while (site && site->kind < GPUCTR_SITE_OPERATOR) {
		site = site->parent;
	}
	return site != NULL;
}
