/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A user asks for metrics by names and patterns: globs, or regular expressions after a prefix.
 * libgpuctr expands patterns in the user's own process; the daemon accepts only names. */

#include <stdbool.h>
#include <string.h>

#define PATTERN_REGEX_PREFIX "regex:"

static inline bool pattern_is_regex(const char *text)
{
	return strncmp(text, PATTERN_REGEX_PREFIX, sizeof(PATTERN_REGEX_PREFIX) - 1) == 0;
}

static inline bool pattern_is(const char *text)
{
	return pattern_is_regex(text) || strpbrk(text, "*?[") != NULL;
}
