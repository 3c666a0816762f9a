/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_MARKER_H
#define CLIENT_REPORT_MARKER_H

/* What PyTorch writes into the messages of its NVTX ranges under
 * torch.autograd.profiler.emit_nvtx():
 *
 *	aten::conv2d, seq = 480, op_id = 7550, sizes = [[64, 3, 224, 224], []], input_op_ids = [...]
 *
 * Which of the parts are there depends on the version, on record_shapes, and on the operator: only
 * what autograd will differentiate has a sequence number. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct marker {
	size_t n_name;	   /* the message's first bytes are the name */
	bool found;	   /* false: the whole message is the name */
	int64_t seq;	   /* -1: none */
	int64_t op_id;	   /* -1: none */
	const char *sizes; /* within the message, with its brackets; NULL: none */
	size_t n_sizes;
};

/* Always succeeds: a message that is no marker is a name. */
void marker_parse(const char *message, struct marker *ret);

/* Is that one list of numbers and lists, as JSON writes them? */
bool marker_is_list(const char *sizes, size_t n);

/* "[[64, 3, 7, 7], [2], [], []]" as "[64,3,7,7] [2]": without spaces and without the empty sizes at
 * the end, which are those of scalars and of what is no tensor. At most max - 1 bytes, and "" for
 * what is not a list of lists. Returns whether all of it fitted. */
bool marker_format_sizes(const char *sizes, size_t n, char *text, size_t max);

/* "iteration 2", "step#7", "ProfilerStep#3", "epoch 1": a range that says where in time it is. */
bool marker_is_step(const char *name, size_t n);

/* "ReluBackward0", "MyFunctionBackward": a node of autograd's graph. */
bool marker_is_backward(const char *name, size_t n);

#endif
