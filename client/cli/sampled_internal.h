/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/sampled.h"

#include "client/sampler/stream.h"
#include "proto/base/map.h"

enum { SAMPLED_GPUS_MAX = 64 };

/* Ids of items without a record, in place of a record's number. */
#define SAMPLED_COPY UINT32_MAX
#define SAMPLED_UNKNOWN (UINT32_MAX - 1) /* a time in which nobody knows what ran */

/* What a set's attribution has reported for a record. */
struct sampled_told {
	uint32_t position;
	uint8_t state;			  /* enum attribution_state */
	struct attribution_value *values; /* of a record without a position; NULL: none */
};

/* A record: its GPU, or why it has no value. */
struct sampled_place {
	uint8_t gpu;
	uint8_t why; /* enum sampled_reason; SAMPLED_REASONS: its GPU and time are known */
};

struct sampled_set {
	size_t n;
	uint32_t metrics[ATTRIBUTION_METRICS_MAX]; /* numbers of metrics in the plan */
};

/* One set on one GPU. */
struct sampled_part {
	struct sampled_gpu *gpu;
	size_t set;
	struct attribution *attribution;
	size_t next;	 /* next item of the GPU for this attribution */
	int64_t last_ns; /* end of the set's last sample; 0: none has come */
};

struct sampled_gpu {
	char uuid[64];
	struct sampled *owner;
	struct sampled_part *parts;	  /* n_sets of them */
	struct attribution_kernel *items; /* sorted by time once samples come */
	size_t n_items, max_items;
	bool is_sorted;
	int64_t begin_ns, last_ns; /* begin and end of all samples */
};

/* A record's value of one metric. why: SAMPLED_REASONS: good; SAMPLED_TOO_SHORT: good in sums. */
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
	struct map devices, streams;
	struct sampled_place *places; /* one for each record */
	struct sampled_told *told;    /* n_sets for each record */
	size_t n, max, n_items;
	int64_t until_ns;		/* samples that end later are left out */
	double *row;			/* values and errors of the present record */
	struct sampled_metric *metrics; /* of the present record */
	bool failed;			/* memory ran out */
	struct sampled_counts counts;
	sampled_on_pause *on_pause;
	void *on_pause_user;
	bool is_given_up;
};
