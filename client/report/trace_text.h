/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of a file, plain or compressed by gzip, read in pieces. Offsets are those of the text
 * before it was compressed. */

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

/* To be closed by gzclose_r(). NULL: see errno. A file that can be read only once is refused with
 * ESPIPE. */
gzFile trace_text_open(const char *path);
/* The next piece begins at this offset. 0 or a negative errno. */
int trace_text_seek(gzFile text, uint64_t at);
/* Returns how many bytes were read, fewer than n only at the end, or a negative errno: -EBADMSG if
 * compressed data are damaged or incomplete. */
int64_t trace_text_next(gzFile text, void *data, size_t n);
