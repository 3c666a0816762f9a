/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>

#include "client/cli/options.h"

/* The GPUs that $CUDA_VISIBLE_DEVICES leaves to a command, by their UUIDs. None: the variable is
 * not set, leaves all or none, which is reported, or names them in a way that only CUDA
 * understands. */
void visible_find(struct gpuctr *g, struct strings *ret);

/* For tests. Which of these GPUs list leaves: their indices, and how many. -1: only CUDA knows.
 * numbered: a number in list is one of these indices. */
int visible_choose(const char *list, const struct gpuctr_gpu *gpus, size_t n, bool numbered,
		   size_t *ret);
