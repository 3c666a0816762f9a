/* SPDX-License-Identifier: Apache-2.0 */

/* "ps": what could be captured. */

#include "client/cli/verb.h"

#include <string.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/ps_table.h"
#include "client/cli/request.h"
#include "client/cli/terminal.h"
#include "proto/base/json.h"

struct ps_options {
	const char *socket; /* NULL: the default */
	bool json, wide;
};

static const struct option_def defs[] = {
	{ 0, "wide", NULL, "all columns, however long the lines",
	  OPTION_AT(FLAG, struct ps_options, wide) },
	{ 0, "json", NULL, "one JSON object a line, for programs",
	  OPTION_AT(FLAG, struct ps_options, json) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct ps_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

struct listing {
	struct request request;
	struct grid grid;
	bool json, wide;
};

/* What the daemon derives from the name of the cgroup is separate from what the kernel and the
 * process report. */
static void add_derived(struct json *m, const struct gpuctr_registered_process *p)
{
	const struct {
		const char *name, *value;
	} derived[] = {
		{ "container", p->container }, { "runtime", p->runtime },
		{ "pod_uid", p->pod_uid },     { "job", p->cgroup_job },
		{ "step", p->cgroup_step },
	};

	json_begin(m, "derived", '{');
	for (size_t i = 0; i < sizeof(derived) / sizeof(derived[0]); i++) {
		if (*derived[i].value) {
			json_text(m, derived[i].name, derived[i].value);
		}
	}
	json_end(m, '}');
}

static void add_json(struct buf *b, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };
	struct json m = { b };

	json_begin(&m, NULL, '{');
	json_u64(&m, "process", p->process);
	json_u64(&m, "pid", p->pid);
	json_u64(&m, "uid", p->uid);
	json_text(&m, "user", p->user);
	json_text(&m, "program", p->program);
	json_u64(&m, "age_ns", p->age_ns);
	json_u64(&m, "capture", p->capture);
	json_text(&m, "holder", p->holder);
	json_bool(&m, "foreign", p->foreign);
	json_text(&m, "cgroup", p->cgroup);
	add_derived(&m, p);
	claims_json(&claims, &m);
	json_end(&m, '}');
	buf_char(b, '\n');
}

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct listing *l = userdata;

	if (l->json) {
		add_json(&l->request.b, p);
	} else {
		ps_add(&l->grid, p);
	}
}

static void add_table(struct listing *l)
{
	size_t width = l->wide ? SIZE_MAX : terminal_width(STDOUT_FILENO);

	if (grid_rows(&l->grid) == 0) {
		buf_text(&l->request.b, "no process of yours is registered; `gpuctr-client standby "
					"-- PROGRAM` starts one that is\n");
		return;
	}
	grid_print(&l->grid, width, terminal_has_style(STDOUT_FILENO), &l->request.b);
}

static void on_done(const struct gpuctr_error *error, void *userdata)
{
	struct listing *l = userdata;

	if (!error && !l->json) {
		add_table(l);
	}
	request_answer(&l->request, error);
}

static int exec_ps(const struct verb *const *verbs, int argc, char **argv)
{
	struct ps_options o = { 0 };
	struct listing l = { 0 };
	int status = verb_read_all(&verb_ps, argc, argv, &o);

	if (status >= 0) {
		return status;
	}
	if (!request_open(&l.request, o.socket)) {
		return l.request.status;
	}
	l.json = o.json;
	l.wide = o.wide;
	ps_init(&l.grid);
	status = request_finish(&l.request,
				gpuctr_list_processes(l.request.g, on_process, on_done, &l));
	grid_deinit(&l.grid);
	return status;
}

const struct verb verb_ps = {
	.name = "ps",
	.usage = "ps [--wide|--json]",
	.summary = "list processes that can be captured",
	.details =
		"Your own; for root and operators others' as well. JOB, RANK and POD are what a "
		"process says of\n"
		"itself. CGROUP is what the kernel says; CONTAINER is read out of that name, where "
		"it is one that\n"
		"Docker, containerd, CRI-O or Podman give. Columns that do not fit are left "
		"out.\n",
	.examples = "  gpuctr-client ps\n"
		    "  gpuctr-client ps --wide\n"
		    "  gpuctr-client ps --json | jq .pid\n",
	.options = defs,
	.exec = exec_ps,
};
