/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <cupti_callbacks.h>

/* The arguments of a launch, the same for all calls that launch. */
struct arguments {
	CUfunction function; /* NULL for a graph */
	CUgraphExec graph;   /* NULL for a kernel */
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	CUstream stream;
	bool per_thread_stream;
	uint8_t kind;
};

/* Reads the params of CUPTI's driver callback id; false: not a launch. */
bool arguments_read(CUpti_CallbackId id, const void *params, struct arguments *ret);

/* Finds the stream of a common call that takes one, such as a copy or fill; false: unknown call. */
bool arguments_read_stream(CUpti_CallbackId id, const void *params, CUstream *ret,
			   bool *ret_per_thread);

/* How many kernels a call launches at once. */
unsigned arguments_count(CUpti_CallbackId id, const void *params);
