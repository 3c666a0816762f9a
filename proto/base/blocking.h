/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Metrics whose user ranges wait for the GPU. Pushing and popping a range with SM metrics waits for
 * all earlier work and writes registers from the CPU, which takes 0.8 ms on an H200; a range with
 * memory metrics costs 46 us and waits for nothing. Daemon, agent and client use this list. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "proto/base/clean.h"

static inline bool metric_blocks(const char *metric)
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

/* Does one of the metrics wait for the GPU? */
static inline bool metrics_block(const char *const *metrics, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (metric_blocks(metrics[i])) {
			return true;
		}
	}
	return false;
}
