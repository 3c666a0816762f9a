/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"

struct permit_options {
	struct strings devices; /* none: all */
	const char *socket, *agent;
	uint64_t timeout_ns;
	bool no_wait, inject, quiet;
	char **command;
};

/* Waits for the lease, runs the command that is found at path, and returns its exit status. */
int permit_run(const struct permit_options *o, const char *path);
