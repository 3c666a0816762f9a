/* SPDX-License-Identifier: Apache-2.0 */
/* A program that takes no account of what libraries have open, or of who it was.
 *
 * fakerude ACTION...
 *
 * Launches a kernel each half millisecond until SIGTERM. At each SIGUSR1 it does its next action
 * and says "did ACTION":
 *
 *     sockets    closes all sockets that are not its own, then opens its own at their numbers
 *     all        the same with all descriptors from 3 on
 *     fork       forks a child without exec, which closes all and opens its own
 *     orphan     forks a daemon that leaves its session, keeps all descriptors and lives on until
 *                the file "orphan" is gone from $GPUCTR_FAKE_DIR
 *     spawn      starts a program by vfork() and one by posix_spawn(), which close all
 *     user N     becomes user N, for good
 *     root PATH  changes its root to PATH, or stays
 *     nofile     may open no descriptor any more
 *     defaults   signals act as they do by default, and none is blocked
 *
 * In each of its own sockets waits one word. At the end it prints "done FILES TOUCHED": how many it
 * has, and how many were closed, read, or written to by somebody else; it exits with 7. A child
 * that finds one touched makes it say "touched in a child". */

#include <cuda.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OWN_MAX = 1200, NUMBER_MAX = 700, THREADS = 128, STATUS = 7 };

static struct {
	int fd;
	ino_t file;
} own[OWN_MAX];
static size_t n_own;
static volatile sig_atomic_t asked, ended;
static char **action;

static void check(const char *what, CUresult r)
{
	if (r != CUDA_SUCCESS) {
		printf("%s: %d\n", what, (int)r);
	}
}

static void on_signal(int number)
{
	if (number == SIGTERM) {
		ended = 1;
	} else {
		asked++;
	}
}

/* --- its own files --- */

static void keep(int fd)
{
	struct stat st;

	if (n_own < OWN_MAX && fstat(fd, &st) == 0) {
		own[n_own].fd = fd;
		own[n_own++].file = st.st_ino;
	}
}

/* Pairs, until no number is free below NUMBER_MAX. */
static void open_own(void)
{
	int pair[2] = { 0, 0 };

	while (pair[1] < NUMBER_MAX && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
		for (int i = 0; i < 2; i++) {
			keep(pair[i]);
			if (write(pair[i], "mine", 4) != 4) {
				perror("write");
			}
		}
	}
}

static bool is_own(int fd)
{
	for (size_t i = 0; i < n_own; i++) {
		if (own[i].fd == fd) {
			return true;
		}
	}
	return false;
}

static bool is_there(size_t i)
{
	struct stat st;

	return fstat(own[i].fd, &st) == 0 && st.st_ino == own[i].file;
}

static size_t count_touched(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_own; i++) {
		char text[16];

		n += !is_there(i) || recv(own[i].fd, text, sizeof(text), MSG_DONTWAIT) != 4 ||
		     memcmp(text, "mine", 4) != 0;
	}
	return n;
}

/* --- actions --- */

static void close_sockets(void)
{
	for (int fd = 3; fd < 2048; fd++) {
		struct stat st;

		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && !is_own(fd)) {
			close(fd);
		}
	}
	open_own();
}

static void close_all(unsigned from)
{
	n_own = 0;
	syscall(SYS_close_range, from, ~0u, 0);
	open_own();
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
}

/* In a child. The agent's threads are not there, and nothing may be touched. */
static int live_apart(void)
{
	for (size_t i = 0; i < n_own; i++) {
		if (!is_there(i)) {
			return 1;
		}
	}
	close_all(0);
	for (int i = 0; i < 200; i++) {
		nap();
	}
	return count_touched() == 0 ? 0 : 1;
}

static void wait_for(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (status != 0) {
		printf("touched in a child\n");
	}
}

static void fork_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		exit(live_apart()); /* with exit handlers, as after multiprocessing's fork */
	}
	wait_for(pid);
}

static void live_as_daemon(const char *path)
{
	setsid();
	if (fork() != 0) {
		_exit(0);
	}
	while (access(path, F_OK) == 0) {
		nap();
	}
	_exit(0);
}

static void fork_orphan(void)
{
	char path[512];
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "%s/orphan", getenv("GPUCTR_FAKE_DIR"));
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0) {
		close(fd);
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		live_as_daemon(path);
	}
	wait_for(pid);
}

/* In the child of vfork() the memory is ours. */
static void spawn(void)
{
	static char *const argv[] = { (char *)"true", NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	fflush(stdout);
	pid = vfork();
	if (pid == 0) {
		syscall(SYS_close_range, 3, ~0u, 0);
		execv("/bin/true", argv);
		_exit(127);
	}
	wait_for(pid);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	if (posix_spawn(&pid, "/bin/true", &actions, NULL, argv, argv + 1) == 0) {
		wait_for(pid);
	}
	posix_spawn_file_actions_destroy(&actions);
}

static void become(const char *number)
{
	uid_t uid = (uid_t)strtoul(number, NULL, 10);

	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0) {
		perror("setresuid");
	}
}

static void use_up_descriptors(void)
{
	int next = dup(0);
	struct rlimit none = { (rlim_t)next, (rlim_t)next };

	close(next);
	if (next < 0 || setrlimit(RLIMIT_NOFILE, &none) < 0) {
		perror("setrlimit");
	}
}

static void take_defaults(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 1; i < SIGRTMIN; i++) {
		if (i != SIGUSR1 && i != SIGTERM && i != SIGKILL && i != SIGSTOP) {
			signal(i, SIG_DFL);
		}
	}
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void act(void)
{
	const char *what = *action++;

	if (!what) {
		action--;
		return;
	}
	if (strcmp(what, "sockets") == 0) {
		close_sockets();
	} else if (strcmp(what, "all") == 0) {
		close_all(3);
	} else if (strcmp(what, "fork") == 0) {
		fork_child();
	} else if (strcmp(what, "orphan") == 0) {
		fork_orphan();
	} else if (strcmp(what, "spawn") == 0) {
		spawn();
	} else if (strcmp(what, "user") == 0) {
		become(*action++);
	} else if (strcmp(what, "root") == 0) {
		if (chroot(*action++) < 0 || chdir("/") < 0) {
			perror("chroot");
		}
	} else if (strcmp(what, "nofile") == 0) {
		use_up_descriptors();
	} else if (strcmp(what, "defaults") == 0) {
		take_defaults();
	}
	printf("did %s\n", what);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	CUfunction f;
	int done = 0;

	(void)argc;
	action = argv + 1;
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	check("cuInit", cuInit(0));
	check("cuCtxCreate", cuCtxCreate(&context, NULL, 0, 0));
	check("cuModuleLoadData", cuModuleLoadData(&module, "rude"));
	check("cuModuleGetFunction", cuModuleGetFunction(&f, module, "_Z4rudePf"));
	printf("ready\n");
	fflush(stdout);
	for (unsigned i = 0; !ended; i++) {
		check("cuLaunchKernel",
		      cuLaunchKernel(f, i % 97 + 1, 1, 1, THREADS, 1, 1, 0, NULL, NULL, NULL));
		nap();
		if (done < asked) {
			done++;
			act();
		}
	}
	printf("done %zu %zu\n", n_own, count_touched());
	return STATUS;
}
