/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A bare CUPTI range profiler: what to compare ours with, in time and in values. It does nothing
 * but push, pop, and stop, decode, start after each batch: no names, no attributes, no daemon. */

#include <stdint.h>

#include "client/agent/profiler.h"

struct floor {
	struct profiler p;
	struct host host;
	struct host_config config;
	CUpti_RangeProfiler_Object *object;
	uint8_t *image;
	size_t image_size;
	unsigned batch, n;
	const char *metrics[16];
	size_t n_metrics;
	double first_start_s, stop_s, start_s, init_s;
	unsigned turns;
};

/* names, "a,b,c", is cut up and kept. */
void floor_begin(struct floor *f, CUcontext context, unsigned device, char *names, unsigned batch);
void floor_push(struct floor *f);
void floor_pop(struct floor *f);

/* Stops, and prints what a turn cost. */
void floor_end(struct floor *f);

/* After the end: a line "range N VALUE..." for each range of the last batch. */
void floor_print_values(const struct floor *f);
