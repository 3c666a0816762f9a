/* SPDX-License-Identifier: Apache-2.0 */

/* A clock that is wrong: what this process is told of the time of day is $GPUCTR_FAKE_CLOCK_S
 * seconds ahead. Clocks that count from the start of the machine stay as they are. */

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ret);

int clock_gettime(clockid_t id, struct timespec *ret)
{
	static int (*real)(clockid_t, struct timespec *);
	const char *ahead = getenv("GPUCTR_FAKE_CLOCK_S");
	int r;

	if (!real) {
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	}
	r = real(id, ret);
	if (r == 0 && id == CLOCK_REALTIME && ahead) {
		ret->tv_sec += strtol(ahead, NULL, 10);
	}
	return r;
}
