/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SAMPLED_INTERNAL_H
#define CLIENT_CLI_SAMPLED_INTERNAL_H

#include "client/cli/sampled.h"

#include "client/sampler/stream.h"
#include "proto/base/map.h"

enum { SAMPLED_GPUS_MAX = 64 };

struct kept {
	struct gpuctr_record record;
	bool timed, has_gpu;
	uint16_t gpu;
};

/* What attribution has told of a kept record, for each set. */
struct told {
	uint32_t position;
	uint8_t state;			  /* enum attribution_state */
	struct attribution_value *values; /* of one without a position; NULL: none */
};

struct set {
	size_t n;
	uint32_t metrics[ATTRIBUTION_METRICS_MAX]; /* of the plan */
};

struct sample {
	size_t set;
	int64_t start_ns, end_ns;
};

/* A set's samples of a GPU. */
struct part {
	const struct gpu *gpu;
	size_t set;
	struct attribution *attribution;
	int64_t end_ns;	      /* of its last sample; 0: none has come */
	unsigned first_alike; /* of its positions */
};

struct gpu {
	char uuid[64];
	struct sampled *owner;
	struct part *parts;
	struct attribution_kernel *kernels; /* that wait */
	size_t n_kernels, max_kernels;
	struct sample *samples; /* that wait */
	double *values;		/* of these, n_metrics for each */
	size_t n_samples, max_samples;
	int64_t begin_ns, end_ns; /* of all samples that attribution got */
	size_t turn;		  /* set of the last one */
};

/* A stream of a process, whose kernels run one after the other. */
struct stream {
	unsigned process, context;
	uint64_t stream;
	bool copies; /* apart: what is missing of them is not known */
	uint64_t sequence;
	int64_t end_ns;	       /* of its last kernel with a time */
	int64_t lost_since_ns; /* 0: none without a time since */
};

/* A device of a process. */
struct device {
	unsigned process, index;
	int gpu; /* -1: it is not sampled */
};

struct sampled {
	const struct gpuctr_plan *plan;
	struct set sets[SAMPLER_SETS_MAX];
	size_t n_sets;
	struct gpu gpus[SAMPLED_GPUS_MAX];
	size_t n_gpus;
	struct device *devices;
	size_t n_devices, max_devices;
	struct map streams;
	uint64_t n_streams;
	struct kept *kept;
	struct told *told; /* n_sets for each that is kept */
	size_t n_kept, max_kept;
	const struct gpuctr_range **active; /* of the last record that was kept */
	size_t n_active;
	void **blocks; /* what is freed at the end */
	size_t n_blocks, max_blocks;
	double *row;			   /* values, errors of a record */
	struct attribution_value *metrics; /* of a record */
	bool failed;			   /* out of memory */
	struct sampled_counts counts;
};

/* --- sampled_tell.c: a record with its values, errors and what it is alike to; or without */
void sampled_tell(struct sampled *s, struct kept *k, sampled_on_record *on_record, void *user);
void sampled_tell_without(struct sampled *s, const struct gpuctr_record *record,
			  enum sampled_reason why, sampled_on_record *on_record, void *user);

#endif
