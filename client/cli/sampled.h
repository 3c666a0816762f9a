/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What client/attribution makes of the kernels of a capture and of samples of whole GPUs. All
 * kernels come first, as they were recorded, then all samples:
 *
 *	sampled_new ─► add_gpu, process, record, copy, unknown ─► sample ─► finish ─► apply
 *
 * sampled_file.c gives it those of a capture file. Of a kernel only what tells when it ran and
 *which ones are alike is kept, and what the attribution says of it. */

#include <gpuctr/gpuctr.h>

#include "client/attribution/attribution.h"
#include "client/store/reader.h"
#include "proto/base/buf.h"

enum {
	SAMPLED_ITEMS_MAX = 1 << 24 /* kernels and copies, some 70 bytes each; more have no value */
};

/* Why kernels have no value for some metric, and how many have none. */
enum sampled_reason {
	SAMPLED_TOO_SHORT,
	SAMPLED_TOGETHER,
	SAMPLED_LOST, /* samples or kernels' times are missing around them */
	SAMPLED_CLOCKS,
	SAMPLED_CROWDED,
	SAMPLED_NO_TIME,   /* CUPTI has lost when they ran */
	SAMPLED_OTHER_GPU, /* that nobody sampled */
	SAMPLED_TOO_MANY,  /* beyond SAMPLED_ITEMS_MAX */
	SAMPLED_NO_MEMORY, /* there was none for the attribution, which ended */
	SAMPLED_COSTLY, /* would take too long to calculate: more than so many records are worth */
	SAMPLED_GIVEN_UP, /* sampled_on_pause said so */
	SAMPLED_AWAY,	  /* other metrics were sampled, and too few like it ran when these were */
	SAMPLED_REASONS,
};

struct sampled_counts {
	uint64_t records;	  /* that sampled_record() got */
	uint64_t kernels, valued; /* all; those that have a value for some metric */
	uint64_t without[SAMPLED_REASONS];
	/* Of the first column: what all kernels moved that have a value or are too short to tell,
	 * and what the latter did. Sums over many tell that of those as well. */
	double sum, too_short_sum;
	uint64_t samples, bad_samples; /* bad: no value can be so, or others were of that time */
	int64_t shift_ns;	       /* of the first metric, where it is known */
	bool shift_known;
	int64_t apart_ns; /* of clocks that are too far apart, about; 0: they are not */
};

struct sampled;

/* Metrics that were sampled at other times than others are in sets: sets has the number of each
 * one's, as struct sampler_begin; NULL: all are in one. The plan lives until sampled_free(). NULL:
 * errno is ENOMEM, or E2BIG: a set has more metrics than ATTRIBUTION_METRICS_MAX. */
struct sampled *sampled_new(const struct gpuctr_plan *plan, const uint8_t *sets);
struct sampled *sampled_free(struct sampled *s); /* takes NULL, returns NULL */

/* Comes every few milliseconds while values are calculated, which sampled_sample() and
 * sampled_finish() do, and may call neither. True: they are given up, for good, and records come
 * without those that are not known yet. Before the first GPU; NULL: nobody is asked. */
typedef bool sampled_on_pause(void *user);
void sampled_hear_pauses(struct sampled *s, sampled_on_pause *on_pause, void *user);

/* A GPU that is sampled; returns its number, or a negative errno. */
int sampled_add_gpu(struct sampled *s, const char *uuid);
int sampled_find_gpu(const struct sampled *s, const char *uuid); /* -1: it is not sampled */
void sampled_process(struct sampled *s, const struct gpuctr_process *process);

/* The next record; those of a process come in the order of their index. step: what is alike for
 * kernels of one step of the program and differs from that of the step before; 0: not known. */
void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step);
/* A kernel without a record, which takes its part of the samples all the same. */
void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy);
/* Nobody knows what ran on a GPU in this time. gpu -1: what was sampled since start_ns is nobody's.
 */
void sampled_unknown(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns);

/* The next sample of this GPU. values: one a metric of the plan; NAN for those of other sets. */
void sampled_sample(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns,
		    const double *values);
void sampled_finish(struct sampled *s);

/* After that: gives the i-th record its values and errors, which live until the next call, and
 * counts it. Returns why it has no value for some metric, or NULL. */
const char *sampled_apply(struct sampled *s, size_t i, struct gpuctr_record *record);

/* Samples that could not even be recorded: of no time, or of one that others are of. */
void sampled_leave_out(struct sampled *s, uint64_t samples);
const struct sampled_counts *sampled_counts(const struct sampled *s);

/* "too short to tell" */
const char *sampled_reason_name(enum sampled_reason why);
/* Of the records that have got their values: "3 of 4 kernels have no value: too short to tell 3;
 * samples left out 2", or "3 of 4 kernels lack a value of some metric (without any: 1): ..." */
void sampled_describe(const struct sampled *s, struct buf *b);

/* Does the sum of this metric over samples mean something? */
bool sampled_adds_up(const char *metric);
/* Does the sum of each of the plan's metrics over samples mean something? NULL: yes; else one of
 * which it does not. */
const char *sampled_misfit(const struct gpuctr_plan *plan);

/* --- sampled_file.c */
enum { SAMPLED_NO_SAMPLES = 10000 }; /* no result of the store's */

/* The whole pass over a file that keeps its samples, up to sampled_finish(): its records can be
 * given their values in the order in which reading_reader() reads them. on_pause as above. *ret is
 * set on success and lives no longer than the reader. 0, SAMPLED_NO_SAMPLES, -ENOMEM, or what the
 * reader returned. */
int sampled_read(struct store_reader *reader, sampled_on_pause *on_pause, void *user,
		 struct sampled **ret);
