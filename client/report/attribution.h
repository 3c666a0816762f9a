/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_ATTRIBUTION_H
#define CLIENT_REPORT_ATTRIBUTION_H

/* What a record belongs to: operator, layer, direction, step. Whoever has the records, of a file
 * (reading.h) or live (client/cli/sinks.c), asks an attributor once for each record and hands its
 * answer to all views and exports with the record.
 *
 *	struct attributor *a = attributor_new();
 *	struct attribution what;
 *
 *	attributor_take(a, record, &what);	// each record, in the order of its process
 *	what.scope ? what.scope->path : "";	// all NVTX ranges around the launch
 *	what.op ? what.op->name : "";		// "aten::copy_"
 *
 * A kernel of the backward pass is launched by a thread of autograd's, outside of the ranges that
 * the program opened around the forward pass. The sequence number that autograd gave the forward
 * operator stands in its backward node's range, so the two are joined by it: layer and step of a
 * backward kernel are those of its forward operator. */

#include <stdbool.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/scope.h"
#include "client/store/store.h"

enum attribution_direction {
	ATTRIBUTION_NONE,  /* not in an operator, or the optimizer */
	ATTRIBUTION_FPROP, /* in an operator */
	ATTRIBUTION_BPROP, /* in autograd's engine */
};

/* Texts and scopes live as long as the attributor. */
struct attribution {
	const struct scope *scope;   /* the innermost range; NULL: none */
	const struct scope *op;	     /* the innermost operator around the launch; NULL: none */
	const struct scope *forward; /* bprop: the operator that this is the gradient of; NULL: not
					known */
	const struct scope *called;  /* the outermost operator that shows seq, as the program called
					it: the same in both directions; NULL: not known */
	const char *layer;	     /* "": not known */
	const char *step;	     /* "": not known */
	enum attribution_direction direction;
	int64_t seq;  /* autograd's number of the operator, the same in both directions; -1: none */
	unsigned sub; /* which launch of this operator in this direction it is, from 0; 0 without
			 seq */
};

struct attributor;

struct attributor *attributor_new(void);		  /* NULL: out of memory */
struct attributor *attributor_free(struct attributor *a); /* takes NULL, returns NULL */

/* Another capture follows: its processes have nothing to do with those before. Texts and scopes
 * stay. */
void attributor_next_capture(struct attributor *a);

/* 0 or -ENOMEM, and then *ret is as for a record without ranges. */
int attributor_take(struct attributor *a, const struct gpuctr_record *record,
		    struct attribution *ret);

/* "", "fprop", "bprop" */
const char *attribution_direction_name(enum attribution_direction direction);

/* The columns op, seq, sizes, dir and layer of a record, of the same life. */
void attribution_columns(const struct attribution *what, struct store_attribution *ret);

/* How many bytes of a range's message are its name: for struct store_options. */
size_t attribution_name_length(const char *message);

#endif
