/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/notices.h"
#include "proto/base/utf8.h"
#include "proto/wire/demangle.h"
#include "proto/wire/expression.h"

static char *(*const names_of[])(const char *mangled) = {
	[GPUCTR_KERNEL_NAME_DEMANGLED] = demangle_kernel,
	[GPUCTR_KERNEL_NAME_FUNCTION] = demangle_function,
	[GPUCTR_KERNEL_NAME_MANGLED] = demangle_nothing,
};

int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r)
{
	*f = (struct filter){
		.skip = selection->launch_skip,
		.every = selection->launch_every > 1 ? selection->launch_every : 1,
		.count = selection->launch_count,
		.mode = selection->filter_mode,
		.limit = selection->record_limit,
	};
	lock_init(&f->lock, LOCK_LEAF);
	f->name = selection->kernel_name[0] ? selection->kernel_name : NULL;
	f->name_of = names_of[selection->kernel_name_base];
	f->has_regex = selection->kernel_regex[0] != '\0';
	if (f->has_regex && expression_compile(&f->regex, selection->kernel_regex, r) != 0) {
		f->has_regex = false;
		return r->code;
	}
	phase_init(&f->phase, selection);
	if (filter_is_grouped(f) && strata_init(&f->groups, STRATA_DEFAULT_MAX, 1) != 0) {
		refusal_set(r, GPUCTR_E_PROFILER, "Measure without --filter-mode.",
			    "the program has no memory to count launches by what they are");
		f->mode = GPUCTR_FILTER_GLOBAL;
		filter_deinit(f);
		return r->code;
	}
	if (nvtx_filter_init(&f->nvtx, selection, r) != 0) {
		filter_deinit(f);
		return r->code;
	}
	return 0;
}

/* Several threads and modules may launch kernels of the same name. */
static void note_left_out(struct filter *f, const char *name)
{
	size_t i = 0;

	LOCK_SCOPE(&f->lock);
	while (i < f->n_left_out && strcmp(f->left_out[i], name) != 0) {
		i++;
	}
	if (i == FILTER_NAMES_MAX) {
		f->left_out_more = true;
	} else if (i == f->n_left_out && (f->left_out[i] = strdup(name)) != NULL) {
		f->n_left_out++;
	}
}

bool filter_selects(struct filter *f, const char *mangled)
{
	const char *name;
	char *own;
	bool selected;

	if (!filter_chooses_kernels(f)) {
		return true;
	}
	own = f->name_of(mangled);
	name = own ? own : mangled;
	selected = (!f->name || strcmp(name, f->name) == 0) &&
		   (!f->has_regex || regexec(&f->regex, name, 0, NULL, 0) == 0);
	if (selected) {
		atomic_store(&f->matches, true);
	} else if (!atomic_load(&f->matches)) {
		note_left_out(f, name);
	}
	free(own);
	return selected;
}

/* The request has an expression or a name that no kernel matched. */
static bool missed_kernels(struct filter *f, struct refusal *r)
{
	size_t n;

	/* A signal handler that exits may have interrupted the lock's holder for ever. */
	if (!filter_chooses_kernels(f) || !lock_try(&f->lock)) {
		return false;
	}
	refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH,
		    "Write an expression or a name that matches one of them.",
		    "kernels that were there, and do not match:");
	n = strlen(r->message);
	for (size_t i = 0; i < f->n_left_out; i++) {
		n += (size_t)snprintf(r->message + n, sizeof(r->message) - n, "%s %.100s%s",
				      i ? ";" : "", f->left_out[i],
				      strlen(f->left_out[i]) > 100 ? "..." : "");
	}
	if (f->left_out_more) {
		snprintf(r->message + n, sizeof(r->message) - n, "; and others");
	}
	utf8_repair(r->message); /* a name may have been cut within a character */
	lock_release(&f->lock);
	return f->n_left_out > 0 && !atomic_load(&f->matches);
}

static const char *const group_names[] = {
	[GPUCTR_FILTER_GLOBAL] = "the process",
	[GPUCTR_FILTER_PER_GPU] = "each GPU",
	[GPUCTR_FILTER_PER_KERNEL] = "each kernel",
	[GPUCTR_FILTER_PER_LAUNCH_CONFIG] = "each launch configuration",
};

static uint64_t count_matched(struct filter *f)
{
	return filter_is_grouped(f) ? strata_total(&f->groups) : atomic_load(&f->matched);
}

static bool skipped_all(struct filter *f, struct refusal *r)
{
	unsigned long long matched = count_matched(f);

	if (matched == 0 || atomic_load(&f->took)) {
		return false;
	}
	refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH, "Skip fewer.",
		    "--launch-skip leaves out the first %llu launches of %s, and there were %llu%s "
		    "that match",
		    (unsigned long long)f->skip, group_names[f->mode], matched,
		    filter_is_grouped(f) ? " in all" : "");
	return true;
}

bool filter_missed_all(struct filter *f, struct refusal *r)
{
	return missed_kernels(f, r) || skipped_all(f, r);
}

bool filter_describe(struct filter *f, char *text, size_t bytes)
{
	size_t merged = 0;

	for (uint32_t i = 0; filter_is_grouped(f) && i < strata_n(&f->groups); i++) {
		merged += atomic_load(&f->groups.v[i].merged) && strata_seen(&f->groups, i) > 0;
	}
	snprintf(text, bytes,
		 "there were too many launch configurations for --filter-mode: what came last is "
		 "counted together, in %zu groups",
		 merged);
	return merged > 0;
}

bool filter_describe_limit(struct filter *f, char *text, size_t bytes)
{
	unsigned long long beyond = atomic_load(&f->beyond);

	snprintf(text, bytes, NOTICE_BEYOND_LIMIT, beyond, (unsigned long long)f->limit);
	return beyond > 0;
}

void filter_deinit(struct filter *f)
{
	if (f->has_regex) {
		regfree(&f->regex);
	}
	for (size_t i = 0; i < f->n_left_out; i++) {
		free(f->left_out[i]);
	}
	if (filter_is_grouped(f)) {
		strata_deinit(&f->groups);
	}
	nvtx_filter_deinit(&f->nvtx);
	*f = (struct filter){ 0 };
}

/* The part of the key that launches of one group have in common. */
static struct stratum_key group_of(const struct filter *f, const struct stratum_key *key)
{
	struct stratum_key group = { .kernel = key->kernel };

	if (f->mode == GPUCTR_FILTER_PER_GPU) {
		group = (struct stratum_key){ .kernel = 1, .device = key->device };
	} else if (f->mode == GPUCTR_FILTER_PER_LAUNCH_CONFIG) {
		group = *key;
		group.path = group.range = 0;
		group.device = 0;
	}
	return group;
}

/* The index of this launch in its group, from 0. */
static uint64_t take_index(struct filter *f, const struct stratum_key *key)
{
	struct stratum_key group;

	if (!filter_is_grouped(f)) {
		return atomic_fetch_add(&f->matched, 1);
	}
	group = group_of(f, key);
	return strata_see(&f->groups, strata_find(&f->groups, &group), 0) - 1;
}

bool filter_takes(struct filter *f, const struct stratum_key *key)
{
	uint64_t index = take_index(f, key), left = index - f->skip;

	if (index < f->skip || left % f->every != 0 ||
	    (f->count > 0 && left / f->every >= f->count)) {
		return false;
	}
	if (!atomic_load_explicit(&f->took, memory_order_relaxed)) {
		atomic_store(&f->took, true);
	}
	return true;
}

bool filter_reserve(struct filter *f)
{
	uint_fast64_t n = atomic_load(&f->reserved);

	if (f->limit == 0) {
		return true;
	}
	while (n < f->limit) {
		if (atomic_compare_exchange_weak(&f->reserved, &n, n + 1)) {
			return true;
		}
	}
	atomic_fetch_add_explicit(&f->beyond, 1, memory_order_relaxed);
	return false;
}

void filter_give_back(struct filter *f)
{
	if (f->limit > 0) {
		atomic_fetch_sub(&f->reserved, 1);
	}
}
