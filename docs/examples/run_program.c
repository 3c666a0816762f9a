/* SPDX-License-Identifier: Apache-2.0 */

/* Starts a program within a capture and tells, when it has ended, how many bytes its kernels read.
 * The program may use no CUDA at all: then no process ever joins, and the capture ends as well.
 *
 *	cc run_program.c -o run_program -lgpuctr && ./run_program python3 net.py
 *
 * The exit status is the program's, 127 when there is none, or 125 when it was not to begin. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpuctr/gpuctr.h>

struct running {
	int ready, done;
	unsigned processes;
	unsigned long kernels;
	double bytes;
};

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	((struct running *)userdata)->ready = 1; /* the GPUs are ours: the program may begin */
}

static void on_process(struct gpuctr_capture *c, const struct gpuctr_process *p, void *userdata)
{
	struct running *run = userdata;

	run->processes = p->process > run->processes ? p->process : run->processes;
}

static void on_record(struct gpuctr_capture *c, const struct gpuctr_record *r, void *userdata)
{
	struct running *run = userdata;

	run->kernels++;
	run->bytes += r->values[0];
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	((struct running *)userdata)->done = 1;
	if (end->error.code) {
		fprintf(stderr, "%s. %s\n", end->error.message, end->error.remedy);
	}
}

/* The variables make the program, and what it starts, part of the capture. */
static pid_t start(struct gpuctr_capture *c, char **argv)
{
	const char *const *added = gpuctr_capture_environment(c, NULL);
	pid_t pid = added ? fork() : -1;

	if (pid == 0) {
		while (*added) {
			putenv((char *)*added++);
		}
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	return pid;
}

static int status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int main(int argc, char **argv)
{
	const char *const metrics[] = { "dram__bytes_read.sum" };
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);
	struct gpuctr_capture_handler handler = GPUCTR_INIT(gpuctr_capture_handler);
	struct gpuctr_capture *capture = NULL;
	struct running run = { 0 };
	struct gpuctr *g;
	int status = 125, wait_status, r = gpuctr_connect(NULL, "run_program", &g);
	pid_t pid = 0;

	handler.on_ready = on_ready;
	handler.on_process = on_process;
	handler.on_record = on_record;
	handler.on_end = on_end;
	options.metrics = metrics;
	options.n_metrics = 1;
	options.program = argc > 1 ? argv[1] : "";
	if (r == 0 && argc > 1) {
		r = gpuctr_capture_open(g, &options, &handler, &run, &capture);
	}
	while (r == 0 && capture && !run.done) {
		r = gpuctr_dispatch(g, 100);
		if (run.ready && !run.done && pid == 0) {
			pid = start(capture, argv + 1);
			if (pid < 0) {
				break; /* gpuctr_disconnect() ends the capture */
			}
		} else if (pid > 0 && waitpid(pid, &wait_status, WNOHANG) == pid) {
			status = status_of(wait_status);
			pid = -1;
			if (!run.done) {
				gpuctr_capture_close(capture); /* on_end follows */
			}
		}
	}
	if (r != 0 && gpuctr_last_error(g)->code) {
		fprintf(stderr, "%s. %s\n", gpuctr_last_error(g)->message,
			gpuctr_last_error(g)->remedy);
	}
	gpuctr_disconnect(g);
	/* Whatever becomes of the capture, the program goes on, and is waited for. */
	if (pid > 0 && waitpid(pid, &wait_status, 0) == pid) {
		status = status_of(wait_status);
	}
	if (status != 125 && run.processes == 0) {
		printf("it never used CUDA\n");
	} else if (status != 125) {
		printf("%lu kernels read %.3g bytes\n", run.kernels, run.bytes);
	}
	return status;
}
