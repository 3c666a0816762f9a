/* SPDX-License-Identifier: Apache-2.0 */

/* The client selects processes, not the daemon: what a process claims of its job is unchecked, and
 * the user's own process pays for globs. The daemon takes numbers of processes, and checks whose
 * they are. */

#include "client/cli/selector.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"

/* --- options --------------------------------------------------------------------------------- */

static bool take_pids(struct strings *list, const char *name, const char *value)
{
	size_t i = list->n;
	uint64_t pid;

	if (!options_take_list(list, name, value)) {
		return false;
	}
	for (; i < list->n; i++) {
		if (!options_parse_u64(list->items[i], &pid) || pid == 0 || pid > INT32_MAX) {
			return options_refuse(name, list->items[i], "the number of a process");
		}
	}
	return true;
}

bool selector_take_pids(void *s, const char *value)
{
	return take_pids(&((struct selector *)s)->pids, "pid", value);
}

bool selector_take_trees(void *s, const char *value)
{
	return take_pids(&((struct selector *)s)->trees, "tree", value);
}

/* "sha256:" and names are not ids. */
bool selector_take_containers(void *s, const char *value)
{
	return strspn(value, "0123456789abcdef,") == strlen(value)
		       ? options_take_list(&((struct selector *)s)->containers, "container", value)
		       : options_refuse("container", value, "the beginning of a container's id");
}

bool selector_is_empty(const struct selector *s)
{
	return s->pids.n + s->trees.n + s->jobs.n + s->programs.n + s->containers.n == 0 &&
	       !s->user && !s->all;
}

void selector_deinit(struct selector *s)
{
	strings_deinit(&s->pids);
	strings_deinit(&s->trees);
	strings_deinit(&s->jobs);
	strings_deinit(&s->programs);
	strings_deinit(&s->containers);
}

/* --- what a process says --------------------------------------------------------------------- */

static const char *find_claim(const struct gpuctr_registered_process *p, const char *name)
{
	const struct claims claims = { p->claims, p->n_claims };

	return claims_find(&claims, name);
}

static const char *job_claim(const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };

	return claims_job(&claims);
}

void selector_job(const struct gpuctr_registered_process *p, char *text, size_t size)
{
	const char *job = job_claim(p), *step = find_claim(p, "SLURM_STEP_ID");

	snprintf(text, size, "%s%s%s", job ? job : "", job && step ? "." : "",
		 job && step ? step : "");
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

static bool is_job_itself(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *job = job_claim(p);
	char whole[256];

	selector_job(p, whole, sizeof(whole));
	return (job && strcmp(wanted, job) == 0) || (whole[0] && strcmp(wanted, whole) == 0);
}

static bool is_of_job(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *leader = find_claim(p, "SLURM_HET_JOB_ID");

	return is_job_itself(p, wanted) || (leader && strcmp(wanted, leader) == 0) ||
	       is_of_array(p, wanted);
}

/* --- pids ------------------------------------------------------------------------------------ */

/* This is the kernel's number of the machine's own pid namespace. There the pid that the daemon
 * reports counts, and not what the process claims. */
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

/* 0: the process has gone, or another user's is hidden from us. */
static pid_t parent_of(pid_t pid)
{
	struct procstat stat;

	return procstat_read(pid, &stat) ? stat.parent : 0;
}

static bool is_pid(const struct gpuctr_registered_process *p, const char *wanted)
{
	return strtoul(wanted, NULL, 10) == selector_pid(p);
}

static bool is_in_tree(const struct gpuctr_registered_process *p, const char *root)
{
	pid_t wanted = (pid_t)strtoul(root, NULL, 10), pid = (pid_t)selector_pid(p);

	for (unsigned depth = 0; pid > 0 && depth < 256; depth++) {
		if (pid == wanted) {
			return true;
		}
		pid = parent_of(pid);
	}
	return false;
}

static bool is_program(const struct gpuctr_registered_process *p, const char *glob)
{
	return fnmatch(glob, p->program, 0) == 0;
}

static bool is_in_container(const struct gpuctr_registered_process *p, const char *id)
{
	return p->container && strncmp(p->container, id, strlen(id)) == 0;
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

static bool is_users(const struct gpuctr_registered_process *p, const char *user)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", p->uid);
	return !user || strcmp(user, p->user) == 0 || strcmp(user, number) == 0;
}

/* --all selects the user's own processes; another user's need --user, --pid or --tree. */
static bool is_meant(const struct selector *s, const struct gpuctr_registered_process *p)
{
	return !p->foreign || !s->all || s->user || s->pids.n + s->trees.n > 0;
}

bool selector_matches(const struct selector *s, const struct gpuctr_registered_process *p)
{
	return is_one_of(&s->pids, p, is_pid) && is_one_of(&s->trees, p, is_in_tree) &&
	       is_one_of(&s->jobs, p, s->exact ? is_job_itself : is_of_job) &&
	       is_one_of(&s->programs, p, is_program) &&
	       is_one_of(&s->containers, p, is_in_container) && is_users(p, s->user) &&
	       is_meant(s, p);
}
