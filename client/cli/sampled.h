/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs client/attribution over the kernels of a capture and the samples of whole GPUs. The caller
 * passes all kernels first, in the order of records, and then all samples:
 *
 *	sampled_new ─► add_gpu, process, record, copy, unknown ─► sample ─► finish ─► apply
 *
 * sampled_file.c passes those of a capture file. Of a kernel only its time, a hash of its shape,
 *and the result of the attribution are kept. */

#include <gpuctr/gpuctr.h>

#include "client/attribution/attribution.h"
#include "client/store/reader.h"
#include "proto/base/buf.h"

enum {
	SAMPLED_ITEMS_MAX = 1 << 24 /* kernels and copies, some 70 bytes each; more have no value */
};

/* Why a kernel has no value for some metric. */
enum sampled_reason {
	SAMPLED_TOO_SHORT,
	SAMPLED_TOGETHER,
	SAMPLED_LOST, /* samples or kernels' times are missing around the kernel */
	SAMPLED_CLOCKS,
	SAMPLED_CROWDED,
	SAMPLED_NO_TIME,   /* CUPTI has lost the kernel's time */
	SAMPLED_OTHER_GPU, /* the kernel ran on a GPU that was not sampled */
	SAMPLED_TOO_MANY,  /* there are more than SAMPLED_ITEMS_MAX */
	SAMPLED_NO_MEMORY, /* the attribution ran out of memory */
	SAMPLED_COSTLY,	   /* takes too long to calculate for so many records */
	SAMPLED_GIVEN_UP,  /* sampled_on_pause() ended the calculation */
	SAMPLED_AWAY,	   /* other metrics were sampled, and too few kernels like it had samples */
	SAMPLED_REASONS,
};

struct sampled_counts {
	uint64_t records;	  /* calls of sampled_record() */
	uint64_t kernels, valued; /* all kernels; kernels with a value for some metric */
	uint64_t without[SAMPLED_REASONS];
	/* Sums of the first column: over all kernels that have a value or are too short, and over
	 * those that are too short, whose values are good in sums over many. */
	double sum, too_short_sum;
	uint64_t samples, bad_samples; /* bad: invalid, or of the time of other samples */
	int64_t shift_ns;	       /* shift of the first metric, if known */
	bool shift_known;
	int64_t apart_ns; /* rough shift of clocks that are too far apart; 0: they are not */
};

struct sampled;

/* sets: for each metric the number of its set, as in struct sampler_begin, if metrics were sampled
 * at different times; NULL: all are in one set. The plan lives until sampled_free(). NULL: errno is
 * ENOMEM, or E2BIG: a set has more metrics than ATTRIBUTION_METRICS_MAX. */
struct sampled *sampled_new(const struct gpuctr_plan *plan, const uint8_t *sets);
struct sampled *sampled_free(struct sampled *s); /* takes NULL, returns NULL */

/* Has on_pause called every few milliseconds while sampled_sample() and sampled_finish() calculate
 * values; it may call neither. When it returns true, the calculation ends for good, and values that
 * are not known yet are missing. Call it before the first sampled_add_gpu(). NULL: no calls. */
typedef bool sampled_on_pause(void *user);
void sampled_hear_pauses(struct sampled *s, sampled_on_pause *on_pause, void *user);

/* Adds a sampled GPU. Returns its number, or a negative errno. */
int sampled_add_gpu(struct sampled *s, const char *uuid);
int sampled_find_gpu(const struct sampled *s, const char *uuid); /* -1: it is not sampled */
void sampled_process(struct sampled *s, const struct gpuctr_process *process);

/* Adds the next record; records of a process come in the order of their index. step: a number that
 * kernels of one step of the program share, and that differs from the step before; 0: unknown. */
void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step);
/* Adds a copy, fill or kernel without a record, which has a part in samples all the same. */
void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy);
/* Says that nobody knows what ran on a GPU in this time. gpu -1: samples that end after start_ns
 * are left out. */
void sampled_unknown(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns);

/* Adds the next sample of a GPU. values: one for each metric of the plan; NAN for other sets. */
void sampled_sample(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns,
		    const double *values);
void sampled_finish(struct sampled *s);

/* Call it after sampled_finish(): gives the i-th record its values and errors, which live until the
 * next call, and counts the record. Returns why it has no value for some metric, or NULL. */
const char *sampled_apply(struct sampled *s, size_t i, struct gpuctr_record *record);

/* Counts samples that could not be recorded: without a valid time, or of the time of others. */
void sampled_leave_out(struct sampled *s, uint64_t samples);
const struct sampled_counts *sampled_counts(const struct sampled *s);

/* "too short to tell" */
const char *sampled_reason_name(enum sampled_reason why);
/* Describes records after sampled_apply(): "3 of 4 kernels have no value: too short to tell 3;
 * samples left out 2", or "3 of 4 kernels lack a value of some metric (without any: 1): ..." */
void sampled_describe(const struct sampled *s, struct buf *b);

/* Does the sum of this metric over samples mean something? */
bool sampled_adds_up(const char *metric);
/* Does the sum of each of the plan's metrics over samples mean something? NULL: yes; else a metric
 * whose sum does not. */
const char *sampled_misfit(const struct gpuctr_plan *plan);

/* --- sampled_file.c */
enum { SAMPLED_NO_SAMPLES = 10000 }; /* no function of client/store returns this */

/* Makes the whole pass over a file that keeps its samples, up to sampled_finish(). sampled_apply()
 * can then give records their values, numbered in the order in which reading_reader() reads them.
 * on_pause: as above. *ret is set on success and lives no longer than the reader. 0,
 * SAMPLED_NO_SAMPLES, -ENOMEM, or what the reader returned. */
int sampled_read(struct store_reader *reader, sampled_on_pause *on_pause, void *user,
		 struct sampled **ret);
