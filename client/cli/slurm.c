/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is a client on each node, told to begin at one
 * time of the clock. Each writes lines to its standard output, which srun brings here: a row for
 * each process (ranks.h), and the name of each file,
 *
 *	file	NODE	PATH
 *
 * which is fetched through Slurm as well when it is not there where we are. srun runs in a process
 * group of its own: a Ctrl-C ends the measuring by SIGUSR1, which srun passes on, and a second one
 * ends srun. */

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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/buf.h"
#include "client/cli/child.h"
#include "client/cli/expand.h"
#include "client/cli/ranks.h"
#include "client/cli/say.h"

/* Until every node's client has asked its daemon; a large job's step starts slower. */
enum { AHEAD_S = 3, NODES_PER_S = 100, WORDS = 24, LINE_MAX_BYTES = 16384 };

struct job {
	char id[32], state[32], reason[128]; /* id: what srun takes, also for a task of an array */
	unsigned nodes;
	unsigned lines; /* that Slurm has for this name */
};

struct gathering {
	const struct run_options *options;
	const struct job *job;
	struct ranks ranks;
	struct strings files; /* NODE, PATH, NODE, PATH, ... */
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

/* --- programs of Slurm -------------------------------------------------------------------------
 */

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

/* --- the job -----------------------------------------------------------------------------------
 */

static void job_part(const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s", (int)strcspn(name, "."), name);
}

/* false: Slurm knows none, which it has said. */
static bool find_job(const char *name, struct job *ret)
{
	char *argv[] = { (char *)"squeue", (char *)"-h",	  (char *)"-j", (char *)name,
			 (char *)"-o",	   (char *)"%A|%T|%D|%r", NULL };
	struct buf b = { 0 };
	const char *text;
	bool found = ask(argv, &b) == 0;

	*ret = (struct job){ 0 };
	text = buf_string(&b);
	for (const char *p = text; *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : "") {
		ret->lines++;
	}
	sscanf(text, "%31[0-9]|%31[^|]|%u|%127[^\n]", ret->id, ret->state, &ret->nodes,
	       ret->reason);
	buf_deinit(&b);
	return found;
}

/* false: told why not. */
static bool check_job(const char *name, const struct job *job)
{
	char message[384];

	if (strcmp(job->state, "RUNNING") == 0 && job->lines == 1 && job->nodes > 0) {
		return true;
	}
	if (job->lines > 1) {
		snprintf(message, sizeof(message), "%s stands for %u jobs", name, job->lines);
		say_error("none", message, "Name one of them, as `squeue --me` lists them.");
	} else {
		snprintf(message, sizeof(message), "job %s is %s (%s): it has no processes now",
			 name, job->state, job->reason);
		say_error("none", message, "Ask again while it runs.");
	}
	return false;
}

/* --- the step beside it ------------------------------------------------------------------------
 */

struct words {
	char *items[WORDS];
	size_t n;
	char text[4][96];
	char client[PATH_MAX];
};

static void add_word(struct words *w, const char *word)
{
	w->items[w->n++] = (char *)word;
}

static void add_srun(struct words *w, const char *job, unsigned nodes)
{
	snprintf(w->text[0], sizeof(w->text[0]), "--jobid=%s", job);
	snprintf(w->text[1], sizeof(w->text[1]), "--nodes=%u", nodes);
	snprintf(w->text[2], sizeof(w->text[2]), "--ntasks=%u", nodes);
	add_word(w, "srun");
	add_word(w, w->text[0]);
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

/* srun, our own file, and the options that we were given. free(); the strings are w's and argv's.
 */
static char **make_command(struct words *w, const struct job *job, int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", w->client, sizeof(w->client) - 1);
	char **command = calloc((size_t)argc + WORDS, sizeof(*command));

	if (n <= 0 || !command) {
		free(command);
		return NULL;
	}
	add_srun(w, job->id, job->nodes);
	add_word(w, w->client);
	add_word(w, "capture");
	add_word(w, "--here");
	add_word(w, "--part");
	add_word(w, "--at");
	snprintf(w->text[3], sizeof(w->text[3]), "%lld",
		 (long long)time(NULL) + AHEAD_S + job->nodes / NODES_PER_S);
	add_word(w, w->text[3]);
	memcpy(command, w->items, w->n * sizeof(*command));
	memcpy(command + w->n, argv + 1, (size_t)(argc - 1) * sizeof(*command));
	return command;
}

/* --- what comes back ---------------------------------------------------------------------------
 */

static void take_line(struct gathering *g, char *line)
{
	char *node, *path;

	if (ranks_read(&g->ranks, line)) {
		return;
	}
	if (strncmp(line, "file\t", 5) != 0) {
		return;
	}
	node = line + 5;
	path = strchr(node, '\t');
	if (path) {
		*path++ = '\0';
		strings_add(&g->files, node, strlen(node));
		strings_add(&g->files, path, strlen(path));
	}
}

/* false: the end. */
static bool take_output(struct gathering *g, int fd, struct buf *b)
{
	char *end, *at;
	ssize_t n;

	if (!buf_reserve(b, LINE_MAX_BYTES)) {
		return false;
	}
	n = read(fd, b->data + b->n, LINE_MAX_BYTES);
	if (n <= 0) {
		return n < 0 && errno == EINTR;
	}
	b->n += (size_t)n;
	for (at = b->data; (end = memchr(at, '\n', b->n - (size_t)(at - b->data))); at = end + 1) {
		*end = '\0';
		take_line(g, at);
	}
	b->n -= (size_t)(at - b->data);
	memmove(b->data, at, b->n);
	return true;
}

static void interrupt(pid_t srun, unsigned times)
{
	if (times == 1) {
		say("ending the capture on all nodes (Ctrl-C again gives up)");
	}
	kill(srun, times == 1 ? SIGUSR1 : SIGTERM);
}

static void gather_lines(struct gathering *g, pid_t srun, int fd)
{
	struct signals signals;
	struct signal_event event;
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .events = POLLIN } };
	struct buf b = { 0 };
	unsigned interrupts = 0;
	bool more = true;

	p[1].fd = signals_open(&signals) == 0 ? signals.fd : -1;
	while (more) {
		if (poll(p, 2, -1) < 0) {
			continue;
		}
		while ((p[1].revents & POLLIN) != 0 && signals_next(&signals, &event)) {
			if (event.signo != SIGCHLD) {
				interrupt(srun, ++interrupts);
			}
		}
		if (p[0].revents != 0) {
			more = take_output(g, fd, &b);
		}
	}
	signals_release(&signals);
	signals_close(&signals);
	buf_deinit(&b);
}

/* --- files -------------------------------------------------------------------------------------
 */

/* Through a step that writes the file to its standard output. */
static bool fetch(const struct gathering *g, const char *node, const char *path)
{
	char where[300], jobid[80];
	char *argv[] = { (char *)"srun",
			 jobid,
			 (char *)"--overlap",
			 (char *)"--nodes=1",
			 (char *)"--ntasks=1",
			 where,
			 (char *)"--gres=none",
			 (char *)"--mpi=none",
			 (char *)"--input=none",
			 (char *)"--quiet",
			 (char *)"cat",
			 (char *)path,
			 NULL };
	char part[PATH_MAX], block[65536];
	int fd, out, status;
	ssize_t n;
	pid_t pid;
	bool whole = expand_make_folders(path) == 0;

	snprintf(jobid, sizeof(jobid), "--jobid=%s", g->job->id);
	snprintf(where, sizeof(where), "--nodelist=%s", node);
	snprintf(part, sizeof(part), "%s.part", path);
	out = whole ? open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
	if (out < 0 || start(argv, &pid, &fd) != 0) {
		return false;
	}
	while ((n = read(fd, block, sizeof(block))) > 0) {
		whole &= write(out, block, (size_t)n) == n;
	}
	close(fd);
	status = wait_status(pid);
	whole &= status == 0 && n == 0 && fsync(out) == 0;
	close(out);
	whole = whole && rename(part, path) == 0;
	if (!whole) {
		unlink(part);
	}
	return whole;
}

static void gather_files(const struct gathering *g)
{
	for (size_t i = 0; i + 1 < g->files.n; i += 2) {
		const char *node = g->files.items[i], *path = g->files.items[i + 1];

		if (access(path, F_OK) == 0) {
			continue; /* a file system that the nodes share with us */
		}
		if (fetch(g, node, path)) {
			say("%s: brought from %s", path, node);
		} else {
			say("%s could not be brought here; it is on %s", path, node);
		}
	}
}

static int conclude(struct gathering *g, int srun_status)
{
	struct buf b = { 0 };

	if (g->ranks.n == 0) {
		say("nothing was measured on any node");
		return srun_status == 0 ? EXIT_UNMEASURED : EXIT_REFUSED;
	}
	gather_files(g);
	if (!g->options->quiet && !g->options->no_summary) {
		ranks_print(&g->ranks, 0, &b);
		say_text(&b);
		buf_deinit(&b);
	}
	if (srun_status != 0) {
		say("not all nodes took part: their messages are above");
	}
	return 0;
}

bool slurm_capture(const struct run_options *o, int argc, char **argv, int *ret_status)
{
	const char *name = o->selector.jobs.items[0];
	struct words words = { .n = 0 };
	char number[64], **command;
	struct job job;
	struct gathering g = { .options = o, .job = &job };
	int fd, r;
	pid_t srun;

	*ret_status = EXIT_REFUSED;
	job_part(name, number, sizeof(number));
	if (!find_job(number, &job) || job.lines == 0) {
		say("Slurm has no job %s in its queue: it has ended, or is not Slurm's; looking "
		    "for "
		    "its processes on this node",
		    number);
		return false;
	}
	if (!check_job(number, &job)) {
		return true;
	}
	command = make_command(&words, &job, argc, argv);
	r = command ? start(command, &srun, &fd) : ENOMEM;
	free(command);
	if (r != 0) {
		say_usage("srun: %s", strerror(r));
		return true;
	}
	gather_lines(&g, srun, fd);
	close(fd);
	*ret_status = conclude(&g, wait_status(srun));
	ranks_deinit(&g.ranks);
	strings_deinit(&g.files);
	return true;
}
