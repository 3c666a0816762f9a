/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An expression that chooses by NVTX ranges, in the words of ncu's --nvtx-include:
 *
 *  *	A	a start/end range A is open	A/	A is in the stack of push/pop ranges
 *  *	A/B	B lies directly on A		A/ * /B	B lies above A (without the blanks)
 *  *	A/+/B	one range is between them	[A  A]	A is the lowest, the topmost of the stack
 *  *	A,B	both hold			D@A/	in domain D; else in the default domain
 *
 * "regex:" before a name, or a domain, makes it a POSIX extended regular expression, which may
 * match a part of the text; other names are compared whole. A backslash makes the next character an
 * ordinary one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire/status.h"

/* Texts in a selection: capture_range is the first, or the second and an expression; step is the
 * third, or an expression. */
#define NVTX_CAPTURE_PROFILER "cudaProfilerApi"
#define NVTX_CAPTURE_RANGE "nvtx:"
#define NVTX_STEP_PROFILER "cudaProfilerStart"
#define NVTX_STEP_DOMAIN "gpuctr" /* domain of the mark that gpuctr_step() makes */
#define NVTX_STEP_MESSAGE "step"
#define NVTX_STEP_LIBRARY NVTX_STEP_DOMAIN "@" NVTX_STEP_MESSAGE

struct nvtx_expression;

/* 0 and *ret, or GPUCTR_E_BAD_PATTERN (or GPUCTR_E_INTERNAL: out of memory) with r filled, which
 * names the wrong character. May compile regular expressions many times to find it, so only the
 * user's own processes may call this. */
int nvtx_expression_parse(const char *text, struct nvtx_expression **ret, struct refusal *r);
struct nvtx_expression *nvtx_expression_free(struct nvtx_expression *e); /* NULL; takes NULL */

/* The expression's terms, between commas, all of which must hold; at most NVTX_TERMS_MAX. */
enum { NVTX_TERMS_MAX = 8, NVTX_TERMS_TOTAL_MAX = 64 /* all terms of a capture */ };
size_t nvtx_expression_n_terms(const struct nvtx_expression *e);

/* Is the term about start/end ranges? */
bool nvtx_term_is_started(const struct nvtx_expression *e, size_t term);

/* For a term about start/end ranges: does it mean this range? */
bool nvtx_term_names(const struct nvtx_expression *e, size_t term, const char *domain,
		     const char *message);

/* For other terms: the state for an empty stack; the state after one more range on a stack with a
 * known state; and whether the term holds in a state. domain "": the default domain. */
uint64_t nvtx_term_begin(const struct nvtx_expression *e, size_t term);
uint64_t nvtx_term_advance(const struct nvtx_expression *e, size_t term, uint64_t state,
			   const char *domain, const char *message);
bool nvtx_term_holds(const struct nvtx_expression *e, size_t term, uint64_t state);
