/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_OUTFILE_H
#define CLIENT_CLI_OUTFILE_H

/* A file that is there whole or not at all: it gets its name when all of it is written. What is no
 * regular file (standard output, a pipe, a device) is written to at once. */

#include <stdbool.h>

#include "client/cli/buf.h"

struct outfile {
	int fd; /* -1: not open */
	const char *path;
	char *temporary; /* NULL: there is none */
	bool force;	 /* a file of that name is replaced */
	bool unread;	 /* nobody reads: a closed pipe */
};

/* Would writing to path replace the file that is read, by whatever name? Then false, and told why;
 * option is how path was given. input "-": standard input. */
bool outfile_spares(const char *option, const char *path, const char *input);

/* What is wrong with a file that out_check(), out_open() or outfile_open() refused, with the
 * remedy. */
const char *outfile_why(int r);

/* path "-": standard output; borrowed. 0 or a negative errno: -EEXIST when a file is there and
 * force was not given, -ELOOP when a link to a file is. */
int outfile_open(struct outfile *out, const char *path, bool force);

/* Empties b. 0 or a negative errno; 0 too when nobody reads any more. */
int outfile_write(struct outfile *out, struct buf *b);

/* Gives the file its name. 0 or a negative errno. */
int outfile_finish(struct outfile *out);

/* In any case: removes what was not finished. */
void outfile_close(struct outfile *out);

#endif
