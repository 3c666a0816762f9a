/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/aliases.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "proto/base/clean.h"

static const struct alias aliases[] = {
#include "proto/nvidia/aliases_table.h"
};

const struct alias *alias_at(unsigned i)
{
	return i < ARRAY_SIZE(aliases) ? &aliases[i] : NULL;
}

const struct alias *alias_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcasecmp(aliases[i].name, name) == 0) {
			return &aliases[i];
		}
	}
	return NULL;
}

const char *alias_of_launch(const char *name)
{
	return strncmp(name, "launch__", strlen("launch__")) == 0
		       ? "Every record has its launch, whatever the metrics: grid, block, "
			 "registers, "
			 "static_shared_bytes, dynamic_shared_bytes, device, context and stream."
		       : NULL;
}

/* Compares base with each metric of the alias, without the metric's rollup. */
bool alias_covers(const struct alias *alias, const char *base)
{
	char part[128];

	for (const char *p = alias->means; *p; p += strcspn(p, " "), p += *p == ' ') {
		size_t n = strcspn(p, ". ");

		if (n < sizeof(part)) {
			memcpy(part, p, n);
			part[n] = '\0';
			if (fnmatch(part, base, 0) == 0) {
				return true;
			}
		}
	}
	return false;
}
