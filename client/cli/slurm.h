/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/run_options.h"

/* Is this a capture of a job that Slurm knows, and asked for by somebody outside of it? */
bool slurm_is_meant(const struct run_options *o);

/* Starts a client on each node of the job, and reports on their files. argv[0] is the verb. False:
 * Slurm has no such job, with a message; it may be another scheduler's. */
bool slurm_capture(const struct run_options *o, const struct verb *const *verbs, int argc,
		   char **argv, int *ret_status);

/* For the client that has started this one on its node: how it ended. */
void slurm_write_node(int status, uint64_t kernels);
