/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/built.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/fixture.h"
#include "tests/system/keeper.h"

/* A clone below a folder of mode 0700, as /root is, is closed to the users that tests become as
 * root. What they execute and load is then copied to a folder that they can reach, once for an
 * executable of tests. The copies lie to one another as in the build folder, because programs find
 * libraries relative to themselves. */

static const char *const names[] = {
	"daemon/gpucountd",
	"daemon/gpucountd-doctor",
	"client/cli/gpuctr-client",
	"client/exporter/gpuctr-exporter",
	"client/agent/libgpuctr-agent.so",
	"client/agent/gpuctr-courier",
	"client/agent/libgpuctr-permit.so",
	"client/agent/python", /* the folder of those below it */
	"client/agent/python/sitecustomize.py",
	"client/agent/python/gpuctr_torch.py",
	"client/sampler/gpuctr-sampler",
	"client/lib/libgpuctr.so.0",
	"client/replay/gpuctr-replay",
	"tests/system/enable",
	"tests/system/graphing",
	"tests/fake", /* the folder of those below it */
	"tests/fake/fakeapp",
	"tests/system/example_job_manager",
	"tests/system/example_run_program",
	"tests/system/example_training",
	"tests/fake/fakeserve",
	"tests/fake/fakewait",
	"tests/fake/fakedelay",
	"tests/fake/fakefields",
	"tests/fake/fakenvtx",
	"tests/fake/fakeactivity",
	"tests/fake/fakeodd",
	"tests/fake/fakerough",
	"tests/fake/fakerude",
	"tests/fake/fakesandbox",
	"tests/fake/fakesmall",
	"tests/fake/fakeprofiler",
	"tests/fake/fakectl",
	"tests/fake/libfakedriver.so",
	"tests/fake/libfakefail.so",
	"tests/fake/libcuda.so.1",
	"tests/fake/libcupti.so.13",
	"tests/fake/libnvidia-ml.so.1",
};

static char paths[ARRAY_SIZE(names)][PATH_MAX];
static char stage[32]; /* "": there are no copies */

const char *built_path(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0) {
			return paths[i];
		}
	}
	fail_msg("%s is not among the files that tests use", name);
	return NULL;
}

static void name_paths(const char *folder)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, names[i]);
	}
}

/* Asked as one of them, because more than the bits of folders decides. */
static bool others_can_reach(const char *path)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (setresgid(USER_ANN, USER_ANN, USER_ANN) < 0 ||
		    setresuid(USER_ANN, USER_ANN, USER_ANN) < 0) {
			_exit(2);
		}
		_exit(access(path, R_OK | X_OK) < 0);
	}
	waitpid(pid, &status, 0);
	return status == 0;
}

static int make_parents(const char *path)
{
	CLEAN_FREE char *folder = strdup(path);

	for (char *p = folder + strlen(stage) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		if (mkdir(folder, 0755) < 0 && errno != EEXIST) {
			return -1;
		}
		*p = '/';
	}
	return 0;
}

/* What was not built, because no test of this run wants it, is left out. */
static int copy_file(const char *from, const char *to)
{
	CLEAN_FD int in = open(from, O_RDONLY | O_CLOEXEC);
	CLEAN_FD int out = -1;
	struct stat st;
	off_t done = 0;

	if (in < 0 || fstat(in, &st) < 0) {
		return errno == ENOENT ? 0 : -1;
	}
	if (S_ISDIR(st.st_mode)) {
		return 0;
	}
	if (make_parents(to) < 0) {
		return -1;
	}
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (out < 0) {
		return -1;
	}
	while (done < st.st_size) {
		if (sendfile(out, in, &done, (size_t)(st.st_size - done)) <= 0) {
			return -1;
		}
	}
	return 0;
}

static int copy_files(const char *build)
{
	snprintf(stage, sizeof(stage), "/tmp/gpuctr-stage.XXXXXX");
	if (!mkdtemp(stage)) {
		stage[0] = '\0';
		return -1;
	}
	keeper_start();
	keeper_note(KEEPER_STAGE, stage);
	umask(022);
	if (chmod(stage, 0755) < 0) {
		return -1;
	}
	name_paths(stage);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char from[PATH_MAX];

		snprintf(from, sizeof(from), "%s/%s", build, names[i]);
		if (copy_file(from, paths[i]) < 0) {
			print_error("%s cannot be copied: %s\n", from, strerror(errno));
			return -1;
		}
	}
	return 0;
}

int built_open(const char *build)
{
	name_paths(build);
	if (geteuid() != 0 || others_can_reach(TEST_DAEMON)) {
		return 0;
	}
	return copy_files(build);
}

void built_close(void)
{
	if (stage[0] != '\0') {
		remove_folder(stage);
	}
	stage[0] = '\0';
	keeper_note(KEEPER_STAGE, NULL);
}

int built_setup(void **state)
{
	(void)state;
	return built_open(TEST_BUILD);
}

int built_teardown(void **state)
{
	(void)state;
	built_close();
	return 0;
}

TEST_GROUP(built_setup, built_teardown)
