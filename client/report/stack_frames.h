/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A tree of sums, as flame graphs show them. Its inner stack frames are NVTX ranges, by their
 * labels, and its leaves are kernels. Only leaves have sums of their own. Ranges with one label
 * share a stack frame, even if their tensors differ in size, and all steps of a program do:
 * "iteration 1" and "iteration 2" are "iteration N". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/report/groups.h"
#include "client/report/texts.h"
#include "proto/base/buf.h"

struct stack_frame {
	struct stack_frame *parent; /* NULL: the root */
	struct stack_frame *children, *next;
	const char *name;
	bool is_kernel;
	struct group *row; /* of a kernel: its own launches. The groups own it */
};

/* Zero-initialised by the caller, who sets the first. */
struct stack_frames {
	/* Writes the label of a name; names with the same label share a stack frame. NULL: a name
	 * is its own label. */
	void (*write_name)(struct buf *b, const char *name);

	struct texts texts; /* holds names and stack frames */
	struct stack_frame root;
	struct map known, places;
};

/* What stack frames are made of, by each process if wanted. beside: what is given all records;
 * NULL: the caller gives them. NULL: out of memory. */
struct groups *stack_frames_groups(struct groups *beside, bool by_process);
/* Makes the stack frames of these groups, which live until they are finished again. Once; 0 or
 * -ENOMEM. */
int stack_frames_make(struct stack_frames *f, struct groups *g);
void stack_frames_deinit(struct stack_frames *f);
