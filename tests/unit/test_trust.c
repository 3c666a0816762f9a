/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/trust.h"

/* A folder of ours in /tmp, where each test makes what it asks about. The user beside root is this
 * one; with root's rights it is another one as well. */

enum { STRANGER = 4321 };

struct place {
	char folder[64];
	char path[128];
	char error[256];
};

static int place_setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	snprintf(p->folder, sizeof(p->folder), "/tmp/test_trust.XXXXXX");
	assert_non_null(mkdtemp(p->folder));
	umask(0);
	*state = p;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *p = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", p->folder);
	assert_int_equal(system(command), 0);
	free(p);
	return 0;
}

static const char *at(struct place *p, const char *name)
{
	snprintf(p->path, sizeof(p->path), "%s/%s", p->folder, name);
	return p->path;
}

static int ask(struct place *p, const char *name)
{
	char real[PATH_MAX];
	int r;

	p->error[0] = '\0';
	r = trust_check_folder(at(p, name), getuid(), real, p->error, sizeof(p->error));
	assert_true((r < 0) == (p->error[0] != '\0'));
	return r;
}

TEST_WITH(folders_of_ours_and_sticky_ones_are_trusted, place_setup, place_teardown)
{
	struct place *p = *state;

	assert_int_equal(ask(p, ""), 0);
	assert_int_equal(mkdir(at(p, "sticky"), 0777), 0);
	assert_int_equal(chmod(p->path, 01777), 0);
	assert_int_equal(mkdir(at(p, "sticky/ours"), 0755), 0);
	assert_int_equal(ask(p, "sticky/ours"), 0);
	assert_int_equal(ask(p, "nothing"), -ENOENT);
}

TEST_WITH(a_folder_that_others_write_is_refused_and_all_below_it, place_setup, place_teardown)
{
	struct place *p = *state;

	assert_int_equal(mkdir(at(p, "open"), 0777), 0);
	assert_int_equal(mkdir(at(p, "open/ours"), 0755), 0);
	assert_int_equal(mkdir(at(p, "group"), 0775), 0);
	assert_int_equal(symlink("open/ours", at(p, "link")), 0);
	assert_int_equal(ask(p, "open"), -EPERM);
	assert_non_null(strstr(p->error, "/open can be written by others"));
	assert_int_equal(ask(p, "open/ours"), -EPERM);
	assert_int_equal(ask(p, "link"), -EPERM);
	assert_int_equal(ask(p, "group"), -EPERM);
}

TEST_WITH(a_folder_of_somebody_else_is_refused, place_setup, place_teardown)
{
	struct place *p = *state;

	if (geteuid() != 0) {
		unit_skip("needs root, to give a folder away");
	}
	assert_int_equal(mkdir(at(p, "theirs"), 0755), 0);
	assert_int_equal(chown(p->path, STRANGER, STRANGER), 0);
	assert_int_equal(mkdir(at(p, "theirs/ours"), 0755), 0);
	assert_int_equal(ask(p, "theirs"), -EPERM);
	assert_non_null(strstr(p->error, "belongs to uid 4321"));
	assert_int_equal(ask(p, "theirs/ours"), -EPERM);
	assert_int_equal(trust_check_folder(p->path, STRANGER, NULL, p->error, sizeof(p->error)),
			 0);
}

static int ask_file(struct place *p, const char *name, mode_t mode, uid_t owner)
{
	int fd = open(at(p, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600), r;

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	if (owner != getuid()) {
		assert_int_equal(fchown(fd, owner, owner), 0);
	}
	r = trust_check_file(fd, p->path, getuid(), p->error, sizeof(p->error));
	close(fd);
	return r;
}

TEST_WITH(a_file_is_refused_when_others_write_it_or_could_replace_it, place_setup, place_teardown)
{
	struct place *p = *state;

	assert_int_equal(ask_file(p, "good", 0644, getuid()), 0);
	assert_int_equal(ask_file(p, "world", 0666, getuid()), -EPERM);
	assert_int_equal(ask_file(p, "sticky", 01666, getuid()), -EPERM);
	assert_int_equal(ask_file(p, "group", 0664, getuid()), -EPERM);
	assert_int_equal(mkdir(at(p, "open"), 0777), 0);
	assert_int_equal(ask_file(p, "open/good", 0644, getuid()), -EPERM);
	if (geteuid() == 0) {
		assert_int_equal(ask_file(p, "theirs", 0644, STRANGER), -EPERM);
	}
}
