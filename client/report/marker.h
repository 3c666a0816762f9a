/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the messages that PyTorch gives its NVTX ranges under torch.autograd.profiler.emit_nvtx():
 *
 *	aten::conv2d, seq = 480, op_id = 7550, sizes = [[64, 3, 224, 224], []], input_op_ids = [...]
 *
 * PyTorch's version, record_shapes and the operator decide which parts a message has. Only
 * operators that autograd will differentiate have a sequence number. */

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

/* Always succeeds: a message without such parts is a name as a whole. */
void marker_parse(const char *message, struct marker *ret);

/* Whether the text is one JSON list of whole numbers and of such lists. */
bool marker_is_list(const char *sizes, size_t n);

/* Writes "[[64, 3, 7, 7], [2], [], []]" as "[64,3,7,7] [2]", without the empty sizes at the end:
 * scalars, and arguments that are not tensors, have empty sizes. Writes at most max - 1 bytes, and
 * "" if the text is not a list of lists. Returns whether the whole list fitted. */
bool marker_format_sizes(const char *sizes, size_t n, char *text, size_t max);

/* Whether a range is a numbered step: "iteration 2", "step#7", "ProfilerStep#3", "epoch 1". */
bool marker_is_step(const char *name, size_t n);

/* Whether a range is a node of autograd's graph: "ReluBackward0", "MyFunctionBackward". */
bool marker_is_backward(const char *name, size_t n);
