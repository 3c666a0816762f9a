/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What groups.c, leaves.c and groups_records.c (records to leaves), fold.c (leaves to rows),
 * estimated.c (figures of rows of which only some launches were measured), cells.c and strata.c
 * (what these keep), pools.c (strata of which too little was measured, by those of their kind) and
 * sizes.c (how large a stratum is among those) share. */

#include "client/report/derived.h"
#include "client/report/errors.h"
#include "client/report/estimated.h"

/* A set of records that have the same labels. If keys nest, a leaf is finer than a row, because a
 * leaf has a position among the ranges. */
struct leaf {
	const void *dims[KEYS_MAX]; /* labels; for the key that nests, the scope */
	uint64_t calls, small, graphs, alike, ranged;
	double peak_bytes, peak_ns;
	const struct scope *op;
	struct sample *stats;
	struct part *timed; /* sums over launches whose time is known, one for each measure */
	struct leaf_errors *errors; /* of sampled records; NULL: there are none */
};

/* A device of a process. */
struct groups_device {
	unsigned index;
	const char *label;
	unsigned multiprocessors;	    /* 0: unknown */
	double bytes_a_ns;		    /* peak of the memory; 0: unknown */
	double flop_a_ns[PEAKS_PRECISIONS]; /* peaks of the tensor cores; 0: unknown */
};

struct groups_process {
	unsigned process;
	const char *label;
	const char *rank, *task; /* "": not said */
	struct groups_device *devices;
	size_t n_devices;
};

enum { GROUPS_SLOTS = 1024 };

/* The samples of a stratum, in this order: one for the number of launches, one for each kind of
 * derived column, one for each measure. Each sample has two values, a whole and a part of it: 1 and
 * the measure, or the divisor of a derived column and its dividend. */
enum { SAMPLE_LAUNCHES, SAMPLE_DERIVED, SAMPLE_MEASURES = SAMPLE_DERIVED + DERIVED_BUILT_IN };

/* The common part of strata that differ only in their path or NVTX range. */
struct stratum_kind {
	const char *kernel; /* one of texts; NULL: several kernels */
	uint32_t grid[3], block[3], dynamic_shared_bytes;
	uint32_t device;
};

struct groups_stratum {
	size_t capture; /* the how many-th */
	unsigned process, id;
	struct stratum_kind kind; /* once it is told */
	size_t pool;		  /* the pool's number plus 1; 0: the stratum is in no pool */
	uint64_t seen;
	bool told;		    /* of seen */
	bool several;		    /* kernels */
	const void *dims[KEYS_MAX]; /* labels of a launch that was not measured, once the stratum
				       was reported */
	struct estimate_sample *samples;
	size_t n_samples;
	bool met; /* a launch of the stratum was measured */
};

/* A context of a process, in which groups of metrics take turns. */
struct groups_context {
	size_t capture;
	unsigned process, context;
	unsigned group; /* group of the last record */
	uint64_t turn;	/* number of the turn, from 1; changes with the group */
};

/* The strata of one kind that have too few measured launches, and what all strata of that kind have
 * shown. */
struct stratum_pool {
	size_t *lacking; /* numbers of the strata that lack one sample or more */
	size_t n_lacking;
	uint64_t seen;		      /* launches of these */
	struct estimate_class *plain; /* by sample */
	struct estimate_class
		*sized;	 /* the same per unit of size, from strata whose size is known */
	double *centres; /* logarithms of the values that correspond to size 1, two for each sample
			  */
	size_t n_samples;
};

/* A rule that predicts the size of a stratum in one metric: another metric, raised to the power
 * slope. */
struct size_rule {
	size_t by; /* index of the sample that predicts; 0: none */
	double slope, error;
};

/* The measured values of a stratum's launches that belong to a leaf. */
struct cell {
	struct leaf *leaf;
	size_t stratum;
	struct estimate_sample *samples; /* as many as the stratum's */
};

/* An index of an array that has n items and room for max. */
struct cells_index {
	size_t n, max;
	struct map numbers; /* numbers of the items plus 1 */
};

/* A leaf belongs to the self of one row and to the total of several. */
struct row_leaf {
	struct group *row;
	const struct leaf *leaf;
	bool self;
};

struct groups {
	struct keys keys;
	struct texts texts;
	bool attributes; /* the keys need the attribution */

	struct measure *measures;
	size_t n_measures;
	size_t *columns; /* measure of each column of the current capture */
	size_t n_columns;
	const char *capture, *host, *site;

	struct groups_process *processes; /* processes of the current capture */
	size_t n_processes, max_processes;
	double flop_peaks[PEAKS_PRECISIONS];	   /* operations per nanosecond, the highest of all
						      devices */
	bool flop_peaks_unknown[PEAKS_PRECISIONS]; /* of one of them */
	struct {
		unsigned process, kernel;
		const char *name;
	} kernels[GROUPS_SLOTS]; /* direct-mapped */

	struct leaf **leaves;
	size_t n_leaves, max_leaves;
	struct map known_leaves;

	struct group **rows;
	size_t n_rows, max_rows;
	struct map known_rows;
	struct texts row_texts; /* rows and what they own */
	struct group *all;

	bool sampled;	  /* values of some records have errors */
	bool turns;	  /* metrics of some capture were measured in turns */
	bool takes_turns; /* metrics of the current capture were measured in turns */
	/* For captures with a budget: */
	size_t n_captures;
	bool chosen; /* some launches were not measured, so rows have estimates */
	struct groups_stratum *strata;
	struct cells_index strata_index;
	struct groups_context *contexts; /* where metrics take turns */
	struct cells_index contexts_index;
	uint64_t n_turns;
	struct stratum_pool *pools;
	size_t n_pools;
	struct size_rule *size_rules; /* two a sample */
	/* How the strata of a pool differ, absolutely and per unit of size; one for each sample. */
	struct estimate_among *among_plain, *among_sized;
	struct estimate_prior *priors; /* what strata have in common, one for each sample */
	struct cell *cells;
	struct cells_index cells_index;
	struct derived derived[DERIVED_MAX];
	size_t n_derived;
	double *values; /* values of a record, by measure */
	struct row_leaf *row_leaves;
	size_t n_row_leaves, max_row_leaves;

	uint64_t records;
	uint64_t by_clock[GPUCTR_CLOCK_GPU + 1];
};

/* --- groups.c. NULL: not announced. */
struct groups_process *groups_find_process(struct groups *g, unsigned process);
const struct groups_device *groups_find_device(const struct groups_process *p, unsigned index);

/* --- leaves.c. What the keys say of a record. */
void groups_dims(struct groups *g, const struct gpuctr_record *record,
		 const struct attribution *what, const void **ret);
/* The hash of one label for each key. */
uint64_t groups_hash(const void *const *dims, unsigned n);
/* Finds or makes the leaf with these labels; NULL: out of memory. */
struct leaf *groups_find_leaf(struct groups *g, const void *const *dims);

/* --- cells.c. The find functions add what does not exist yet; NULL, 0, false: out of memory. */
struct groups_stratum *cells_stratum(struct groups *g, unsigned process, unsigned id);
struct cell *cells_find(struct groups *g, struct leaf *leaf, size_t stratum);
uint64_t cells_turn(struct groups *g, const struct gpuctr_record *record);
size_t groups_n_samples(const struct groups *g);
/* And the pools. */
void cells_free(struct groups *g);

/* --- strata.c. How many launches a stratum stands for, as far as that is known. */
uint64_t strata_seen(const struct groups_stratum *s);
/* Has the stratum too few measured launches, so that they represent no others? */
bool strata_lacks(const struct groups_stratum *s, size_t sample);
/* Is the stratum predicted from its kind, because it has too few measured launches? */
bool strata_predict(const struct groups *g, const struct groups_stratum *s, size_t sample);
int strata_compare_kinds(const struct groups_stratum *a, const struct groups_stratum *b);
/* order holds n strata sorted by kind, and a kind begins at index i. Returns the index after its
 * last stratum. */
size_t strata_end_of_kind(const struct groups *g, const size_t *order, size_t n, size_t i);
void strata_free_pools(struct groups *g);

/* --- pools.c: anew for what has come. 0 or -ENOMEM. */
int pools_make(struct groups *g);
void pools_add(const struct groups *g, const struct stratum_pool *pool, size_t sample,
	       struct estimate_total *total);

/* --- sizes.c: rules, from strata that are sorted by kind. 0 or -ENOMEM. */
int sizes_make(struct groups *g, const size_t *order, size_t n);
/* Computes the centres of the members, which are of one kind: two values for each sample. */
void sizes_centre(const struct groups *g, const size_t *members, size_t n, double *centres);
/* The size of a stratum for both values of a sample, relative to the pool's centres; false: not
 * known, or no rule predicts it. */
bool sizes_of(const struct groups *g, const struct stratum_pool *pool,
	      const struct groups_stratum *s, size_t sample, struct estimate_size *ret);

/* --- estimated.c. 0 or -ENOMEM. */
int estimated_record(struct groups *g, struct leaf *leaf, const struct gpuctr_record *record,
		     double bytes_a_ns);
/* Makes leaves for strata without measured launches, before leaves become rows. */
int estimated_begin_rows(struct groups *g);
bool estimated_add_leaf(struct groups *g, struct group *row, const struct leaf *leaf, bool self);
/* To be called once all leaves belong to rows. */
int estimated_finish_rows(struct groups *g);
