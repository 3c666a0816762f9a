/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of a file, plain or compressed by gzip, read in pieces. Offsets are those of the text
 * before it was compressed. */

#include <stddef.h>
#include <stdint.h>

struct trace_text;

/* NULL: see errno. A file that can be read only once is refused with ESPIPE. */
struct trace_text *trace_text_open(const char *path);
struct trace_text *trace_text_close(struct trace_text *text); /* takes NULL, returns NULL */
/* The next piece begins at this offset. 0 or a negative errno. */
int trace_text_seek(struct trace_text *text, uint64_t at);
/* Returns how many bytes were read, fewer than n only at the end, or a negative errno: -EBADMSG if
 * compressed data are damaged or incomplete. */
int64_t trace_text_next(struct trace_text *text, void *data, size_t n);
