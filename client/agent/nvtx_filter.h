/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_NVTX_FILTER_H
#define GPUCTR_AGENT_NVTX_FILTER_H

/* Which launches are measured by the NVTX ranges around them: --nvtx-include, --nvtx-exclude. What
 * the ranges are, the caller knows: nvtx_select.c of a program, gpuctr-replay of a recording. */

#include <stdatomic.h>
#include <stdbool.h>

#include "client/agent/lock.h"
#include "proto/wire/limits.h"
#include "proto/wire/nvtx_expression.h"
#include "proto/wire/wire.h"

enum { NVTX_NAMES_MAX = 6, NVTX_EXPRESSIONS_MAX = 2 * LIMIT_EXPRESSIONS + 2 };

struct nvtx_filter {
	/* In this order: expressions that include, expressions that exclude, the one that begins a
	 * capture range, the one that begins a step. The last two have one term each. */
	struct nvtx_expression *v[NVTX_EXPRESSIONS_MAX];
	size_t first_term[NVTX_EXPRESSIONS_MAX];
	size_t n_include, n_select, n, n_terms;
	size_t range, step;		       /* places in v; n: there is none */
	atomic_bool hit[NVTX_EXPRESSIONS_MAX]; /* by a launch, or by a range that began */
	atomic_bool asked;		       /* of any launch */
	struct lock lock;
	char *names[NVTX_NAMES_MAX]; /* of the first few ranges, for who has missed them */
	atomic_size_t n_names;
};

/* How a stack of push/pop ranges, or the set of open start/end ranges, matches the expressions: a
 * number for each term, which only nvtx_filter_*() interpret. */
struct nvtx_matched {
	uint64_t v[NVTX_TERMS_TOTAL_MAX];
};

/* 0, or a code with r filled; deinit in any case. Zero-initialises. */
int nvtx_filter_init(struct nvtx_filter *f, const struct wire_selection *selection,
		     struct refusal *r);
void nvtx_filter_deinit(struct nvtx_filter *f);

/* Does it leave anything out? */
static inline bool nvtx_filter_is_used(const struct nvtx_filter *f)
{
	return f->n_select > 0;
}

/* For an empty stack; for one with one range more on top of a stack that is known. Of each, n_terms
 * numbers. domain "" is the default one. */
void nvtx_filter_begin(const struct nvtx_filter *f, uint64_t *state);
void nvtx_filter_advance(struct nvtx_filter *f, const uint64_t *below, uint64_t *state,
			 const char *domain, const char *message);

/* Adds an open start/end range to started, which begins as zeros. */
void nvtx_filter_add(struct nvtx_filter *f, uint64_t *started, const char *domain,
		     const char *message);

/* Is a launch measured that is made with these ranges open? Thread-safe, as the others are. */
bool nvtx_filter_selects(struct nvtx_filter *f, const uint64_t *state, const uint64_t *started);

/* A launch was looked at, by whatever. */
static inline void nvtx_filter_note_launch(struct nvtx_filter *f)
{
	if (!atomic_load_explicit(&f->asked, memory_order_relaxed)) {
		atomic_store(&f->asked, true);
	}
}

/* Does the expression at this place hold in state, but not below (NULL: an empty stack)? */
bool nvtx_filter_triggers(struct nvtx_filter *f, size_t place, const uint64_t *below,
			  const uint64_t *state);

/* Does it mean this start/end range, or mark? */
bool nvtx_filter_names(struct nvtx_filter *f, size_t place, const char *domain,
		       const char *message);

/* Was there an expression that no launch has met? Then r names a few ranges that were there. */
bool nvtx_filter_missed(struct nvtx_filter *f, const struct wire_selection *selection,
			struct refusal *r);

#endif
