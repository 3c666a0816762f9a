/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What torch.profiler writes that is no JSON. Control characters in strings, NaN and Infinity are
 * made into JSON of the same length, so that a parser takes them and offsets stay; for what cannot
 * be taken, the text and the cause are told. */

#include <stdbool.h>

#include "client/report/trace_text.h"
#include "proto/base/buf.h"

/* Where in the text the reader is; zero-initialised by the caller. */
struct trace_odd {
	bool in_string;
	unsigned escape;  /* how many characters of an escape are still to come, at most */
	uint64_t length;  /* of the string, or digits of the number, so far */
	const char *rest; /* characters of NaN or Infinity that are still to come; NULL: none is */
	const char *instead; /* and what stands for them */
};

/* Mends the next piece in place. Returns how many bytes of it the parser should read; *ret_skip
 * bytes behind them are the rest of a very long string, which it should not: a parser reads a
 * string from its beginning again with every piece. Further bytes are the next piece. */
size_t trace_odd_mend(struct trace_odd *o, char *data, size_t n, size_t *ret_skip);

/* The parser stopped behind the character before `at`. Tells why, with the text there; sets
 * *ret_remedy to what the user can do where the cause is known. */
void trace_odd_explain(gzFile text, uint64_t at, struct buf *why, const char **ret_remedy);
/* The parser wanted more at the end. */
void trace_odd_explain_end(gzFile text, uint64_t end, struct buf *why);
