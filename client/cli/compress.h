/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "proto/base/buf.h"

/* Is this the name of a file that is compressed by gzip? */
bool compress_is_meant(const char *path);

/* Compresses by gzip, piece by piece. */
struct compress;
struct compress *compress_new(void);		    /* NULL: out of memory */
struct compress *compress_free(struct compress *c); /* takes NULL, returns NULL */
/* Empties b, and appends to out what can be written by now; at the end, all that is left. 0 or
 * -ENOMEM. */
int compress_add(struct compress *c, struct buf *b, bool end, struct buf *out);
