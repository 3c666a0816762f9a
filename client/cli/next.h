/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/files.h"

/* Appends the commands that a user may type next, after a run that measured something. Appends
 * nothing if the run has no file and would have needed none. */
void next_add(const struct run_options *options, const struct files *files, struct buf *b);
