/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* What throughputs are made of. */
struct breakdown;

/* Of this chip. NULL: the library that knows it is not loaded, or does not know it. */
struct breakdown *breakdown_new(const char *chip);
struct breakdown *breakdown_free(struct breakdown *b);

/* Base names of the counters of which a throughput is the one that is nearest to its peak: at most
 * max. They are b's. 0: this is no throughput. */
size_t breakdown_counters(const struct breakdown *b, const char *throughput, const char **ret,
			  size_t max);
