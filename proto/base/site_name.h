/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Splits the texts of NVTX ranges into the name of a call site and the parts that differ between
 * its occurrences. PyTorch gives its ranges such texts under torch.autograd.profiler.emit_nvtx():
 *
 *  *	aten::conv2d, seq = 480, op_id = 7550, sizes = [[64, 3, 224, 224], []], input_op_ids = [...]
 *
 * PyTorch's version, record_shapes and the operator decide which parts a text has. Only operators
 * that autograd will differentiate have a sequence number. Programs number their steps: "iteration
 * 2", "step#7", "ProfilerStep#3", "epoch 1". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

/* Equal to enum gpuctr_site_kind and enum gpuctr_site_number of the public API. */
enum site_kind { SITE_LABEL, SITE_STEP, SITE_OPERATOR, SITE_NODE, SITE_ENGINE };
enum site_number { SITE_NUMBER_NONE, SITE_NUMBER_STEP, SITE_NUMBER_SEQ };

struct site_name {
	size_t n; /* length of the name at the text's begin; of a step, without the number */
	enum site_number numbered;
	int64_t number;	   /* -1: none */
	const char *sizes; /* within the text, with the brackets; NULL: none */
	size_t n_sizes;
	bool is_marker; /* the text has parts that PyTorch writes */
};

/* Always succeeds: a text without such parts is a whole name. */
void site_name_parse(const char *text, struct site_name *ret);

/* The kind of a site with this parsed text, in a site of the kind `around` whose text is
 * around_text; around_text NULL: outermost. */
enum site_kind site_name_kind(const struct site_name *name, const char *text, enum site_kind around,
			      const char *around_text);

/* Appends a range's text as it was, without op_id and input_op_ids. name is a site's name, with N
 * for a step's number. A number below 0 is unknown and left out. */
void site_name_format(struct buf *b, const char *name, const char *sizes, enum site_number numbered,
		      int64_t number);
