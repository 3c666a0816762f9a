/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of torch.profiler's that is no valid JSON. Control characters in strings, NaN and Infinity
 * are replaced by JSON of the same length, so that a parser takes them and offsets stay. For
 * anything else that a parser refuses, the functions at the end explain the cause. */

#include <stdbool.h>

#include "client/report/trace_text.h"
#include "proto/base/buf.h"

/* The reader's state at its place in the text; zero-initialised by the caller. */
struct trace_odd {
	bool in_string;
	unsigned escape;     /* at most so many characters of an escape are still to come */
	uint64_t length;     /* bytes of the string, or digits of the number, so far */
	const char *rest;    /* characters of NaN or Infinity that are still to come; NULL: none */
	const char *instead; /* replacements for the characters of rest */
};

/* Mends the next piece in place. Returns how many bytes of it the parser should read. The *ret_skip
 * bytes behind these are the rest of a very long string, which the parser should not read: it reads
 * a string from its beginning again with every piece. The bytes behind those are the next piece. */
size_t trace_odd_mend(struct trace_odd *o, char *data, size_t n, size_t *ret_skip);

/* Explains, with the text at this place, why the parser stopped before the character at `at`. Sets
 * *ret_remedy to what the user can do if the cause is known. */
void trace_odd_explain(gzFile text, uint64_t at, struct buf *why, const char **ret_remedy);
/* Explains that the text ended where the parser wanted more. */
void trace_odd_explain_end(gzFile text, uint64_t end, struct buf *why);
