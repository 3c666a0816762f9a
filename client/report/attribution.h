/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a record belongs to: operator, layer, direction, step. The writer of a file
 * (client/cli/sinks.c) asks an attributor once for each record, and the file keeps the answer
 * (attribution_columns()). A reader of the file takes the answer from there (attribution_read()).
 *
 * struct attributor *a = attributor_new();
 * struct attribution what;
 *
 * attributor_take(a, record, &what);	// each record, in the order of its process
 * what.scope ? what.scope->path : "";	// all NVTX ranges around the launch
 * what.op ? what.op->name : "";		// "aten::copy_"
 *
 * A kernel of the backward pass is launched by a thread of autograd's, outside of the ranges that
 * the program opened around the forward pass. The range of a backward node shows the sequence
 * number that autograd gave the forward operator, so the attributor joins the two by this number:
 * layer and step of a backward kernel are those of its forward operator. */

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/scope.h"
#include "client/store/reader.h"

enum attribution_direction {
	ATTRIBUTION_NONE,  /* not in an operator, or in the optimizer */
	ATTRIBUTION_FPROP, /* in an operator */
	ATTRIBUTION_BPROP, /* in autograd's engine */
};

/* Texts and scopes live as long as the attributor, or as the scopes given to attribution_read(). */
struct attribution {
	const struct scope *scope; /* the innermost range; NULL: none */
	const struct scope *op;	   /* the innermost operator around the launch; NULL: none */
	const struct scope
		*forward; /* bprop: the operator whose gradient this is; NULL: not known */
	const struct scope
		*called;   /* the outermost operator with this seq: the one that the program called,
			      in both directions; NULL: not known, as in a record of a file */
	const char *layer; /* "": not known */
	const char *step;  /* name of the step, "iteration N"; "": not known */
	enum attribution_direction direction;
	int64_t seq; /* autograd's number of the operator, the same in both directions; -1: none */
	int64_t step_number; /* number of the step; -1: not known */
	unsigned layer_site; /* id of the site with layer and step: in bprop the forward operator's,
				if known, else the record's own; 0: neither has them */
	unsigned launch;     /* number of the launch in a file (struct store_found); 0: not known */
	unsigned sub; /* index of the launch within this operator and direction, from 0; always 0
			 without seq, and in a record of a file */
};

/* Serves the records of one capture. */
struct attributor;

struct attributor *attributor_new(void);		  /* NULL: out of memory */
struct attributor *attributor_free(struct attributor *a); /* takes NULL, returns NULL */

/* Returns 0, or -ENOMEM, and then *ret is as for a record without ranges. */
int attributor_take(struct attributor *a, const struct gpuctr_record *record,
		    struct attribution *ret);

/* As attributor_take(), but for a record of a file, from what the file's writer has found. Records
 * of one launch differ in seq and step_number only. */
int attribution_read(struct scopes *scopes, const struct gpuctr_record *record,
		     const struct store_found *found, struct attribution *ret);

/* "", "fprop", "bprop" */
const char *attribution_direction_name(enum attribution_direction direction);

/* Sets what a file keeps of an attribution. The texts live as long as those of *what. */
void attribution_columns(const struct attribution *what, struct store_attribution *ret);
