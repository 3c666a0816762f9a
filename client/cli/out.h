/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

/* A file, pipe or terminal, with a thread that writes records to it. */
struct out;

/* path "-": standard output. Returns 0 or a negative errno: -EEXIST for an existing file without
 * force, -ELOOP for a link to a file or to nothing, because whoever made the link chose what is
 * replaced. out_check() makes the same checks early, and opens nothing. */
int out_check(const char *path, bool force);
int out_open(const char *path, bool force, struct out **ret);

/* Does path name, directly or by a link, a pipe, a terminal or a device? */
bool out_is_device(const char *path);
/* Opens such a path. Returns the descriptor or a negative errno: -EEXIST if it is a file now. */
int out_open_device(const char *path);

/* Lines that are gathered, and written in pieces. Zero-initialised by the caller, who counts the
 * records among them. */
struct out_lines {
	struct out *out; /* NULL: not open */
	struct buf buf;
	uint64_t in_buf, unwritten; /* numbers of records */
	bool refused;		    /* a piece was refused, with or without records */
	bool waits; /* for the reader without limit, as the caller has nothing else to do */
};

/* Writes the gathered lines. */
void out_lines_flush(struct out_lines *l);
/* Waits for the reader, reports what went wrong, and frees. what: "records"; kept: a capture file
 * has them as well. False: something could not be written. A reader that is gone, as "| head", is
 * no failure. */
bool out_lines_close(struct out_lines *l, const char *what, bool kept);
