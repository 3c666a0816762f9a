/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/image.h"

#include <sys/mman.h>
#include <unistd.h>

/* It is in memory twice. */
#define KEPT_MOST ((size_t)128 << 20)

static void forget_kept(struct image *m)
{
	if (m->fd >= 0) {
		close(m->fd);
		m->fd = -1;
	}
}

/* A private mapping of a file in memory: writing to a page makes a copy of it, and MADV_DONTNEED
 * drops the copies. */
bool image_init(struct image *m, size_t bytes)
{
	void *data;

	*m = (struct image){ .bytes = bytes, .fd = -1 };
	if (bytes <= KEPT_MOST) {
		m->fd = memfd_create("gpuctr-samples", MFD_CLOEXEC);
	}
	if (m->fd >= 0 && ftruncate(m->fd, (off_t)bytes) < 0) {
		forget_kept(m); /* a limit on files, say */
	}
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | (m->fd < 0 ? MAP_ANONYMOUS : 0), m->fd, 0);
	if (data == MAP_FAILED) {
		forget_kept(m);
		return false;
	}
	m->data = data;
	return true;
}

void image_deinit(struct image *m)
{
	if (m->data) {
		munmap(m->data, m->bytes);
		forget_kept(m);
		m->data = NULL;
	}
}

bool image_empty(struct image *m)
{
	return m->kept && madvise(m->data, m->bytes, MADV_DONTNEED) == 0;
}

void image_keep(struct image *m)
{
	size_t done = 0;
	ssize_t n = 1;

	while (m->fd >= 0 && n > 0 && done < m->bytes) {
		n = pwrite(m->fd, m->data + done, m->bytes - done, (off_t)done);
		done += n > 0 ? (size_t)n : 0;
	}
	m->kept = done == m->bytes;
	image_empty(m);
}
