/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/verb.h"

/* What can stand where on the command line of gpuctr-client, for shells. words: those behind
 * "gpuctr-client"; the last one is being typed. On stdout: a candidate a line, with a tab and a
 * description behind it where there is one, and at last what the shell adds of its own: ":program
 * N" (word N and the following are a command of their own), ":files", ":more" (no space behind a
 * candidate) or ":none". */
void completion_print(const struct verb *const *verbs, char **words, size_t n);
