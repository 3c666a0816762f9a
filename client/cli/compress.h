/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_COMPRESS_H
#define CLIENT_CLI_COMPRESS_H

#include <stdbool.h>

#include "proto/base/buf.h"

/* Is this the name of a file that is compressed by gzip? */
bool compress_is_meant(const char *path);

/* What is compressed by gzip, piece by piece. */
struct compress;
struct compress *compress_new(void);		    /* NULL: out of memory */
struct compress *compress_free(struct compress *c); /* takes NULL, returns NULL */
/* Appends to out what of b can be written by now, all of it at the end, and empties b. 0 or
 * -ENOMEM. */
int compress_add(struct compress *c, struct buf *b, bool end, struct buf *out);

#endif
