/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Selects launches by the NVTX ranges around them: --nvtx, --no-nvtx. The caller supplies the
 * ranges: nvtx_select.c those of a program, gpuctr-replay those of a recording. */

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
	size_t range, step; /* indices in v of the last two; NVTX_EXPRESSIONS_MAX: none */
	atomic_bool hit[NVTX_EXPRESSIONS_MAX]; /* for each expression: a launch matched it, or a
						  range began its phase */
	atomic_bool asked;		       /* the program has made a launch */
	struct lock lock;
	char *names[NVTX_NAMES_MAX]; /* names of the first few ranges, for the message when no
					launch matches */
	atomic_size_t n_names;
};

/* How a stack of push/pop ranges, or the set of open start/end ranges, matches the expressions: one
 * number for each term, which only nvtx_filter_*() interpret. */
struct nvtx_matched {
	uint64_t v[NVTX_TERMS_TOTAL_MAX];
};

/* Returns 0, or a code with r filled. The caller calls nvtx_filter_deinit() in any case. f need not
 * be initialised. */
int nvtx_filter_init(struct nvtx_filter *f, const struct wire_selection *selection,
		     struct refusal *r);
void nvtx_filter_deinit(struct nvtx_filter *f);

/* Does the filter exclude any launch? */
static inline bool nvtx_filter_is_used(const struct nvtx_filter *f)
{
	return f->n_select > 0;
}

/* Compute the state, of n_terms numbers, of an empty stack; and of a stack with one more range on
 * top of the stack whose state is below. domain "" is the default domain. */
void nvtx_filter_begin(const struct nvtx_filter *f, uint64_t *state);
void nvtx_filter_advance(struct nvtx_filter *f, const uint64_t *below, uint64_t *state,
			 const char *domain, const char *message);

/* Adds an open start/end range to started, which begins as zeros. */
void nvtx_filter_add(struct nvtx_filter *f, uint64_t *started, const char *domain,
		     const char *message);

/* Do these open ranges select a launch? Thread-safe, as the functions below are. */
bool nvtx_filter_selects(struct nvtx_filter *f, const uint64_t *state, const uint64_t *started);

/* Notes that the program has made a launch. */
static inline void nvtx_filter_note_launch(struct nvtx_filter *f)
{
	if (!atomic_load_explicit(&f->asked, memory_order_relaxed)) {
		atomic_store(&f->asked, true);
	}
}

/* Does the expression v[index] match state, but not the stack below (NULL: an empty stack)? */
bool nvtx_filter_triggers(struct nvtx_filter *f, size_t index, const uint64_t *below,
			  const uint64_t *state);

/* Does the expression v[index] match this start/end range or mark? */
bool nvtx_filter_names(struct nvtx_filter *f, size_t index, const char *domain,
		       const char *message);

/* Is there an expression that no launch has matched, or that began no phase? Then r names it, and a
 * few of the program's ranges. */
bool nvtx_filter_missed(struct nvtx_filter *f, const struct wire_selection *selection,
			struct refusal *r);
