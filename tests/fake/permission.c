/* SPDX-License-Identifier: Apache-2.0 */
/* The one place in the fake driver API library that calls ioctl().
 *
 * As in the real library the call goes through the import of `ioctl` from libc, so a tool may
 * replace that import. The control device is opened once in a process, and a client, a device and a
 * subdevice are made on it; each profiler object is a child of the subdevice. */

#include "tests/fake/gpu.h"
#include "tests/fake/rm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fake/state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int control_fd = -1;
static int control_pid;
static uint64_t control_file;
static uint32_t root, target; /* RM clients: one asks, and contexts live under the other */
static bool have_device[FAKE_MAX_GPUS];
static uint32_t next_object = 0x5c001000;

/* The older form of the request, which drivers still accept. */
static int allocate_short(const struct rm_alloc *a)
{
	struct rm_alloc_old old = {
		.h_root = a->h_root,
		.h_parent = a->h_parent,
		.h_new = a->h_new,
		.h_class = a->h_class,
		.params = a->params,
		.status = 0x65, /* nobody has answered */
	};
	unsigned long request =
		_IOC(_IOC_READ | _IOC_WRITE, RM_IOCTL_TYPE, RM_ESC_ALLOC, sizeof(old));

	return ioctl(control_fd, request, &old) != 0 ? -errno : (int)old.status;
}

static int allocate(uint32_t parent, uint32_t object, uint32_t class, void *params)
{
	struct rm_alloc a = {
		.h_root = root,
		.h_parent = parent,
		.h_new = object,
		.h_class = class,
		.params = (uintptr_t)params,
	};
	unsigned long request =
		_IOC(_IOC_READ | _IOC_WRITE, RM_IOCTL_TYPE, RM_ESC_ALLOC, sizeof(a));

	if (getenv("GPUCTR_FAKE_SHORT_IOCTL")) {
		return allocate_short(&a);
	}
	if (ioctl(control_fd, request, &a) != 0) {
		return -errno;
	}
	return (int)a.status;
}

static int open_control(void)
{
	struct stat info;
	int r;

	if (control_fd >= 0 && control_pid == getpid()) {
		return 0;
	}
	control_fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	if (control_fd < 0) {
		return -errno;
	}
	if (fstat(control_fd, &info) != 0) {
		return -errno;
	}
	control_pid = getpid();
	control_file = info.st_ino;
	root = 0xc1d00000u + (uint32_t)(control_pid & 0xfffff);
	memset(have_device, 0, sizeof(have_device));
	target = root + 0x100000u;
	r = allocate(0, target, FAKE_CLASS_ROOT, NULL);
	return r == 0 ? allocate(0, root, FAKE_CLASS_ROOT, NULL) : r;
}

static int open_device(int gpu)
{
	uint32_t device = 0x5c000010u + (uint32_t)gpu;
	int r = open_control();

	if (r != 0 || have_device[gpu]) {
		return r;
	}
	r = allocate(root, device, FAKE_CLASS_DEVICE, NULL);
	if (r == 0) {
		r = allocate(device, RM_SUBDEVICE_HANDLE + (uint32_t)gpu, FAKE_CLASS_SUBDEVICE,
			     NULL);
	}
	have_device[gpu] = r == 0;
	return r;
}

int permission_alloc(CUcontext context, int gpu, struct fake_profiler *ret_profiler)
{
	struct rm_profiler_params params = { 0 };
	uint32_t object;
	int r;

	pthread_mutex_lock(&lock);
	r = open_device(gpu);
	if (r == 0) {
		object = next_object++;
		params.h_client_target = context ? target : 0;
		params.h_context_target = context ? context->h_context : 0;
		r = allocate(RM_SUBDEVICE_HANDLE + (uint32_t)gpu, object, FAKE_CLASS_PROFILER,
			     &params);
	}
	if (r == 0) {
		*ret_profiler = (struct fake_profiler){
			.file = control_file,
			.h_root = root,
			.h_device = RM_SUBDEVICE_HANDLE + (uint32_t)gpu,
			.h_object = object,
		};
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int permission_free(const struct fake_profiler *profiler)
{
	struct rm_free f = {
		.h_root = profiler->h_root,
		.h_parent = profiler->h_device,
		.h_old = profiler->h_object,
	};
	unsigned long request = _IOC(_IOC_READ | _IOC_WRITE, RM_IOCTL_TYPE, RM_ESC_FREE, sizeof(f));

	if (control_pid != getpid() || ioctl(control_fd, request, &f) != 0) {
		return -EBADF;
	}
	return (int)f.status;
}
