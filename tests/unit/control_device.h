/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A driver for the granter's tests: its statx() shows a chosen file as /dev/nvidiactl, its ioctl()
 * notes what it is called with. Both stand before libc's in the test's executable, so the code
 * under test is the one that ships. What is noted lives in memory shared with the granter's
 * process. */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/nvidia/rm.h"

enum { CONTROL_CALLS_MAX = 4096 };

struct control_call {
	unsigned long request;
	struct rm_alloc alloc;
	struct rm_profiler_parameters parameters;
	struct rm_free free;
};

struct control_device {
	ino_t inode;		 /* of the file that is the control device; 0: none is */
	uint32_t status;	 /* the driver's answer */
	uint32_t foreign_client; /* one that was made on another file; 0: none was */
	uint32_t made_object;	 /* the number that it gives to what is allocated; 0: the wanted */
	uint32_t unknown_parent; /* no object has this number; 0: all have one */
	unsigned gpu;		 /* whose subdevice every other parent is ... */
	unsigned
		moves_after; /* ... until so many were asked for, then of the next GPU; 0: always */
	unsigned n_asked;
	bool zeros;		 /* a GPU without a name */
	bool distinct;		 /* for the test: it says itself of which GPU objects are */
	int error;		 /* of the ioctl itself; 0: it works */
	uint32_t hanging_parent; /* calls about objects with this parent do not return; 0: all do */
	atomic_uint n_hanging;	 /* calls that have come to hang so far */
	unsigned n;		 /* calls so far */
	struct control_call calls[CONTROL_CALLS_MAX];
};

static struct control_device *control;

static inline void control_device_init(void)
{
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
}

/* A descriptor of a new file that the others see as the control device. */
static inline int control_device_open(void)
{
	int fd = memfd_create("nvidiactl", MFD_CLOEXEC);
	struct stat st;

	syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);
	control->inode = st.st_ino;
	return fd;
}

/* How the driver names a GPU. */
static inline struct rm_gpu control_device_gpu(unsigned i)
{
	struct rm_gpu gpu = { { 0xa0, (uint8_t)i } };

	return gpu;
}

/* The bits of a client's number that say on which GPU its objects are, counted from the control
 * device's. */
static inline uint32_t control_device_root_of(unsigned gpu)
{
	return gpu << 8;
}

static inline void control_device_tell_gpu(struct rm_control *q)
{
	struct rm_gpu_id_parameters *id = (void *)(uintptr_t)q->parameters;
	bool moved = control->moves_after != 0 && control->n_asked >= control->moves_after;
	struct rm_gpu gpu = control_device_gpu(control->gpu + moved + (q->root >> 8 & 0xff));

	if (control->zeros) {
		gpu = (struct rm_gpu){ 0 };
	}
	control->n_asked++;
	q->status = q->object == control->unknown_parent ? RM_STATUS_OBJECT_NOT_FOUND
		    : q->command == RM_CONTROL_GPU_ID	 ? RM_STATUS_OK
							 : 0x56;
	memcpy(id->data, &gpu, sizeof(gpu));
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *st)
{
	int r = (int)syscall(SYS_statx, folder, path, flags, mask | STATX_INO, st);

	if (r == 0 && control && control->inode != 0 && st->stx_ino == control->inode) {
		st->stx_mode = S_IFCHR | 0666;
		st->stx_rdev_major = RM_DEVICE_MAJOR;
		st->stx_rdev_minor = RM_DEVICE_MINOR_CONTROL;
	}
	return r;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct control_call *c;
	struct rm_free *question;
	va_list ap;
	void *p;

	(void)fd;
	va_start(ap, request);
	p = va_arg(ap, void *);
	va_end(ap);
	question = p;
	if (control->hanging_parent != 0 && question->parent == control->hanging_parent) {
		atomic_fetch_add(&control->n_hanging, 1);
	}
	while (control->hanging_parent != 0 && question->parent == control->hanging_parent) {
		usleep(500);
	}
	if (request == RM_IOCTL_CONTROL && control->error == 0) {
		control_device_tell_gpu(p);
		return 0;
	}
	if (request == RM_IOCTL_FREE && question->object == 0 && control->error == 0) {
		question->status = question->root == control->foreign_client ? 0x23 : RM_STATUS_OK;
		return 0; /* frees nothing: it asks whose the client is */
	}
	c = &control->calls[__atomic_fetch_add(&control->n, 1, __ATOMIC_SEQ_CST) %
			    CONTROL_CALLS_MAX];
	*c = (struct control_call){ .request = request };
	if (request == RM_IOCTL_ALLOC) {
		memcpy(&c->alloc, p, sizeof(c->alloc));
		memcpy(&c->parameters, (const void *)(uintptr_t)c->alloc.parameters,
		       sizeof(c->parameters));
		((struct rm_alloc *)p)->status = control->status;
		if (control->made_object != 0) {
			((struct rm_alloc *)p)->object = control->made_object;
		}
	} else if (request == RM_IOCTL_FREE) {
		memcpy(&c->free, p, sizeof(c->free));
		((struct rm_free *)p)->status = control->status;
	}
	if (control->error != 0) {
		errno = control->error;
		return -1;
	}
	return 0;
}
