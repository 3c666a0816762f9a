/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is a client on each node, told to begin at one
 * time of the clock. A name may stand for several jobs, the components of a heterogeneous one or
 *the tasks of an array: each has a step of its own, and all of them begin together.
 *
 * Each client writes lines to its standard output, which srun brings here: a row for each process
 * (ranks.h), what its clock says (clocks.h), and each file,
 *
 *	file	NODE	INODE	SIZE	TIME	PATH
 *
 * which is fetched through Slurm as well when it is not the one that is there where we are. srun
 * runs in a process group of its own: a Ctrl-C ends the measuring by SIGUSR1, which srun passes on,
 * and a second one ends srun. When we are killed, the kernel sends it that SIGUSR1. */

#include "client/cli/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/buf.h"
#include "client/cli/child.h"
#include "client/cli/clocks.h"
#include "client/cli/expand.h"
#include "client/cli/ranks.h"
#include "client/cli/say.h"

/* Until every node's client has asked its daemon; a large job's step starts slower. */
enum { AHEAD_S = 3, NODES_PER_S = 100, WORDS = 26, LINE_MAX_BYTES = 16384, JOBS_MAX = 64 };

struct job {
	char id[32], name[64], state[32], reason[128]; /* name: as Slurm shows it, 12_3 or 5+1 */
	unsigned nodes;

	/* The step beside it. */
	pid_t srun;
	int fd;	      /* its output; -1: there is none, or it has ended */
	struct buf b; /* of a line that is not whole */
};

/* Those that a name stands for. */
struct jobs {
	struct job items[JOBS_MAX];
	size_t n;
	unsigned nodes;
	bool more; /* than there is room for */
};

struct brought {
	const struct job *job;
	char *node, *path;
	uintmax_t inode;
	intmax_t size, time_s;
	long time_ns;
};

struct gathering {
	const struct run_options *options;
	struct jobs *jobs;
	struct ranks ranks;
	struct clocks clocks;
	struct brought *files;
	size_t n_files;
};

static bool is_there(const char *program)
{
	int error;
	char *path = child_find(program, &error);

	free(path);
	return path != NULL;
}

/* As Slurm writes jobs and steps: JOB, JOB.STEP, JOB_TASK, JOB+COMPONENT. */
static bool is_name(const char *job)
{
	return isdigit((unsigned char)*job) && job[strspn(job, "0123456789_.+")] == '\0';
}

bool slurm_is_meant(const struct run_options *o)
{
	return o->selector.jobs.n == 1 && !o->here && is_name(o->selector.jobs.items[0]) &&
	       is_there("srun") && is_there("squeue");
}

/* --- command lines -----------------------------------------------------------------------------
 */

struct words {
	char *items[WORDS];
	size_t n;
	char text[7][96];
	char client[PATH_MAX];
};

static void add_word(struct words *w, const char *word)
{
	w->items[w->n++] = (char *)word;
}

/* srun reaches a component of a heterogeneous job, which has an id of its own, by the job's first
 * one. */
static void add_place(struct words *w, const struct job *job)
{
	const char *plus = strchr(job->name, '+');

	snprintf(w->text[0], sizeof(w->text[0]), "--jobid=%.*s",
		 plus ? (int)(plus - job->name) : (int)sizeof(job->id), plus ? job->name : job->id);
	add_word(w, w->text[0]);
	if (plus) {
		snprintf(w->text[6], sizeof(w->text[6]), "--het-group=%s", plus + 1);
		add_word(w, w->text[6]);
	}
}

/* --- programs of Slurm -------------------------------------------------------------------------
 */

/* Between fork and exec. A parent that has ended meanwhile sends no signal. */
static void become_step(char *const *argv, pid_t parent, int output)
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

/* The step of a job, which ends with us. 0 or an errno. */
static int start_step(char *const *argv, struct job *job)
{
	pid_t parent = getpid();
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		return errno;
	}
	job->srun = fork();
	r = errno;
	if (job->srun == 0) {
		become_step(argv, parent, fds[1]);
	}
	close(fds[1]);
	if (job->srun < 0) {
		close(fds[0]);
		return r;
	}
	job->fd = fds[0];
	return 0;
}

/* With its standard output in *ret_fd. 0 or an errno. */
static int start(char *const *argv, pid_t *ret_pid, int *ret_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0) {
		return errno;
	}
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	r = posix_spawnp(ret_pid, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r != 0) {
		close(fds[0]);
		return r;
	}
	*ret_fd = fds[0];
	return 0;
}

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

/* What a short command prints. Its exit status, or 127. */
static int ask(char *const *argv, struct buf *ret)
{
	ssize_t n = 1;
	pid_t pid;
	int fd;

	if (start(argv, &pid, &fd) != 0) {
		return 127;
	}
	while (n > 0 && buf_reserve(ret, 4096)) {
		n = read(fd, ret->data + ret->n, 4096);
		ret->n += n > 0 ? (size_t)n : 0;
		n = n < 0 && errno == EINTR ? 1 : n;
	}
	close(fd);
	return wait_status(pid);
}

/* --- the jobs ----------------------------------------------------------------------------------
 */

static void job_part(const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s", (int)strcspn(name, "."), name);
}

/* For one component of a heterogeneous job squeue lists all of them. */
static void take_job(struct jobs *jobs, const char *name, const char *line)
{
	struct job job = { .fd = -1 };

	if (sscanf(line, "%31[0-9]|%63[^|]|%31[^|]|%u|%127[^\n]", job.id, job.name, job.state,
		   &job.nodes, job.reason) < 4 ||
	    (strchr(name, '+') && strcmp(name, job.name) != 0)) {
		return;
	}
	if (jobs->n == JOBS_MAX) {
		jobs->more = true;
		return;
	}
	jobs->items[jobs->n++] = job;
}

/* false: Slurm knows none, which it has said. */
static bool find_jobs(const char *name, struct jobs *ret)
{
	char *argv[] = { (char *)"squeue",
			 (char *)"-h",
			 (char *)"-r",
			 (char *)"-j",
			 (char *)name,
			 (char *)"-o",
			 (char *)"%A|%i|%T|%D|%r",
			 NULL };
	struct buf b = { 0 };
	bool found = ask(argv, &b) == 0;

	for (const char *p = buf_string(&b); *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : "") {
		take_job(ret, name, p);
	}
	buf_deinit(&b);
	return found && ret->n > 0;
}

/* Those that run now are kept, the others are told. false: there are none. */
static bool keep_running(const char *name, struct jobs *jobs)
{
	char message[384];
	size_t n = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		const struct job *job = &jobs->items[i];

		if (strcmp(job->state, "RUNNING") == 0 && job->nodes > 0) {
			jobs->nodes += job->nodes;
			jobs->items[n++] = *job;
			continue;
		}
		snprintf(message, sizeof(message), "job %s is %s (%s): it has no processes now",
			 job->name, job->state, job->reason);
		if (jobs->n > 1) {
			say("%s", message);
		} else {
			say_error("none", message, "Ask again while it runs.");
		}
	}
	if (n == 0 && jobs->n > 1) {
		snprintf(message, sizeof(message), "none of the %zu jobs of %s runs", jobs->n,
			 name);
		say_error("none", message, "Ask again while one does.");
	}
	jobs->n = n;
	return n > 0;
}

/* What one client keeps apart by itself several cannot: each writes to a file of its own. false:
 * told what to do. */
static bool check_output(const struct run_options *o, const struct jobs *jobs)
{
	const char *path = o->capture_path;

	if (jobs->more) {
		say_usage("%s stands for more than %d jobs; name one of them",
			  o->selector.jobs.items[0], JOBS_MAX);
		return false;
	}
	if (o->stream_path) {
		say_usage(
			"--format: a stream is of one node; use -o and `gpuctr-client export`, or "
			"--here on a node");
		return false;
	}
	if (path && jobs->nodes > 1 && !expand_has(path, "hntrp")) {
		say_usage(
			"-o %s: %u nodes would write one file; put %%h, %%n, %%t, %%r or %%p into "
			"its name",
			path, jobs->nodes);
		return false;
	}
	if (path && jobs->n > 1 && !expand_has(path, "jJp")) {
		say_usage("-o %s: %zu jobs would write one file; put %%j or %%J into its name",
			  path, jobs->n);
		return false;
	}
	return true;
}

/* --- the step beside it ------------------------------------------------------------------------
 */

static void add_srun(struct words *w, const struct job *job)
{
	snprintf(w->text[1], sizeof(w->text[1]), "--nodes=%u", job->nodes);
	snprintf(w->text[2], sizeof(w->text[2]), "--ntasks=%u", job->nodes);
	add_word(w, "srun");
	add_place(w, job);
	add_word(w, "--overlap");
	add_word(w, w->text[1]);
	add_word(w, w->text[2]);
	add_word(w, "--ntasks-per-node=1");
	add_word(w, "--cpus-per-task=1");
	add_word(w, "--gres=none");
	add_word(w, "--mpi=none");
	add_word(w, "--input=none");
	add_word(w, "--kill-on-bad-exit=0");
	add_word(w, "--wait=0");
	add_word(w, "--quiet");
}

/* Our own file, for this job and its step, if one was named, at one time for all. */
static void add_client(struct words *w, const struct gathering *g, const struct job *job)
{
	const char *step = strchr(g->options->selector.jobs.items[0], '.');
	uint64_t asked_ns = g->clocks.asked_ns;
	uint64_t at_ns = asked_ns + (AHEAD_S + g->jobs->nodes / NODES_PER_S) * UINT64_C(1000000000);

	step = step ? step : "";
	snprintf(w->text[3], sizeof(w->text[3]), "%s%.24s", job->id, step);
	/* Tasks of a component say the id of the job's first one. */
	if (strchr(job->name, '+')) {
		snprintf(w->text[3], sizeof(w->text[3]), "%s%.24s,%.*s%.24s", job->id, step,
			 (int)strcspn(job->name, "+"), job->name, step);
	}
	snprintf(w->text[4], sizeof(w->text[4]), "%.6f", (double)at_ns / 1e9);
	snprintf(w->text[5], sizeof(w->text[5]), "%.6f", (double)asked_ns / 1e9);
	add_word(w, w->client);
	add_word(w, "capture");
	add_word(w, "--here");
	add_word(w, "--part");
	add_word(w, w->text[3]);
	add_word(w, "--at");
	add_word(w, w->text[4]);
	add_word(w, "--sent");
	add_word(w, w->text[5]);
}

/* srun, our own file, and the options that we were given. free(); the strings are w's and argv's.
 */
static char **make_command(struct words *w, const struct gathering *g, const struct job *job,
			   int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", w->client, sizeof(w->client) - 1);
	char **command = calloc((size_t)argc + WORDS, sizeof(*command));

	if (n <= 0 || !command) {
		free(command);
		return NULL;
	}
	add_srun(w, job);
	add_client(w, g, job);
	memcpy(command, w->items, w->n * sizeof(*command));
	memcpy(command + w->n, argv + 1, (size_t)(argc - 1) * sizeof(*command));
	return command;
}

/* false: told why. */
static bool start_all(struct gathering *g, int argc, char **argv)
{
	for (size_t i = 0; i < g->jobs->n; i++) {
		struct words words = { .n = 0 };
		char **command = make_command(&words, g, &g->jobs->items[i], argc, argv);
		int r = command ? start_step(command, &g->jobs->items[i]) : ENOMEM;

		free(command);
		if (r != 0) {
			say_usage("srun: %s", strerror(r));
			return false;
		}
	}
	return true;
}

/* --- what comes back ---------------------------------------------------------------------------
 */

static void take_file(struct gathering *g, const struct job *job, const char *line)
{
	struct brought file = { .job = job };
	struct brought *files = realloc(g->files, (g->n_files + 1) * sizeof(*files));
	char node[256], path[PATH_MAX];

	g->files = files ? files : g->files;
	if (!files || sscanf(line, "file\t%255[^\t]\t%ju\t%jd\t%jd.%ld\t%4095[^\n]", node,
			     &file.inode, &file.size, &file.time_s, &file.time_ns, path) != 6) {
		return;
	}
	file.node = strdup(node);
	file.path = strdup(path);
	if (file.node && file.path) {
		files[g->n_files++] = file;
	}
}

static void take_line(struct gathering *g, const struct job *job, const char *line)
{
	if (!ranks_read(&g->ranks, line) && !clocks_read(&g->clocks, line, clocks_now_ns())) {
		take_file(g, job, line);
	}
}

static void take_output(struct gathering *g, struct job *job)
{
	struct buf *b = &job->b;
	char *end, *at;
	ssize_t n =
		buf_reserve(b, LINE_MAX_BYTES) ? read(job->fd, b->data + b->n, LINE_MAX_BYTES) : 0;

	if (n <= 0) {
		if (n == 0 || errno != EINTR) {
			close(job->fd);
			job->fd = -1;
		}
		return;
	}
	b->n += (size_t)n;
	for (at = b->data; (end = memchr(at, '\n', b->n - (size_t)(at - b->data))); at = end + 1) {
		*end = '\0';
		take_line(g, job, at);
	}
	b->n -= (size_t)(at - b->data);
	memmove(b->data, at, b->n);
}

static void interrupt(const struct jobs *jobs, unsigned times)
{
	if (times == 1) {
		say("ending the capture on all nodes (Ctrl-C again gives up)");
	}
	for (size_t i = 0; i < jobs->n; i++) {
		if (jobs->items[i].srun > 0) {
			kill(jobs->items[i].srun, times == 1 ? SIGUSR1 : SIGTERM);
		}
	}
}

/* Those whose output has not ended. */
static size_t watch(const struct jobs *jobs, struct pollfd *p)
{
	size_t n = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		p[i] = (struct pollfd){ .fd = jobs->items[i].fd, .events = POLLIN };
		n += jobs->items[i].fd >= 0;
	}
	return n;
}

static void gather_lines(struct gathering *g, struct signals *signals)
{
	struct pollfd p[JOBS_MAX + 1];
	struct signal_event event;
	unsigned interrupts = 0;

	while (watch(g->jobs, p) > 0) {
		p[g->jobs->n] = (struct pollfd){ .fd = signals->fd, .events = POLLIN };
		if (poll(p, g->jobs->n + 1, -1) < 0) {
			continue;
		}
		while ((p[g->jobs->n].revents & POLLIN) != 0 && signals_next(signals, &event)) {
			if (event.signo != SIGCHLD) {
				interrupt(g->jobs, ++interrupts);
			}
		}
		for (size_t i = 0; i < g->jobs->n; i++) {
			if (p[i].revents != 0) {
				take_output(g, &g->jobs->items[i]);
			}
		}
	}
}

/* The worst of them. */
static int wait_steps(const struct jobs *jobs)
{
	int worst = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		int status = jobs->items[i].srun > 0 ? wait_status(jobs->items[i].srun) : 127;

		worst = status > worst ? status : worst;
	}
	return worst;
}

/* --- files -------------------------------------------------------------------------------------
 */

/* Of a file system that the nodes share with us. It is opened, because NFS knows no better before.
 * What is there and another file is not replaced. */
static bool is_same(const struct brought *file)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == file->inode &&
		    st.st_size == file->size && st.st_mtim.tv_sec == file->time_s &&
		    st.st_mtim.tv_nsec == file->time_ns;

	if (fd >= 0) {
		close(fd);
	}
	return same;
}

static bool copy(int from, int to)
{
	char block[65536];
	bool whole = true;
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0) {
		whole &= write(to, block, (size_t)n) == n;
	}
	return whole && n == 0;
}

/* By a step that writes the file to its standard output. */
static bool fetch_into(const struct brought *file, int out)
{
	struct words w = { .n = 0 };
	bool whole;
	pid_t pid;
	int fd;

	add_word(&w, "srun");
	add_place(&w, file->job);
	snprintf(w.text[1], sizeof(w.text[1]), "--nodelist=%s", file->node);
	add_word(&w, w.text[1]);
	add_word(&w, "--overlap");
	add_word(&w, "--nodes=1");
	add_word(&w, "--ntasks=1");
	add_word(&w, "--gres=none");
	add_word(&w, "--mpi=none");
	add_word(&w, "--input=none");
	add_word(&w, "--quiet");
	add_word(&w, "cat");
	add_word(&w, file->path);
	add_word(&w, NULL);
	if (start(w.items, &pid, &fd) != 0) {
		return false;
	}
	whole = copy(fd, out);
	close(fd);
	return wait_status(pid) == 0 && whole && fsync(out) == 0;
}

static bool fetch(const struct brought *file)
{
	char part[PATH_MAX];
	bool whole;
	int out;

	snprintf(part, sizeof(part), "%.4000s.part", file->path);
	if (expand_make_folders(file->path) < 0) {
		return false;
	}
	out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (out < 0) {
		return false;
	}
	whole = fetch_into(file, out);
	whole = close(out) == 0 && whole;
	whole = whole && rename(part, file->path) == 0;
	if (!whole) {
		unlink(part);
	}
	return whole;
}

static void gather_files(const struct gathering *g)
{
	for (size_t i = 0; i < g->n_files; i++) {
		const struct brought *file = &g->files[i];

		if (is_same(file)) {
			continue;
		}
		if (access(file->path, F_OK) == 0) {
			say("%s is another file here: the one of %s stays there", file->path,
			    file->node);
		} else if (fetch(file)) {
			say("%s: brought from %s", file->path, file->node);
		} else {
			say("%s could not be brought here; it is on %s", file->path, file->node);
		}
	}
}

static int conclude(struct gathering *g, int srun_status)
{
	struct buf b = { 0 };

	if (g->ranks.n == 0) {
		clocks_print(&g->clocks, &b);
		say_text(&b);
		buf_deinit(&b);
		say("nothing was measured on any node");
		return srun_status == 0 ? EXIT_UNMEASURED : EXIT_REFUSED;
	}
	gather_files(g);
	if (!g->options->quiet && !g->options->no_summary) {
		ranks_print(&g->ranks, 0, &b);
	}
	if (!g->options->quiet) {
		clocks_print(&g->clocks, &b);
	}
	say_text(&b);
	buf_deinit(&b);
	if (srun_status != 0) {
		say("not all nodes took part: their messages are above");
	}
	return 0;
}

static void gathering_deinit(struct gathering *g)
{
	for (size_t i = 0; i < g->n_files; i++) {
		free(g->files[i].node);
		free(g->files[i].path);
	}
	free(g->files);
	for (size_t i = 0; i < g->jobs->n; i++) {
		buf_deinit(&g->jobs->items[i].b);
	}
	ranks_deinit(&g->ranks);
	clocks_deinit(&g->clocks);
}

/* The exit status. */
static int capture_jobs(const struct run_options *o, struct jobs *jobs, int argc, char **argv)
{
	struct gathering g = { .options = o, .jobs = jobs, .clocks.asked_ns = clocks_now_ns() };
	struct signals signals;
	int status = EXIT_REFUSED;

	if (signals_open(&signals) < 0) {
		signals.fd = -1;
	}
	if (!start_all(&g, argc, argv)) {
		interrupt(jobs, 2);
		wait_steps(jobs);
	} else {
		gather_lines(&g, &signals);
		status = wait_steps(jobs);
		signals_release(&signals);
		status = conclude(&g, status);
	}
	signals_close(&signals);
	gathering_deinit(&g);
	return status;
}

bool slurm_capture(const struct run_options *o, int argc, char **argv, int *ret_status)
{
	const char *name = o->selector.jobs.items[0];
	struct jobs jobs = { .n = 0 };
	char number[64];

	*ret_status = EXIT_REFUSED;
	job_part(name, number, sizeof(number));
	if (!find_jobs(number, &jobs)) {
		say("Slurm has no job %s in its queue: it has ended, or is not Slurm's; looking "
		    "for "
		    "its processes on this node",
		    number);
		return false;
	}
	if (keep_running(name, &jobs) && check_output(o, &jobs)) {
		*ret_status = capture_jobs(o, &jobs, argc, argv);
	}
	return true;
}
