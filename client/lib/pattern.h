/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names, globs and regular expressions, matched with the C library's functions. These may take any
 * time and memory, but only in the user's own process: no other process expands patterns. */

#include <stdbool.h>

#include "proto/wire/status.h"

struct pattern;

/* 0, GPUCTR_E_BAD_PATTERN or GPUCTR_E_INTERNAL with r filled. */
int pattern_new(const char *text, struct pattern **ret, struct refusal *r);
struct pattern *pattern_free(struct pattern *p);
const char *pattern_text(const struct pattern *p);
bool pattern_is_literal(const struct pattern *p);
bool pattern_matches(const struct pattern *p, const char *name);
