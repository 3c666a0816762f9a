/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_LIB_EXPAND_H
#define GPUCTR_LIB_EXPAND_H

/* What a user typed for metrics, while the daemon's catalogue streams by: which of its metrics are
 * to be listed, or what full names the patterns stand for. */

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct expansion;

/* Is any of them a pattern, or are they more than the daemon takes? */
bool expansion_is_needed(const struct wire_strings *metrics);

/* 0; or GPUCTR_E_BAD_PATTERN, GPUCTR_E_TOO_MANY_METRICS or GPUCTR_E_INTERNAL with r filled. */
int expansion_new(const char *const *texts, size_t n, struct expansion **ret, struct refusal *r);
struct expansion *expansion_free(struct expansion *e);

/* For a list: is name to be listed? Every name is asked for, so that near ones are known when none
 * is. A plain word stands for every name that contains it, a full name for the base before its
 * rollup. */
bool expansion_lists(struct expansion *e, const char *name);

/* 0, or why nothing was listed. */
int expansion_end_list(const struct expansion *e, const char *chip, struct refusal *r);

/* For a plan: notes the full names of m that match. m comes with its submetrics. */
void expansion_add(struct expansion *e, const struct wire_metric *m);

/* The names in the order of what was typed, without repeats; they live as long as e. 0, or a code
 * with r filled: a pattern matches nothing or too much. */
int expansion_end_plan(struct expansion *e, const char *chip, struct wire_strings *ret,
		       struct refusal *r);

#endif
