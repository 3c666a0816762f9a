/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/unit/control_device.h"

static int setup(void **state)
{
	(void)state;
	memset(control, 0, sizeof(*control));
	return 0;
}

/* Whatever a user may send that is not /dev/nvidiactl is told apart without an ioctl on it. */
static void only_the_control_device_is_one(void **state)
{
	int pair[2], pipes[2], device = control_device_open();
	struct {
		const char *what;
		int fd;
	} others[12];
	size_t n = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(pipes), 0);
	others[n].what = "a file", others[n++].fd = open("/proc/self/status", O_RDONLY);
	others[n].what = "/dev/null", others[n++].fd = open("/dev/null", O_RDWR);
	others[n].what = "/dev/zero", others[n++].fd = open("/dev/zero", O_RDONLY);
	others[n].what = "O_PATH of /dev/null", others[n++].fd = open("/dev/null", O_PATH);
	others[n].what = "a folder", others[n++].fd = open("/", O_RDONLY);
	others[n].what = "a memfd", others[n++].fd = memfd_create("other", 0);
	others[n].what = "a socket", others[n++].fd = pair[0];
	others[n].what = "a pipe", others[n++].fd = pipes[0];
	others[n].what = "an eventfd", others[n++].fd = eventfd(0, 0);
	others[n].what = "an epoll", others[n++].fd = epoll_create1(0);
	others[n].what = "closed", others[n++].fd = 1000;
	others[n].what = "none", others[n++].fd = -1;
	assert_true(rm_is_control_device(device));
	for (size_t i = 0; i < n; i++) {
		if (rm_is_control_device(others[i].fd)) {
			fail_msg("%s was taken for the control device", others[i].what);
		}
		if (i + 2 < n) {
			close(others[i].fd);
		}
	}
	assert_int_equal(control->n, 0);
	close(pair[1]);
	close(pipes[1]);
	close(device);
}

/* statx() of an O_PATH handle shows the device, but nothing was opened. */
static void an_o_path_handle_of_it_is_none(void **state)
{
	int device = control_device_open();
	char path[64];
	int handle;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", device);
	handle = open(path, O_PATH);
	assert_true(handle >= 0);
	assert_false(rm_is_control_device(handle));
	close(handle);
	close(device);
}

/* --- a file system whose owner answers when it likes --- */

enum { FILE_NODE = 2 };

static void fuse_reply(int fuse, uint64_t unique, int error, const void *data, size_t n)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + n), error, unique };
	struct iovec parts[] = { { &h, sizeof(h) }, { (void *)(uintptr_t)data, n } };

	assert_int_equal(writev(fuse, parts, 2), h.len);
}

/* One file, "file", of which nothing is known for longer than a moment. */
static void fuse_serve(int fuse)
{
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_KERNEL_MINOR_VERSION,
					    .max_write = 4096 };
	const struct fuse_entry_out entry = {
		.nodeid = FILE_NODE,
		.attr = { .ino = FILE_NODE, .mode = S_IFREG | 0444, .nlink = 1 },
	};
	const struct fuse_attr_out folder = { .attr = { .mode = S_IFDIR | 0555, .nlink = 1 } };
	const struct fuse_open_out opened = { .fh = 1 };
	static char bytes[1 << 17];
	const struct fuse_in_header *q = (const struct fuse_in_header *)bytes;

	while (read(fuse, bytes, sizeof(bytes)) >= (ssize_t)sizeof(*q)) {
		if (q->opcode == FUSE_INIT) {
			fuse_reply(fuse, q->unique, 0, &init, sizeof(init));
		} else if (q->opcode == FUSE_LOOKUP) {
			fuse_reply(fuse, q->unique, 0, &entry, sizeof(entry));
		} else if (q->opcode == FUSE_OPEN) {
			fuse_reply(fuse, q->unique, 0, &opened, sizeof(opened));
		} else if (q->opcode != FUSE_GETATTR) {
			fuse_reply(fuse, q->unique, -ENOSYS, NULL, 0);
		} else if (q->nodeid != FILE_NODE) {
			fuse_reply(fuse, q->unique, 0, &folder, sizeof(folder));
		}
	}
}

/* A child that opens the file and looks at it has done so within a second; one that has not does
 * not even die before the file system's owner has. */
static bool has_answer(const char *path, bool by_fstat, pid_t *ret_pid)
{
	struct pollfd p = { .events = POLLIN };
	struct stat st;
	int fd, r;

	*ret_pid = fork();
	if (*ret_pid == 0) {
		fd = open(path, O_RDONLY);
		_exit(fd < 0 ? 99 : by_fstat ? fstat(fd, &st) : rm_is_control_device(fd));
	}
	p.fd = (int)syscall(SYS_pidfd_open, *ret_pid, 0);
	r = poll(&p, 1, 1000);
	kill(*ret_pid, SIGKILL);
	close(p.fd);
	return r == 1;
}

/* -1: it cannot be mounted here. The server alone has the other end. */
static pid_t fuse_mount(const char *folder)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[96];
	pid_t pid;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse,
		 (unsigned)getuid(), (unsigned)getgid());
	if (fuse < 0 || mount("none", folder, "fuse", MS_NODEV | MS_NOSUID, options) < 0) {
		close(fuse);
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		fuse_serve(fuse);
		_exit(0);
	}
	close(fuse);
	return pid;
}

static void does_not_wait_for_a_users_file_system(void **state)
{
	char folder[] = "/tmp/gpuctr-fuse.XXXXXX", path[64];
	bool by_fstat, by_us;
	pid_t server, pids[2];
	int status = 0;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/file", folder);
	server = fuse_mount(folder);
	if (server < 0) {
		rmdir(folder);
		skip();
	}
	by_fstat = has_answer(path, true, &pids[0]);
	by_us = has_answer(path, false, &pids[1]);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	waitpid(pids[0], NULL, 0);
	waitpid(pids[1], &status, 0);
	umount2(folder, MNT_DETACH);
	rmdir(folder);
	assert_false(by_fstat); /* else the test shows nothing */
	assert_true(by_us);
	assert_int_equal(status, 0);
}

static void allocates_from_numbers_alone(void **state)
{
	const struct rm_profiler_parameters p = { 0x11, 0x22 };
	const struct rm_alloc *a = &control->calls[0].alloc;
	uint32_t status = 99;

	(void)state;
	control->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
	assert_int_equal(rm_alloc_profiler(3, 1, 2, 3, &p, &status), 0);
	assert_int_equal(status, RM_STATUS_INSUFFICIENT_PERMISSIONS);
	assert_int_equal(control->n, 1);
	assert_int_equal(control->calls[0].request, RM_IOCTL_ALLOC);
	assert_int_equal(a->root, 1);
	assert_int_equal(a->parent, 2);
	assert_int_equal(a->object, 3);
	assert_int_equal(a->object_class, RM_CLASS_PROFILER_DEVICE);
	assert_int_equal(a->rights, 0);
	assert_int_equal(a->flags, 0);
	assert_int_equal(a->padding, 0);
	assert_true(a->parameters != (uintptr_t)&p); /* our own memory */
	assert_int_equal(control->calls[0].parameters.client_target, 0x11);
	assert_int_equal(control->calls[0].parameters.context_target, 0x22);
}

static void tells_the_ioctls_failure_from_the_drivers_answer(void **state)
{
	const struct rm_profiler_parameters p = { 1, 1 };
	uint32_t status = 99;

	(void)state;
	control->error = ENODEV;
	assert_int_equal(rm_alloc_profiler(3, 1, 2, 3, &p, &status), -ENODEV);
	assert_int_equal(rm_free_object(3, 1, 2, 3, &status), -ENODEV);
	assert_int_equal(status, 99);
	control->error = 0;
	control->status = RM_STATUS_OBJECT_NOT_FOUND;
	assert_int_equal(rm_free_object(3, 1, 2, 3, &status), 0);
	assert_int_equal(status, RM_STATUS_OBJECT_NOT_FOUND);
	assert_int_equal(control->calls[2].request, RM_IOCTL_FREE);
	assert_int_equal(control->calls[2].free.object, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_the_control_device_is_one, setup),
		cmocka_unit_test_setup(an_o_path_handle_of_it_is_none, setup),
		cmocka_unit_test_setup(does_not_wait_for_a_users_file_system, setup),
		cmocka_unit_test_setup(allocates_from_numbers_alone, setup),
		cmocka_unit_test_setup(tells_the_ioctls_failure_from_the_drivers_answer, setup),
	};

	control_device_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
