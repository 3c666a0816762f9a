/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RUN_H
#define CLIENT_CLI_RUN_H

#include "client/cli/run_options.h"

/* Opens the capture, starts the program when its turn has come, takes the records, prints the
 * summary. path is where o->command[0] was found. Returns the exit status. */
int run_program(const struct run_options *o, const char *path);

/* The same with processes that run already: of those that o->selector chooses. */
int run_on_demand(const struct run_options *o);

/* The same with programs that somebody else starts: see verb_follow.c. */
int run_followed(const struct run_options *o);

#endif
