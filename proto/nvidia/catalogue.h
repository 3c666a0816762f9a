/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The metrics of a chip: CUPTI's, and our presets and derived names. What a user typed is compared
 * here with names that CUPTI gave; CUPTI itself is only asked with its own names. */

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/nvidia/host.h"
#include "proto/wire/wire.h"

struct catalogue_base {
	const char *name;
	enum gpuctr_metric_kind kind;
};

struct catalogue {
	struct host host;
	struct catalogue_base *bases; /* sorted by name */
	size_t n_bases;
	struct breakdown *breakdown; /* NULL: nobody knows what throughputs are made of */
};

/* A preset names columns; a derived metric is one column, the weighted sum of its terms. */
struct catalogue_named {
	const char *name;
	const char *description;
	enum gpuctr_metric_kind kind; /* PRESET or DERIVED */
	const char *unit;
	struct {
		const char *metric;
		double weight;
		/* For a term of a preset: the chips for which it is, by the beginnings of their
		 * names; NULL: all. */
		const char *chips;
	} terms[12];
	/* A preset that is refused if the chip lacks one of its terms, or if all terms that are for
	 * certain chips are for other chips. */
	bool whole;
};

/* The chip if nobody names one and there is no GPU: that of the bundled recording. */
#define CATALOGUE_DEFAULT_CHIP "GH100"

/* CUPTI's own string for a chip, or a product that has it, that somebody typed, because CUPTI is
 * given only its own strings. NULL with r filled, which names the known chips. */
const char *catalogue_find_chip(const struct vendor_host *v, const char *typed, struct refusal *r);

/* 0, or a positive code with r filled. */
int catalogue_init(struct catalogue *c, const struct vendor_host *v, const char *chip,
		   struct refusal *r);
void catalogue_deinit(struct catalogue *c);

/* NULL when unknown. */
const struct catalogue_named *catalogue_find_named(const char *name);
const struct catalogue_named *catalogue_named_at(size_t i); /* NULL behind the last */
/* Is the i-th term of a preset for this chip? */
bool catalogue_term_is_for(const struct catalogue *c, const struct catalogue_named *n, size_t i);
const struct catalogue_base *catalogue_find_base(const struct catalogue *c, const char *name,
						 size_t length);

/* "breakdown:" and a full name of a throughput, as ncu has it, stands for what that is made of. */
#define CATALOGUE_BREAKDOWN "breakdown:"
enum { CATALOGUE_PARTS_MAX = 128 };

/* Full names of the counters of which the throughput, a full name, is made, with its rollup; those
 * that the chip has. They live in a. 0: it is no throughput, or nobody knows. */
size_t catalogue_parts(const struct catalogue *c, struct arena *a, const char *throughput,
		       const char *ret[CATALOGUE_PARTS_MAX]);

/* Is full a base name followed by one of its submetrics? */
bool catalogue_has(const struct catalogue *c, const char *full);

/* Calls on_metric for our metrics and then for CUPTI's, each in the order of names, until it
 * returns other than 0, which is returned. With describe, CUPTI's metrics come with submetrics and
 * descriptions. Pointers are valid during the call. */
typedef int (*catalogue_on_metric)(const struct gpuctr_metric *metric, void *userdata);
int catalogue_list(const struct catalogue *c, bool describe, catalogue_on_metric on_metric,
		   void *userdata);

/* Submetrics of a base, each with its leading dot; borrowed from CUPTI until its next call. */
size_t catalogue_submetrics(const struct catalogue *c, const struct catalogue_base *base,
			    const char ***ret);

/* Properties of a base or full name; the strings are CUPTI's and static. False when CUPTI has
 * none. */
bool catalogue_describe(const struct catalogue *c, const char *name, const char **ret_unit,
			const char **ret_hardware_unit, const char **ret_description);

/* A full name for a base name or a name of ours, for use in messages: with this rollup if the
 * metric has that, else with one that it has. NULL: out of memory. */
const char *catalogue_example(const struct catalogue *c, struct arena *a, const char *name,
			      const char *rollup);

/* What nvprof called a wrong name, or up to three names close to it, as "a, b or c", each of which
 * a plan takes; "" when none is close. */
const char *catalogue_near(const struct catalogue *c, struct arena *a, const char *wrong);
