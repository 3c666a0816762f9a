/* SPDX-License-Identifier: Apache-2.0 */

/* A job of Slurm has processes on nodes whose daemons do not know each other. Slurm reaches them
 * all: a step beside the job's own (srun --overlap) is this client on each node, and each writes
 * its files. A name may stand for several jobs, the components of a heterogeneous one or the tasks
 * of an array: each has a step of its own. Messages of squeue, srun and the nodes' clients go to
 * standard error. Each node's client writes lines to its standard output, fields with tabs between
 * them:
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
#include <signal.h>
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
#include "client/cli/signals.h"
#include "proto/base/buf.h"
#include "proto/base/clean.h"

enum { JOBS_MAX = 64 };

struct job {
	char id[32], name[64]; /* name: as in Slurm, 12_3 or 5+1 */
	unsigned nodes;
};

/* The jobs that Slurm lists; items: those that run now. */
struct jobs {
	struct job items[JOBS_MAX];
	size_t n, listed;
	unsigned nodes;
};

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

/* Keeps a job that runs now and reports any other. False: the line describes no job. */
static bool take_job(struct jobs *jobs, const char *name, const char *line)
{
	char state[32], reason[128] = "";
	struct job job;

	if (sscanf(line, "%31[0-9]|%63[^|]|%31[^|]|%u|%127[^\n]", job.id, job.name, state,
		   &job.nodes, reason) < 4) {
		return false;
	}
	if (!is_asked_for(&job, name)) {
		return true;
	}
	jobs->listed++;
	if (strcmp(state, "RUNNING") != 0 || job.nodes == 0) {
		say("job %s is %s (%s): it has no processes now", job.name, state, reason);
	} else if (jobs->n < JOBS_MAX) {
		jobs->nodes += job.nodes;
		jobs->items[jobs->n++] = job;
	}
	return true;
}

/* False: Slurm lists no such job; the warning says that the client looks on this node instead.
 * number: digits and "_+", which are harmless in a shell. */
static bool find_jobs(const char *number, struct jobs *ret)
{
	CLEAN_BUF struct buf command = { 0 }, message = { 0 };
	CLEAN_FREE char *line = NULL;
	bool good = true;
	size_t room = 0;
	FILE *squeue;

	buf_printf(&command, "squeue -h -r -j %s -o '%%A|%%i|%%T|%%D|%%r'", number);
	say_status("asking Slurm for the job (Ctrl-C gives up)");
	squeue = popen(buf_string(&command), "re");
	while (squeue && good && getline(&line, &room, squeue) > 0) {
		good = take_job(ret, number, line);
	}
	good = squeue && pclose(squeue) == 0 && good && ret->listed > 0;
	say_clear();
	if (!good) {
		buf_printf(&message, "squeue lists no job %s", number);
		say_warning("slurm", buf_string(&message),
			    "Ask squeue itself. The job's processes on this node are looked for, "
			    "as with --here.");
	}
	return good;
}

/* Refuses names by which several nodes would write one file. False: the reason was reported. */
static bool check_output(const struct run_options *o, const struct jobs *jobs)
{
	const char *path = o->capture_path;

	if (jobs->n == 0) {
		say_error("none", "no such job runs", "Ask again while one does.");
	} else if (jobs->n == JOBS_MAX) {
		say_usage("%s stands for %d jobs or more; name one of them",
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

/* Is this a name of a job or step in Slurm: JOB, JOB.STEP, JOB_TASK, JOB+COMPONENT? */
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
	int error;
	CLEAN_FREE char *srun = child_find("srun", &error);

	return srun && o->selector.jobs.n == 1 && !o->here && is_name(o->selector.jobs.items[0]);
}

/* --- what becomes of their nodes -------------------------------------------------------------- */

/* The clients on the nodes. */
struct nodes {
	unsigned expected;
	size_t n, begun; /* clients that reported their end; those that had something to measure */
	uint64_t kernels;
	struct strings files; /* files that are on this machine */
};

void slurm_write_node(int status, uint64_t kernels)
{
	printf("node\t%s\t%d\t%" PRIu64 "\n", expand_node(), status, kernels);
	fflush(stdout);
}

/* Takes a node's file if the node shares the folder with this machine. A node may name any path, so
 * only a regular file with the right inode is opened. (NFS may show an old state of a file: its
 * size is not compared.) */
static void take_file(struct nodes *nodes, const char *node, uintmax_t inode, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		say("%s is on %s, which shares no such folder with this machine", path, node);
	} else if (!S_ISREG(st.st_mode) || st.st_ino != inode) {
		say("%s is another file here: the one of %s stays there", path, node);
	} else {
		strings_add(&nodes->files, path, strlen(path));
	}
}

static void take_line(struct nodes *nodes, const char *line)
{
	char name[64], path[4096];
	uintmax_t number;
	int status;

	if (sscanf(line, "node\t%63[^\t\n]\t%d\t%ju", name, &status, &number) == 3) {
		nodes->n++;
		nodes->begun += status != EXIT_UNMEASURED;
		nodes->kernels += number;
		if (status != 0) {
			say("%s ended with status %d: its messages are above", name, status);
		}
	} else if (sscanf(line, "file\t%63[^\t\n]\t%ju\t%4095[^\n]", name, &number, path) == 3) {
		take_file(nodes, name, number, path);
	}
}

static void add(struct strings *words, const char *word)
{
	strings_add(words, word, strlen(word));
}

static void report(const struct nodes *nodes, const struct verb *const *verbs)
{
	struct strings words = { 0 };

	strings_add_list(&words, "report,--by");
	add(&words, "host,rank");
	for (size_t i = 0; i < nodes->files.n; i++) {
		add(&words, nodes->files.items[i]);
	}
	verb_find(verbs, "report")->exec(verbs, (int)words.n, words.items);
	strings_deinit(&words);
}

/* Prints the report of the files, and what is missing. status: srun's worst one. */
static int conclude(const struct nodes *nodes, const struct run_options *o,
		    const struct verb *const *verbs, int status)
{
	if (nodes->kernels > 0 && nodes->files.n > 0 && !o->quiet) {
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

/* Global for on_signal(). pid 0: there is no process, because it was reaped or did not start. */
static struct step {
	pid_t pid;
	FILE *output;
} steps[JOBS_MAX];

/* Makes the srun command. A component of a heterogeneous job has an id of its own, but srun reaches
 * it by the leader's id, and its tasks name the leader as well. */
static void add_words(struct strings *words, const struct job *job, const char *step)
{
	const char *plus = strchr(job->name, '+');
	int leader = (int)strcspn(job->name, "+");
	CLEAN_FREE char *client = realpath("/proc/self/exe", NULL);
	CLEAN_BUF struct buf srun = { 0 }, here = { 0 };

	buf_printf(&srun,
		   "srun,--jobid=%.*s,%s%s,--nodes=%u,--ntasks=%u,--ntasks-per-node=1,"
		   "--cpus-per-task=1,--gres=none,--mpi=none,--input=none,--kill-on-bad-exit=0,"
		   "--wait=0,--quiet,--overlap",
		   plus ? leader : (int)sizeof(job->id), plus ? job->name : job->id,
		   plus ? "--het-group=" : "", plus ? plus + 1 : "", job->nodes, job->nodes);
	buf_printf(&here, "--here=%s%s", job->id, step);
	if (plus) {
		buf_printf(&here, ",%.*s%s", leader, job->name, step);
	}
	strings_add_list(words, buf_string(&srun));
	add(words, client ? client : "gpuctr-client");
	add(words, "capture");
	add(words, buf_string(&here));
}

/* The child checks its parent: PR_SET_PDEATHSIG sends nothing if that has already ended. */
static void start(char *const *argv, struct step *ret)
{
	pid_t parent = getpid(), pid;
	int out[2];

	if (pipe2(out, O_CLOEXEC) < 0) {
		say_usage("srun: %s", strerror(errno));
		return;
	}
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGUSR1);
		if (getppid() == parent && dup2(out[1], STDOUT_FILENO) >= 0) {
			execvp(argv[0], argv);
		}
		_exit(127);
	}
	close(out[1]);
	ret->pid = pid < 0 ? 0 : pid;
	ret->output = fdopen(out[0], "r");
}

/* The next signal of the same kind ends the client, and then the kernel sends srun SIGUSR1. */
static void on_signal(int signo)
{
	static const char text[] = "gpuctr: ending the capture on all nodes\n";

	(void)signo;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		/* Nobody reads standard error. */
	}
	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (steps[i].pid > 0) {
			kill(steps[i].pid, SIGUSR1);
		}
	}
}

/* Reads a step's lines, and returns its exit status, or 128 + the signal. Steps are read one after
 * the other: meanwhile the lines of others stay in their pipes, or these steps wait. */
static int finish(struct step *step, struct nodes *nodes)
{
	CLEAN_FREE char *line = NULL;
	pid_t pid = step->pid;
	size_t room = 0;
	int status;

	while (step->output && getline(&line, &room, step->output) > 0) {
		take_line(nodes, line);
	}
	if (step->output) {
		fclose(step->output);
	}
	step->pid = 0; /* once reaped, the pid may belong to another process */
	if (pid == 0 || waitpid(pid, &status, 0) < 0) {
		return 127;
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs srun for all jobs. Returns a status other than 0, if there is one, and EXIT_UNMEASURED only
 * if there is no other. A step's status is the worst of its nodes'. */
static int run_steps(const struct run_options *o, const struct jobs *jobs, int argc, char **argv,
		     struct nodes *nodes)
{
	const struct sigaction action = { .sa_handler = on_signal,
					  .sa_flags = SA_RESETHAND | SA_RESTART };
	const char *step = strchrnul(o->selector.jobs.items[0], '.');
	int worst = 0;

	signals_act(&action);
	for (size_t i = 0; i < jobs->n; i++) {
		struct strings words = { 0 };

		add_words(&words, &jobs->items[i], step);
		for (int k = 1; k < argc; k++) {
			add(&words, argv[k]);
		}
		start(words.items, &steps[i]);
		strings_deinit(&words);
	}
	for (size_t i = 0; i < jobs->n; i++) {
		int status = finish(&steps[i], nodes);

		if (status != 0 && (worst == 0 || worst == EXIT_UNMEASURED)) {
			worst = status;
		}
	}
	return worst;
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
		return false; /* the machine may have squeue but belong to no cluster */
	}
	*ret_status = EXIT_REFUSED;
	if (check_output(o, &jobs)) {
		nodes.expected = jobs.nodes;
		status = run_steps(o, &jobs, argc, argv, &nodes);
		*ret_status = conclude(&nodes, o, verbs, status);
		strings_deinit(&nodes.files);
	}
	return true;
}
