/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RUN_H
#define CLIENT_CLI_RUN_H

#include "client/cli/run_options.h"

/* Opens the capture, starts the program when the lease is granted, takes the records, prints the
 * summary. path: the file of o->command[0]. Returns the exit status. */
int run_program(const struct run_options *o, const char *path);

/* The same for processes that run already and match o->selector. */
int run_on_demand(const struct run_options *o);

/* The same for programs that another program starts: see verb_follow.c. */
int run_followed(const struct run_options *o);

#endif
