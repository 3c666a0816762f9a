/* SPDX-License-Identifier: Apache-2.0 */

/* "plan": do these metrics fit together, and in how many passes? Nothing is measured. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/text.h"

static const struct option_def defs[] = {
	{ OPTION_METRICS, "metrics", "LIST",
	  "names, globs, regex:EXPR, presets (default: memory)" },
	{ OPTION_CHIP, "chip", "CHIP", "of this chip instead of this machine's" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

static void add_columns(struct buf *b, const struct gpuctr_plan *plan, bool with_group)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		const struct gpuctr_column *column = &plan->columns[i];
		size_t start = b->n;

		buf_text(b, "  ");
		if (with_group) {
			buf_printf(b, "%2u  ", column->group);
		}
		text_terminal(b, column->name);
		for (size_t n = b->n - start; n < 60; n++) {
			buf_char(b, ' ');
		}
		buf_text(b, "  ");
		text_terminal(b, column->unit && *column->unit ? column->unit : "-");
		buf_char(b, '\n');
	}
}

/* The --metrics of each group, ready to be copied. */
static void add_groups(struct buf *b, const struct gpuctr_plan *plan)
{
	unsigned first = plan->n_columns ? plan->columns[0].group : 0;

	for (size_t i = 0; i < plan->n_columns; i++) {
		first = plan->columns[i].group < first ? plan->columns[i].group : first;
	}
	for (unsigned group = first; group < first + plan->groups; group++) {
		const char *separator = "";

		buf_text(b, "  --metrics ");
		for (size_t i = 0; i < plan->n_columns; i++) {
			if (plan->columns[i].group == group) {
				buf_text(b, separator);
				text_terminal(b, plan->columns[i].name);
				separator = ",";
			}
		}
		buf_char(b, '\n');
	}
}

/* Columns that no single run can measure. */
static void add_too_many(struct buf *b, const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (plan->columns[i].group == plan->groups) {
			text_terminal(b, plan->columns[i].name);
			buf_text(b,
				 " needs several passes by itself: ask for what it is made of\n");
		}
	}
}

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct request *request = userdata;
	struct buf *b = &request->b;

	if (plan) {
		buf_printf(b, "%s: %zu column%s, %u pass%s\n", plan->chip, plan->n_columns,
			   plan->n_columns == 1 ? "" : "s", plan->passes,
			   plan->passes == 1 ? "" : "es");
		add_columns(b, plan, plan->passes > 1);
		if (plan->passes > 1) {
			buf_text(b, "One run measures one pass and would refuse this set.\n");
			add_groups(b, plan);
			add_too_many(b, plan);
		}
	}
	request_answer(request, error);
}

static int plan_metrics(const char *socket, const char *chip, const struct strings *metrics)
{
	struct request request;
	int r;

	if (!request_open(&request, socket)) {
		return request.status;
	}
	r = gpuctr_plan(request.g, chip, strings_items(metrics), metrics->n, on_plan, &request);
	return request_finish(&request, r);
}

static int exec_plan(int argc, char **argv)
{
	struct options_parser *parser = options_new(defs, false, argc, argv);
	enum options_result result = OPTIONS_WRONG;
	struct strings metrics = { 0 };
	const char *value, *chip = NULL, *socket = NULL;
	bool help = false, given = false;
	int id, rest = argc, status = EXIT_VERB_USAGE;

	while (parser && (result = options_next(parser, &id, &value, &rest)) == OPTIONS_ONE) {
		chip = id == OPTION_CHIP ? value : chip;
		socket = id == OPTION_SOCKET ? value : socket;
		help |= id == 'h';
		given |= id == OPTION_METRICS;
		if (id == OPTION_METRICS && !strings_add_list(&metrics, value)) {
			break;
		}
	}
	options_free(parser);
	/* "plan a,b" is what people type. */
	given |= rest < argc;
	for (; result == OPTIONS_END && rest < argc; rest++) {
		strings_add_list(&metrics, argv[rest]);
	}
	if (metrics.n == 0 && !given) {
		strings_add_list(&metrics, "memory");
	}
	if (help) {
		verb_print_help(&verb_plan);
		status = 0;
	} else if (result == OPTIONS_END && metrics.n == 0) {
		say_usage("plan: the list of metrics is empty; leave it out for its default");
	} else if (result == OPTIONS_END) {
		status = plan_metrics(socket, chip, &metrics);
	}
	strings_deinit(&metrics);
	return status;
}

const struct verb verb_plan = {
	.name = "plan",
	.usage = "plan --metrics LIST [--chip CHIP]",
	.summary = "show how many passes metrics need, and which fit together",
	.options = defs,
	.exec = exec_plan,
};
