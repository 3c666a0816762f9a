/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Records of a trace, which tell when each kernel ran, joined with samples of whole GPUs: what
 * client/attribution makes of both. Records are kept until the end, because their values get better
 * until then; samples are not. */

#include <gpuctr/gpuctr.h>

#include "client/attribution/attribution.h"
#include "proto/base/buf.h"

enum {
	SAMPLED_RECORDS_MAX = 1 << 20
}; /* records that are kept, 0.3 kB each; beyond it the oldest are reported */

/* Why kernels have no value for some metric, and how many have none. */
enum sampled_reason {
	SAMPLED_TOO_SHORT,
	SAMPLED_TOGETHER,
	SAMPLED_LOST, /* samples or kernels' times are missing around them */
	SAMPLED_CLOCKS,
	SAMPLED_CROWDED,
	SAMPLED_NO_TIME,   /* CUPTI has lost when they ran */
	SAMPLED_OTHER_GPU, /* that nobody sampled */
	SAMPLED_TOO_MANY,  /* beyond SAMPLED_RECORDS_MAX, before their values were known */
	SAMPLED_LATE,	   /* their samples were attributed before they came */
	SAMPLED_NO_MEMORY, /* there was none for the attribution, which ended */
	SAMPLED_AWAY,	   /* other metrics were sampled, and too few like it ran when these were */
	SAMPLED_REASONS,
};

struct sampled_counts {
	uint64_t kernels, valued; /* all; those that have a value for some metric */
	uint64_t without[SAMPLED_REASONS];
	/* Of the first column: what all kernels moved that have a value or are too short to tell,
	 * and what the latter did. Sums over many tell that of those as well. */
	double sum, too_short_sum;
	uint64_t samples, bad_samples; /* bad: no value can be so, or others were of that time */
	uint64_t untraced_ns;	       /* in which kernels were not recorded, of all processes */
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

/* Before the first GPU: samples and records do not come side by side, but one after the other from
 * files, so eight times as many may wait. */
void sampled_expect_files(struct sampled *s);

/* A GPU that is sampled; returns its number, or a negative errno. */
int sampled_add_gpu(struct sampled *s, const char *uuid);

/* Tells of each sample that is given to the attribution, seconds after it came; NULL: nobody. */
typedef void sampled_on_sample(void *user, int gpu, int64_t start_ns, int64_t end_ns,
			       const double *values);
void sampled_hear_samples(struct sampled *s, sampled_on_sample *on_sample, void *user);

void sampled_process(struct sampled *s, const struct gpuctr_process *process);

/* What a process ran that ended without its records, or whose records are late, others must not be
 * given: nobody knows when it ran. now_ns: since 1970. */
void sampled_process_end(struct sampled *s, const struct gpuctr_process_end *end, int64_t now_ns);
void sampled_progress(struct sampled *s, const struct gpuctr_totals *totals);

typedef void sampled_on_record(void *user, const struct gpuctr_record *record);

/* step: what is alike for kernels of one step of the program and differs from that of the step
 * before; 0: not known. When no more can be kept, the oldest are told, with the values that are
 * known until then. */
void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step,
		    sampled_on_record *on_record, void *user);

/* A kernel without a record, which takes its part of the samples all the same. */
void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy);

/* values: one a metric of the plan; NAN for those of other sets. */
void sampled_sample(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns,
		    const double *values);

/* For all GPUs: samples since then, and those that still come, belong to nobody. */
void sampled_discard(struct sampled *s, int64_t since_ns);

/* Nobody knows what ran on a GPU in this time. What was noted, by whomever, is in the list, until
 * the next call; a discard ends with INT64_MAX, and its gpu is -1. */
struct sampled_unknown {
	int gpu;
	int64_t start_ns, end_ns;
};
void sampled_note_unknown(struct sampled *s, const struct sampled_unknown *unknown);
size_t sampled_unknown(const struct sampled *s, const struct sampled_unknown **ret);

/* The number of the GPU that is this device of a process; -1: it is not sampled. */
int sampled_find_gpu(const struct sampled *s, unsigned process, unsigned device);

/* Now and then: attributes what is old. */
void sampled_advance(struct sampled *s);

/* Reports all records that are kept, with their values and errors; those of each process in their
 * order. */
void sampled_finish(struct sampled *s, sampled_on_record *on_record, void *user);

const struct sampled_counts *sampled_counts(const struct sampled *s);

/* "too short to tell" */
const char *sampled_reason_name(enum sampled_reason why);
/* In sampled_on_record: why the record has no value for some metric. NULL: it has all. */
const char *sampled_told_why(const struct sampled *s);
/* "3 of 4 kernels have no value: too short to tell 3; samples left out 2", or "3 of 4 kernels lack
 * a value of some metric (without any: 1): ..." */
void sampled_describe(const struct sampled *s, struct buf *b);

/* Does the sum of this metric over samples mean something? */
bool sampled_adds_up(const char *metric);
/* Does the sum of each of the plan's metrics over samples mean something? NULL: yes; else one of
 * which it does not. */
const char *sampled_misfit(const struct gpuctr_plan *plan);
