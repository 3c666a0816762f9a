/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/slurm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/say.h"

enum { PIECE_BYTES = 16384, ANSWER_BYTES = 1 << 20, PATIENCE_MS = 1500 };

/* Programs of Slurm, and their command lines. */

void slurm_add_word(struct words *w, const char *word)
{
	w->items[w->n++] = (char *)word;
}

/* srun reaches a component of a heterogeneous job, which has an id of its own, by the job's first
 * one. */
void slurm_add_target(struct words *w, const struct job *job)
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

/* Runs between fork and exec. The parent is checked because PR_SET_PDEATHSIG sends nothing for one
 * that has ended already. */
static void become_program(char *const *argv, pid_t parent, int output, int errors)
{
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0 &&
	    dup2(errors, STDERR_FILENO) >= 0) {
		execvp(argv[0], argv);
	}
	_exit(127);
}

static void close_both(const int *fds)
{
	close(fds[0]);
	close(fds[1]);
}

int slurm_start(char *const *argv, struct slurm_program *ret)
{
	pid_t parent = getpid(), pid;
	int out[2], errors[2], r;

	if (pipe2(out, O_CLOEXEC) < 0) {
		return errno;
	}
	if (pipe2(errors, O_CLOEXEC) < 0) {
		r = errno;
		close_both(out);
		return r;
	}
	pid = fork();
	r = errno;
	if (pid == 0) {
		become_program(argv, parent, out[1], errors[1]);
	}
	if (pid < 0) {
		close_both(out);
		close_both(errors);
		return r;
	}
	close(out[1]);
	close(errors[1]);
	*ret = (struct slurm_program){ pid, { .fd = out[0] }, { .fd = errors[0] } };
	return 0;
}

static void close_output(struct slurm_output *out)
{
	if (out->fd >= 0) {
		close(out->fd);
		out->fd = -1;
	}
}

void slurm_read(struct slurm_output *out)
{
	ssize_t n = buf_reserve(&out->b, PIECE_BYTES)
			    ? read(out->fd, out->b.data + out->b.n, PIECE_BYTES)
			    : 0;

	if (n > 0) {
		out->b.n += (size_t)n;
	} else if (n == 0 || errno != EINTR) {
		close_output(out);
	}
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

/* Limits the answer of a program that never stops printing. */
static void read_answer(struct slurm_output *out)
{
	slurm_read(out);
	if (out->b.n > ANSWER_BYTES) {
		close_output(out);
	}
}

int slurm_ask(char *const *argv, struct slurm_program *ret)
{
	struct slurm_output *of[2] = { &ret->out, &ret->errors };
	bool told = false;

	if (slurm_start(argv, ret) != 0) {
		return 127;
	}
	while (ret->out.fd >= 0 || ret->errors.fd >= 0) {
		struct pollfd p[2] = { { .fd = ret->out.fd, .events = POLLIN },
				       { .fd = ret->errors.fd, .events = POLLIN } };

		if (poll(p, 2, told ? -1 : PATIENCE_MS) == 0) {
			say("waiting for %s, which has not answered yet (Ctrl-C gives up)",
			    argv[0]);
			told = true;
		}
		for (size_t i = 0; i < 2; i++) {
			if (p[i].fd >= 0 && p[i].revents != 0) {
				read_answer(of[i]);
			}
		}
	}
	return slurm_wait_status(ret->pid);
}

void slurm_program_deinit(struct slurm_program *p)
{
	close_output(&p->out);
	close_output(&p->errors);
	buf_deinit(&p->out.b);
	buf_deinit(&p->errors.b);
}
