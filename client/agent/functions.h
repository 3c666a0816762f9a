/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_FUNCTIONS_H
#define GPUCTR_AGENT_FUNCTIONS_H

/* What is known of the kernels that a thread launches. */

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct capture;

struct function {
	CUfunction handle; /* of the launch: a CUfunction or a CUkernel; NULL: of a graph */
	uint32_t context;
	char *name;	  /* as CUPTI gave it */
	uint64_t hash;	  /* of the name */
	bool collective;  /* by its name: guard_name_is_collective() */
	uint32_t capture; /* the number of the one that the next three belong to */
	bool selected;	  /* by the filter */
	uint8_t proofs;	  /* the guard's */
	uint32_t stratum; /* of its last launch; 0: it had none */
	bool is_loaded;
	uint32_t id; /* intern's, of this generation; 0: it has none yet */
	uint32_t generation;
};

/* Of the calling thread, until its next call. handle NULL: of a graph. NULL: out of memory. */
struct function *functions_find(struct capture *c, CUfunction handle, uint32_t context,
				const char *name);

/* Before a launch is measured, with its context current and locked against captures of graphs: the
 * kernel's module is loaded, and it has a number. */
void functions_prepare(struct capture *c, struct function *f);

#endif
