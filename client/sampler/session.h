/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_SAMPLER_SESSION_H
#define GPUCTR_SAMPLER_SESSION_H

/* PM sampling of one GPU, from opening the libraries to disabling it. Functions return 0, or an
 * enum sampler_reason with r filled. */

#include "client/sampler/stream.h"
#include "client/sampler/writer.h"
#include "proto/nvidia/host.h"

struct session_options {
	const char *gpu; /* index or UUID */
	const char *metrics[SAMPLER_METRICS_MAX];
	size_t n_metrics;
	uint64_t interval_ns;
	uint64_t buffer_bytes; /* 0: by the interval */
};

struct session {
	const struct session_options *options;
	struct vendor_driver driver;
	struct vendor_host vendor;
	struct vendor_sampling pm;
	struct host host;
	struct host_config config;
	int device;
	char uuid[SAMPLER_UUID_BYTES];
	CUpti_PmSampling_Object *object;
	bool is_started;
	uint8_t *image;
	size_t image_bytes;
	uint32_t samples; /* that it has room for */
	size_t taken;	  /* of them */

	bool skips;	      /* the next sample spans what nobody asked for */
	int64_t end_ns;	      /* of the last sample */
	uint64_t progress_ns; /* when the last one came, by the monotonic clock */
	uint64_t overflows;
	uint64_t overflow_ns; /* time of the last overflow, by the monotonic clock */
	unsigned in_a_row;    /* each soon after the one before */
};

/* Zero-initialises; close in any case. */
int session_open(struct session *s, const struct session_options *o, struct refusal *r);
int session_start(struct session *s, struct refusal *r);
/* Takes what there is. */
int session_drain(struct session *s, struct sampler_writer *w, struct refusal *r);
/* Stops sampling, and takes the samples that are left. */
int session_stop(struct session *s, struct sampler_writer *w, struct refusal *r);
void session_close(struct session *s);

#endif
