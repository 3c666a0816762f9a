/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

/* What is known of a capture before its first record, for the stream and for capture files. */
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
	bool sampled;	 /* values are of samples of whole GPUs: records have errors */
	bool timeline;	 /* of samples alone, without records */
	bool graphs;	 /* records may be kernels of graphs */
	bool is_foreign; /* of processes of another user */
};
