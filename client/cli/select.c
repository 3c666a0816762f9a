/* SPDX-License-Identifier: Apache-2.0 */

/* Asks the daemon which processes are registered, keeps those that the selector matches, and
 * reports why others are left out. */

#include "client/cli/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "client/cli/text.h"

enum { DESCRIBED_MAX = 4 };

struct asking {
	const struct selector *selector;
	struct selected *selected;
	bool *registered; /* for each of the selector's pids: is it registered? */
	bool done;
	int result;
};

static void describe(struct chosen *c, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };
	const char *rank = claims_rank(&claims);

	*c = (struct chosen){ .pid = p->pid, .own_pid = selector_pid(p), .foreign = p->foreign };
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
		a->registered[i] |=
			strtoul(a->selector->pids.items[i], NULL, 10) == selector_pid(p);
	}
	if (!selector_matches(a->selector, p)) {
		return;
	}
	if (p->capture != 0) {
		a->selected->busy++;
		say("%s (pid %u) is left out: capture %u of %s measures it now", p->program,
		    selector_pid(p), p->capture, p->holder);
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

/* Was the process started in standby? False also when its environment is hidden from us. */
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

static void report_unregistered(const struct asking *a)
{
	for (size_t i = 0; i < a->selector->pids.n; i++) {
		const char *pid = a->selector->pids.items[i];
		struct procstat stat;

		if (a->registered[i]) {
			continue;
		}
		if (!procstat_read((pid_t)strtoul(pid, NULL, 10), &stat)) {
			say("there is no process with pid %s", pid);
		} else if (procstat_is_stopped(&stat)) {
			say("pid %s is stopped, by a signal or a debugger, and answers "
			    "nothing: it can be captured when it goes on",
			    pid);
		} else if (stat.exiting) {
			say("pid %s has ended, or ends just now", pid);
		} else if (is_prepared(pid)) {
			say("pid %s is in standby and is not registered: it has not used CUDA "
			    "yet, or the daemon has refused it, which its log tells",
			    pid);
		} else {
			say("pid %s has no agent of yours: it is not registered, or is another "
			    "user's; it can be captured when it was started with "
			    "`gpuctr-client standby -- PROGRAM`",
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

/* Claims and names of programs can be chosen by anybody. So when processes of the user's own match,
 * leaves other users' out, unless the selector names pids, which the kernel gives. */
static void leave_others_out(const struct selector *selector, struct selected *s)
{
	size_t own = 0, others = 0;

	for (size_t i = 0; i < s->n; i++) {
		own += !s->items[i].foreign;
	}
	if (own == 0 || own == s->n || selector->pids.n > 0) {
		return;
	}
	for (size_t i = s->n; i > 0; i--) {
		if (!s->items[i - 1].foreign) {
			continue;
		}
		if (others++ == 0) {
			say("%s (pid %u) is left out: it belongs to another user; --pid names it",
			    s->items[i - 1].program, s->items[i - 1].own_pid);
		}
		take_out(s, i - 1);
	}
	if (others > 1) {
		say("so are %zu more of other users", others - 1);
	}
}

static int choose_processes(struct gpuctr *g, const struct selector *s, struct selected *ret)
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
		report_unregistered(&a);
	}
	if (!a.done && r > 0) {
		say_gpuctr_error(
			gpuctr_last_error(g)); /* the library refused, and asked no daemon */
	}
	free(a.registered);
	return a.done ? a.result : r;
}

bool select_some(struct gpuctr *g, const struct selector *selector, struct selected *s)
{
	int r = choose_processes(g, selector, s);

	if (r < 0) {
		say_usage("%s", strerror(-r));
	} else if (r == 0 && s->n == 0) {
		say_error("none",
			  s->busy > 0 ? "every process that matches is being measured already"
			  : s->registered > 0 ? "none of the registered processes matches"
					      : "no process of yours is registered",
			  s->registered > 0
				  ? "`gpuctr-client status` lists them."
				  : "Start programs with `gpuctr-client standby -- PROGRAM`.");
	}
	return r == 0 && s->n > 0;
}

/* --- telling --------------------------------------------------------------------------------- */

static void add_chosen(const struct chosen *c, struct buf *b)
{
	text_printf(b, "%s (pid %u)", c->program, c->own_pid);
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

static void report_left_out(const struct chosen *c, const struct gpuctr_error *why)
{
	CLEAN_BUF struct buf b = { 0 };

	add_chosen(c, &b);
	say("%s is not measured: %s", buf_string(&b), why->message);
}

bool selected_leave_out(struct selected *s, const struct gpuctr_notice *notice, struct chosen *ret)
{
	for (size_t i = 0; i < s->n; i++) {
		if (notice->registered != 0 && s->ids[i] == notice->registered) {
			*ret = s->items[i];
			report_left_out(ret, &notice->error);
			take_out(s, i);
			return true;
		}
	}
	return false;
}
