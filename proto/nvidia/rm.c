/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/nvidia/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* RM binds a client to the struct file on which it was created, not to a process. So a descriptor
 * received from the user's program is enough. RM checks the permission to allocate a profiler
 * object once, in this call, against the capabilities of the calling task. */

/* fstat() would wait for the file system, which may be a user's own (FUSE) and never answer. The
 * kernel's cached attributes are enough, because the device of a file does not change. */
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

int rm_alloc_profiler(int fd, uint32_t root, uint32_t parent, uint32_t *object,
		      const struct rm_profiler_parameters *parameters, uint32_t *ret_status)
{
	struct rm_profiler_parameters own = *parameters;
	struct rm_alloc p = {
		.root = root,
		.parent = parent,
		.object = *object,
		.object_class = RM_CLASS_PROFILER_DEVICE,
		.parameters = (uintptr_t)&own,
	};
	int r = call(fd, RM_IOCTL_ALLOC, &p);

	if (r == 0) {
		*object = p.object;
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

int rm_find_gpu(int fd, uint32_t root, uint32_t subdevice, struct rm_gpu *ret, uint32_t *ret_status)
{
	struct rm_gpu_id_parameters id = { .flags = RM_GPU_ID_BINARY, .length = sizeof(ret->uuid) };
	struct rm_control p = {
		.root = root,
		.object = subdevice,
		.command = RM_CONTROL_GPU_ID,
		.parameters = (uintptr_t)&id,
		.parameters_size = sizeof(id),
	};
	int r = call(fd, RM_IOCTL_CONTROL, &p);

	*ret = (struct rm_gpu){ 0 };
	if (r == 0) {
		*ret_status = p.status;
	}
	if (r == 0 && p.status == RM_STATUS_OK && id.length == sizeof(ret->uuid)) {
		memcpy(ret->uuid, id.data, sizeof(ret->uuid));
	}
	return r;
}

static int digit_from_hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

bool rm_gpu_from_text(const char *text, struct rm_gpu *ret)
{
	size_t n = 0;

	*ret = (struct rm_gpu){ 0 };
	if (strncmp(text, "GPU-", 4) != 0) {
		return false;
	}
	for (text += 4; *text != '\0'; text++) {
		int digit = digit_from_hex(*text);

		if (*text == '-') {
			continue;
		}
		if (digit < 0 || n == 2 * sizeof(ret->uuid)) {
			return false;
		}
		ret->uuid[n / 2] = (uint8_t)(ret->uuid[n / 2] << 4 | digit);
		n++;
	}
	return n == 2 * sizeof(ret->uuid);
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
