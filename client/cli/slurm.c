/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is this client on each node, and each writes
 * its files. A name may stand for several jobs, the components of a heterogeneous one or the tasks
 * of an array: each has a step of its own. What the nodes' clients say comes as it is on standard
 * error; on standard output srun brings what nodes.c reads.
 *
 * srun runs in a process group of its own: a Ctrl-C ends the measuring by SIGUSR1, which srun
 * passes on. If gpuctr-client is killed, the kernel sends srun that SIGUSR1. */

#include "client/cli/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "client/cli/expand.h"
#include "client/cli/nodes.h"
#include "client/cli/say.h"
#include "client/cli/signals.h"

enum { JOBS_MAX = 64, PIECE_BYTES = 16384, OUTPUT_BYTES = 16 << 20, PATIENCE_MS = 1500 };

/* A program of Slurm's, and what it writes. */
struct program {
	pid_t pid;
	int fd; /* -1: its output has ended */
	struct buf out;
	uv_poll_t poll;
	struct running *running;
};

struct job {
	char id[32], name[64], state[32], reason[128]; /* name: as Slurm shows it, 12_3 or 5+1 */
	unsigned nodes;
};

struct jobs {
	struct job items[JOBS_MAX];
	size_t n;
	unsigned nodes;
	bool more; /* than there is room for */
};

/* --- programs -------------------------------------------------------------------------------- */

/* Between fork and exec. The parent is checked because PR_SET_PDEATHSIG sends nothing for one that
 * has ended already. */
static void become(char *const *argv, pid_t parent, int output, bool with_errors)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0 &&
	    (!with_errors || dup2(output, STDERR_FILENO) >= 0)) {
		execvp(argv[0], argv);
	}
	_exit(127);
}

/* 0 or an errno. */
static int start(char *const *argv, bool with_errors, struct program *ret)
{
	pid_t parent = getpid(), pid;
	int out[2], r;

	if (pipe2(out, O_CLOEXEC) < 0) {
		return errno;
	}
	pid = fork();
	r = errno;
	if (pid == 0) {
		become(argv, parent, out[1], with_errors);
	}
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return r;
	}
	*ret = (struct program){ .pid = pid, .fd = out[0] };
	return 0;
}

/* The exit status, or 128 + the signal. */
static int wait_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			return 127;
		}
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct running {
	struct program *programs;
	size_t n;
	uv_loop_t loop;
	uv_timer_t timer;
	uv_poll_t signal_poll;
	struct signals signals;
	const char *waited_for; /* NULL: a signal ends the programs */
};

static void close_handle(uv_handle_t *handle, void *userdata)
{
	if (!uv_is_closing(handle)) {
		uv_close(handle, NULL);
	}
}

static void on_output(uv_poll_t *handle, int status, int events)
{
	struct program *p = handle->data;
	ssize_t n = buf_reserve(&p->out, PIECE_BYTES) && p->out.n < OUTPUT_BYTES
			    ? read(p->fd, p->out.data + p->out.n, PIECE_BYTES)
			    : 0;
	bool open = false;

	if (n > 0) {
		p->out.n += (size_t)n;
	}
	if (n > 0 || (n < 0 && errno == EINTR)) {
		return;
	}
	uv_poll_stop(handle);
	close(p->fd);
	p->fd = -1;
	for (size_t i = 0; i < p->running->n; i++) {
		open = open || p->running->programs[i].fd >= 0;
	}
	if (!open) {
		uv_walk(&p->running->loop, close_handle, NULL);
	}
}

static void on_patience(uv_timer_t *timer)
{
	const struct running *r = timer->data;

	say("waiting for %s, which has not answered yet (Ctrl-C gives up)", r->waited_for);
}

static void on_signal(uv_poll_t *handle, int status, int events)
{
	struct running *r = handle->data;
	struct signal_event event;

	while (signals_next(&r->signals, &event)) {
		if (event.signo == SIGCHLD) {
			continue;
		}
		signals_release(&r->signals);
		say("ending the capture on all nodes");
		for (size_t i = 0; i < r->n; i++) {
			kill(r->programs[i].pid, SIGUSR1);
		}
	}
}

/* Until all have closed their outputs. */
static void run(struct program *programs, size_t n, const char *waited_for)
{
	static const struct child none;
	struct running r = { .programs = programs, .n = n, .waited_for = waited_for };

	r.signals.fd = -1;
	uv_loop_init(&r.loop);
	for (size_t i = 0; i < n; i++) {
		programs[i].running = &r;
		programs[i].poll.data = &programs[i];
		uv_poll_init(&r.loop, &programs[i].poll, programs[i].fd);
		uv_poll_start(&programs[i].poll, UV_READABLE, on_output);
	}
	if (waited_for) {
		r.timer.data = &r;
		uv_timer_init(&r.loop, &r.timer);
		uv_timer_start(&r.timer, on_patience, PATIENCE_MS, 0);
	} else if (signals_open(&r.signals, &none) == 0) {
		r.signal_poll.data = &r;
		uv_poll_init(&r.loop, &r.signal_poll, r.signals.fd);
		uv_poll_start(&r.signal_poll, UV_READABLE, on_signal);
	}
	uv_run(&r.loop, UV_RUN_DEFAULT);
	uv_loop_close(&r.loop);
	signals_close(&r.signals);
}

/* --- which jobs ------------------------------------------------------------------------------ */

/* squeue lists all components of a heterogeneous job, even if asked for one, which is named as
 * LEADER+OFFSET or by its own id. */
static bool is_asked_for(const struct job *job, const char *name)
{
	size_t leader = strcspn(job->name, "+");

	return job->name[leader] == '\0' || strcmp(name, job->name) == 0 ||
	       strcmp(name, job->id) == 0 ||
	       (strlen(name) == leader && strncmp(name, job->name, leader) == 0);
}

/* False: this line is no job. */
static bool take_job(struct jobs *jobs, const char *name, const char *line)
{
	struct job job;

	if (sscanf(line, "%31[0-9]|%63[^|]|%31[^|]|%u|%127[^\n]", job.id, job.name, job.state,
		   &job.nodes, job.reason) < 4) {
		return false;
	}
	if (is_asked_for(&job, name)) {
		jobs->more = jobs->more || jobs->n == JOBS_MAX;
		if (!jobs->more) {
			jobs->items[jobs->n++] = job;
		}
	}
	return true;
}

/* Slurm has jobs of this name; else why not is told, with what is done instead. */
static bool find_jobs(char *name, struct jobs *ret)
{
	char *argv[] = { (char *)"squeue",
			 (char *)"-h",
			 (char *)"-r",
			 (char *)"-j",
			 name,
			 (char *)"-o",
			 (char *)"%A|%i|%T|%D|%r",
			 NULL };
	struct program squeue = { .fd = -1 };
	const char *said, *wrong = NULL;
	int status = start(argv, true, &squeue) == 0 ? 0 : 127;

	if (status == 0) {
		run(&squeue, 1, "squeue");
		status = wait_status(squeue.pid);
	}
	said = buf_string(&squeue.out);
	for (const char *p = said; *p && !wrong; p = strchrnul(p, '\n'), p += *p != '\0') {
		wrong = take_job(ret, name, p) ? NULL : p;
	}
	if (strstr(said, "Invalid job id") || (status == 0 && !wrong && ret->n == 0)) {
		say("Slurm has no job %s in its queue: it has ended, or is not Slurm's; looking "
		    "for its processes on this node",
		    name);
		ret->n = 0;
	} else if (status != 0 || wrong) {
		CLEAN_BUF struct buf message = { 0 };

		wrong = wrong ? wrong : said;
		if (status != 0) {
			buf_printf(&message, "squeue failed with status %d", status);
		} else {
			buf_text(&message, "squeue gives no list of jobs, but");
		}
		buf_printf(&message, "%s%.*s", *wrong ? ": " : "", (int)strcspn(wrong, "\n"),
			   wrong);
		say_warning("slurm", buf_string(&message),
			    "Ask squeue itself. The job's processes on this node are looked for, "
			    "as with --here.");
		ret->n = 0;
	}
	buf_deinit(&squeue.out);
	return ret->n > 0;
}

/* Keeps the jobs that run now and reports the others. False: none runs. */
static bool keep_running(const char *name, struct jobs *jobs)
{
	size_t n = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		const struct job *job = &jobs->items[i];

		if (strcmp(job->state, "RUNNING") == 0 && job->nodes > 0) {
			jobs->nodes += job->nodes;
			jobs->items[n++] = *job;
		} else {
			say("job %s is %s (%s): it has no processes now", job->name, job->state,
			    job->reason);
		}
	}
	if (n == 0) {
		say_error("none", "no such job runs", "Ask again while one does.");
	}
	jobs->n = n;
	return n > 0;
}

/* Refuses names by which several nodes would write one file. False: the remedy was reported. */
static bool check_output(const struct run_options *o, const struct jobs *jobs)
{
	const char *path = o->capture_path;

	if (jobs->more) {
		say_usage("%s stands for more than %d jobs; name one of them",
			  o->selector.jobs.items[0], JOBS_MAX);
	} else if (o->stream_path) {
		say_usage("--stream: a stream is of one node; use -o and `gpuctr-client export`, "
			  "or --here on a node");
	} else if (!path && jobs->nodes > 1) {
		say_usage("%u nodes: each writes its file, which is then reported: add "
			  "-o run.%%h.gpuctr",
			  jobs->nodes);
	} else if (path && jobs->nodes > 1 && !expand_has(path, "hntrp")) {
		say_usage("-o %s: %u nodes would write one file; put %%h, %%n, %%t, %%r or %%p "
			  "into its name",
			  path, jobs->nodes);
	} else if (path && jobs->n > 1 && !expand_has(path, "jJp")) {
		say_usage("-o %s: %zu jobs would write one file; put %%j or %%J into its name",
			  path, jobs->n);
	} else {
		return true;
	}
	return false;
}

/* As Slurm writes jobs and steps: JOB, JOB.STEP, JOB_TASK, JOB+COMPONENT. */
static bool is_name(const char *job)
{
	const char *end = job + strspn(job, "0123456789_.+");

	return isdigit((unsigned char)*job) &&
	       (*end == '\0' ||
		(end[-1] == '.' && (strcmp(end, "batch") == 0 || strcmp(end, "interactive") == 0 ||
				    strcmp(end, "extern") == 0)));
}

static bool is_there(const char *program)
{
	int error;
	char *path = child_find(program, &error);

	free(path);
	return path != NULL;
}

bool slurm_is_meant(const struct run_options *o)
{
	return o->selector.jobs.n == 1 && !o->here && is_name(o->selector.jobs.items[0]) &&
	       is_there("srun") && is_there("squeue");
}

/* --- the steps beside them ------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(struct strings *words, const char *format,
						      ...)
{
	char text[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	strings_add(words, text, strlen(text));
}

/* srun reaches a component of a heterogeneous job, which has an id of its own, by the job's first
 * one; tasks of a component name that one too. */
static void add_words(struct strings *words, const struct job *job, const char *step)
{
	static const char options[] = "--ntasks-per-node=1,--cpus-per-task=1,--gres=none,"
				      "--mpi=none,--input=none,--kill-on-bad-exit=0,--wait=0,"
				      "--quiet";
	const char *plus = strchr(job->name, '+');
	int leader = (int)strcspn(job->name, "+");
	char client[PATH_MAX] = "";

	if (readlink("/proc/self/exe", client, sizeof(client) - 1) < 0) {
		add(words, "false");
		return;
	}
	add(words, "srun");
	add(words, "--jobid=%.*s", plus ? leader : (int)sizeof(job->id),
	    plus ? job->name : job->id);
	if (plus) {
		add(words, "--het-group=%s", plus + 1);
	}
	add(words, "--overlap");
	add(words, "--nodes=%u", job->nodes);
	add(words, "--ntasks=%u", job->nodes);
	strings_add_list(words, options);
	add(words, "%s", client);
	add(words, "capture");
	if (plus) {
		add(words, "--here=%s%s,%.*s%s", job->id, step, leader, job->name, step);
	} else {
		add(words, "--here=%s%s", job->id, step);
	}
}

static int start_step(const struct run_options *o, const struct job *job, int argc, char **argv,
		      struct program *ret)
{
	const char *step = strchrnul(o->selector.jobs.items[0], '.');
	struct strings words = { 0 };
	int r;

	add_words(&words, job, step);
	for (int i = 1; i < argc; i++) {
		strings_add(&words, argv[i], strlen(argv[i]));
	}
	r = start(words.items, false, ret);
	strings_deinit(&words);
	return r;
}

/* EXIT_UNMEASURED is the least bad. */
static bool is_worse(int status, int than)
{
	return than == EXIT_UNMEASURED	   ? status != 0 && status != EXIT_UNMEASURED
	       : status == EXIT_UNMEASURED ? than == 0
					   : status > than;
}

/* The worst status of them; srun's is the worst of its nodes. */
static int run_steps(const struct run_options *o, const struct jobs *jobs, int argc, char **argv,
		     struct nodes *nodes)
{
	struct program steps[JOBS_MAX] = { { .fd = -1 } };
	size_t n = 0;
	int worst = 0, r = 0;

	while (n < jobs->n && r == 0) {
		r = start_step(o, &jobs->items[n], argc, argv, &steps[n]);
		n += r == 0;
	}
	if (r) {
		say_usage("srun: %s", strerror(r));
	}
	for (size_t i = 0; r && i < n; i++) {
		kill(steps[i].pid, SIGTERM);
	}
	if (n > 0) {
		run(steps, n, NULL);
	}
	for (size_t i = 0; i < n; i++) {
		int status = wait_status(steps[i].pid);

		worst = is_worse(status, worst) ? status : worst;
		nodes_read(nodes, buf_string(&steps[i].out));
		buf_deinit(&steps[i].out);
	}
	return r ? 127 : worst;
}

bool slurm_capture(const struct run_options *o, const struct verb *const *verbs, int argc,
		   char **argv, int *ret_status)
{
	const char *name = o->selector.jobs.items[0];
	struct nodes nodes = { 0 };
	struct jobs jobs = { .n = 0 };
	char number[64];
	int status;

	snprintf(number, sizeof(number), "%.*s", (int)strcspn(name, "."), name);
	if (!find_jobs(number, &jobs)) {
		return false; /* a machine may have squeue and belong to no cluster */
	}
	*ret_status = EXIT_REFUSED;
	if (keep_running(name, &jobs) && check_output(o, &jobs)) {
		nodes.expected = jobs.nodes;
		status = run_steps(o, &jobs, argc, argv, &nodes);
		*ret_status = nodes_conclude(&nodes, o, verbs, status);
		nodes_deinit(&nodes);
	}
	return true;
}
