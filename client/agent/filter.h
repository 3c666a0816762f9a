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
#include "proto/base/map.h"
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
	uint32_t mode;		      /* enum gpuctr_filter_mode */
	bool counts;		      /* launches: some are skipped, or only so many are taken */
	atomic_uint_fast64_t matched; /* this and taken stay 0 unless launches are counted */
	struct map groups;	      /* struct group; unless all launches are counted together */
	uint64_t rest;		      /* launches of groups that are not in it */
	atomic_bool took;	      /* some launch was selected */
	atomic_uint_fast64_t taken;   /* that are, or will be, measured; unless counted by group */
};

/* 0, or GPUCTR_E_BAD_PATTERN with r filled; there is then nothing to deinit. selection stays. */
int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r);

void filter_deinit(struct filter *f);

/* Does the filter exclude any kernel? */
static inline bool filter_chooses_kernels(const struct filter *f)
{
	return f->has_regex || f->name;
}

/* Does a kernel of this mangled name match? Costs a demangling: ask once for each kernel. Needs
 * little of the caller's stack, however long the name is. */
bool filter_selects(struct filter *f, const char *mangled);

/* Did kernels run, but none of them match, or were all launches skipped? Then r says so and names a
 * few of the kernels. */
bool filter_missed_all(struct filter *f, struct refusal *r);

/* Are launches counted by group? */
static inline bool filter_is_grouped(const struct filter *f)
{
	return f->mode != GPUCTR_FILTER_GLOBAL;
}

/* Counts one launch of a selected kernel, and returns whether it is measured. group: any number but
 * 0 by which launches of one group are known, if they are counted by group. Thread-safe. */
bool filter_takes(struct filter *f, uint64_t group);

/* A launch that was taken is not measured: another one may be in its place, unless launches are
 * counted by group. Thread-safe. */
void filter_give_back(struct filter *f);

/* Have as many been taken as launch_count allows the whole process? */
static inline bool filter_is_finished(const struct filter *f)
{
	return f->count > 0 && !filter_is_grouped(f) &&
	       atomic_load_explicit(&f->taken, memory_order_relaxed) >= f->count;
}
