/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A tree of sums, as flame graphs show them. Its inner stack frames are NVTX ranges, and its leaves
 * are kernels. Only leaves have sums of their own. Ranges with the same label share a stack frame,
 * even if their tensors differ in size. All steps of a program share one too: "iteration 1" and
 * "iteration 2" are "iteration N". */

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
	struct group *row; /* of a kernel: the sums of its launches, owned by the groups */
};

/* Zero-initialised by the caller, who may set write_name. */
struct stack_frames {
	/* Writes the label of a name; names with the same label share a stack frame. NULL: a name
	 * is its own label. */
	void (*write_name)(struct buf *b, const char *name);

	struct texts texts; /* holds names and stack frames */
	struct stack_frame root;
	struct map known, places;
};

/* Makes the groups that stack frames are made of, for each process if by_process. If beside is not
 * NULL, the new groups get the same records as beside; otherwise the caller passes the records.
 * Returns NULL when out of memory. */
struct groups *stack_frames_groups(struct groups *beside, bool by_process);
/* Makes the stack frames of these groups. To be called once for each f. The rows live until the
 * groups are finished again. 0 or -ENOMEM. */
int stack_frames_make(struct stack_frames *f, struct groups *g);
void stack_frames_deinit(struct stack_frames *f);
