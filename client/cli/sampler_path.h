/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SAMPLER_PATH_H
#define CLIENT_CLI_SAMPLER_PATH_H

#include <limits.h>
#include <stdbool.h>

/* $GPUCTR_SAMPLER, or gpuctr-sampler beside us, or where it is installed. False: it is not there.
 */
bool sampler_path_find(char ret[PATH_MAX]);

#endif
