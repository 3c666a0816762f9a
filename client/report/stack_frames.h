/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A tree of sums, as flame graphs show them. Its inner stack frames are NVTX ranges, by their
 * labels, and its leaves are kernels. Only leaves have sums of their own. Ranges with one label
 * share a stack frame, even if their tensors differ in size, and all steps of a program do:
 * "iteration 1" and "iteration 2" are "iteration N". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/report/scope.h"
#include "client/report/texts.h"
#include "proto/base/buf.h"

struct stack_frame {
	struct stack_frame *parent; /* NULL: the root */
	struct stack_frame *children, *next;
	const char *name;
	bool is_kernel;
	size_t number;	   /* of a kernel: its index in ends */
	uint64_t launches; /* of a kernel; the caller sets it */
	double *sums;	   /* of a kernel, one for each value; the caller sets them */
};

/* Zero-initialised by the caller, who sets the first two. */
struct stack_frames {
	size_t n_values;
	/* Writes the label of a name; names with the same label share a stack frame. NULL: a name
	 * is its own label. */
	void (*write_name)(struct buf *b, const char *name);

	struct texts texts; /* holds names and stack frames */
	struct stack_frame root;
	struct stack_frame **ends; /* the leaves, in the order of their first records */
	size_t n_ends, max_ends;
	struct map known, places;
};

void stack_frames_deinit(struct stack_frames *f);

/* Must be called before the records of another capture, which has other ids of kernels. */
void stack_frames_next_capture(struct stack_frames *f);

/* Returns the stack frame with this name in the root. NULL: out of memory. */
struct stack_frame *stack_frames_outermost(struct stack_frames *f, const char *name);

/* Returns the stack frame of a record's kernel in its scope. The scope may be NULL, and must live
 * as long as the stack frames. outermost is the root, or a stack frame of stack_frames_outermost().
 * NULL: out of memory. */
struct stack_frame *stack_frames_find(struct stack_frames *f, struct stack_frame *outermost,
				      const struct scope *scope,
				      const struct gpuctr_record *record);
