/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_PROTO_PATTERN_H
#define GPUCTR_PROTO_PATTERN_H

/* What a user typed for metrics is a name, or a pattern: a glob, or a regular expression behind its
 * prefix. Patterns are expanded by libgpuctr, in the user's own process; the daemon takes names
 * alone. */

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

#endif
