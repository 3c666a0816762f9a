/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/slurm_internal.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/expand.h"
#include "client/cli/say.h"

/* What Slurm says of the jobs that a name stands for. */

void slurm_job_part(const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s", (int)strcspn(name, "."), name);
}

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
	struct job job = { .srun = { 0, { .fd = -1 }, { .fd = -1 } } };

	if (sscanf(line, "%31[0-9]|%63[^|]|%31[^|]|%u|%127[^\n]", job.id, job.name, job.state,
		   &job.nodes, job.reason) < 4) {
		return false;
	}
	if (!is_asked_for(&job, name)) {
		return true;
	}
	if (jobs->n == SLURM_JOBS_MAX) {
		jobs->more = true;
	} else {
		jobs->items[jobs->n++] = job;
	}
	return true;
}

/* The first line of a text from another program. */
static void first_line(struct buf *b, char *ret, size_t size)
{
	const char *text = buf_string(b);

	snprintf(ret, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* False: the text has a line that is no job. */
static bool take_jobs(struct jobs *jobs, const char *name, const char *text)
{
	bool whole = true;

	for (const char *p = text; *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : "") {
		whole = take_job(jobs, name, p) && whole;
	}
	return whole;
}

/* What squeue prints for a job that ended a while ago. */
static bool is_unknown_job(struct slurm_program *squeue)
{
	return strstr(buf_string(&squeue->errors.b), "Invalid job id") != NULL;
}

static void report_no_answer(int status, struct slurm_program *squeue)
{
	struct buf *said = squeue->errors.b.n > 0 ? &squeue->errors.b : &squeue->out.b;
	char line[256], message[384];

	first_line(said, line, sizeof(line));
	if (status != 0) {
		snprintf(message, sizeof(message), "squeue failed with status %d%s%s", status,
			 *line ? ": " : "", line);
	} else {
		snprintf(message, sizeof(message), "squeue gives no list of jobs, but: %s", line);
	}
	say_warning("slurm", message,
		    "Ask squeue itself. The job's processes on this node are looked for, as with "
		    "--here.");
}

enum slurm_found slurm_find_jobs(const char *name, struct jobs *ret)
{
	char *argv[] = { (char *)"squeue",
			 (char *)"-h",
			 (char *)"-r",
			 (char *)"-j",
			 (char *)name,
			 (char *)"-o",
			 (char *)"%A|%i|%T|%D|%r",
			 NULL };
	struct slurm_program squeue = { 0, { .fd = -1 }, { .fd = -1 } };
	enum slurm_found found;
	int status = slurm_ask(argv, &squeue);
	bool whole = take_jobs(ret, name, buf_string(&squeue.out.b));

	if (status == 0 && whole) {
		found = ret->n > 0 ? SLURM_FOUND : SLURM_NO_JOB;
	} else if (status != 0 && is_unknown_job(&squeue)) {
		found = SLURM_NO_JOB;
	} else {
		found = SLURM_NO_ANSWER;
		report_no_answer(status, &squeue);
	}
	slurm_program_deinit(&squeue);
	return found;
}

bool slurm_keep_running(const char *name, struct jobs *jobs)
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

bool slurm_check_output(const struct run_options *o, const struct jobs *jobs)
{
	const char *path = o->capture_path;

	if (jobs->more) {
		say_usage("%s stands for more than %d jobs; name one of them",
			  o->selector.jobs.items[0], SLURM_JOBS_MAX);
		return false;
	}
	if (o->stream_path) {
		say_usage(
			"--stream: a stream is of one node; use -o and `gpuctr-client export`, or "
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
