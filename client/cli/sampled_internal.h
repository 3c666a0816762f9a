/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/sampled.h"

#include "client/cli/waiting.h"
#include "client/sampler/stream.h"
#include "proto/base/map.h"

enum { SAMPLED_GPUS_MAX = 64 };

struct sampled_kept {
	struct gpuctr_record record;
	bool timed, has_gpu;
	uint16_t gpu;
};

/* What attribution has told of a kept record, for each set. */
struct sampled_told {
	uint32_t position;
	uint8_t state; /* enum attribution_state */
	bool is_known, is_late;
	struct attribution_value *values; /* of one without a position; NULL: none */
};

struct sampled_set {
	size_t n;
	uint32_t metrics[ATTRIBUTION_METRICS_MAX]; /* of the plan */
};

/* Samples that are to be told, in the order of time. */
struct sampled_given {
	struct waiting_span *spans;
	double *values; /* as many for each as the set has metrics */
	size_t n, max_spans, max_values;
};

/* A set's samples of a GPU. */
struct sampled_part {
	const struct sampled_gpu *gpu;
	size_t set;
	struct waiting waiting;
	int64_t last_ns; /* the end of its last sample; 0: none has come */
	struct sampled_given given;
};

struct sampled_gpu {
	char uuid[64];
	struct sampled *owner;
	struct sampled_part *parts; /* n_sets */
	int64_t begin_ns, last_ns;  /* of all samples */
};

/* A device of a process. */
struct sampled_device {
	unsigned process, index;
	int gpu;	 /* -1: it is not sampled */
	int64_t last_ns; /* the end of its last kernel that came; of none, when it began */
	bool is_over;	 /* nothing more comes */
};

/* Of a record: why SAMPLED_REASONS, or there is none; too short to tell, value is good for sums. */
struct sampled_metric {
	enum sampled_reason why;
	double value, error;
};

struct sampled {
	const struct gpuctr_plan *plan;
	struct sampled_set sets[SAMPLER_SETS_MAX];
	size_t n_sets;
	struct sampled_gpu gpus[SAMPLED_GPUS_MAX];
	size_t n_gpus;
	struct sampled_device *devices;
	size_t n_devices, max_devices;
	struct map streams;
	struct sampled_kept *kept;
	struct sampled_told *told; /* n_sets for each that is kept */
	size_t n_kept, max_kept;
	uint64_t first_kept;		    /* its number among all */
	const struct gpuctr_range **active; /* of the last record that was kept */
	size_t n_active;
	double *row;			/* values, errors of a record */
	struct sampled_metric *metrics; /* of a record */
	bool failed;			/* out of memory */
	uint64_t undelivered;		/* launches of all processes, at least */
	enum sampled_reason told_why;	/* of the record that is told */
	struct sampled_counts counts;
	size_t scale; /* of bounds; 0: 1 */
	struct sampled_unknown *unknown;
	size_t n_unknown, max_unknown;
	bool is_live; /* ends of processes are told */
	sampled_on_sample *on_sample;
	void *on_sample_user;
};

/* --- sampled_given.c */
/* waiting_handler.on_sample, of a part. */
void sampled_given(void *user, int64_t start_ns, int64_t end_ns, const double *values);
void sampled_tell_given(struct sampled_gpu *gpu);
void sampled_given_deinit(struct sampled_given *given);

/* --- sampled_tell.c: a record with its values, errors and what it is alike to; or without */
void sampled_tell(struct sampled *s, struct sampled_kept *k, sampled_on_record *on_record,
		  void *user);
void sampled_tell_without(struct sampled *s, const struct gpuctr_record *record,
			  enum sampled_reason why, sampled_on_record *on_record, void *user);
