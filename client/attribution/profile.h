/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a kernel's value is spread over its time: most kernels do less in their beginning, and still
 * less in their last wave of blocks. */

#include <stdint.h>

#define PROFILE_PIECES 5
#define PROFILE_NONE UINT32_MAX

/* Where each piece begins and ends, in fractions of the kernel's time. */
extern const double profile_bounds[PROFILE_PIECES + 1];

/* The rate in each piece of a kernel's time, as a multiple of its mean rate. */
struct profile {
	double rates[PROFILE_PIECES];
};

/* The part of a piece between two fractions of the kernel's time, as a fraction of that time. */
double profile_overlap(double from, double to, int piece);

/* The rate at a fraction of the kernel's time, as a multiple of its mean rate. */
double profile_rate(const struct profile *p, double at);

/* The part of a kernel's value that it makes between two fractions of its time. */
double profile_part(const struct profile *p, double from, double to);
