/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/flag.h"
#include "proto/base/utf8.h"
#include "proto/wire/demangle.h"
#include "proto/wire/expression.h"

static char *(*const names_of[])(const char *mangled) = {
	[GPUCTR_KERNEL_NAME_DEMANGLED] = demangle_kernel,
	[GPUCTR_KERNEL_NAME_FUNCTION] = demangle_function,
	[GPUCTR_KERNEL_NAME_MANGLED] = demangle_nothing,
};

/* --- groups --- */

enum { GROUPS_MAX = 16384 };

struct group {
	uint64_t number, matched;
};

static bool has_number(const void *item, const void *number)
{
	return ((const struct group *)item)->number == *(const uint64_t *)number;
}

/* With the lock. Launches of groups beyond GROUPS_MAX are counted together. */
static uint64_t *matched_of(struct filter *f, uint64_t number)
{
	uint64_t hash = map_mix(0, number);
	struct group *g = map_find(&f->groups, hash, has_number, &number);

	if (!g && f->groups.n < GROUPS_MAX && (g = malloc(sizeof(*g))) != NULL) {
		*g = (struct group){ .number = number };
		if (map_add(&f->groups, hash, g) < 0) {
			free(g);
			g = NULL;
		}
	}
	return g ? &g->matched : &f->rest;
}

/* --- the filter --- */

int filter_init(struct filter *f, const struct wire_selection *selection, struct refusal *r)
{
	*f = (struct filter){
		.skip = selection->launch_skip,
		.every = selection->launch_every > 1 ? selection->launch_every : 1,
		.count = selection->launch_count,
		.mode = selection->filter_mode,
	};
	lock_init(&f->lock, LOCK_LEAF);
	f->name = selection->kernel_name[0] ? selection->kernel_name : NULL;
	f->name_of = names_of[selection->kernel_name_base];
	f->counts = f->skip > 0 || f->every > 1 || f->count > 0;
	f->has_regex = selection->kernel_regex[0] != '\0';
	if (f->has_regex && expression_compile(&f->regex, selection->kernel_regex, r) != 0) {
		f->has_regex = false;
		return r->code;
	}
	phase_init(&f->phase, selection);
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
		   (!f->has_regex || expression_matches(&f->regex, name));
	if (selected) {
		flag_raise(&f->matches);
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
};

static bool skipped_all(struct filter *f, struct refusal *r)
{
	unsigned long long matched = atomic_load(&f->matched);

	if (matched == 0 || atomic_load(&f->took)) {
		return false;
	}
	refusal_set(r, GPUCTR_E_KERNEL_NO_MATCH, "Skip fewer.",
		    "--skip leaves out the first %llu launches of %s, and there were %llu%s "
		    "that match",
		    (unsigned long long)f->skip, group_names[f->mode], matched,
		    filter_is_grouped(f) ? " in all" : "");
	return true;
}

bool filter_missed_all(struct filter *f, struct refusal *r)
{
	return missed_kernels(f, r) || skipped_all(f, r);
}

void filter_deinit(struct filter *f)
{
	if (f->has_regex) {
		regfree(&f->regex);
	}
	for (size_t i = 0; i < f->n_left_out; i++) {
		free(f->left_out[i]);
	}
	map_deinit_items(&f->groups);
	nvtx_filter_deinit(&f->nvtx);
	*f = (struct filter){ 0 };
}

/* The index of this launch in its group, or among all, from 0. */
static uint64_t take_index(struct filter *f, uint64_t group)
{
	uint64_t index = atomic_fetch_add(&f->matched, 1);

	if (!filter_is_grouped(f)) {
		return index;
	}
	LOCK_SCOPE(&f->lock);
	return (*matched_of(f, group))++;
}

/* False: as many launches have been taken as launch_count allows. */
static bool reserve(struct filter *f)
{
	uint_fast64_t n = atomic_load(&f->taken);

	while (f->count == 0 || n < f->count) {
		if (atomic_compare_exchange_weak(&f->taken, &n, n + 1)) {
			return true;
		}
	}
	return false;
}

void filter_give_back(struct filter *f)
{
	if (f->counts) {
		atomic_fetch_sub(&f->taken, 1);
	}
}

static bool takes_counted(struct filter *f, uint64_t group)
{
	uint64_t index = take_index(f, group), left = index - f->skip;
	bool takes = index >= f->skip && left % f->every == 0;

	if (filter_is_grouped(f)) {
		takes = takes && (f->count == 0 || left / f->every < f->count);
	} else {
		takes = takes && reserve(f);
	}
	return takes;
}

bool filter_takes(struct filter *f, uint64_t group)
{
	bool takes = !f->counts || takes_counted(f, group);

	if (takes) {
		flag_raise(&f->took);
	}
	return takes;
}
