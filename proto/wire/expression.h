/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/status.h"

/* Compiles the POSIX extended expression that chooses kernels. 0, and regfree() frees *ret; or
 * GPUCTR_E_BAD_PATTERN with r filled. */
int expression_compile(regex_t *ret, const char *text, struct refusal *r);

/* Does the text match? Runs on another stack, because regexec() takes 12 KiB and more. Also false
 * if there is no memory for the stack. */
bool expression_matches(const regex_t *regex, const char *text);

/* The first wrong character, counted from 1, of an expression that does not compile. Compiles up to
 * once for each byte, so only the user's own process may call this. */
size_t expression_wrong_at(const char *text);

/* The end of the bracket expression that begins at s; if it is not closed, the end of the text. */
const char *expression_skip_bracket(const char *s);
