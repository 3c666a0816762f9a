/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Other names for CUPTI's metrics: nvprof's names, and words for the counted things. aliases.txt
 * lists them. */

#include <stdbool.h>

struct alias {
	const char *name; /* in lower case */
	/* Separated by blanks. For one of nvprof's names: the full names of its metrics; for a
	 * word: globs of base names. */
	const char *means;
	const char *how; /* how the value is computed from several metrics; NULL for one metric */
	bool of_nvprof;	 /* name is nvprof's name of a metric */
};

/* Finds an alias by name, ignoring case. NULL: there is none. */
const struct alias *alias_find(const char *name);
const struct alias *alias_at(unsigned i); /* NULL after the last */

/* For a name of ncu's launch__* metrics: a sentence that says where records have this value. NULL:
 * not such a name. */
const char *alias_of_launch(const char *name);

/* Is base one of the alias's base names? */
bool alias_covers(const struct alias *alias, const char *base);
