/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "tests/unit/control_device.h"
#include "tests/unit/user_files.h"

static int setup(void **state)
{
	(void)state;
	memset(control, 0, sizeof(*control));
	return 0;
}

/* Whatever a user may send that is not /dev/nvidiactl is told apart without an ioctl on it. */
TEST_WITH(only_the_control_device_is_one, setup, NULL)
{
	int pair[2], pipes[2], device = control_device_open();
	struct {
		const char *what;
		int fd;
	} others[12];
	size_t n = 0;

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
TEST_WITH(an_o_path_handle_of_it_is_none, setup, NULL)
{
	int device = control_device_open();
	char path[64];
	int handle;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", device);
	handle = open(path, O_PATH);
	assert_true(handle >= 0);
	assert_false(rm_is_control_device(handle));
	close(handle);
	close(device);
}

enum { TAKEN_FOR_THE_DEVICE = 1, ASKED, SHOWS_NOTHING };

static int look(int fd)
{
	size_t before = user_files_asked_by(getpid());
	struct stat st;

	if (rm_is_control_device(fd)) {
		return TAKEN_FOR_THE_DEVICE;
	}
	if (user_files_asked_by(getpid()) != before) {
		return ASKED;
	}
	return fstat(fd, &st) == 0 && user_files_asked_by(getpid()) > before ? 0 : SHOWS_NOTHING;
}

/* Whoever asks its server may wait for ever. */
TEST_WITH(does_not_ask_a_users_file_system, setup, NULL)
{
	int r = user_files_run(look);

	if (r == USER_FILES_NONE) {
		unit_skip("no FUSE file system can be mounted here");
	}
	assert_int_equal(r, 0);
}

TEST_WITH(allocates_from_numbers_alone, setup, NULL)
{
	const struct rm_profiler_parameters p = { 0x11, 0x22 };
	const struct rm_alloc *a = &control->calls[0].alloc;
	uint32_t status = 99, object = 3;

	control->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
	assert_int_equal(rm_alloc_profiler(3, 1, 2, &object, &p, &status), 0);
	assert_int_equal(status, RM_STATUS_INSUFFICIENT_PERMISSIONS);
	assert_int_equal(object, 3);
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

TEST_WITH(tells_the_number_that_the_driver_gave, setup, NULL)
{
	const struct rm_profiler_parameters p = { 1, 1 };
	uint32_t status = 99, object = 0;

	control->made_object = 0xcaf00001;
	assert_int_equal(rm_alloc_profiler(3, 1, 2, &object, &p, &status), 0);
	assert_int_equal(status, RM_STATUS_OK);
	assert_int_equal(object, 0xcaf00001);
}

TEST_WITH(finds_the_gpu_of_a_subdevice, setup, NULL)
{
	struct rm_gpu gpu, wanted = control_device_gpu(3), none = { 0 };
	uint32_t status = 1;

	control->gpu = 3;
	assert_int_equal(rm_find_gpu(0, 1, 2, &gpu, &status), 0);
	assert_int_equal(status, RM_STATUS_OK);
	assert_memory_equal(&gpu, &wanted, sizeof(gpu));
	control->unknown_parent = 2;
	assert_int_equal(rm_find_gpu(0, 1, 2, &gpu, &status), 0);
	assert_int_equal(status, RM_STATUS_OBJECT_NOT_FOUND);
	assert_memory_equal(&gpu, &none, sizeof(gpu));
	control->error = EIO;
	assert_int_equal(rm_find_gpu(0, 1, 2, &gpu, &status), -EIO);
}

TEST_WITH(reads_a_gpus_name, setup, NULL)
{
	static const char *const bad[] = { "",
					   "GPU-",
					   "31adddb4-8ad3-cf7a-c29a-04482d2ed407",
					   "MIG-31adddb4-8ad3-cf7a-c29a-04482d2ed407",
					   "GPU-31adddb4-8ad3-cf7a-c29a-04482d2ed40",
					   "GPU-31adddb4-8ad3-cf7a-c29a-04482d2ed4070",
					   "GPU-31adddb4-8ad3-cf7a-c29a-04482d2ed40g" };
	static const uint8_t wanted[16] = { 0x31, 0xad, 0xdd, 0xb4, 0x8a, 0xd3, 0xcf, 0x7a,
					    0xc2, 0x9a, 0x04, 0x48, 0x2d, 0x2e, 0xd4, 0x07 };
	struct rm_gpu gpu;

	assert_true(rm_gpu_from_text("GPU-31adddb4-8ad3-cf7a-c29a-04482d2ED407", &gpu));
	assert_memory_equal(gpu.uuid, wanted, sizeof(wanted));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_false(rm_gpu_from_text(bad[i], &gpu));
	}
}

TEST_WITH(tells_the_ioctls_failure_from_the_drivers_answer, setup, NULL)
{
	const struct rm_profiler_parameters p = { 1, 1 };
	uint32_t status = 99, object = 3;

	control->error = ENODEV;
	assert_int_equal(rm_alloc_profiler(3, 1, 2, &object, &p, &status), -ENODEV);
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
	control_device_init();
	return unit_run();
}
