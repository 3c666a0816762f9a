/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Records added up by keys.
 *
 *	groups_begin(g, plan, "run.gpuctr");	// for each capture
 *	groups_process(g, process);
 *	groups_record(g, record, what);
 *	...
 *	groups_finish(g);
 *
 * then makes rows. A row has sums of its own records (self). Where the keys nest (an operator that
 * calls another), a row also has totals, which include the rows nested in it. Each record is in the
 * self of exactly one row: the sums of all rows' selves are those of the capture. */

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/attribution.h"
#include "client/report/keys.h"
#include "client/report/peaks.h"
#include "client/report/sample.h"

/* A measured quantity. Number 0 is the time of kernels, in ns, the others are counters. */
struct measure {
	const char *name, *unit;
	bool adds_up;  /* a sum over launches has a meaning */
	bool of_range; /* measured over the range around the kernel and not over the kernel alone */
	size_t turn;   /* number of its group of metrics, from 1; 0: metrics took no turns */
};

enum { MEASURE_TIME = 0 };

/* Does a sum of this column over launches have a meaning? A name without rollup is that of a
 * weighted sum of ".sum" counters. */
bool groups_adds_up(const char *column);
/* Is this column a time or a number of cycles of the range around a kernel, which is longer than
 * the kernel, or a ratio to one of these? */
bool groups_is_of_range(const char *column);

struct group {
	const char *const *labels; /* one label for each key; "": not known */
	uint64_t calls;		   /* launches of the row itself */
	uint64_t total_calls;	   /* with launches nested in the row */
	struct sample *self; /* values of the row's own records, one sample for each measure */
	/* Sums, one for each measure, with the number of launches in them. Where metrics take
	 * turns, the values of some launches stand for other launches of their kind (kinds.c). */
	struct part *own;   /* sums of the row itself */
	struct part *total; /* sums with nested rows; equal to own if nothing nests */
	struct part *timed; /* total over launches with a known time */
	/* Numbers of the row's own launches: */
	uint64_t small;	 /* launches with fewer blocks than the device has multiprocessors */
	uint64_t graphs; /* launches of whole graphs */
	uint64_t alike;	 /* launches whose values are means over the same place of all steps */
	uint64_t ranged; /* launches whose time is the length of a range */
	uint64_t total_ranged; /* ranged, with nested rows */
	double peak_bytes; /* bytes that the memory could have moved at its peak in the row's time;
			      NaN: not known for some launch */
	double total_peak_bytes; /* peak_bytes, with nested rows */
	/* The time that tensor cores need for the operations at their peak; NaN: not known for some
	 * launch. */
	double peak_ns, total_peak_ns;
	const struct scope *op; /* operator of one of the launches; NULL: no launch has one */
	/* Standard errors of the sums, one for each measure, where values were sampled (errors.h).
	 * NULL: values were counted. */
	const double *self_error, *total_error;
	bool is_marked;		    /* used by errors.c */
	const struct group *before; /* the same row in the capture that is compared with; view.h */
	const struct group
		*origin; /* of a `before` row: the row that it copies, in the other groups */
};

/* Makes an empty row of n measures, owned by owner. NULL: out of memory. */
struct group *group_new(struct texts *owner, size_t n);

/* The label of KEY_GRID for launches of further shapes once there are very many shapes. */
#define GROUPS_OTHER_SHAPES "other launch shapes"

struct groups;

struct groups *groups_new(const struct keys *keys); /* NULL: out of memory */
/* Makes further groups. From now on they get the captures, hosts, processes and records that the
 * caller passes to the first groups. */
struct groups *groups_beside(struct groups *first, const struct keys *keys);
struct groups *groups_free(struct groups *g); /* takes NULL, returns NULL */

/* name: of the file; why may be NULL. Returns 0, -ENOMEM, or -EINVAL with why filled if a counter
 * has another unit than in an earlier capture. */
int groups_begin(struct groups *g, const struct gpuctr_plan *plan, const char *name,
		 struct buf *why);
/* Sets the host on which the current capture was taken; it is "" at first. Borrowed for the call. 0
 * or -ENOMEM. */
int groups_host(struct groups *g, const char *host);
int groups_process(struct groups *g, const struct gpuctr_process *process);
/* what: from an attributor that lives as long as g; NULL if the keys do not need attribution. */
int groups_record(struct groups *g, const struct gpuctr_record *record,
		  const struct attribution *what);
bool groups_are_sampled(const struct groups *g);

/* Were metrics of some capture measured in turns, so that a launch has only some of them? */
bool groups_take_turns(const struct groups *g);

/* Peak of the tensor cores in this precision, in operations per second, the highest of all devices.
 * 0: not known for some device, or no operations of this precision were counted. */
double groups_flop_peak(const struct groups *g, enum peaks_precision precision);

/* Makes the rows from all records so far; may be called again. 0 or -ENOMEM. */
int groups_finish(struct groups *g);

const struct keys *groups_keys(const struct groups *g);
size_t groups_measures(const struct groups *g, const struct measure **ret);
/* The rows in the order of their first records; the caller may sort them. */
size_t groups_rows(struct groups *g, struct group ***ret);
/* All records together. */
const struct group *groups_all(const struct groups *g);
uint64_t groups_records(const struct groups *g);
/* The number of records with times of this clock. */
uint64_t groups_clock(const struct groups *g, enum gpuctr_clock clock);
