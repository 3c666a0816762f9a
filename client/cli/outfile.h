/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An output file that gets its name when it is complete. Standard output, pipes and devices are
 * written to at once. */

#include <stdbool.h>

#include "proto/base/buf.h"

struct outfile {
	int fd; /* -1: not open */
	const char *path;
	char *temporary; /* NULL: there is none */
	bool force;	 /* an existing file at path is replaced */
	bool unread;	 /* nobody reads: a closed pipe */
};

/* False, with a message, when path and input are the same file by any name: writing would
 * replace what is read. option: the option that path was given with. input "-": standard input. */
bool outfile_spares(const char *option, const char *path, const char *input);

/* False, with a message, when the name asks for compression. option as above. */
bool outfile_is_plain(const char *option, const char *path);

/* Do both paths name one file, existing or yet to be made? False for pipes and devices. */
bool outfile_is_same(const char *a, const char *b);

/* Returns what is wrong with a file that out_check(), out_open() or outfile_open() refused, with
 * the remedy. */
const char *outfile_why(int r);

/* Returns what to do about an output that could not be written. */
const char *outfile_remedy(int r);

/* path "-": standard output; borrowed. 0 or a negative errno: -EEXIST when a file exists and force
 * was not given, -ELOOP when path is a link to a file. */
int outfile_open(struct outfile *out, const char *path, bool force);

/* Writes b and empties it. 0 or a negative errno; also 0 when nobody reads any more. */
int outfile_write(struct outfile *out, struct buf *b);

/* Gives the finished file its name. 0 or a negative errno. */
int outfile_finish(struct outfile *out);

/* To be called in any case: removes an unfinished file. */
void outfile_close(struct outfile *out);
