/* SPDX-License-Identifier: Apache-2.0 */

/* The measured program, which belongs to the client's process group. signals.c handles signals. */

#include "client/cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/say.h"
#include "proto/base/buf.h"
#include "proto/base/clean.h"

/* --- the program ----------------------------------------------------------------------------- */

static int check_executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		return errno == EACCES ? EACCES : ENOENT;
	}
	if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0) {
		return EACCES;
	}
	return 0;
}

char *child_find(const char *program, int *ret_errno)
{
	const char *path = getenv("PATH");
	char candidate[PATH_MAX];

	*ret_errno = ENOENT;
	if (strchr(program, '/')) {
		*ret_errno = check_executable(program);
		return *ret_errno ? NULL : strdup(program);
	}
	path = path ? path : "/usr/local/bin:/usr/bin:/bin";
	while (*program && path) {
		size_t n = strcspn(path, ":");
		int length = snprintf(candidate, sizeof(candidate), "%.*s/%s", n ? (int)n : 1,
				      n ? path : ".", program);
		int error = length < (int)sizeof(candidate) ? check_executable(candidate) : ENOENT;

		if (error == 0) {
			*ret_errno = ENOMEM;
			return strdup(candidate);
		}
		/* A folder that this user may not search is skipped, as in a shell. */
		if (error == EACCES && access(candidate, F_OK) == 0) {
			*ret_errno = EACCES;
		}
		path = path[n] ? path + n + 1 : NULL;
	}
	return NULL;
}

char *child_find_or_say(const char *program, int *ret_status)
{
	int error;
	char *path = child_find(program, &error);

	if (!path) {
		say_usage("%s: %s", program, error == ENOENT ? "no such program" : strerror(error));
		*ret_status = error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	return path;
}

static bool is_replaced(const char *variable, const char *const *added)
{
	size_t n = strcspn(variable, "=");

	for (; added && *added; added++) {
		if (strncmp(variable, *added, n) == 0 && (*added)[n] == '=') {
			return true;
		}
	}
	return false;
}

/* The strings are borrowed; free the array alone. */
static char **merge_environment(const char *const *added)
{
	size_t n = 0, n_added = 0, at = 0;
	char **merged;

	while (environ[n]) {
		n++;
	}
	while (added && added[n_added]) {
		n_added++;
	}
	merged = calloc(n + n_added + 1, sizeof(char *));
	if (!merged) {
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		if (!is_replaced(environ[i], added)) {
			merged[at++] = environ[i];
		}
	}
	for (size_t i = 0; i < n_added; i++) {
		merged[at++] = (char *)added[i];
	}
	return merged;
}

/* A script without "#!" is run by the shell, as other programs do. */
static int spawn_shell(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
		       const posix_spawnattr_t *attributes, char *const *argv,
		       char *const *environment)
{
	size_t n = 0;
	char **words;
	int error;

	while (argv[n]) {
		n++;
	}
	words = calloc(n + 2, sizeof(char *));
	if (!words) {
		return ENOMEM;
	}
	words[0] = (char *)"/bin/sh";
	words[1] = (char *)path;
	memcpy(words + 2, argv + 1, n * sizeof(char *));
	error = posix_spawn(pid, words[0], files, attributes, words, environment);
	free(words);
	return error;
}

static void set_pid(struct child *c, pid_t pid)
{
	__atomic_store_n(&c->pid, pid, __ATOMIC_RELAXED);
}

static int spawn(struct child *c, const char *path, const posix_spawn_file_actions_t *files,
		 char *const *argv, const char *const *added, const sigset_t *mask)
{
	char **environment = merge_environment(added);
	posix_spawnattr_t attributes;
	pid_t pid = 0;
	int error;

	if (!environment) {
		return -ENOMEM;
	}
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, mask);
	/* A command with pipes ends when the client asks, and not by the terminal's Ctrl-C. */
	posix_spawnattr_setflags(&attributes,
				 POSIX_SPAWN_SETSIGMASK | (files ? POSIX_SPAWN_SETPGROUP : 0));
	error = posix_spawn(&pid, path, files, &attributes, argv, environment);
	if (error == ENOEXEC) {
		error = spawn_shell(&pid, path, files, &attributes, argv, environment);
	}
	posix_spawnattr_destroy(&attributes);
	free(environment);
	set_pid(c, error ? 0 : pid);
	return -error;
}

int child_start(struct child *c, const char *path, char *const *argv, const char *const *added,
		const sigset_t *mask)
{
	return spawn(c, path, NULL, argv, added, mask);
}

int child_start_piped(struct child *c, const char *path, char *const *argv,
		      const char *const *added, const sigset_t *mask, int *ret_input,
		      int *ret_output)
{
	posix_spawn_file_actions_t files;
	int in[2], out[2], r;

	if (pipe2(in, O_CLOEXEC) < 0) {
		return -errno;
	}
	if (pipe2(out, O_CLOEXEC) < 0) {
		r = -errno;
		close(in[0]);
		close(in[1]);
		return r;
	}
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
	r = spawn(c, path, &files, argv, added, mask);
	posix_spawn_file_actions_destroy(&files);
	close(in[0]);
	close(out[1]);
	if (r < 0) {
		close(in[1]);
		close(out[0]);
		return r;
	}
	*ret_input = in[1];
	*ret_output = out[0];
	return 0;
}

bool child_reap(struct child *c)
{
	int status;
	pid_t pid;

	if (c->pid == 0) {
		return false;
	}
	do {
		pid = waitpid(c->pid, &status, WNOHANG);
	} while (pid < 0 && errno == EINTR);
	if (pid == 0) {
		return false;
	}
	/* Whoever started the client ignored SIGCHLD, so the status is lost. */
	c->status = 0;
	if (pid > 0) {
		c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	}
	set_pid(c, 0);
	return true;
}

const char *child_end_text(int status)
{
	static char text[64];

	if (status > 128) {
		snprintf(text, sizeof(text), "signal %d, %s", status - 128,
			 strsignal(status - 128));
	} else {
		snprintf(text, sizeof(text), "status %d", status);
	}
	return text;
}

/* --- other tools ----------------------------------------------------------------------------- */

/* The tool that a variable names, unless that is an agent, as of a client around this one. */
static const char *tool_of(const char *name)
{
	const char *value = getenv(name);
	const char *slash = value ? strrchr(value, '/') : NULL;
	bool ours = value && strcmp(slash ? slash + 1 : value, "libgpuctr-agent.so") == 0;

	return value && *value && !ours ? value : NULL;
}

void child_tell_replaced(const char *const *added)
{
	static const char *const names[] = { "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH" };
	CLEAN_BUF struct buf text = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *tool = is_replaced(names[i], added) ? tool_of(names[i]) : NULL;

		if (tool) {
			buf_printf(&text, "%s%s=%s", n++ > 0 ? " and " : "", names[i], tool);
		}
	}
	if (n > 0) {
		buf_printf(&text, "%s replaced by the agent: this program runs without %s",
			   n > 1 ? " are" : " is", n > 1 ? "these tools" : "that tool");
		say_warning("replaced", buf_string(&text),
			    "CUDA and NVTX load one library each. Use the other tool in a run "
			    "without gpuctr-client, or load it by LD_PRELOAD if it allows that.");
	}
}
