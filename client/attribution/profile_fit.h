/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Profiles of shapes, fitted to a window's samples. */

#include "client/attribution/profile.h"

struct window;

/* The shapes that have a profile. Zero-initialised by the caller. */
struct profile_shapes {
	uint32_t *v; /* sorted */
	uint32_t n;
	double sample_ns; /* for which they were chosen */
};

/* Chooses shapes of kernels in a sorted window that has samples: those that take the most time, and
 * not much less each than a sample. -ENOMEM. */
int profile_choose(struct profile_shapes *s, const struct window *w);

/* The number of a shape, or PROFILE_NONE. */
uint32_t profile_number(const struct profile_shapes *s, uint32_t shape);

/* Fits one profile a shape to samples of one metric, from a window whose kernels have their
 * positions; positions: how many there are. *ret: NULL where there are no shapes or samples do not
 * tell; the caller frees it. *shift_ns is corrected if there are profiles. -ENOMEM. */
int profile_fit(const struct profile_shapes *s, struct window *w, uint32_t positions,
		uint32_t metric, int64_t *shift_ns, struct profile **ret);
