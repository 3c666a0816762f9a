/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Selects the launches of a process that are measured: */

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
	const char *name; /* the pattern, from the selection, which outlives the filter; NULL: any
			     kernel */
	char *(*name_of)(const char *mangled);
	atomic_bool matches; /* some kernel matched */
	struct lock lock;
	char *left_out[FILTER_NAMES_MAX]; /* names of the first few kernels that did not match */
	size_t n_left_out;
	bool left_out_more; /* there were more such kernels */
	struct nvtx_filter nvtx;
	struct phase phase;
	uint64_t skip, every, count;
	uint32_t mode; /* enum gpuctr_filter_mode */
	atomic_uint_fast64_t matched;
	struct strata groups; /* counts by group, used instead of matched unless all launches are
				 counted together */
	atomic_bool took;     /* some launch was selected */
	uint64_t limit;	      /* largest number of records; 0: no limit */
	atomic_uint_fast64_t reserved, beyond; /* records; launches for which there was none */
};

/* 0, or GPUCTR_E_BAD_PATTERN or GPUCTR_E_PROFILER (no memory) with r filled; there is then nothing
 * to deinit. selection stays. */
int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r);

void filter_deinit(struct filter *f);

/* Does the filter exclude any kernel? */
static inline bool filter_chooses_kernels(const struct filter *f)
{
	return f->has_regex || f->name;
}

/* Is every launch measured, whatever it is? */
static inline bool filter_takes_all(const struct filter *f)
{
	const struct phase *p = &f->phase;

	return !filter_chooses_kernels(f) && f->nvtx.n == 0 && f->skip == 0 && f->every == 1 &&
	       f->count == 0 && f->limit == 0 && !p->by_profiler && !p->by_range && !p->by_step;
}

/* Does a kernel of this mangled name match? Costs a demangling: ask once for each kernel. */
bool filter_selects(struct filter *f, const char *mangled);

/* Did kernels run, but none of them match, or were all launches skipped? Then r says so and names a
 * few of the kernels. */
bool filter_missed_all(struct filter *f, struct refusal *r);

/* Are launches counted by group? Then filter_takes() needs their keys. */
static inline bool filter_is_grouped(const struct filter *f)
{
	return f->mode != GPUCTR_FILTER_GLOBAL;
}

/* Counts one launch of a selected kernel, and returns whether it is measured. Ignores the key's
 * range. Thread-safe, as the next two functions are. */
bool filter_takes(struct filter *f, const struct stratum_key *key);

/* Reserves a record for a launch that is to be measured; false: the limit is reached. The caller
 * returns the record if the launch is not measured. */
bool filter_reserve(struct filter *f);
void filter_give_back(struct filter *f);

/* Is the limit of records reached? */
static inline bool filter_is_full(const struct filter *f)
{
	return f->limit > 0 && atomic_load_explicit(&f->reserved, memory_order_relaxed) >= f->limit;
}

/* For a launch of a selected kernel: is there a record left? Counts it if not. */
static inline bool filter_has_room(struct filter *f)
{
	bool full = filter_is_full(f);

	if (full) {
		atomic_fetch_add_explicit(&f->beyond, 1, memory_order_relaxed);
	}
	return !full;
}

/* Writes how the measured launches differ from the request; false: they do not. */
bool filter_describe(struct filter *f, char *text, size_t bytes);

/* Writes how many launches the limit of records left out; false: none. */
bool filter_describe_limit(struct filter *f, char *text, size_t bytes);
