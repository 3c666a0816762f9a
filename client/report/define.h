/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Columns that the user defines: "NAME = EXPRESSION" a line, gpuctr-client(1) says how. */

#include "client/report/derived.h"

enum { DEFINE_MAX_BYTES = 64 * 1024 };

struct define_source {
	const char *path; /* for messages */
	const char *text;
};

/* Appends the columns to derived[*n], which has room for DERIVED_MAX; the earlier ones can be used
 * by name. Texts and what columns own live in owner. 0, -ENOMEM, or -EINVAL and why shows the
 * line, what is wrong, and where. */
int define_columns(const struct define_source *source, const struct measure *measures,
		   size_t n_measures, struct texts *owner, struct derived *derived, size_t *n,
		   struct buf *why);

/* NaN: not known. */
double define_value(const struct define *d, const struct group *group);
