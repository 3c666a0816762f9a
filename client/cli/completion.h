/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/verb.h"

/* Prints for shells what can complete a command line of gpuctr-client. words: the words behind
 * "gpuctr-client"; the last one is being typed. Each line on stdout is a candidate, followed by a
 * tab and a description if there is one. The last line is what the shell itself adds: ":program N"
 * (words from N on are a command of their own), ":files", ":more" (no space behind a candidate) or
 * ":none". */
void completion_print(const struct verb *const *verbs, char **words, size_t n);
