/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"

struct permit_options {
	struct strings devices; /* none: all */
	const char *socket, *agent;
	uint64_t lease_ns, timeout_ns;
	bool no_wait, inject, quiet;
	char **command;
};

/* Waits for the lease, runs the command that is found at path, and returns its exit status. */
int permit_run(const struct permit_options *o, const char *path);

/* --- permit_program.c: can the library come into the program at this path? */

enum permit_program {
	PERMIT_PROGRAM_GOOD,
	PERMIT_PROGRAM_SETUID, /* it gets another user's rights or capabilities as it starts */
	PERMIT_PROGRAM_STATIC, /* no dynamic linker loads anything into it */
	PERMIT_PROGRAM_OTHER_MACHINE, /* 32 bits, or of another processor */
};

enum permit_program permit_look_at(const char *path);
