/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/config/config.h"

/* Reads the file, which must be root's or starter's, then the command line. 1: go on; 0: done
 * (help, version, check); -errno: the error was printed. */
int options_parse(struct config *c, int argc, char **argv, uid_t starter);
