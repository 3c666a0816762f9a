/* SPDX-License-Identifier: Apache-2.0 */

/* zlib also reads uncompressed files as they are, so both kinds are read alike. */

#include "client/report/trace_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

enum { ZLIB_BYTES = 256 * 1024 };

struct trace_text {
	gzFile file;
};

struct trace_text *trace_text_open(const char *path)
{
	struct trace_text *text = calloc(1, sizeof(*text));
	int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	int error = text ? errno : ENOMEM;

	/* open() succeeds on a folder, and read() fails. */
	if (fd >= 0 && (lseek(fd, 0, SEEK_CUR) < 0 || read(fd, NULL, 0) < 0)) {
		error = errno;
		close(fd);
		fd = -1;
	}
	if (fd >= 0) {
		text->file = gzdopen(fd, "rb");
		error = ENOMEM;
	}
	if (!text || !text->file) {
		if (fd >= 0) {
			close(fd);
		}
		free(text);
		errno = error;
		return NULL;
	}
	gzbuffer(text->file, ZLIB_BYTES);
	return text;
}

struct trace_text *trace_text_close(struct trace_text *text)
{
	if (text) {
		gzclose_r(text->file);
		free(text);
	}
	return NULL;
}

static int failure(const struct trace_text *text)
{
	int code, error = errno;

	gzerror(text->file, &code);
	return code == Z_OK	     ? 0
	       : code == Z_MEM_ERROR ? -ENOMEM
	       : code == Z_ERRNO     ? -error
				     : -EBADMSG;
}

int trace_text_seek(struct trace_text *text, uint64_t at)
{
	return gzseek(text->file, (z_off_t)at, SEEK_SET) < 0 ? -EIO : 0;
}

int64_t trace_text_next(struct trace_text *text, void *data, size_t n)
{
	int done = gzread(text->file, data, (unsigned)n);
	int r = done < (int)n ? failure(text) : 0;

	return r < 0 ? r : done;
}
