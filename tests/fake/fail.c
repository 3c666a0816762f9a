/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into every process of a test: makes one allocation or one system call fail.
 *
 * The knobs of the shared state say in which kind of process (fail_in), which call from now on
 * (fail_malloc, fail_call: counted down to 0, which is the one that fails), and with which errno
 * (fail_errno). They may change while processes run: a daemon starts without failures, and its
 * front fails later. A kind of process is known by its name: as it was started, or as it names
 * itself.
 *
 * A system call is here a function of libc that makes one. Calls that libc makes inside of itself
 * are not seen. In the user's program only calls of the agent, or of the library of a permit,
 * count, because a failure of its own calls may end the program, and rightly so. In the client
 * calls of libuv and libc do not count: libuv calls abort() when its own pipes or epoll fail,
 * getpwuid() of glibc 2.36 crashes without memory, and its loader ends the process. A worker of the
 * daemon that does so is replaced.
 *
 * Built without sanitizers, because malloc is called here before a sanitizer is ready. */

#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "tests/fake/state.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

enum { KIND_CLIENT = 1, KIND_PROGRAM = 2, KINDS = 7 };

/* Which errors the kernel may answer to a call. */
enum { FAIL_EINTR = 1, FAIL_EIO = 2, FAIL_ENOMEM = 4 };

static const char *const kinds[KINDS] = { "",	     "gpuctr-client", "fakeapp", "front",
					  "granter", "gpu",	      "planner" };

static struct fake_state *state; /* NULL: too early to fail */
static int kind;

static struct library {
	const char *name;
	uintptr_t begin, end; /* of its code; end 0: not found yet */
} agent = { "libgpuctr-agent", 0, 0 }, permit = { "libgpuctr-permit", 0, 0 },
  libuv = { "libuv.so", 0, 0 }, libc = { "libc.so", 0, 0 }, loader = { "ld-linux", 0, 0 };

static void set_kind(const char *name)
{
	kind = 0;
	for (int i = 1; i < KINDS; i++) {
		kind = strcmp(name, kinds[i]) == 0 ? i : kind;
	}
	if (strcmp(name, "fakeprofiler") == 0) {
		kind = KIND_PROGRAM;
	}
}

__attribute__((constructor)) static void on_load(void)
{
	set_kind(program_invocation_short_name);
	state = fake_state();
}

static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library *l = data;

	(void)size;
	if (!strstr(info->dlpi_name, l->name)) {
		return 0;
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0) {
			l->begin = info->dlpi_addr + p->p_vaddr;
			l->end = l->begin + p->p_memsz;
		}
	}
	return 1;
}

static bool comes_from(struct library *l, const void *caller)
{
	if (l->end == 0) {
		dl_iterate_phdr(find_library, l);
	}
	return (uintptr_t)caller >= l->begin && (uintptr_t)caller < l->end;
}

static bool counts(const void *caller)
{
	switch (kind) {
	case KIND_PROGRAM:
		return comes_from(&agent, caller) || comes_from(&permit, caller);
	case KIND_CLIENT:
		return !comes_from(&libuv, caller) && !comes_from(&libc, caller) &&
		       !comes_from(&loader, caller);
	default:
		return kind != 0;
	}
}

static bool is_the_one(_Atomic int32_t *countdown, const void *caller)
{
	if (atomic_load(countdown) <= 0 || atomic_load(&state->fail_in) != kind ||
	    !counts(caller)) {
		return false;
	}
	return atomic_fetch_sub(countdown, 1) == 1;
}

static bool malloc_fails(const void *caller)
{
	if (!state || kind == 0 || !is_the_one(&state->fail_malloc, caller)) {
		return false;
	}
	errno = ENOMEM;
	return true;
}

/* Is the errno of the present test one of these? */
static bool is_possible(unsigned errors)
{
	switch (atomic_load(&state->fail_errno)) {
	case EINTR:
		return (errors & FAIL_EINTR) != 0;
	case EIO:
		return (errors & FAIL_EIO) != 0;
	default:
		return (errors & FAIL_ENOMEM) != 0;
	}
}

static bool call_fails(unsigned errors, const void *caller)
{
	if (!state || kind == 0 || !is_possible(errors) || !is_the_one(&state->fail_call, caller)) {
		return false;
	}
	errno = atomic_load(&state->fail_errno);
	return true;
}

/* --- memory --- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__interceptor_malloc(size_t size) __attribute__((weak)); /* AddressSanitizer's */
void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *p, size_t size) __attribute__((weak));

EXPORT void *malloc(size_t size)
{
	if (malloc_fails(CALLER)) {
		return NULL;
	}
	return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	if (malloc_fails(CALLER)) {
		return NULL;
	}
	return __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t size)
{
	if (malloc_fails(CALLER)) {
		return NULL;
	}
	return __interceptor_realloc ? __interceptor_realloc(p, size) : __libc_realloc(p, size);
}

/* Replaced because libc's own strdup() would be a call inside of libc. */
EXPORT char *strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy;

	if (malloc_fails(CALLER)) {
		return NULL;
	}
	copy = __interceptor_malloc ? __interceptor_malloc(bytes) : __libc_malloc(bytes);
	return copy ? memcpy(copy, text, bytes) : NULL;
}

/* --- system calls --- */

/* Defines a function that fails when its call was counted down, and otherwise calls the next
 * library's. */
#define CALL(errors, type, failed, name, parameters, arguments)                   \
	EXPORT type name parameters                                               \
	{                                                                         \
		static type(*next) parameters;                                    \
                                                                                  \
		if (call_fails(errors, CALLER)) {                                 \
			return failed;                                            \
		}                                                                 \
		next = next ? next : (type(*) parameters)dlsym(RTLD_NEXT, #name); \
		return next arguments;                                            \
	}

CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, read, (int fd, void *data, size_t n), (fd, data, n))
CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, write, (int fd, const void *data, size_t n), (fd, data, n))
CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, pread64, (int fd, void *data, size_t n, off64_t at),
     (fd, data, n, at))
CALL(FAIL_EINTR | FAIL_EIO, ssize_t, -1, pwrite64, (int fd, const void *data, size_t n, off64_t at),
     (fd, data, n, at))
CALL(FAIL_EIO, int, -1, fdatasync, (int fd), (fd))
CALL(FAIL_EINTR | FAIL_EIO, int, -1, ftruncate64, (int fd, off64_t bytes), (fd, bytes))
CALL(FAIL_EINTR | FAIL_ENOMEM, ssize_t, -1, recv, (int fd, void *data, size_t n, int flags),
     (fd, data, n, flags))
CALL(FAIL_EINTR | FAIL_ENOMEM, ssize_t, -1, send, (int fd, const void *data, size_t n, int flags),
     (fd, data, n, flags))
CALL(FAIL_EINTR | FAIL_ENOMEM, ssize_t, -1, recvmsg, (int fd, struct msghdr *m, int flags),
     (fd, m, flags))
CALL(FAIL_EINTR | FAIL_ENOMEM, ssize_t, -1, sendmsg, (int fd, const struct msghdr *m, int flags),
     (fd, m, flags))
CALL(FAIL_ENOMEM, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(FAIL_EINTR | FAIL_ENOMEM, int, -1, connect, (int fd, const struct sockaddr *a, socklen_t n),
     (fd, a, n))
CALL(FAIL_EINTR | FAIL_ENOMEM, int, -1, accept4,
     (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
CALL(FAIL_ENOMEM, int, -1, getsockopt, (int fd, int level, int name, void *v, socklen_t *n),
     (fd, level, name, v, n))
CALL(FAIL_ENOMEM, int, -1, setsockopt, (int fd, int level, int name, const void *v, socklen_t n),
     (fd, level, name, v, n))
CALL(FAIL_EINTR | FAIL_ENOMEM, int, -1, poll, (struct pollfd * v, nfds_t n, int timeout),
     (v, n, timeout))
CALL(FAIL_ENOMEM, int, -1, epoll_create1, (int flags), (flags))
CALL(FAIL_ENOMEM, int, -1, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *e),
     (epoll, op, fd, e))
CALL(FAIL_EINTR, int, -1, epoll_wait, (int fd, struct epoll_event *e, int n, int timeout),
     (fd, e, n, timeout))
CALL(FAIL_EINTR, int, -1, epoll_pwait,
     (int fd, struct epoll_event *e, int n, int timeout, const sigset_t *set),
     (fd, e, n, timeout, set))
CALL(FAIL_ENOMEM, int, -1, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
CALL(FAIL_ENOMEM, int, -1, pipe2, (int ends[2], int flags), (ends, flags))
CALL(FAIL_ENOMEM, int, -1, dup, (int fd), (fd))
CALL(FAIL_EINTR, ssize_t, -1, getrandom, (void *data, size_t n, unsigned flags), (data, n, flags))
CALL(FAIL_ENOMEM, void *, MAP_FAILED, mmap,
     (void *at, size_t n, int protection, int flags, int fd, off_t from),
     (at, n, protection, flags, fd, from))
CALL(FAIL_ENOMEM, void *, MAP_FAILED, mmap64,
     (void *at, size_t n, int protection, int flags, int fd, off64_t from),
     (at, n, protection, flags, fd, from))
CALL(FAIL_ENOMEM, int, -1, mprotect, (void *at, size_t n, int protection), (at, n, protection))
CALL(FAIL_ENOMEM, int, -1, fstat, (int fd, struct stat *ret), (fd, ret))
CALL(FAIL_ENOMEM, int, -1, statx,
     (int folder, const char *path, int flags, unsigned mask, struct statx *ret),
     (folder, path, flags, mask, ret))
CALL(FAIL_ENOMEM | FAIL_EIO, int, -1, stat, (const char *path, struct stat *ret), (path, ret))
CALL(FAIL_EINTR | FAIL_EIO | FAIL_ENOMEM, FILE *, NULL, fopen, (const char *path, const char *mode),
     (path, mode))
CALL(FAIL_ENOMEM, int, errno, posix_spawn,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]),
     (pid, path, actions, attributes, argv, environment))
CALL(FAIL_ENOMEM, int, errno, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
     (thread, attributes, run, argument))

static mode_t mode_argument(int flags, va_list args)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

EXPORT int open(const char *path, int flags, ...)
{
	static int (*next)(const char *, int, ...);
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_argument(flags, args);
	va_end(args);
	if (call_fails(FAIL_EINTR | FAIL_EIO | FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	return next(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	static int (*next)(const char *, int, ...);
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_argument(flags, args);
	va_end(args);
	if (call_fails(FAIL_EINTR | FAIL_EIO | FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
	return next(path, flags, mode);
}

EXPORT int fcntl(int fd, int command, ...)
{
	static int (*next)(int, int, ...);
	va_list args;
	void *argument;

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	if (call_fails(FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
	return next(fd, command, argument);
}

EXPORT int fcntl64(int fd, int command, ...)
{
	static int (*next)(int, int, ...);
	va_list args;
	void *argument;

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	if (call_fails(FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl64");
	return next(fd, command, argument);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, ...);
	va_list args;
	void *argument;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	if (call_fails(FAIL_EINTR | FAIL_EIO | FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return next(fd, request, argument);
}

EXPORT long syscall(long number, ...)
{
	static long (*next)(long, ...);
	va_list args;
	long a[6];

	va_start(args, number);
	for (size_t i = 0; i < 6; i++) {
		a[i] = va_arg(args, long);
	}
	va_end(args);
	/* futex() has no such errors, and glibc's own locks do not come by here. */
	if (number != SYS_futex && call_fails(FAIL_ENOMEM, CALLER)) {
		return -1;
	}
	next = next ? next : (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A worker of the daemon takes its name by this call. */
EXPORT int prctl(int option, ...)
{
	static int (*next)(int, ...);
	unsigned long a[4];
	va_list args;

	va_start(args, option);
	for (size_t i = 0; i < 4; i++) {
		a[i] = va_arg(args, unsigned long);
	}
	va_end(args);
	if (option == PR_SET_NAME) {
		set_kind((const char *)a[0]);
	}
	next = next ? next : (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
	return next(option, a[0], a[1], a[2], a[3]);
}
