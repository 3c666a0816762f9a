/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/compress.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { OUT_BYTES = 64 * 1024, GZIP_HEADER = 16, MEMORY_LEVEL = 8 };

struct compress {
	z_stream stream;
};

bool compress_is_meant(const char *path)
{
	size_t n = strlen(path);

	return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

struct compress *compress_new(void)
{
	struct compress *c = calloc(1, sizeof(*c));

	if (c && deflateInit2(&c->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
			      MAX_WBITS + GZIP_HEADER, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(c);
		c = NULL;
	}
	return c;
}

struct compress *compress_free(struct compress *c)
{
	if (c) {
		deflateEnd(&c->stream);
		free(c);
	}
	return NULL;
}

int compress_add(struct compress *c, struct buf *b, bool end, struct buf *out)
{
	z_stream *z = &c->stream;

	if (b->failed || b->n > UINT_MAX) {
		return -ENOMEM;
	}
	z->next_in = (unsigned char *)b->data;
	z->avail_in = (unsigned)b->n;
	do {
		if (!buf_reserve(out, OUT_BYTES)) {
			return -ENOMEM;
		}
		z->next_out = (unsigned char *)out->data + out->n;
		z->avail_out = OUT_BYTES;
		deflate(z, end ? Z_FINISH : Z_NO_FLUSH);
		out->n += OUT_BYTES - z->avail_out;
	} while (z->avail_out == 0);
	buf_clear(b);
	return 0;
}
