/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_OPTIONS_H
#define GPUCTR_DAEMON_OPTIONS_H

#include "daemon/config/config.h"

/* The file, which is root's or starter's, then the command line. 1: go on; 0: done (help, version,
 * check); -errno: told why. */
int options_parse(struct config *c, int argc, char **argv, uid_t starter);

#endif
