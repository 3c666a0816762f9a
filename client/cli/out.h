/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

/* A file, pipe or terminal that records are written to, by a thread of its own. */
struct out;

/* path "-": standard output. Returns 0 or a negative errno: -EEXIST for an existing file without
 * force, -ELOOP for a link to a file or to nothing, because whoever made the link chose what is
 * replaced. out_check() checks before anything waits. */
int out_check(const char *path, bool force);
int out_open(const char *path, bool force, struct out **ret);

/* Does path name, directly or by a link, a pipe, a terminal or a device? */
bool out_is_device(const char *path);
/* Opens it. The descriptor, or a negative errno: -EEXIST when it is a file after all. */
int out_open_device(const char *path);

/* Lines that are gathered, and written in pieces. Zero-initialised by the caller, who counts the
 * records among them. */
struct out_lines {
	struct out *out; /* NULL: not open */
	struct buf buf;
	uint64_t in_buf, unwritten; /* records */
	bool refused;		    /* a piece was, whatever was in it */
	bool waits;		    /* for the reader, however long it takes: nothing else does */
};

/* Writes what has been gathered. */
void out_lines_flush(struct out_lines *l);
/* Waits for the reader, says what went wrong, and frees. what: "records"; kept: they are in a
 * capture file as well. False: something could not be written; a reader that is gone, as "| head",
 * wanted no more. */
bool out_lines_close(struct out_lines *l, const char *what, bool kept);
