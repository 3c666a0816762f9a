/* SPDX-License-Identifier: Apache-2.0 */

/* "ps": what could be captured. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/select.h"
#include "client/cli/text.h"

static const struct option_def defs[] = {
	{ REQUEST_OPTION_JSON, "json", NULL, "one JSON object a line, for programs" },
	REQUEST_OPTIONS,
	{ 0, NULL, NULL, NULL },
};

struct listing {
	struct request request;
	bool json;
	size_t n;
};

static void add_age(struct buf *b, uint64_t ns)
{
	uint64_t s = ns / 1000000000u;

	buf_printf(b, "%3llu:%02llu:%02llu", (unsigned long long)(s / 3600),
		   (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
}

/* As they stand, and left out at the right edge rather than cut: this is what one copies from. */
static void add_cell(struct buf *b, const char *text, size_t width)
{
	size_t begin = b->n, shown;

	text_terminal(b, text);
	shown = text_width(b->data + begin, b->n - begin);
	for (; shown < width; shown++) {
		buf_char(b, ' ');
	}
	buf_text(b, "  ");
}

static void add_line(struct buf *b, const struct gpuctr_registered_process *p)
{
	const struct claims claims = { p->claims, p->n_claims };
	const char *rank = claims_rank(&claims);
	char job[256];

	select_job(p, job, sizeof(job));
	buf_printf(b, "%8u  ", select_pid(p));
	add_cell(b, p->user, 12);
	add_age(b, p->age_ns);
	buf_text(b, "  ");
	add_cell(b, *job ? job : "-", 12);
	add_cell(b, rank ? rank : "-", 4);
	add_cell(b, p->program, 16);
	if (p->capture) {
		buf_printf(b, "measured by capture %u of ", p->capture);
		text_terminal(b, p->holder);
	} else {
		buf_text(b, "standby");
	}
	buf_char(b, '\n');
}

static void add_json(struct buf *b, const struct gpuctr_registered_process *p)
{
	buf_printf(b, "{\"process\":%u,\"pid\":%u,\"uid\":%u,\"user\":", p->process, p->pid,
		   p->uid);
	text_json(b, p->user);
	buf_text(b, ",\"program\":");
	text_json(b, p->program);
	buf_printf(b, ",\"age_ns\":%llu,\"capture\":%u,\"holder\":", (unsigned long long)p->age_ns,
		   p->capture);
	text_json(b, p->holder);
	buf_printf(b, ",\"foreign\":%s,\"claims\":{", p->foreign ? "true" : "false");
	for (size_t i = 0; i < p->n_claims; i++) {
		const char *equals = strchr(p->claims[i], '=');
		char name[256];

		snprintf(name, sizeof(name), "%.*s",
			 equals ? (int)(equals - p->claims[i]) : (int)sizeof(name) - 1,
			 p->claims[i]);
		buf_text(b, i > 0 ? "," : "");
		text_json(b, name);
		buf_char(b, ':');
		text_json(b, equals ? equals + 1 : "");
	}
	buf_text(b, "}}\n");
}

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct listing *l = userdata;
	struct buf *b = &l->request.b;

	if (l->json) {
		add_json(b, p);
		return;
	}
	if (l->n++ == 0) {
		buf_text(b, "     PID  USER          REGISTERED  JOB           RANK  PROGRAM"
			    "           STATE\n");
	}
	add_line(b, p);
}

static void on_done(const struct gpuctr_error *error, void *userdata)
{
	struct listing *l = userdata;

	if (!error && !l->json && l->n == 0) {
		buf_text(&l->request.b, "no process of yours is registered; `gpuctr-client standby "
					"-- PROGRAM` starts one that is\n");
	}
	request_answer(&l->request, error);
}

static int exec_ps(int argc, char **argv)
{
	struct request_options o;
	struct listing l = { .n = 0 };
	int status = request_parse(&o, &verb_ps, argc, argv);

	if (status >= 0) {
		return status;
	}
	if (!request_open(&l.request, o.socket)) {
		return l.request.status;
	}
	l.json = o.json;
	return request_finish(&l.request,
			      gpuctr_list_processes(l.request.g, on_process, on_done, &l));
}

const struct verb verb_ps = {
	.name = "ps",
	.usage = "ps [--json]",
	.summary = "list processes that can be captured",
	.details = "Your own; for root and operators others' as well. JOB and RANK are what a "
		   "process says of "
		   "itself.\n",
	.examples = "  gpuctr-client ps\n"
		    "  gpuctr-client ps --json | jq .pid\n",
	.options = defs,
	.exec = exec_ps,
};
