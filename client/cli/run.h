/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/run_options.h"

/* Opens the capture, starts the program when the lease is granted, takes the records, prints the
 * summary. path: the file of o->command[0]; NULL: the programs run already and match o->selector,
 * or another program starts them (verb_follow.c). Returns the exit status. */
int run_capture(const struct run_options *o, const char *path);
