/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into every process of a test: makes "/dev/nvidiactl" exist.
 *
 * Opening it gives an anonymous file of a size that nothing else has. The size tells the control
 * device from other files in any process that receives the descriptor; the inode tells one open
 * file from another, as the driver does with its struct file. Every other path goes to the next
 * library. `/proc/driver/nvidia/NAME` is read from $GPUCTR_FAKE_DIR/proc/NAME if that exists.
 *
 * The real functions are looked up by a constructor, because a process under seccomp may not be
 * able to use the loader. */

/* This file defines both open and open64 under their own names, and must not be inlined into. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "tests/fake/rm.h"
#include "tests/fake/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ioctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CONTROL_PATH "/dev/nvidiactl"
#define PROC_PREFIX "/proc/driver/nvidia/"

enum { CONTROL_MAJOR = 195, CONTROL_MINOR = 255 };

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_ioctl)(int, unsigned long, ...);
static int (*real_fstat)(int, struct stat *);
static int (*real_fstatat)(int, const char *, struct stat *, int);
static int (*real_statx)(int, const char *, int, unsigned, struct statx *);
static FILE *(*real_fopen)(const char *, const char *);

int seccomp_load(const void *context);

__attribute__((constructor)) static void find_real(void)
{
	real_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	real_openat = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
	real_ioctl = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	real_fstat = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
	real_fstatat = (int (*)(int, const char *, struct stat *, int))dlsym(RTLD_NEXT, "fstatat");
	real_statx = (int (*)(int, const char *, int, unsigned, struct statx *))dlsym(RTLD_NEXT,
										      "statx");
	real_fopen = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
}

/* Libraries that start before this one may open files. */
static void ensure_real(void)
{
	if (!real_fopen) {
		find_real();
	}
}

static bool is_control_file(const struct stat *info)
{
	return S_ISREG(info->st_mode) && info->st_size == FAKE_CONTROL_FILE_BYTES;
}

/* 0: the descriptor is not the control device. */
static uint64_t control_identity(int fd)
{
	struct stat info;

	if (real_fstat(fd, &info) != 0 || !is_control_file(&info)) {
		return 0;
	}
	return info.st_ino;
}

static int open_control(int flags)
{
	int fd = memfd_create("nvidiactl", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);

	if (fd >= 0 && ftruncate(fd, FAKE_CONTROL_FILE_BYTES) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_control_path(const char *path)
{
	return path && strcmp(path, CONTROL_PATH) == 0 && getenv("GPUCTR_FAKE_DIR");
}

/* The path to open in place of this one: in buffer, or the path itself. */
static const char *redirect(const char *path, char buffer[PATH_MAX])
{
	const char *dir;

	if (!path || strncmp(path, PROC_PREFIX, strlen(PROC_PREFIX)) != 0) {
		return path;
	}
	dir = getenv("GPUCTR_FAKE_DIR");
	if (!dir ||
	    snprintf(buffer, PATH_MAX, "%s/proc/%s", dir, path + strlen(PROC_PREFIX)) >= PATH_MAX) {
		return path;
	}
	return access(buffer, F_OK) == 0 ? buffer : path;
}

static int open_path(int dir_fd, const char *path, int flags, mode_t mode)
{
	char buffer[PATH_MAX];

	ensure_real();
	if (is_control_path(path)) {
		return open_control(flags);
	}
	return real_openat(dir_fd, redirect(path, buffer), flags, mode);
}

static mode_t mode_argument(int flags, va_list args)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_argument(flags, args);
	va_end(args);
	return open_path(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir_fd, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_argument(flags, args);
	va_end(args);
	return open_path(dir_fd, path, flags, mode);
}

/* Programs that are built with _FORTIFY_SOURCE call these to open files without O_CREAT. */
int __open_2(const char *path, int flags);
int __openat_2(int dir_fd, const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
	return open_path(AT_FDCWD, path, flags, 0);
}

EXPORT int __openat_2(int dir_fd, const char *path, int flags)
{
	return open_path(dir_fd, path, flags, 0);
}

/* Offsets have 64 bits anyway. */
EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));
EXPORT int openat64(int dir_fd, const char *path, int flags, ...) __attribute__((alias("openat")));
EXPORT int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));
EXPORT int __openat64_2(int dir_fd, const char *path, int flags)
	__attribute__((alias("__openat_2")));
EXPORT FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

/* The GPU whose device file this is; -1: none. */
static int gpu_of_path(const char *path)
{
	static const char prefix[] = "/dev/nvidia";
	size_t n = sizeof(prefix) - 1;

	return getenv("GPUCTR_FAKE_DIR") && strncmp(path, prefix, n) == 0 && path[n] >= '0' &&
			       path[n] <= '9'
		       ? atoi(path + n)
		       : -1;
}

/* As a cgroup refuses some of the devices. */
EXPORT int access(const char *path, int mode)
{
	int gpu = gpu_of_path(path);
	const char *hidden = getenv("GPUCTR_FAKE_HIDDEN");

	if (gpu < 0) {
		return faccessat(AT_FDCWD, path, mode, 0);
	}
	if (gpu >= fake_gpu_count()) {
		errno = ENOENT;
		return -1;
	}
	if (hidden && (strtol(hidden, NULL, 10) >> gpu & 1) != 0) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	char buffer[PATH_MAX];

	ensure_real();
	return real_fopen(redirect(path, buffer), mode);
}

static void disguise(struct stat *info)
{
	if (is_control_file(info)) {
		info->st_mode = S_IFCHR | 0666;
		info->st_rdev = makedev(CONTROL_MAJOR, CONTROL_MINOR);
		info->st_size = 0;
	}
}

EXPORT int fstat(int fd, struct stat *info)
{
	int r;

	ensure_real();
	r = real_fstat(fd, info);
	if (r == 0) {
		disguise(info);
	}
	return r;
}

EXPORT int fstat64(int fd, struct stat64 *info)
{
	return fstat(fd, (struct stat *)info);
}

EXPORT int fstatat(int dir_fd, const char *path, struct stat *info, int flags)
{
	int r;

	ensure_real();
	r = real_fstatat(dir_fd, path, info, flags);
	if (r == 0 && (flags & AT_EMPTY_PATH) && path[0] == '\0') {
		disguise(info);
	}
	return r;
}

EXPORT int fstatat64(int dir_fd, const char *path, struct stat64 *info, int flags)
{
	return fstatat(dir_fd, path, (struct stat *)info, flags);
}

EXPORT int statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *info)
{
	int r;

	ensure_real();
	r = real_statx(dir_fd, path, flags, mask | STATX_SIZE, info);
	if (r == 0 && (flags & AT_EMPTY_PATH) && path[0] == '\0' && S_ISREG(info->stx_mode) &&
	    info->stx_size == FAKE_CONTROL_FILE_BYTES) {
		info->stx_mode = S_IFCHR | 0666;
		info->stx_rdev_major = CONTROL_MAJOR;
		info->stx_rdev_minor = CONTROL_MINOR;
		info->stx_size = 0;
	}
	return r;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	uint64_t file;
	va_list args;
	void *argument;
	int r;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	ensure_real();
	if (_IOC_TYPE(request) != RM_IOCTL_TYPE) {
		return real_ioctl(fd, request, argument);
	}
	file = control_identity(fd);
	if (!file && _IOC_NR(request) != RM_ESC_ALLOC && _IOC_NR(request) != RM_ESC_FREE) {
		return real_ioctl(fd, request, argument);
	}
	r = rm_ioctl(file, request, argument);
	if (!file) {
		return real_ioctl(fd, request, argument);
	}
	if (r < 0) {
		errno = -r;
		return -1;
	}
	return 0;
}

/* A filter is about to be loaded, which need not allow capget, getpid and geteuid: only this model
 * of the driver calls them. */
EXPORT int seccomp_load(const void *context)
{
	int (*next)(const void *) = (int (*)(const void *))dlsym(RTLD_NEXT, "seccomp_load");

	if (!next) {
		return -ENOSYS;
	}
	(void)fake_state();
	rm_freeze_identity();
	return next(context);
}
