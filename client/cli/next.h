/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_NEXT_H
#define CLIENT_CLI_NEXT_H

#include "client/cli/files.h"

/* Appends what may be typed next, of a run that has measured something; nothing where there is no
 * file and none would have been of use. */
void next_add(const struct run_options *options, const struct files *files, struct buf *b);

#endif
