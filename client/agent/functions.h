/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Properties of the kernels that a thread launches. */

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct capture;

struct function {
	CUfunction handle; /* handle in the launch, a CUfunction or a CUkernel; NULL: a graph */
	uint32_t context;
	uint64_t used;	  /* clock at the last use; 0: never */
	char *name;	  /* the name as CUPTI reported it */
	uint64_t hash;	  /* of the name; never 0 */
	bool collective;  /* see guard_name_is_collective() */
	uint32_t capture; /* number of the capture to which the next two members belong */
	bool selected;	  /* the filter selects the kernel */
	uint8_t proofs;	  /* see struct guard_launch */
	bool is_loaded;
	uint32_t id; /* number in intern's present generation; 0: none yet */
	uint32_t generation;
	uint32_t static_shared_bytes, registers; /* from a record, for this id */
};

/* handle NULL: a graph. Valid on this thread until its next call. NULL: out of memory. */
struct function *functions_find(struct capture *c, CUfunction handle, uint32_t context,
				const char *name);

/* Prepares a launch that is to be measured: loads the kernel's module and assigns an id. The
 * launch's context must be current, and stream captures be locked out. */
void functions_prepare(struct capture *c, struct function *f);
