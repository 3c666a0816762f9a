/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/status.h"

/* Compiles the POSIX extended expression that chooses kernels. 0, and *ret is to be freed with
 * regfree(); or GPUCTR_E_BAD_PATTERN with r filled. */
int expression_compile(regex_t *ret, const char *text, struct refusal *r);

/* Does the text match? On a stack of its own: regexec() takes 12 KiB and more of it. False as well
 * if there is no memory for the stack. */
bool expression_matches(const regex_t *regex, const char *text);

/* The character, counted from 1, at which an expression that does not compile goes wrong. Compiles
 * up to once for each byte, so it is for the user's own process and not for one that answers
 * others. */
size_t expression_wrong_at(const char *text);

/* Behind the bracket expression that begins at s; when it is not closed, the end of the text. */
const char *expression_skip_bracket(const char *s);
