/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/slurm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/say.h"

/* Programs of Slurm, and their command lines. */

void slurm_add_word(struct words *w, const char *word)
{
	w->items[w->n++] = (char *)word;
}

/* srun reaches a component of a heterogeneous job, which has an id of its own, by the job's first
 * one. */
void slurm_add_place(struct words *w, const struct job *job)
{
	const char *plus = strchr(job->name, '+');

	snprintf(w->text[0], sizeof(w->text[0]), "--jobid=%.*s",
		 plus ? (int)(plus - job->name) : (int)sizeof(job->id), plus ? job->name : job->id);
	slurm_add_word(w, w->text[0]);
	if (plus) {
		snprintf(w->text[6], sizeof(w->text[6]), "--het-group=%s", plus + 1);
		slurm_add_word(w, w->text[6]);
	}
}

/* Between fork and exec. A parent that has ended meanwhile sends no signal. */
static void become_program(char *const *argv, pid_t parent, int output)
{
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0) {
		execvp(argv[0], argv);
	}
	_exit(127);
}

int slurm_start(char *const *argv, pid_t *ret_pid, int *ret_fd)
{
	pid_t parent = getpid(), pid;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		return errno;
	}
	pid = fork();
	r = errno;
	if (pid == 0) {
		become_program(argv, parent, fds[1]);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return r;
	}
	*ret_pid = pid;
	*ret_fd = fds[0];
	return 0;
}

int slurm_wait_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			return 127;
		}
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int slurm_ask(char *const *argv, struct buf *ret)
{
	ssize_t n = 1;
	pid_t pid;
	int fd;

	if (slurm_start(argv, &pid, &fd) != 0) {
		return 127;
	}
	while (n > 0 && buf_reserve(ret, 4096)) {
		n = read(fd, ret->data + ret->n, 4096);
		ret->n += n > 0 ? (size_t)n : 0;
		n = n < 0 && errno == EINTR ? 1 : n;
	}
	close(fd);
	return slurm_wait_status(pid);
}
