/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A scope is a call site of a program, in all processes and captures. Scopes form a tree by their
 * parents, are made once and live as long as the set; equal scopes are the same pointer. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/texts.h"

struct scope {
	const struct scope *parent; /* NULL: outermost */
	enum gpuctr_site_kind kind;
	unsigned depth;	    /* 0: outermost */
	const char *domain; /* NVTX domain; "": the default */
	const char *name;   /* "aten::copy_"; all steps share "iteration N" */
	const char *sizes;  /* the operator's input sizes, in the form of sizes_format(); "":
			       not reported */
	const char *label;  /* the name that tables show: "domain:name" or name */

	/* Properties that depend on this scope and the scopes around it. */
	const struct scope *op;	   /* the innermost operator, node or engine; NULL: none */
	const struct scope *chain; /* op with the operators around it, without other scopes: the
				      same in each step and layer */
	const char *path;	   /* all names, outermost first, joined by '/' */
	const char *layer; /* names of the GPUCTR_SITE_LABEL scopes, outermost first; "": none */
	const char *step;  /* name of the innermost step; "": none */
	bool backward;	   /* within autograd's engine or one of its nodes */
	bool optimizer;	   /* within a step of an optimizer */
};

enum { SCOPE_SITES_SLOTS = 1 << 12 };

struct scopes {
	struct texts texts;
	struct map known;
	/* A direct-mapped cache of the current capture's sites. */
	struct {
		const struct gpuctr_site *site;
		const struct scope *scope;
	} of_sites[SCOPE_SITES_SLOTS];
};

void scopes_deinit(struct scopes *s);

/* Must be called before the sites of another capture. */
void scopes_next_capture(struct scopes *s);

/* Returns the scope of a site. A file may nest sites to any depth, and each scope holds the names
 * of all scopes around it. So a site deeper than any program nests gets the scope of its ancestor
 * at the depth limit. NULL: out of memory. */
const struct scope *scopes_of_site(struct scopes *s, const struct gpuctr_site *site);
