/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Selects the launches of a process that are measured. */

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
	const char *name; /* exact name, borrowed from the selection; NULL: any kernel */
	char *(*name_of)(const char *mangled);
	atomic_bool matches; /* a kernel matched */
	struct lock lock;
	char *left_out[FILTER_NAMES_MAX]; /* names of the first few kernels that did not match */
	size_t n_left_out;
	bool left_out_more; /* there were more such kernels */
	struct nvtx_filter nvtx;
	struct phase phase;
	uint64_t skip, every, count;
	uint32_t mode;		      /* enum gpuctr_filter_mode */
	bool counts;		      /* launches are counted: skip, every or count is set */
	atomic_uint_fast64_t matched; /* matching launches; 0 unless launches are counted */
	struct map groups;	      /* of struct group, if launches are counted by group */
	uint64_t rest;		      /* launches of all groups beyond GROUPS_MAX */
	atomic_bool took;	      /* a launch was selected */
	atomic_uint_fast64_t taken;   /* launches to be measured; unused with groups */
};

/* 0, or a code with r filled, and then nothing is to be freed. Borrows selection. */
int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r);

void filter_deinit(struct filter *f);

/* Does the filter exclude any kernel? */
static inline bool filter_chooses_kernels(const struct filter *f)
{
	return f->has_regex || f->name;
}

/* Does a kernel of this mangled name match? Demangles the name, so it should be called once for
 * each kernel. Needs little of the caller's stack, however long the name is. */
bool filter_selects(struct filter *f, const char *mangled);

/* True: kernels ran, but none matched, or all were skipped. r says so, and names some kernels. */
bool filter_missed_all(struct filter *f, struct refusal *r);

/* Are launches counted by group? */
static inline bool filter_is_grouped(const struct filter *f)
{
	return f->mode != GPUCTR_FILTER_GLOBAL;
}

/* Counts one launch of a selected kernel, and returns whether it is measured. group: number of the
 * launch's group, not 0, if launches are counted by group. Thread-safe. */
bool filter_takes(struct filter *f, uint64_t group);

/* A launch that was taken is not measured after all: another launch may take its place, unless
 * launches are counted by group. Thread-safe. */
void filter_give_back(struct filter *f);

/* Have as many launches been taken as launch_count allows for the whole process? */
static inline bool filter_is_finished(const struct filter *f)
{
	return f->count > 0 && !filter_is_grouped(f) &&
	       atomic_load_explicit(&f->taken, memory_order_relaxed) >= f->count;
}
