/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples as JSON lines, as they come; these also tell where samples are missing, and the end. */

#include "client/cli/out.h"
#include "client/sampler/stream.h"
#include "proto/base/buf.h"

/* Zero-initialised by the caller. */
struct samples_out {
	struct out_lines lines;
	size_t n_metrics;
};

/* As out_open(). */
int samples_out_open(struct samples_out *s, const char *path, bool force);

/* Where it is not open these do nothing. */
void samples_out_begin(struct samples_out *s, const struct sampler_begin *begin);
void samples_out_sample(struct samples_out *s, int64_t start_ns, int64_t end_ns,
			const double *values);
void samples_out_lost(struct samples_out *s, int64_t start_ns, int64_t end_ns, uint64_t n);
void samples_out_end(struct samples_out *s, const struct sampler_end *end);

/* Waits for the reader, and says what went wrong. False: something could not be written. */
bool samples_out_close(struct samples_out *s);
