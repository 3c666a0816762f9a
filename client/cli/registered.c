/* SPDX-License-Identifier: Apache-2.0 */

/* Programs in standby, as a table and as JSON. */

#include "client/cli/registered.h"

#include <stdio.h>

#include "client/cli/claims.h"
#include "client/cli/selector.h"
#include "client/cli/text.h"

/* On a narrow terminal the least used columns are left out first. Cells are never cut, because
 * users copy them. */
static const struct grid_column columns[] = {
	{ "PID", .right = true },
	{ "USER" },
	{ "REGISTERED", .right = true },
	{ "JOB" },
	{ "RANK" },
	{ "PROGRAM" },
	{ "CONTAINER (CGROUP)", .rank = 1 },
	{ "POD (SAID)", .rank = 2 },
	{ "STATE" },
	{ "CGROUP", .rank = 3 },
};

enum { CONTAINER_SHOWN = 12 }; /* digits, as `docker ps` has them */

void registered_table(struct grid *g)
{
	grid_init(g, columns, sizeof(columns) / sizeof(columns[0]));
}

static void add_age(struct grid *g, uint64_t ns)
{
	CLEAN_BUF struct buf b = { 0 };

	text_age(&b, ns);
	grid_text(g, buf_string(&b));
	g->failed |= b.failed;
}

static void add_state(struct grid *g, const struct gpuctr_registered_process *p)
{
	CLEAN_BUF struct buf b = { 0 };

	if (p->capture) {
		buf_printf(&b, "measured by capture %u of %s", p->capture, p->holder);
	}
	grid_text(g, p->capture ? buf_string(&b) : "standby");
	g->failed |= b.failed;
}

/* "namespace/pod" */
static void add_pod(struct grid *g, const struct claims *claims)
{
	const char *space = claims_find(claims, "GPUCTR_POD_NAMESPACE"),
		   *pod = claims_find(claims, "GPUCTR_POD_NAME");
	char text[600];

	snprintf(text, sizeof(text), "%s%s%s", space ? space : "", space && pod ? "/" : "",
		 pod ? pod : "");
	grid_text(g, text);
}

void registered_row(struct grid *g, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };
	char text[256];

	snprintf(text, sizeof(text), "%u", selector_pid(p));
	grid_text(g, text);
	grid_text(g, p->user);
	add_age(g, p->age_ns);
	selector_job(p, text, sizeof(text));
	grid_text(g, text);
	grid_text(g, claims_rank(&claims));
	grid_text(g, p->program);
	snprintf(text, sizeof(text), "%.*s", CONTAINER_SHOWN, p->container);
	grid_text(g, text);
	add_pod(g, &claims);
	add_state(g, p);
	grid_text(g, p->cgroup);
}

/* Members that the daemon derives from the name of the cgroup are separate from those that the
 * kernel and the process report. */
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

void registered_json(struct json *m, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };

	json_begin(m, NULL, '{');
	json_u64(m, "process", p->process);
	json_u64(m, "pid", p->pid);
	json_u64(m, "uid", p->uid);
	json_text(m, "user", p->user);
	json_text(m, "program", p->program);
	json_u64(m, "age_ns", p->age_ns);
	json_u64(m, "capture", p->capture);
	json_text(m, "holder", p->holder);
	json_bool(m, "foreign", p->foreign);
	json_text(m, "cgroup", p->cgroup);
	add_derived(m, p);
	claims_json(&claims, m);
	json_end(m, '}');
}
