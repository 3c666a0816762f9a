/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attribution/profile.h"

const double profile_bounds[PROFILE_PIECES + 1] = { 0, 0.05, 0.2, 0.8, 0.95, 1 };

double profile_overlap(double from, double to, int piece)
{
	double begin = from > profile_bounds[piece] ? from : profile_bounds[piece];
	double end = to < profile_bounds[piece + 1] ? to : profile_bounds[piece + 1];

	return end > begin ? end - begin : 0;
}

double profile_rate(const struct profile *p, double at)
{
	int piece = 0;

	while (piece + 1 < PROFILE_PIECES && at >= profile_bounds[piece + 1]) {
		piece++;
	}
	return p->rates[piece];
}

double profile_part(const struct profile *p, double from, double to)
{
	double part = 0;

	for (int i = 0; i < PROFILE_PIECES; i++) {
		part += p->rates[i] * profile_overlap(from, to, i);
	}
	return part;
}
