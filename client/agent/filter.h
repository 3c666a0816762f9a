/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_FILTER_H
#define GPUCTR_AGENT_FILTER_H

/* Which launches of a process are measured: --kernel, --launch-skip, --launch-count. */

#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/status.h"
#include "proto/wire.h"

struct filter {
	bool has_regex;
	regex_t regex;
	uint64_t skip, count;
	atomic_uint_fast64_t matched;
};

/* 0, or GPUCTR_E_BAD_PATTERN with r filled. */
int filter_init(struct filter *f, const struct wire_agent_welcome *welcome, struct refusal *r);

/* Does a kernel of this mangled name match? Costs a demangling: ask once for each kernel. */
bool filter_selects(const struct filter *f, const char *mangled);

/* Counts one launch of a selected kernel, and says whether it is measured. Thread-safe. */
bool filter_takes(struct filter *f);

#endif
