/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/format.h"

const char *format_launch_kind(enum gpuctr_launch_kind kind)
{
	switch (kind) {
	case GPUCTR_LAUNCH_KERNEL:
		return "kernel";
	case GPUCTR_LAUNCH_COOPERATIVE:
		return "cooperative";
	case GPUCTR_LAUNCH_GRAPH:
		return "graph";
	case GPUCTR_LAUNCH_GRAPH_KERNEL:
		return "graph_kernel";
	}
	return "unknown";
}

const char *format_clock(enum gpuctr_clock clock)
{
	switch (clock) {
	case GPUCTR_CLOCK_RANGE:
		return "range";
	case GPUCTR_CLOCK_GPU:
		return "gpu";
	case GPUCTR_CLOCK_NONE:
		break;
	}
	return "none";
}
