/* SPDX-License-Identifier: Apache-2.0 */

/* What shall be a file of samples, as capture --timeline writes one: samples come in the order of
 * time, with as many values as there are metrics, or the file is refused and it is said why. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/cli/samples_in.h"
#include "tests/fuzz/fuzz.h"

static void read_samples(struct samples_in *s, struct buf *why)
{
	struct samples_in_sample sample;
	const char *const *metrics;
	size_t n = samples_in_metrics(s, &metrics);
	int64_t end_ns = 0;
	int r;

	fuzz_check(n > 0 && n <= SAMPLER_METRICS_MAX);
	while ((r = samples_in_next(s, &sample, why)) == 1) {
		fuzz_check(sample.start_ns >= end_ns && sample.end_ns > sample.start_ns &&
			   sample.end_ns <= INT64_C(1) << 62);
		for (size_t i = 0; i < n; i++) {
			fuzz_check(isfinite(sample.values[i]) || isnan(sample.values[i]));
		}
		end_ns = sample.end_ns;
	}
	fuzz_check((r == 0 && why->n == 0) || (r == -EINVAL && why->n > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("samples", MFD_CLOEXEC);
	struct buf why = { 0 };
	struct samples_in *s;
	char path[32];

	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	s = samples_in_open(path, &why);
	fuzz_check(s || why.n > 0);
	if (s) {
		read_samples(s, &why);
	}
	samples_in_close(s);
	buf_deinit(&why);
	close(fd);
	return 0;
}
