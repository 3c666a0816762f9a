/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What people call metrics that CUPTI calls otherwise: the names of nvprof, and words for what is
 * counted. aliases.txt lists them. */

#include <stdbool.h>

struct alias {
	const char *name; /* in lower case */
	/* Separated by blanks. For a name of nvprof's the full names of the metrics that it stands
	 * for; for a word globs of base names. */
	const char *means;
	const char *how; /* how the value is computed from several metrics; NULL for one metric */
	bool of_nvprof;	 /* what nvprof called a metric */
};

/* Finds an alias by name, ignoring case. NULL: there is none. */
const struct alias *alias_find(const char *name);
const struct alias *alias_at(unsigned i); /* NULL behind the last */

/* ncu's launch__*: what each record has anyway, as a sentence. NULL: this is no such name. */
const char *alias_of_launch(const char *name);

/* Is this one of the base names that the alias means? */
bool alias_covers(const struct alias *alias, const char *base);
