/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "daemon/config/config.h"

/* Reads the file, which must be root's or starter's, then the command line. 1: go on; 0: done
 * (help, version, check); -errno: the error was printed. */
int options_parse(struct config *c, int argc, char **argv, uid_t starter);

/* Is --doctor on the command line? options_parse() judges the rest of it, and the doctor goes on in
 * spite of errors, as far as it can. */
bool options_ask_for_doctor(int argc, char **argv);
