/* SPDX-License-Identifier: Apache-2.0 */

/* The client selects processes, not the daemon: claims of processes are unchecked, and matching
 * globs costs the user's own time. The daemon takes numbers of processes, and checks who owns the
 * processes. */

#include "client/cli/selector.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/claims.h"

/* --- options --------------------------------------------------------------------------------- */

bool selector_take_pids(void *pids, const char *value)
{
	struct strings *list = pids;
	size_t i = list->n;
	uint64_t pid;

	if (!options_take_list(list, "pid", value)) {
		return false;
	}
	for (; i < list->n; i++) {
		if (!options_parse_u64(list->items[i], &pid) || pid == 0 || pid > INT32_MAX) {
			return options_refuse("pid", list->items[i], "the number of a process");
		}
	}
	return true;
}

bool selector_take_all(void *userdata, const char *value)
{
	struct selector *s = userdata;

	s->all = true;
	s->everybodys = geteuid() == 0;
	return true;
}

bool selector_is_empty(const struct selector *s)
{
	return s->pids.n + s->jobs.n + s->programs.n == 0 && !s->all;
}

void selector_deinit(struct selector *s)
{
	strings_deinit(&s->pids);
	strings_deinit(&s->jobs);
	strings_deinit(&s->programs);
}

/* --- what a process says --------------------------------------------------------------------- */

static const char *find_claim(const struct gpuctr_registered_process *p, const char *name)
{
	const struct claims claims = { p->claims, p->n_claims };

	return claims_find(&claims, name);
}

void selector_job(const struct gpuctr_registered_process *p, char *text, size_t size)
{
	const struct claims claims = { p->claims, p->n_claims };
	const char *step = claims_step(&claims);
	char job[256];

	claims_job_text(&claims, job, sizeof(job));
	snprintf(text, size, "%s%s%s", job, *job && step ? "." : "", *job && step ? step : "");
}

static bool is_of_array(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *job = find_claim(p, "SLURM_ARRAY_JOB_ID"),
		   *task = find_claim(p, "SLURM_ARRAY_TASK_ID");
	size_t n = job ? strlen(job) : 0;

	if (n == 0 || strncmp(wanted, job, n) != 0) {
		return false;
	}
	return wanted[n] == '\0' || (wanted[n] == '_' && task && strcmp(wanted + n + 1, task) == 0);
}

/* Is wanted equal to job, before, what and after in a row? False if what is missing. */
static bool is_job_with(const char *wanted, const char *job, const char *before, const char *what,
			const char *after)
{
	size_t n = strlen(job), b = strlen(before), m = what ? strlen(what) : 0;

	return m > 0 && strncmp(wanted, job, n) == 0 && strncmp(wanted + n, before, b) == 0 &&
	       strncmp(wanted + n + b, what, m) == 0 && strcmp(wanted + n + b + m, after) == 0;
}

/* Is wanted the job's id, id and step (by our name or Slurm's number), or id and element? */
static bool is_job_itself(const struct gpuctr_registered_process *p, const char *wanted)
{
	const struct claims claims = { p->claims, p->n_claims };
	const char *job = claims_job(&claims);

	return job && (strcmp(wanted, job) == 0 ||
		       is_job_with(wanted, job, ".", claims_step(&claims), "") ||
		       is_job_with(wanted, job, ".", claims_find(&claims, "SLURM_STEP_ID"), "") ||
		       is_job_with(wanted, job, "[", claims_element(&claims), "]"));
}

static bool is_of_job(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *leader = find_claim(p, "SLURM_HET_JOB_ID");

	return is_job_itself(p, wanted) || (leader && strcmp(wanted, leader) == 0) ||
	       is_of_array(p, wanted);
}

/* --- pids ------------------------------------------------------------------------------------ */

/* The kernel's number of the machine's own pid namespace. A client there uses the pid that the
 * daemon reports, not the pid that the process claims. */
#define MACHINES_PID_NAMESPACE 4026531836ULL

unsigned selector_pid_in(const struct gpuctr_registered_process *p,
			 unsigned long long own_namespace)
{
	const char *pid = find_claim(p, "PID"), *its = find_claim(p, "PID_NAMESPACE");

	if (own_namespace == 0 || own_namespace == MACHINES_PID_NAMESPACE || !pid || !its ||
	    strtoull(its, NULL, 10) != own_namespace) {
		return p->pid;
	}
	return (unsigned)strtoul(pid, NULL, 10);
}

unsigned selector_pid(const struct gpuctr_registered_process *p)
{
	struct stat st;

	return selector_pid_in(p, stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0);
}

/* --- matching -------------------------------------------------------------------------------- */

static bool is_pid(const struct gpuctr_registered_process *p, const char *wanted)
{
	return strtoul(wanted, NULL, 10) == selector_pid(p);
}

static bool is_program(const struct gpuctr_registered_process *p, const char *glob)
{
	return fnmatch(glob, p->program, 0) == 0;
}

static bool is_one_of(const struct strings *list, const struct gpuctr_registered_process *p,
		      bool (*is)(const struct gpuctr_registered_process *, const char *))
{
	for (size_t i = 0; i < list->n; i++) {
		if (is(p, list->items[i])) {
			return true;
		}
	}
	return list->n == 0;
}

/* --all of an operator selects only the operator's own processes, unless --pid names others. */
static bool is_meant(const struct selector *s, const struct gpuctr_registered_process *p)
{
	return !p->foreign || !s->all || s->everybodys || s->pids.n > 0;
}

bool selector_matches(const struct selector *s, const struct gpuctr_registered_process *p)
{
	return is_one_of(&s->pids, p, is_pid) &&
	       is_one_of(&s->jobs, p, s->exact ? is_job_itself : is_of_job) &&
	       is_one_of(&s->programs, p, is_program) && is_meant(s, p);
}
