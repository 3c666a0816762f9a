/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

/* Facts of a capture that are known before its first record, for the stream and for files. */
struct format_capture {
	unsigned capture;
	const struct gpuctr_plan *plan;
	const struct gpuctr_gpu *gpus;
	size_t n_gpus;
	const char *driver;
	const char *program;
	const char *const *command; /* NULL-terminated */
	const char *recorded_from;  /* "": live */
	bool recorded;
	bool sampled;	 /* values come from samples of whole GPUs: records have errors */
	bool timeline;	 /* samples only, no records */
	bool graphs;	 /* records may be kernels of graphs */
	bool is_foreign; /* the processes are another user's */
};
