/* SPDX-License-Identifier: Apache-2.0 */

/* Choosing happens here and not in the daemon: what a process says of its job is nobody's knowledge
 * but its own, and globs are the user's to pay for. The daemon takes numbers of processes, and
 * checks whose they are. */

#include "client/cli/select.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "client/cli/text.h"

enum { DESCRIBED_MAX = 4 };

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

const char *select_claim(const struct gpuctr_registered_process *p, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < p->n_claims; i++) {
		if (strncmp(p->claims[i], name, n) == 0 && p->claims[i][n] == '=') {
			return p->claims[i] + n + 1;
		}
	}
	return NULL;
}

static const char *job_claim(const struct gpuctr_registered_process *p)
{
	static const char *const names[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
					     "GPUCTR_JOB" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = select_claim(p, names[i]);

		if (value && *value) {
			return value;
		}
	}
	return NULL;
}

void select_job(const struct gpuctr_registered_process *p, char *text, size_t size)
{
	const char *job = job_claim(p), *step = select_claim(p, "SLURM_STEP_ID");

	snprintf(text, size, "%s%s%s", job ? job : "", job && step ? "." : "",
		 job && step ? step : "");
}

static bool is_of_array(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *job = select_claim(p, "SLURM_ARRAY_JOB_ID"),
		   *task = select_claim(p, "SLURM_ARRAY_TASK_ID");
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

	select_job(p, whole, sizeof(whole));
	return (job && strcmp(wanted, job) == 0) || (whole[0] && strcmp(wanted, whole) == 0);
}

static bool is_of_job(const struct gpuctr_registered_process *p, const char *wanted)
{
	const char *leader = select_claim(p, "SLURM_HET_JOB_ID");

	return is_job_itself(p, wanted) || (leader && strcmp(wanted, leader) == 0) ||
	       is_of_array(p, wanted);
}

/* --- pids ------------------------------------------------------------------------------------ */

/* The kernel gives the machine's own namespace this number. There the daemon's word is the
 * kernel's, and what a process says of itself counts nothing. */
#define MACHINES_PID_NAMESPACE 4026531836ULL

unsigned select_pid_in(const struct gpuctr_registered_process *p, unsigned long long own_namespace)
{
	const char *pid = select_claim(p, "PID"), *its = select_claim(p, "PID_NAMESPACE");

	if (own_namespace == 0 || own_namespace == MACHINES_PID_NAMESPACE || !pid || !its ||
	    strtoull(its, NULL, 10) != own_namespace) {
		return p->pid;
	}
	return (unsigned)strtoul(pid, NULL, 10);
}

unsigned select_pid(const struct gpuctr_registered_process *p)
{
	struct stat st;

	return select_pid_in(p, stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0);
}

/* --- matching -------------------------------------------------------------------------------- */

/* 0: gone, or not ours to see. */
static pid_t parent_of(pid_t pid)
{
	struct procstat stat;

	return procstat_read(pid, &stat) ? stat.parent : 0;
}

static bool is_pid(const struct gpuctr_registered_process *p, const char *wanted)
{
	return strtoul(wanted, NULL, 10) == select_pid(p);
}

static bool is_in_tree(const struct gpuctr_registered_process *p, const char *root)
{
	pid_t wanted = (pid_t)strtoul(root, NULL, 10), pid = (pid_t)select_pid(p);

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

/* "Everything" is of one's own: whoever means another user's says so. */
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

/* --- asking ---------------------------------------------------------------------------------- */

struct asking {
	const struct selector *selector;
	struct selected *selected;
	bool *registered; /* for each of the selector's pids */
	bool done;
	int result;
};

static void describe(struct chosen *c, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };
	const char *rank = claims_rank(&claims);

	*c = (struct chosen){ .pid = p->pid, .own_pid = select_pid(p), .foreign = p->foreign };
	snprintf(c->program, sizeof(c->program), "%s", p->program);
	snprintf(c->rank, sizeof(c->rank), "%s", rank ? rank : "");
}

static void keep(struct asking *a, const struct gpuctr_registered_process *p)
{
	struct selected *s = a->selected;
	unsigned *ids = realloc(s->ids, (s->n + 1) * sizeof(*ids));
	struct chosen *items = realloc(s->items, (s->n + 1) * sizeof(*items));

	s->ids = ids ? ids : s->ids;
	s->items = items ? items : s->items;
	if (!ids || !items) {
		a->result = -ENOMEM;
		return;
	}
	ids[s->n] = p->process;
	describe(&items[s->n++], p);
}

void selected_deinit(struct selected *s)
{
	free(s->ids);
	free(s->items);
	*s = (struct selected){ 0 };
}

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct asking *a = userdata;

	a->selected->registered++;
	for (size_t i = 0; i < a->selector->pids.n; i++) {
		a->registered[i] |= is_pid(p, a->selector->pids.items[i]);
	}
	if (!selector_matches(a->selector, p)) {
		return;
	}
	if (p->capture != 0) {
		a->selected->busy++;
		say("%s (pid %u) is left out: capture %u of %s measures it now", p->program,
		    select_pid(p), p->capture, p->holder);
		return;
	}
	keep(a, p);
}

static void on_done(const struct gpuctr_error *error, void *userdata)
{
	struct asking *a = userdata;

	a->done = true;
	if (error) {
		say_gpuctr_error(error);
		a->result = error->code;
	}
}

/* Was it started with the variables of standby? False also when it is not ours to see. */
static bool is_prepared(const char *pid)
{
	char path[64], *line = NULL;
	bool prepared = false;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	f = fopen(path, "re");
	while (f && !prepared && getdelim(&line, &room, '\0', f) >= 0) {
		prepared = strcmp(line, "GPUCTR_STANDBY=1") == 0;
	}
	if (f) {
		fclose(f);
	}
	free(line);
	return prepared;
}

static void tell_unregistered(const struct asking *a)
{
	for (size_t i = 0; i < a->selector->pids.n; i++) {
		const char *pid = a->selector->pids.items[i];
		struct procstat stat;

		if (a->registered[i]) {
			continue;
		}
		if (!procstat_read((pid_t)strtoul(pid, NULL, 10), &stat)) {
			say("there is no process %s", pid);
		} else if (procstat_is_stopped(&stat)) {
			say("process %s is stopped, by a signal or a debugger, and answers "
			    "nothing: it can be captured when it goes on",
			    pid);
		} else if (stat.exiting) {
			say("process %s has ended, or ends just now", pid);
		} else if (is_prepared(pid)) {
			say("process %s is in standby and is not registered: it has not used CUDA "
			    "yet, or the daemon has refused it, which its log tells",
			    pid);
		} else {
			say("process %s is not registered, or is not yours: it can be captured "
			    "when it was started with `gpuctr-client standby -- PROGRAM`",
			    pid);
		}
	}
}

static void take_out(struct selected *s, size_t i)
{
	s->n--;
	memmove(&s->ids[i], &s->ids[i + 1], (s->n - i) * sizeof(*s->ids));
	memmove(&s->items[i], &s->items[i + 1], (s->n - i) * sizeof(*s->items));
}

/* Anybody may say that they are of a job, and call a program or a cgroup as they like. So where
 * one's own match, those of others are not meant, unless they are named by what only the kernel
 * gives. */
static void leave_others_out(const struct selector *selector, struct selected *s)
{
	size_t own = 0, others = 0;

	for (size_t i = 0; i < s->n; i++) {
		own += !s->items[i].foreign;
	}
	if (own == 0 || own == s->n || selector->user || selector->pids.n + selector->trees.n > 0) {
		return;
	}
	for (size_t i = s->n; i > 0; i--) {
		if (!s->items[i - 1].foreign) {
			continue;
		}
		if (others++ == 0) {
			say("%s (pid %u) is left out: it belongs to another user, whom --user "
			    "names",
			    s->items[i - 1].program, s->items[i - 1].own_pid);
		}
		take_out(s, i - 1);
	}
	if (others > 1) {
		say("so are %zu more of other users", others - 1);
	}
}

int select_processes(struct gpuctr *g, const struct selector *s, struct selected *ret)
{
	struct asking a = { .selector = s, .selected = ret };
	int r;

	*ret = (struct selected){ 0 };
	a.registered = calloc(s->pids.n + 1, sizeof(*a.registered));
	if (!a.registered) {
		return -ENOMEM;
	}
	r = gpuctr_list_processes(g, on_process, on_done, &a);
	while (r == 0 && !a.done) {
		r = gpuctr_dispatch(g, -1);
	}
	if (a.done && a.result == 0) {
		leave_others_out(s, ret);
		tell_unregistered(&a);
	}
	if (!a.done && r > 0) {
		say_gpuctr_error(gpuctr_last_error(g)); /* refused before the daemon was asked */
	}
	free(a.registered);
	return a.done ? a.result : r;
}

bool select_some(struct gpuctr *g, const struct selector *selector, struct selected *s)
{
	int r = select_processes(g, selector, s);

	if (r < 0) {
		say_usage("%s", strerror(-r));
	} else if (r == 0 && s->n == 0) {
		say_error("none",
			  s->busy > 0 ? "every process that matches is being measured already"
			  : s->registered > 0 ? "none of the registered processes matches"
					      : "no process of yours is registered",
			  s->registered > 0
				  ? "`gpuctr-client ps` lists them."
				  : "Start programs with `gpuctr-client standby -- PROGRAM`.");
	}
	return r == 0 && s->n > 0;
}

/* --- telling --------------------------------------------------------------------------------- */

static void add_chosen(const struct chosen *c, struct buf *b)
{
	text_terminal(b, c->program);
	buf_printf(b, " (pid %u)", c->own_pid);
}

void selected_describe(const struct selected *s, struct buf *b)
{
	size_t shown = s->n <= DESCRIBED_MAX ? s->n : DESCRIBED_MAX;

	for (size_t i = 0; i < shown; i++) {
		buf_text(b, i > 0 ? ", " : "");
		add_chosen(&s->items[i], b);
	}
	if (shown < s->n) {
		buf_printf(b, " and %zu more", s->n - shown);
	}
}

static void tell_left_out(const struct chosen *c, const struct gpuctr_error *why)
{
	struct buf b = { 0 };

	add_chosen(c, &b);
	say("%s is not measured: %s", buf_string(&b), why->message);
	buf_deinit(&b);
}

bool selected_leave_out(struct selected *s, const struct gpuctr_notice *notice, struct chosen *ret)
{
	for (size_t i = 0; i < s->n; i++) {
		if (notice->registered != 0 && s->ids[i] == notice->registered) {
			*ret = s->items[i];
			tell_left_out(ret, &notice->error);
			take_out(s, i);
			return true;
		}
	}
	return false;
}
