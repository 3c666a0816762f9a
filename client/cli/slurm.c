/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is this client on each node, and each writes
 * its files. A name may stand for several jobs, the components of a heterogeneous one or the tasks
 * of an array: each has a step of its own. What the nodes' clients say comes as it is on standard
 * error. * Each node's client writes lines to its standard output, fields with tabs between them:
 *
 *	file	NODE	INODE	PATH
 *	node	NAME	STATUS	KERNELS
 *
 * srun runs in a process group of its own: a Ctrl-C ends the measuring by SIGUSR1, which srun
 * passes on. If gpuctr-client is killed, the kernel sends srun that SIGUSR1. */

#include "client/cli/slurm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/expand.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

enum { JOBS_MAX = 64, PIECE_BYTES = 16384, OUTPUT_BYTES = 16 << 20, PATIENCE_MS = 1500 };

/* A program of Slurm's, and its standard output. */
struct program {
	pid_t pid;
	int fd;
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

/* Until it closes its output. Several are read one after the other: what they write fits into a
 * pipe, or waits. */
static void read_output(const struct program *p, struct buf *ret)
{
	ssize_t n;

	do {
		n = buf_reserve(ret, PIECE_BYTES) && ret->n < OUTPUT_BYTES
			    ? read(p->fd, ret->data + ret->n, PIECE_BYTES)
			    : 0;
		ret->n += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(p->fd);
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
	CLEAN_BUF struct buf out = { 0 };
	struct program squeue;
	const char *said, *wrong = NULL;
	int status = 127;

	if (start(argv, true, &squeue) == 0) {
		struct pollfd answer = { .fd = squeue.fd, .events = POLLIN };

		if (poll(&answer, 1, PATIENCE_MS) == 0) {
			say("waiting for squeue, which has not answered yet (Ctrl-C gives up)");
		}
		read_output(&squeue, &out);
		status = wait_status(squeue.pid);
	}
	said = buf_string(&out);
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

/* --- what becomes of their nodes -------------------------------------------------------------- */

/* The clients on the nodes. */
struct nodes {
	unsigned expected;
	size_t n, begun; /* that have said how they ended; that had something to measure */
	uint64_t kernels;
	struct strings files; /* that are here */
};

void slurm_write_node(int status, uint64_t kernels)
{
	printf("node\t%s\t%d\t%" PRIu64 "\n", expand_node(), status, kernels);
	fflush(stdout);
}

static void take_node(struct nodes *nodes, const char *line)
{
	uint64_t kernels;
	char name[64];
	int status;

	if (sscanf(line, "node\t%63[^\t\n]\t%d\t%" SCNu64, name, &status, &kernels) < 3) {
		return;
	}
	nodes->n++;
	nodes->begun += status != EXIT_UNMEASURED;
	nodes->kernels += kernels;
	if (status != 0) {
		say("%s ended with status %d: its messages are above", name, status);
	}
}

/* If the node shares the folder with this machine, its file is here. A node may name anything: what
 * is no regular file is not opened. (NFS may show an old state of a file: its size is not
 * compared.) */
static void take_file(struct nodes *nodes, const char *line)
{
	char node[64], path[4096];
	uintmax_t inode;
	struct stat st;

	if (sscanf(line, "file\t%63[^\t\n]\t%ju\t%4095[^\n]", node, &inode, path) != 3) {
		return;
	}
	if (lstat(path, &st) < 0) {
		say("%s is on %s, which shares no such folder with this machine", path, node);
	} else if (!S_ISREG(st.st_mode) || st.st_ino != inode) {
		say("%s is another file here: the one of %s stays there", path, node);
	} else {
		strings_add(&nodes->files, path, strlen(path));
	}
}

/* The lines of some nodes; says which have failed. */
static void read_nodes(struct nodes *nodes, const char *text)
{
	for (const char *p = text; *p; p = strchrnul(p, '\n'), p += *p != '\0') {
		take_node(nodes, p);
		take_file(nodes, p);
	}
}

static void report(const struct nodes *nodes, const struct verb *const *verbs)
{
	const struct verb *verb = verb_find(verbs, "report");
	char **argv = calloc(nodes->files.n + 4, sizeof(*argv));
	int argc = 0;

	if (argv && nodes->files.n > 0) {
		argv[argc++] = (char *)"report";
		argv[argc++] = (char *)"--by";
		argv[argc++] = (char *)"host,rank";
		for (size_t i = 0; i < nodes->files.n; i++) {
			argv[argc++] = nodes->files.items[i];
		}
		verb->exec(verbs, argc, argv);
	}
	free(argv);
}

/* Prints the report of the files, and what is missing. status: the worst of srun's. */
static int conclude(struct nodes *nodes, const struct run_options *o,
		    const struct verb *const *verbs, int status)
{
	if (nodes->kernels > 0 && !o->quiet) {
		report(nodes, verbs);
	}
	if (nodes->n < nodes->expected) {
		say("%zu of %u nodes have said nothing at the end: messages are above",
		    nodes->expected - nodes->n, nodes->expected);
	}
	if (nodes->begun == 0) {
		say("nothing was measured on any node (srun's status: %d); --here, on a node of "
		    "the job, tries it there",
		    status);
		return status == 0 ? EXIT_UNMEASURED : EXIT_REFUSED;
	}
	if (status != 0 && status != EXIT_UNMEASURED) {
		say("not all nodes were measured as asked, or their files are not whole (srun's "
		    "status: %d)",
		    status);
		return EXIT_REFUSED;
	}
	if (status == EXIT_UNMEASURED) {
		say("not all nodes took part");
	}
	return o->fail_if_none && nodes->kernels == 0 ? EXIT_UNMEASURED : 0;
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

/* For the handler of signals. */
static struct {
	struct program items[JOBS_MAX];
	size_t n;
} steps;

/* The next one of its kind ends us, and then the kernel tells srun. */
static void on_signal(int signo)
{
	static const char text[] = "gpuctr: ending the capture on all nodes\n";

	(void)signo;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* Nobody reads it. */
	}
	for (size_t i = 0; i < steps.n; i++) {
		kill(steps.items[i].pid, SIGUSR1);
	}
}

static void handle_signals(void)
{
	static const int ending[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };
	struct sigaction old;

	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
			sigaction(ending[i], &action, NULL);
		}
	}
}

/* The worst status of them; srun's is the worst of its nodes. */
static int run_steps(const struct run_options *o, const struct jobs *jobs, int argc, char **argv,
		     struct nodes *nodes)
{
	int worst = 0, r = 0;
	size_t n = 0;

	while (n < jobs->n && r == 0) {
		r = start_step(o, &jobs->items[n], argc, argv, &steps.items[n]);
		n += r == 0;
	}
	steps.n = n;
	if (r) {
		say_usage("srun: %s", strerror(r));
	}
	for (size_t i = 0; r && i < n; i++) {
		kill(steps.items[i].pid, SIGTERM);
	}
	handle_signals();
	for (size_t i = 0; i < n; i++) {
		CLEAN_BUF struct buf out = { 0 };

		read_output(&steps.items[i], &out);
		read_nodes(nodes, buf_string(&out));
	}
	steps.n = 0; /* a pid is nobody's once it was waited for */
	for (size_t i = 0; i < n; i++) {
		int status = wait_status(steps.items[i].pid);

		worst = is_worse(status, worst) ? status : worst;
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
		*ret_status = conclude(&nodes, o, verbs, status);
		strings_deinit(&nodes.files);
	}
	return true;
}
