/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compares the texts that a user typed for metrics with the daemon's catalogue, as its parts
 * arrive: finds the metrics to list, or the full names that the patterns match. */

#include <stdbool.h>
#include <stddef.h>

#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct expansion;

/* Is any of the metrics a pattern, or are there more than the daemon accepts? */
bool expansion_is_needed(const struct wire_strings *metrics);

/* 0; or GPUCTR_E_BAD_PATTERN, GPUCTR_E_TOO_MANY_METRICS or GPUCTR_E_INTERNAL with r filled. */
int expansion_new(const char *const *texts, size_t n, struct expansion **ret, struct refusal *r);
struct expansion *expansion_free(struct expansion *e);

/* For a list: is name to be listed? Call it for every name, so that similar names are known if none
 * is listed. A plain word matches every name that contains it; a full name matches the base before
 * its rollup. */
bool expansion_lists(struct expansion *e, const char *name);

/* 0, or the reason why nothing was listed. */
int expansion_end_list(const struct expansion *e, const char *chip, struct refusal *r);

/* For a plan: keeps the full names of m that match. m comes with its submetrics. */
void expansion_add(struct expansion *e, const struct gpuctr_metric *m);

/* *ret: the names in the order of the texts, without repeats; they live as long as e. 0, or a code
 * with r filled: a pattern matches no name, or too many. */
int expansion_end_plan(struct expansion *e, const char *chip, struct wire_strings *ret,
		       struct refusal *r);
