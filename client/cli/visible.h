/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

/* Appends the UUIDs of the GPUs that $CUDA_VISIBLE_DEVICES leaves to a command. Appends none if the
 * variable is not set, leaves all GPUs, leaves none (which is reported), or can be understood only
 * by CUDA. */
void visible_find(struct gpuctr *g, struct strings *ret);

/* For tests. Stores the indices of the GPUs that list leaves, and returns their number. -1: only
 * CUDA knows. numbered: numbers in list are indices into gpus. */
int visible_choose(const char *list, const struct gpuctr_gpu *gpus, size_t n, bool numbered,
		   size_t *ret);
