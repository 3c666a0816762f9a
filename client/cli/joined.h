/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A trace of torch.profiler's and the samples of its seconds, joined: read as if it were a capture
 * file. */

#include "client/cli/options.h"
#include "client/report/exporter.h"
#include "client/report/reading.h"

struct joined_options {
	const char *trace;
	struct strings samples; /* "FILE", or "FILE:N" of GPU N of the trace */
	const char *capture;	/* a capture file that is made as well; NULL: none */
	bool force;		/* replaces such a file */
};

/* How much of "FILE:N" is the path, and N; UINT64_MAX: none stands there. */
size_t joined_path_length(const char *samples, uint64_t *ret_gpu);

/* Calls the handlers as reading_capture() does; of what it attributes records have `unsampled` as
 * well. told: lines for the user. 0, -ENOMEM, EXPORTER_REFUSES with the refusal filled in, or what
 * a handler returned. */
int joined_read(const struct joined_options *options, const struct reading_handler *handler,
		void *userdata, struct exporter_refusal *refusal, struct buf *told);
