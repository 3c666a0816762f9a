/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_FILTER_H
#define GPUCTR_AGENT_FILTER_H

/* Which launches of a process are measured: --kernel, --kernel-name, --launch-skip, --launch-every,
 * --launch-count, --filter-mode, --record-limit. */

#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/nvtx_filter.h"
#include "client/agent/phase.h"
#include "client/agent/strata.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

enum { FILTER_NAMES_MAX = 6 };

struct filter {
	bool has_regex;
	regex_t regex;
	const char *name; /* of the selection, whose memory outlives the filter; NULL: any */
	char *(*name_of)(const char *mangled);
	atomic_bool matches; /* some kernel */
	struct lock lock;
	char *left_out[FILTER_NAMES_MAX]; /* of kernels that do not match; the first few */
	size_t n_left_out;
	bool left_out_more; /* there were others than these */
	struct nvtx_filter nvtx;
	struct phase phase;
	uint64_t skip, every, count;
	uint32_t mode; /* enum gpuctr_filter_mode */
	atomic_uint_fast64_t matched;
	struct strata groups; /* in place of matched, unless all are counted together */
	atomic_bool took;     /* any launch */
	uint64_t limit;	      /* of records; 0: none */
	atomic_uint_fast64_t reserved;
};

/* 0, or GPUCTR_E_BAD_PATTERN or GPUCTR_E_PROFILER (no memory) with r filled; there is then nothing
 * to deinit. selection stays. */
int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r);

void filter_deinit(struct filter *f);

/* Does it leave any kernel out? */
static inline bool filter_chooses_kernels(const struct filter *f)
{
	return f->has_regex || f->name;
}

/* Does a kernel of this mangled name match? Costs a demangling: ask once for each kernel. */
bool filter_selects(struct filter *f, const char *mangled);

/* Did kernels run, and did none of them match, or were all launches skipped? Then r says it, and
 * names a few that were there. */
bool filter_missed_all(struct filter *f, struct refusal *r);

/* Are launches counted by what they are? Then filter_takes() wants their keys. */
static inline bool filter_is_grouped(const struct filter *f)
{
	return f->mode != GPUCTR_FILTER_GLOBAL;
}

/* Counts one launch of a selected kernel, and says whether it is measured. Thread-safe, and so are
 * the next two. Of the key the range does not matter. */
bool filter_takes(struct filter *f, const struct stratum_key *key);

/* Before a launch is measured: is there a record left? One that is not made is given back. */
bool filter_reserve(struct filter *f);
void filter_give_back(struct filter *f);

/* Is there none left? */
static inline bool filter_is_full(const struct filter *f)
{
	return f->limit > 0 && atomic_load_explicit(&f->reserved, memory_order_relaxed) >= f->limit;
}

/* What was not as it was asked for; false: nothing. */
bool filter_describe(struct filter *f, char *text, size_t bytes);

#endif
