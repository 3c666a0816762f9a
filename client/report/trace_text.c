/* SPDX-License-Identifier: Apache-2.0 */

/* zlib also reads uncompressed files as they are, so both kinds are read alike. */

#include "client/report/trace_text.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "proto/base/clean.h"

enum { ZLIB_BYTES = 256 * 1024 };

gzFile trace_text_open(const char *path)
{
	CLEAN_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	gzFile text;

	/* open() succeeds on a folder, and read() fails. */
	if (fd < 0 || lseek(fd, 0, SEEK_CUR) < 0 || read(fd, NULL, 0) < 0) {
		return NULL;
	}
	text = gzdopen(fd, "rb");
	if (!text) {
		errno = ENOMEM;
		return NULL;
	}
	TAKE_FD(fd);
	gzbuffer(text, ZLIB_BYTES);
	return text;
}

static int failure(gzFile text)
{
	int code, error = errno;

	gzerror(text, &code);
	return code == Z_OK	     ? 0
	       : code == Z_MEM_ERROR ? -ENOMEM
	       : code == Z_ERRNO     ? -error
				     : -EBADMSG;
}

int trace_text_seek(gzFile text, uint64_t at)
{
	return gzseek(text, (z_off_t)at, SEEK_SET) < 0 ? -EIO : 0;
}

int64_t trace_text_next(gzFile text, void *data, size_t n)
{
	int done = gzread(text, data, (unsigned)n);
	int r = done < (int)n ? failure(text) : 0;

	return r < 0 ? r : done;
}
