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

enum { OPTION_JSON = 256 };

static const struct option_def defs[] = {
	{ OPTION_JSON, "json", NULL, "one JSON object a line, for programs" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ 'h', "help", NULL, "show this" },
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
	buf_text(b, ",\"claims\":{");
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
	struct options_parser *parser = options_new(defs, false, argc, argv);
	enum options_result result = OPTIONS_WRONG;
	const char *value, *socket = NULL;
	struct listing l = { .n = 0 };
	bool help = false, json = false;
	int id, rest = argc;

	while (parser && (result = options_next(parser, &id, &value, &rest)) == OPTIONS_ONE) {
		socket = id == OPTION_SOCKET ? value : socket;
		json |= id == OPTION_JSON;
		help |= id == 'h';
	}
	options_free(parser);
	if (help) {
		verb_print_help(&verb_ps);
		return 0;
	}
	if (result != OPTIONS_END || rest < argc) {
		if (result == OPTIONS_END) {
			say_usage("ps takes no argument '%s'", argv[rest]);
		}
		return EXIT_VERB_USAGE;
	}
	if (!request_open(&l.request, socket)) {
		return l.request.status;
	}
	l.json = json;
	return request_finish(&l.request,
			      gpuctr_list_processes(l.request.g, on_process, on_done, &l));
}

const struct verb verb_ps = {
	.name = "ps",
	.usage = "ps [--json]",
	.summary = "list processes that can be captured",
	.details = "Your own; for root everybody's. JOB and RANK are what a process says of "
		   "itself.\n",
	.options = defs,
	.exec = exec_ps,
};
