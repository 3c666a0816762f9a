/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The counters that make up throughputs. */
struct breakdown;

/* The breakdown for a chip. NULL: libnvperf_host.so is not loaded, or does not know the chip. */
struct breakdown *breakdown_new(const char *chip);
struct breakdown *breakdown_free(struct breakdown *b);

/* Base names of a throughput's counters, at most max; the throughput is the value of the counter
 * nearest to its peak. b owns the names. 0: not a throughput. */
size_t breakdown_counters(const struct breakdown *b, const char *throughput, const char **ret,
			  size_t max);
