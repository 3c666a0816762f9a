/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file of a file system that a user serves (FUSE), for tests of what must not ask such a server.
 *
 * The server answers everything at once and notes whose questions it was asked about the file:
 * nothing on the machine waits, whoever else looks at it meanwhile. One file is served, "file", of
 * which nothing is known for longer than a moment, so that whoever wants to know has to ask.
 *
 * A process of its own mounts it (user_files_run()), where nobody else sees the mount, and the
 * server dies with that process, which ends the connection, whatever ends them. The test would not
 * do: a process that serves its own mount cannot be killed while it waits for itself. */

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER_FILES_NODE = 2, USER_FILES_NONE = 77, USER_FILES_LIMIT_S = 20 };

/* Who asked for attributes of the file. Shared with the server. */
static struct {
	_Atomic size_t n;
	_Atomic uint32_t pids[256];
} * user_files_asked;

static inline size_t user_files_asked_by(pid_t pid)
{
	size_t n = 0, end = user_files_asked->n;

	for (size_t i = 0; i < end && i < 256; i++) {
		n += user_files_asked->pids[i] == (uint32_t)pid;
	}
	return n;
}

static inline void user_files_reply(int fuse, uint64_t unique, int error, const void *data,
				    size_t n)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n), error, unique };
	struct iovec parts[] = { { &h, sizeof(h) }, { (void *)(uintptr_t)data, n } };

	if (writev(fuse, parts, 2) < 0 && errno != ENOENT) { /* who asked has been killed */
		_exit(1);
	}
}

static inline void user_files_tell_attributes(int fuse, const struct fuse_in_header *q)
{
	const struct fuse_attr_out folder = { .attr = { .mode = S_IFDIR | 0555, .nlink = 1 } };
	const struct fuse_attr_out file = {
		.attr = { .ino = USER_FILES_NODE, .mode = S_IFREG | 0444, .nlink = 1 },
	};
	bool is_file = q->nodeid == USER_FILES_NODE;

	if (is_file) {
		size_t i = user_files_asked->n % 256;

		user_files_asked->pids[i] = q->pid;
		user_files_asked->n++;
	}
	user_files_reply(fuse, q->unique, 0, is_file ? &file : &folder, sizeof(file));
}

static inline void user_files_serve(int fuse)
{
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_KERNEL_MINOR_VERSION,
					    .max_write = 4096 };
	const struct fuse_entry_out entry = {
		.nodeid = USER_FILES_NODE,
		.attr = { .ino = USER_FILES_NODE, .mode = S_IFREG | 0444, .nlink = 1 },
	};
	const struct fuse_open_out opened = { .fh = 1 };
	static char bytes[1 << 17];
	const struct fuse_in_header *q = (const struct fuse_in_header *)bytes;

	while (read(fuse, bytes, sizeof(bytes)) >= (ssize_t)sizeof(*q)) {
		if (q->opcode == FUSE_INIT) {
			user_files_reply(fuse, q->unique, 0, &init, sizeof(init));
		} else if (q->opcode == FUSE_LOOKUP) {
			user_files_reply(fuse, q->unique, 0, &entry, sizeof(entry));
		} else if (q->opcode == FUSE_OPEN) {
			user_files_reply(fuse, q->unique, 0, &opened, sizeof(opened));
		} else if (q->opcode == FUSE_GETATTR) {
			user_files_tell_attributes(fuse, q);
		} else if (q->opcode != FUSE_FORGET && q->opcode != FUSE_BATCH_FORGET) {
			user_files_reply(fuse, q->unique, -ENOSYS, NULL, 0);
		}
	}
}

/* Ends with the process that forked it; parent is that one's pid. */
static inline void user_files_end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(USER_FILES_LIMIT_S);
	if (getppid() != parent) {
		_exit(1);
	}
}

/* -1: it cannot be mounted here. The server alone has the other end. */
static inline int user_files_open(const char *folder)
{
	pid_t self = getpid();
	char text[128];
	int fuse, r;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		return -1;
	}
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse,
		 (unsigned)getuid(), (unsigned)getgid());
	r = fuse < 0 ? -1 : mount("none", folder, "fuse", MS_NODEV | MS_NOSUID, text);
	if (r == 0 && fork() == 0) {
		user_files_end_with(self);
		user_files_serve(fuse);
		_exit(0);
	}
	close(fuse);
	snprintf(text, sizeof(text), "%s/file", folder);
	return r < 0 ? -1 : open(text, O_RDONLY | O_CLOEXEC);
}

/* Calls look() with the file in a process of its own and returns its result, from 0 to 76;
 * USER_FILES_NONE: such a file system cannot be mounted here. */
static inline int user_files_run(int (*look)(int fd))
{
	char folder[] = "/tmp/gpuctr-fuse.XXXXXX";
	pid_t self = getpid(), pid;
	int status = -1;

	assert_non_null(mkdtemp(folder));
	user_files_asked = mmap(NULL, sizeof(*user_files_asked), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(user_files_asked, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		int fd;

		user_files_end_with(self);
		fd = user_files_open(folder);
		_exit(fd < 0 ? USER_FILES_NONE : look(fd));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(user_files_asked, sizeof(*user_files_asked));
	rmdir(folder);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
