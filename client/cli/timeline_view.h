/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is shown of a stream of samples: a table of buckets at the end, or every sample as a JSON
 * line, as it comes. */

#include "client/cli/buckets.h"
#include "client/cli/run_options.h"
#include "client/cli/samples_out.h"
#include "client/sampler/stream.h"

struct timeline_view {
	const struct run_options *options;
	struct buckets buckets;
	struct strings metrics;
	char gpu[SAMPLER_UUID_BYTES];
	uint64_t interval_ns;
	bool has_begun, has_ended;
	bool is_cut; /* the lease ended before */
	int status;  /* of the sampler, as a shell has it */

	uint64_t begun_ns, told_ns; /* by the monotonic clock */
	struct sampler_end end;	    /* but for its texts */
	uint64_t samples, lost, gaps;

	struct samples_out stream;
};

extern const struct sampler_handler timeline_view_handler;

/* False: the reason was reported. The second one makes a thread: signals are to be blocked. */
bool timeline_view_init(struct timeline_view *v, const struct run_options *o);
bool timeline_view_open(struct timeline_view *v);
/* On a terminal, twice a second: how many samples there are, and how long it goes on. */
void timeline_view_progress(struct timeline_view *v);
/* Prints; returns the exit status. */
int timeline_view_finish(struct timeline_view *v);
void timeline_view_close(struct timeline_view *v);
