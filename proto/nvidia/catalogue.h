/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The metrics of a chip: CUPTI's, and our presets and derived metrics. The catalogue compares a
 * user's text with CUPTI's names, and passes only CUPTI's own names to CUPTI. */

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
	struct breakdown *breakdown; /* NULL: the parts of throughputs are unknown */
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
		/* For a term of a preset: the beginnings of the names of its chips; NULL: all
		 * chips. */
		const char *chips;
	} terms[12];
	/* The preset is refused if the chip lacks one of its terms, or if all its terms for certain
	 * chips are for other chips. */
	bool whole;
};

/* The chip if the user names none and there is no GPU: that of the bundled recording. */
#define CATALOGUE_DEFAULT_CHIP "GH100"

/* CUPTI's own string for the typed name of a chip or product, because CUPTI gets only its own
 * strings. NULL with r filled, which lists the known chips. */
const char *catalogue_find_chip(const struct vendor_host *v, const char *typed, struct refusal *r);

/* 0, or a positive code with r filled. */
int catalogue_init(struct catalogue *c, const struct vendor_host *v, const char *chip,
		   struct refusal *r);
void catalogue_deinit(struct catalogue *c);

/* NULL when unknown. */
const struct catalogue_named *catalogue_find_named(const char *name);
const struct catalogue_named *catalogue_named_at(size_t i); /* NULL after the last */
/* Is the i-th term of a preset for this chip? */
bool catalogue_term_is_for(const struct catalogue *c, const struct catalogue_named *n, size_t i);
const struct catalogue_base *catalogue_find_base(const struct catalogue *c, const char *name,
						 size_t length);

/* "breakdown:" and a full name of a throughput means the throughput's parts, as in ncu. */
#define CATALOGUE_BREAKDOWN "breakdown:"
enum { CATALOGUE_PARTS_MAX = 128 };

/* Full names, in a, of the throughput's counters that the chip has, with the rollup of throughput,
 * a full name. 0: not a throughput, or its parts are unknown. */
size_t catalogue_parts(const struct catalogue *c, struct arena *a, const char *throughput,
		       const char *ret[CATALOGUE_PARTS_MAX]);

/* Is full a base name followed by one of its submetrics? */
bool catalogue_has(const struct catalogue *c, const char *full);

/* Calls on_metric for our metrics and then for CUPTI's, each in the order of names, until on_metric
 * returns a value other than 0, which is returned. With describe, CUPTI's metrics come with
 * submetrics and descriptions. Pointers are valid during the call. */
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

/* A full name for a base name or one of our names, for messages: with this rollup if the metric has
 * it, else with another. NULL: out of memory. */
const char *catalogue_example(const struct catalogue *c, struct arena *a, const char *name,
			      const char *rollup);

/* The metrics for a wrong name that is nvprof's, or up to three names close to it, as "a, b or c",
 * which a plan accepts; "": none is close. */
const char *catalogue_near(const struct catalogue *c, struct arena *a, const char *wrong);
