/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_FRAMES_H
#define CLIENT_REPORT_FRAMES_H

/* Sums by place in the program, as flame graphs show them: a tree of frames, which are NVTX ranges
 * by their labels, and kernels at its ends. Only kernels have sums of their own. Ranges that differ
 * in what their label does not say, as the sizes of tensors, are one frame. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/buf.h"
#include "client/report/scope.h"
#include "client/report/texts.h"

struct frame {
	struct frame *parent; /* NULL: the root */
	struct frame *children, *next;
	const char *name;
	bool is_kernel;
	size_t number;	   /* of a kernel: place in ends */
	uint64_t launches; /* of a kernel; the caller's */
	double *sums;	   /* one a value; the caller's */
};

enum { FRAMES_KERNELS = 1024 };

/* Zero-initialised by the caller, who sets the first three. */
struct frames {
	size_t n_values;
	bool merges_steps; /* "iteration 1" and "iteration 2" are one frame, "iteration N" */
	/* How names are written: those that are written alike are one. NULL: as they are. */
	void (*write_name)(struct buf *b, const char *name);

	struct texts texts; /* names, and the frames */
	struct frame root;
	struct frame **ends; /* kernels, as they came */
	size_t n_ends, max_ends;
	struct map known, of_scopes;
	struct {
		unsigned process, kernel;
		const char *name;
	} kernels[FRAMES_KERNELS]; /* direct-mapped */
};

void frames_deinit(struct frames *f);

/* Numbers of kernels mean something else from here on. */
void frames_next_capture(struct frames *f);

/* A frame of that name in the root. NULL: out of memory. */
struct frame *frames_outermost(struct frames *f, const char *name);

/* The frame of a record's kernel in its scope, which may be NULL and must live as long as the
 * frames; outermost is the root, or from frames_outermost(). NULL: out of memory. */
struct frame *frames_find(struct frames *f, struct frame *outermost, const struct scope *scope,
			  const struct gpuctr_record *record);

/* A frame of a kernel by its name. NULL: out of memory. */
struct frame *frames_kernel(struct frames *f, struct frame *parent, const char *name);

#endif
