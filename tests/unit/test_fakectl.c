/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/user_files.h"

/* fakectl looks through the descriptors of every process on the machine, and none of them may make
 * it wait: any of them may be of a file system whose server does not answer. */

enum { FAILED = 1, ASKED, SHOWS_NOTHING };

static const char *fakectl;

static int look(int fd)
{
	pid_t pid = fork();
	struct stat st;
	char path[64];
	int status;

	if (pid == 0) {
		execl(fakectl, fakectl, "objects", NULL);
		_exit(99);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		return FAILED;
	}
	if (user_files_asked_by(pid) > 0) {
		return ASKED;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return stat(path, &st) == 0 && user_files_asked_by(getpid()) > 0 ? 0 : SHOWS_NOTHING;
}

TEST(looks_at_descriptors_without_asking_their_file_system)
{
	char folder[] = "/tmp/gpuctr-fakectl.XXXXXX", path[64];
	int r;

	assert_non_null(mkdtemp(folder));
	setenv("GPUCTR_FAKE_DIR", folder, 1);
	r = user_files_run(look);
	snprintf(path, sizeof(path), "%s/state", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/ioctl.log", folder);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
	if (r == USER_FILES_NONE) {
		unit_skip("no FUSE file system can be mounted here");
	}
	assert_int_equal(r, 0);
}

int main(int argc, char **argv)
{
	assert_int_equal(argc, 2);
	fakectl = argv[1];
	return unit_run();
}
