/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/blocking.h"

#include <string.h>

#include "proto/base/clean.h"

bool metric_blocks(const char *metric)
{
	/* Units outside of the SMs, whose counters are read without waiting (seen on GH100). */
	static const char *const units[] = { "dram__",	  "fbpa__", "lts__",   "ltc__",
					     "gpu__time", "pcie__", "nvlrx__", "nvltx__" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strncmp(metric, units[i], strlen(units[i])) == 0) {
			return false;
		}
	}
	return true;
}

bool metrics_block(const char *const *metrics, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (metric_blocks(metrics[i])) {
			return true;
		}
	}
	return false;
}
