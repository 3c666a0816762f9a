/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/run_options.h"

/* Does the user, outside of the job, ask for a capture of a Slurm job? */
bool slurm_is_meant(const struct run_options *o);

/* Starts a client on each node of the job, and reports their files. argv[0] is the verb. False:
 * Slurm has no such job, which was reported; the job may belong to another scheduler. */
bool slurm_capture(const struct run_options *o, const struct verb *const *verbs, int argc,
		   char **argv, int *ret_status);

/* Writes how this client ended, for the client that started it by srun. */
void slurm_write_node(int status, uint64_t kernels);
