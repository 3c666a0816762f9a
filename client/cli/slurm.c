/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is a client on each node, told to begin at one
 * time of the clock. A name may stand for several jobs, the components of a heterogeneous one or
 * the tasks of an array: each has a step of its own, and all of them begin together.
 *
 * Each client writes lines to its standard output, which srun brings here: a row for each process
 * (ranks.h), what its clock says (clocks.h), and each file,
 *
 *	file	NODE	INODE	SIZE	TIME	PATH
 *
 * which stays on its node when the nodes share no folder with this machine. srun runs in a process
 * group of its own: a Ctrl-C ends the measuring by SIGUSR1, which srun passes on, and a second one
 * ends srun. If gpuctr-client is killed, the kernel sends srun that SIGUSR1. */

#include "client/cli/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/say.h"
#include "client/cli/signals.h"
#include "client/cli/slurm_internal.h"
#include "client/cli/text.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"

/* Seconds after which every node's client should have opened its capture; large jobs get more,
 * because their steps start more slowly. */
enum { AHEAD_S = 3, NODES_PER_S = 100 };

enum { LINE_BYTES = 64 << 10 }; /* a line that does not end is taken as it is */

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
	const char *end = job + strspn(job, "0123456789_.+");

	return isdigit((unsigned char)*job) &&
	       (*end == '\0' ||
		(end[-1] == '.' && (strcmp(end, "batch") == 0 || strcmp(end, "interactive") == 0 ||
				    strcmp(end, "extern") == 0)));
}

bool slurm_is_meant(const struct run_options *o)
{
	return o->selector.jobs.n == 1 && !o->here && is_name(o->selector.jobs.items[0]) &&
	       is_there("srun") && is_there("squeue");
}

/* --- the step beside it ---------------------------------------------------------------------- */

static void add_srun(struct words *w, const struct job *job)
{
	static const char *const options[] = {
		"--ntasks-per-node=1", "--cpus-per-task=1",    "--gres=none", "--mpi=none",
		"--input=none",	       "--kill-on-bad-exit=0", "--wait=0",    "--quiet"
	};

	snprintf(w->text[1], sizeof(w->text[1]), "--nodes=%u", job->nodes);
	snprintf(w->text[2], sizeof(w->text[2]), "--ntasks=%u", job->nodes);
	slurm_add_word(w, "srun");
	slurm_add_target(w, job);
	slurm_add_word(w, "--overlap");
	slurm_add_word(w, w->text[1]);
	slurm_add_word(w, w->text[2]);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		slurm_add_word(w, options[i]);
	}
}

/* This executable, and one time at which all clients begin to measure the job or the named step. */
static void add_client(struct words *w, const struct gathering *g, const struct job *job)
{
	const char *step = strchr(g->options->selector.jobs.items[0], '.');
	uint64_t asked_ns = g->clocks.asked_ns;
	uint64_t at_ns = asked_ns + (AHEAD_S + g->jobs->nodes / NODES_PER_S) * UINT64_C(1000000000);

	step = step ? step : "";
	snprintf(w->text[3], sizeof(w->text[3]), "%s%.24s", job->id, step);
	/* Tasks of a component name the id of the job's first component. */
	if (strchr(job->name, '+')) {
		snprintf(w->text[3], sizeof(w->text[3]), "%s%.24s,%.*s%.24s", job->id, step,
			 (int)strcspn(job->name, "+"), job->name, step);
	}
	snprintf(w->text[4], sizeof(w->text[4]), "%.6f", (double)at_ns / 1e9);
	snprintf(w->text[5], sizeof(w->text[5]), "%.6f", (double)asked_ns / 1e9);
	for (size_t i = 0; i < 9; i++) {
		slurm_add_word(w, (const char *[]){ w->client, "capture", "--here", "--part",
						    w->text[3], "--at", w->text[4], "--sent",
						    w->text[5] }[i]);
	}
}

/* Makes the command line: srun, this executable, and the user's options. Free with free(); the
 * strings belong to w and argv. */
static char **make_command(struct words *w, const struct gathering *g, const struct job *job,
			   int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", w->client, sizeof(w->client) - 1);
	char **command = calloc((size_t)argc + SLURM_WORDS, sizeof(*command));

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

/* False: the reason was reported. */
static bool start_all(struct gathering *g, int argc, char **argv)
{
	for (size_t i = 0; i < g->jobs->n; i++) {
		struct words words = { .n = 0 };
		struct job *job = &g->jobs->items[i];
		char **command = make_command(&words, g, job, argc, argv);
		int r = command ? slurm_start(command, &job->srun) : ENOMEM;

		free(command);
		if (r != 0) {
			say_usage("srun: %s", strerror(r));
			return false;
		}
	}
	return true;
}

/* --- what comes back ------------------------------------------------------------------------- */

/* A file as the node that wrote it describes it. */
struct written_file {
	uintmax_t inode;
	intmax_t size, time_s;
	long time_ns;
};

/* A node may name anything: a device, or a pipe, which does something when it is opened, is not
 * opened. -1: it is no regular file. */
static int open_regular(const char *path)
{
	CLEAN_FD int place = open(path, O_PATH | O_CLOEXEC);
	char link[64];
	struct stat st;

	if (place < 0 || fstat(place, &st) < 0 || !S_ISREG(st.st_mode)) {
		return -1;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
	return open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Opens the file, because NFS may show an old state of one that is not open. */
static bool is_here(const char *path, const struct written_file *file)
{
	int fd = open_regular(path);
	struct stat st;
	bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == file->inode &&
		    st.st_size == file->size && st.st_mtim.tv_sec == file->time_s &&
		    st.st_mtim.tv_nsec == file->time_ns;

	if (fd >= 0) {
		close(fd);
	}
	return same;
}

/* If the node shares the folder with this machine, its file is here. */
static void take_file(const char *line)
{
	struct written_file file;
	char node[256], path[PATH_MAX];

	if (sscanf(line, "file\t%255[^\t]\t%ju\t%jd\t%jd.%ld\t%4095[^\n]", node, &file.inode,
		   &file.size, &file.time_s, &file.time_ns, path) != 6 ||
	    is_here(path, &file)) {
		return;
	}
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		say("%s is another file here: the one of %s stays there", path, node);
	} else {
		say("%s is on %s, which shares no such folder with this machine", path, node);
	}
}

static void take_line(struct gathering *g, const char *line)
{
	if (!ranks_read(&g->ranks, line) && !clocks_read(&g->clocks, line, clock_wall_ns())) {
		take_file(line);
	}
}

/* Messages of srun and of the nodes' clients are printed for the user, and repeated if they are the
 * cause why nothing was measured. */
static void take_message(struct gathering *g, const char *line)
{
	CLEAN_BUF struct buf b = { 0 };

	text_terminal(&b, line);
	slurm_causes_note(&g->causes, buf_string(&b));
	buf_char(&b, '\n');
	say_text(&b);
}

typedef void (*take_fn)(struct gathering *g, const char *line);

static void take_lines(struct gathering *g, struct slurm_output *out, take_fn take)
{
	struct buf *b = &out->b;
	char *end, *at;

	slurm_read(out);
	for (at = b->data; b->n > 0 && (end = memchr(at, '\n', b->n - (size_t)(at - b->data)));
	     at = end + 1) {
		*end = '\0';
		take(g, at);
	}
	if (b->n > 0) {
		b->n -= (size_t)(at - b->data);
		memmove(b->data, at, b->n);
	}
	if (b->n > 0 && (out->fd < 0 || b->n >= LINE_BYTES)) {
		take(g, buf_string(b));
		buf_clear(b);
	}
}

static void interrupt(const struct jobs *jobs, unsigned times)
{
	if (times == 1) {
		say("ending the capture on all nodes (Ctrl-C again gives up)");
	}
	for (size_t i = 0; i < jobs->n; i++) {
		if (jobs->items[i].srun.pid > 0) {
			kill(jobs->items[i].srun.pid, times == 1 ? SIGUSR1 : SIGTERM);
		}
	}
}

/* Reads both outputs of each step. Returns the number of steps that have not ended. */
static size_t watch(const struct jobs *jobs, struct pollfd *p)
{
	size_t n = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		const struct slurm_program *srun = &jobs->items[i].srun;

		p[2 * i] = (struct pollfd){ .fd = srun->out.fd, .events = POLLIN };
		p[2 * i + 1] = (struct pollfd){ .fd = srun->errors.fd, .events = POLLIN };
		n += (size_t)(srun->out.fd >= 0) + (size_t)(srun->errors.fd >= 0);
	}
	return n;
}

static void take_all(struct gathering *g, const struct pollfd *p)
{
	for (size_t i = 0; i < g->jobs->n; i++) {
		struct slurm_program *srun = &g->jobs->items[i].srun;

		if (p[2 * i].revents != 0) {
			take_lines(g, &srun->out, take_line);
		}
		if (p[2 * i + 1].revents != 0) {
			take_lines(g, &srun->errors, take_message);
		}
	}
}

static void gather_lines(struct gathering *g, struct signals *signals)
{
	struct pollfd p[2 * SLURM_JOBS_MAX + 1];
	struct signal_event event;
	unsigned interrupts = 0;
	size_t n = 2 * g->jobs->n;

	while (watch(g->jobs, p) > 0) {
		p[n] = (struct pollfd){ .fd = signals->fd, .events = POLLIN };
		if (poll(p, n + 1, -1) < 0) {
			continue;
		}
		while ((p[n].revents & POLLIN) != 0 && signals_next(signals, &event)) {
			if (event.signo != SIGCHLD) {
				interrupt(g->jobs, ++interrupts);
			}
		}
		take_all(g, p);
	}
}

/* EXIT_UNMEASURED is the least bad. */
static bool is_worse(int status, int than)
{
	return than == EXIT_UNMEASURED	   ? status != 0 && status != EXIT_UNMEASURED
	       : status == EXIT_UNMEASURED ? than == 0
					   : status > than;
}

/* The worst of them; srun's is the worst of its nodes. */
static int wait_steps(const struct jobs *jobs)
{
	int worst = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		pid_t pid = jobs->items[i].srun.pid;
		int status = pid > 0 ? slurm_wait_status(pid) : 127;

		worst = is_worse(status, worst) ? status : worst;
	}
	return worst;
}

static void say_nothing(struct gathering *g, int srun_status)
{
	CLEAN_BUF struct buf b = { 0 };

	clocks_print(&g->clocks, &b);
	if (g->causes.n > 0) {
		buf_text(&b, "gpuctr: nothing was measured on any node, because:\n");
		slurm_causes_add(&g->causes, &b);
	} else {
		buf_printf(&b,
			   "gpuctr: nothing was measured on any node, and none says why (srun's "
			   "status: %d); --here, on a node of the job, tries it there\n",
			   srun_status);
	}
	say_text(&b);
}

/* What did not begin on a node is told; what failed there is as on one node. */
static int conclude(struct gathering *g, int srun_status)
{
	CLEAN_BUF struct buf b = { 0 };

	if (g->ranks.n == 0) {
		say_nothing(g, srun_status);
		return srun_status == 0 ? EXIT_UNMEASURED : EXIT_REFUSED;
	}
	if (!g->options->quiet) {
		ranks_print(&g->ranks, 0, &b);
	}
	if (!g->options->quiet) {
		clocks_print(&g->clocks, &b);
	}
	say_text(&b);
	if (srun_status == EXIT_UNMEASURED) {
		say("not all nodes took part: their messages are above");
	} else if (srun_status != 0) {
		say("not all nodes were measured as asked, or their files are not whole (srun's "
		    "status: %d): messages are above",
		    srun_status);
		return EXIT_REFUSED;
	}
	return g->options->fail_if_none && ranks_measured(&g->ranks) == 0 ? EXIT_UNMEASURED : 0;
}

static void gathering_deinit(struct gathering *g)
{
	for (size_t i = 0; i < g->jobs->n; i++) {
		slurm_program_deinit(&g->jobs->items[i].srun);
	}
	ranks_deinit(&g->ranks);
	clocks_deinit(&g->clocks);
}

/* The exit status. */
static int capture_jobs(const struct run_options *o, struct jobs *jobs, int argc, char **argv)
{
	struct gathering g = { .options = o, .jobs = jobs, .clocks.asked_ns = clock_wall_ns() };
	static const struct child none;
	struct signals signals;
	int status = EXIT_REFUSED;

	signals_open(&signals, &none);
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
	enum slurm_found found;
	char number[64];

	*ret_status = EXIT_REFUSED;
	slurm_job_part(name, number, sizeof(number));
	found = slurm_find_jobs(number, &jobs);
	if (found == SLURM_NO_JOB) {
		say("Slurm has no job %s in its queue: it has ended, or is not Slurm's; looking "
		    "for its processes on this node",
		    number);
		return false;
	}
	if (found == SLURM_NO_ANSWER) {
		return false; /* a machine may have squeue and belong to no cluster */
	}
	if (slurm_keep_running(name, &jobs) && slurm_check_output(o, &jobs)) {
		*ret_status = capture_jobs(o, &jobs, argc, argv);
	}
	return true;
}
