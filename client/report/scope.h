/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A scope is a call site of a program, in all processes and captures, and of a step in each of
 * them. Scopes form a tree by their parents, are made once and live as long as the set; equal
 * scopes are the same pointer. */

#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/texts.h"

struct scope {
	const struct scope *parent; /* NULL: outermost */
	enum gpuctr_site_kind kind;
	unsigned depth;	    /* 0: outermost */
	const char *domain; /* NVTX domain; "": the default */
	const char *name;   /* of a step, with its number */
	const char *sizes;  /* the operator's input sizes, in the form of sizes_format(); "":
			       not reported */
	const char *label;  /* the text of a table: "domain:name" or name */

	/* Properties of this scope together with those around it. */
	const struct scope *op;	   /* the innermost operator, node or engine; NULL: none */
	const struct scope *chain; /* op with the operators around it and nothing else: the same
				      in each step and layer */
	const char *path;	   /* all names, outermost first, joined by '/' */
	const char *layer; /* names of the GPUCTR_SITE_LABEL scopes, outermost first; "": none */
	const char *step;  /* innermost step; "": none */
	bool backward;	   /* within autograd's engine or one of its nodes */
};

enum { SCOPE_SIZES_SLOTS = 1 << 10 };

struct scopes {
	struct texts texts;
	/* A direct-mapped cache of lists of sizes: the text in messages, and the text in scopes. */
	struct {
		const char *list, *sizes;
	} sizes[SCOPE_SIZES_SLOTS];
	struct map known;
};

void scopes_deinit(struct scopes *s);

/* The scope of a site within parent; number: of a step. NULL: out of memory. */
const struct scope *scopes_add(struct scopes *s, const struct scope *parent,
			       const struct gpuctr_site *site, int64_t number);
