/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_GROUPS_H
#define CLIENT_REPORT_GROUPS_H

/* Records added up by keys.
 *
 *	groups_begin(g, plan, "run.gpuctr");	// for each capture
 *	groups_process(g, process);
 *	groups_record(g, record, what);
 *	...
 *	groups_finish(g);
 *
 * and then rows. A row has what belongs to it alone (self). Where the keys nest (an operator that
 * calls another), it also has the total with what is nested in it. Each record is in the self of
 * exactly one row: the sums of all rows' selves are those of the capture. */

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/estimate/total.h"
#include "client/report/attribution.h"
#include "client/report/keys.h"
#include "client/report/peaks.h"
#include "client/report/sample.h"

/* A measured quantity. Number 0 is the time of kernels, in ns, the others are counters. */
struct measure {
	const char *name, *unit;
	bool adds_up;  /* a sum over launches means something */
	bool of_range; /* relates to the range around the kernel, not to the kernel alone */
};

enum { MEASURE_TIME = 0 };

/* Of a column of a plan: does a sum over launches mean something? A derived name without rollup is
 * a weighted sum of ".sum" counters. */
bool groups_adds_up(const char *column);
/* Is a column of a plan a time or a number of cycles of the range around a kernel, which is longer
 * than the kernel, or a ratio to these? */
bool groups_is_of_range(const char *column);

struct estimated;

struct group {
	const char *const *labels; /* one a key; "": not known */
	uint64_t calls;		   /* launches of its own */
	uint64_t total_calls;	   /* and those nested in it */
	struct sample *self;	   /* one a measure */
	struct part *total;	   /* sums; those of self where nothing nests */
	struct part *timed; /* the same of launches whose time is known: what a rate is made of */
	/* Of its own launches. */
	uint64_t small;	 /* with fewer blocks than its device has multiprocessors, where known */
	uint64_t graphs; /* launches of whole graphs */
	uint64_t ranged; /* whose time is the length of a range */
	uint64_t total_ranged; /* with those nested in it */
	double peak_bytes;     /* what memory could have moved meanwhile at its peak; NaN: not known
				  of all of them */
	double total_peak_bytes; /* with those nested in it */
	/* What tensor cores needed for the operations at their peak; NaN: not known of all of them.
	 */
	double peak_ns, total_peak_ns;
	const struct scope *op; /* of one of them; NULL: none has an operator */
	/* What all its launches did, where only some were measured (estimated.h); NULL: all were.
	 * Then the members above are of those that were. */
	const struct estimated *estimated;
	const struct group *before; /* the same row of the capture that is compared with; view.h */
};

struct groups;

struct groups *groups_new(const struct keys *keys); /* NULL: out of memory */
struct groups *groups_free(struct groups *g);	    /* takes NULL, returns NULL */

/* 0; -ENOMEM; or -EINVAL when a counter has another unit than in a capture before, and then why is
 * told. name is that of the file; why may be NULL. */
int groups_begin(struct groups *g, const struct gpuctr_plan *plan, const char *name,
		 struct buf *why);
/* Where the present capture was taken; "" until told. Borrowed for the call. 0 or -ENOMEM. */
int groups_host(struct groups *g, const char *host);
int groups_process(struct groups *g, const struct gpuctr_process *process);
/* what: of an attributor that lives as long as g; NULL: the keys ask for nothing of it. */
int groups_record(struct groups *g, const struct gpuctr_record *record,
		  const struct attribution *what);
/* What the next records have for KEY_PLACE. 0 or -ENOMEM. */
int groups_at(struct groups *g, const char *place);

/* What the keys say of a record, where none nests, without taking it; as long as g and what live. 0
 * or -ENOMEM. */
int groups_labels(struct groups *g, const struct gpuctr_record *record,
		  const struct attribution *what, const char **ret);
/* The same of a stratum: what only a launch has is "", or NULL of the key that nests. Another key
 * is NULL when memory ran out. */
void groups_dims_of_stratum(struct groups *g, const struct gpuctr_stratum *s, const void **dims);
/* Does the key say the same of all launches of a stratum, whether they were measured or not? */
bool groups_knows_of_strata(enum key key);

/* Of a capture with a budget; may be told again, with more launches. */
int groups_stratum(struct groups *g, const struct gpuctr_stratum *stratum);
bool groups_are_estimated(const struct groups *g);
/* Launches of all strata, as they were last told. */
uint64_t groups_launches_of_strata(const struct groups *g);

/* Were metrics of some capture measured in turns, so that a launch has only some of them? */
bool groups_take_turns(const struct groups *g);

/* Operations a second of tensor cores in this precision, the highest of all devices. 0: not known
 * of one of them, or nothing of this precision was counted. */
double groups_flop_peak(const struct groups *g, enum peaks_precision precision);

/* Makes the rows of all that came until now; may be called again. 0 or -ENOMEM. */
int groups_finish(struct groups *g);

/* What of a record the keys and measures do not look at: enum store_part. */
unsigned groups_without(const struct groups *g);
const struct keys *groups_keys(const struct groups *g);
size_t groups_measures(const struct groups *g, const struct measure **ret);
/* In the order in which they came first; to be sorted by the caller. */
size_t groups_rows(struct groups *g, struct group ***ret);
/* All records together. */
const struct group *groups_all(const struct groups *g);
uint64_t groups_records(const struct groups *g);
/* Records by whose time they tell. */
uint64_t groups_clock(const struct groups *g, enum gpuctr_clock clock);

#endif
