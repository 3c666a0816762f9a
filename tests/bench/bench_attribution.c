/* SPDX-License-Identifier: Apache-2.0 */

/* A million kernels with ten million samples, of two metrics: seconds of one core, and memory. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "client/attribution/attribution.h"

#define KERNELS 1000000
#define SAMPLES 10000000
#define SAMPLE_NS 10000
#define STEP 1179

static uint64_t told;

static uint32_t position_of[STEP];

static void on_kernel(void *user, const struct attribution_result *result)
{
	(void)user;
	if (result->state == ATTRIBUTION_MEASURED) {
		told++;
		position_of[result->id % STEP] = result->position;
	}
}

/* Kernels of 20 to 180 us, each shape with a rate of its own. */
static int64_t length_of(uint64_t i)
{
	return 20000 + (int64_t)(i % STEP * 7919 % 160000) + (int64_t)(i * 2654435761U % 700);
}

static double rate_of(uint64_t i)
{
	return 500 + (double)(i % STEP * 104729 % 3000);
}

/* That the work was done: how far the worst position is from what its kernels moved, in percent. */
static double find_worst(const struct attribution *a)
{
	double worst = 0;

	for (uint32_t i = 0; i < STEP; i++) {
		struct attribution_value values[2];
		double truth = rate_of(i) * (double)(length_of(i) - i * 2654435761U % 700 + 350),
		       off;

		if (position_of[i] == ATTRIBUTION_NO_POSITION ||
		    attribution_position(a, position_of[i], values) == 0) {
			return 100;
		}
		off = values[0].value / truth - 1;
		worst = off > worst ? off : -off > worst ? -off : worst;
	}
	return 100 * worst;
}

int main(void)
{
	struct attribution_options options = { .metrics = 2, .on_kernel = on_kernel };
	struct attribution *a = attribution_new(&options);
	struct rusage usage;
	uint64_t kernel = 0;
	int64_t start = 0, end = length_of(0);
	int r = a ? 0 : -1;

	for (int64_t s = 0; r == 0 && s < SAMPLES; s++) {
		int64_t from = s * SAMPLE_NS, to = from + SAMPLE_NS, at = from;
		double values[2] = { 0, 0 };

		while (r == 0 && at < to && kernel < KERNELS) {
			int64_t until = end < to ? end : to;

			at = at < start ? start : at;
			values[0] += until > at ? rate_of(kernel) * (double)(until - at) : 0;
			at = until > at ? until : at;
			if (end <= to) {
				struct attribution_kernel k = {
					.id = kernel,
					.sequence = 1,
					.shape = (uint32_t)(kernel % STEP),
					.start_ns = start,
					.end_ns = end,
				};

				r = attribution_kernel(a, &k);
				kernel++;
				start = end + 800;
				end = start + length_of(kernel);
			}
			if (start >= to) {
				break;
			}
		}
		values[1] = values[0] / 2;
		r = r == 0 ? attribution_sample(a, from, to, values) : r;
	}
	r = r == 0 ? attribution_finish(a) : r;
	getrusage(RUSAGE_SELF, &usage);
	printf("attribution: %lu kernels (%lu with a value), %d samples of 2 metrics: %.1f s of "
	       "one core "
	       "(20 allowed), %.0f MiB (1,024 allowed), worst position off by %.2f%%%s\n",
	       (unsigned long)kernel, (unsigned long)told, SAMPLES,
	       (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
		       (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6,
	       (double)usage.ru_maxrss / 1024, r == 0 ? find_worst(a) : 100,
	       r == 0 ? "" : ", failed");
	attribution_free(a);
	return r == 0 && told > 0 ? 0 : 1;
}
