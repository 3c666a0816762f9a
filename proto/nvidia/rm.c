/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* RM binds a client to the struct file on which it was created, not to a process. So a descriptor
 * received from the user's program is enough. RM checks the permission to allocate a profiler
 * object once, in this call, against the capabilities of the calling task. */

/* Not by fstat(), which waits for the file system; that may be a user's own (FUSE) and never
 * answer. What the kernel has at hand is enough, for the device of a file does not change. */
bool rm_is_control_device(int fd)
{
	struct statx st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_PATH) != 0 ||
	    statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0) {
		return false;
	}
	return S_ISCHR(st.stx_mode) && st.stx_rdev_major == RM_DEVICE_MAJOR &&
	       st.stx_rdev_minor == RM_DEVICE_MINOR_CONTROL;
}

static int call(int fd, unsigned long request, void *argument)
{
	int r;

	do {
		r = ioctl(fd, request, argument);
	} while (r < 0 && (errno == EINTR || errno == EAGAIN));
	return r < 0 ? -errno : 0;
}

int rm_alloc_profiler(int fd, uint32_t root, uint32_t parent, uint32_t object,
		      const struct rm_profiler_parameters *parameters, uint32_t *ret_status)
{
	struct rm_profiler_parameters own = *parameters;
	struct rm_alloc p = {
		.root = root,
		.parent = parent,
		.object = object,
		.object_class = RM_CLASS_PROFILER_DEVICE,
		.parameters = (uintptr_t)&own,
	};
	int r = call(fd, RM_IOCTL_ALLOC, &p);

	if (r == 0) {
		*ret_status = p.status;
	}
	return r;
}

bool rm_file_has_client(int fd, uint32_t client)
{
	uint32_t status;
	int r = rm_free_object(fd, client, client, 0, &status);

	return r == 0 && (status == RM_STATUS_OK || status == RM_STATUS_OBJECT_NOT_FOUND);
}

int rm_free_object(int fd, uint32_t root, uint32_t parent, uint32_t object, uint32_t *ret_status)
{
	struct rm_free p = { .root = root, .parent = parent, .object = object };
	int r = call(fd, RM_IOCTL_FREE, &p);

	if (r == 0) {
		*ret_status = p.status;
	}
	return r;
}
