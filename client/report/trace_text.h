/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the text of a plain or gzip file in pieces. Offsets are those of the uncompressed text. */

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

/* Opens the file; close it with gzclose_r(). NULL: errno says why. A file that cannot be read
 * twice, as a pipe, is refused with ESPIPE. */
gzFile trace_text_open(const char *path);
/* Sets the offset of the next piece. 0 or a negative errno. */
int trace_text_seek(gzFile text, uint64_t at);
/* Returns how many bytes were read, fewer than n only at the end, or a negative errno: -EBADMSG if
 * compressed data are damaged or incomplete. */
int64_t trace_text_next(gzFile text, void *data, size_t n);
