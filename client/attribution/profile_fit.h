/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Profiles of shapes, fitted to a window's samples. */

#include "client/attribution/profile.h"

struct window;

/* The shapes that have a profile. Zero-initialised by the caller. */
struct profile_shapes {
	uint32_t *v; /* sorted */
	uint32_t n;
	double sample_ns; /* length of the samples for which shapes were chosen */
};

/* Chooses the shapes that get a profile, from a sorted window that has samples: shapes whose
 * kernels take the most time in all, and are not much shorter than a sample. 0, or -ENOMEM. */
int profile_choose(struct profile_shapes *s, const struct window *w);

/* The number of a shape, or PROFILE_NONE. */
uint32_t profile_number(const struct profile_shapes *s, uint32_t shape);

/* Fits a profile for each shape to samples of one metric, from a window whose kernels have their
 * positions; positions: their number. *ret: the profiles, which the caller frees; NULL if there are
 * no shapes, or too few samples. *shift_ns is corrected if there are profiles. 0 or -ENOMEM. */
int profile_fit(const struct profile_shapes *s, struct window *w, uint32_t positions,
		uint32_t metric, int64_t *shift_ns, struct profile **ret);
