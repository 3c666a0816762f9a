/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_FILTER_H
#define GPUCTR_AGENT_FILTER_H

/* Which launches of a process are measured: --kernel, --launch-skip, --launch-count. */

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/nvtx_filter.h"
#include "client/agent/phase.h"
#include "proto/wire/status.h"
#include "proto/wire/wire.h"

enum { FILTER_NAMES_MAX = 6 };

struct filter {
	bool has_regex;
	regex_t regex;
	atomic_bool matches; /* some kernel */
	pthread_mutex_t lock;
	char *left_out[FILTER_NAMES_MAX]; /* of kernels that do not match; the first few */
	size_t n_left_out;
	struct nvtx_filter nvtx;
	struct phase phase;
	uint64_t skip, count;
	atomic_uint_fast64_t matched;
};

/* 0, or GPUCTR_E_BAD_PATTERN with r filled; there is then nothing to deinit. */
int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r);

void filter_deinit(struct filter *f);

/* Does a kernel of this mangled name match? Costs a demangling: ask once for each kernel. */
bool filter_selects(struct filter *f, const char *mangled);

/* Did kernels run, and did the expression match none of them? Then r names a few that were there.
 */
bool filter_missed_all(struct filter *f, struct refusal *r);

/* Counts one launch of a selected kernel, and says whether it is measured. Thread-safe. */
bool filter_takes(struct filter *f);

#endif
