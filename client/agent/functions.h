/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_FUNCTIONS_H
#define GPUCTR_AGENT_FUNCTIONS_H

/* What is known of the kernels that a thread launches. */

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct agent;

struct function {
	CUfunction handle;
	char *name;  /* as CUPTI gave it */
	uint32_t id; /* intern's, of this generation */
	uint32_t generation;
	bool selected; /* by the filter */
};

/* Of the calling thread, until its next call. handle NULL: of a graph. NULL: out of memory. */
const struct function *functions_find(struct agent *a, CUfunction handle, const char *name);

#endif
