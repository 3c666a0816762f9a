/* SPDX-License-Identifier: Apache-2.0 */

/* "plan": do these metrics fit together, and in how many passes? Nothing is measured. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/metric_line.h"
#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/text.h"

struct plan_options {
	const char *socket, *chip;
	struct strings metrics;
};

static const struct option_def defs[] = {
	{ 0, "metrics", "LIST", "names, globs, regex:EXPR, presets (default: memory)",
	  OPTION_AT(LIST, struct plan_options, metrics) },
	{ 0, "chip", "CHIP", "of this chip instead of this machine's",
	  OPTION_AT(TEXT, struct plan_options, chip) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct plan_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

static void add_columns(struct buf *b, const struct gpuctr_plan *plan, bool with_group)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		const struct gpuctr_column *column = &plan->columns[i];
		char head[16] = "  ";

		if (with_group) {
			snprintf(head, sizeof(head), "  %2u  ", column->group);
		}
		metric_line(b, head, column->name, NULL, column->unit);
	}
}

static bool is_in_a_group(const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (plan->columns[i].group >= plan->groups) {
			return false;
		}
	}
	return true;
}

/* Appends how one run could measure several groups. */
static void add_turns(struct buf *b, const struct gpuctr_plan *plan)
{
	if (!is_in_a_group(plan)) {
		return;
	}
	if (plan->groups > GPUCTR_TURNS_MAX) {
		buf_printf(b,
			   "With --budget one run measures up to %d groups in turns; these are "
			   "%u.\n",
			   GPUCTR_TURNS_MAX, plan->groups);
		return;
	}
	buf_printf(b,
		   "With --budget one run measures %s in turns, by launches chosen at "
		   "random.\n",
		   plan->groups == 2 ? "both groups" : "all groups");
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

/* What to do with a set of several passes. */
static void add_several(struct buf *b, const struct gpuctr_plan *plan)
{
	buf_text(b, "One run measures one pass and would refuse this set");
	if (plan->groups > 0) {
		buf_printf(b, ", which has %u group%s:\n", plan->groups,
			   plan->groups == 1 ? "" : "s");
	} else {
		buf_text(b, ".\n");
	}
	add_groups(b, plan);
	add_too_many(b, plan);
	add_turns(b, plan);
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
			add_several(b, plan);
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

static int exec_plan(const struct verb *const *verbs, int argc, char **argv)
{
	struct plan_options o = { 0 };
	int rest, status = verb_read(&verb_plan, argc, argv, &o, &rest);
	bool good = true;

	/* People also type "plan a,b", without --metrics. */
	for (; status < 0 && good && rest < argc; rest++) {
		good = options_take_list(&o.metrics, "metrics", argv[rest]);
	}
	if (status < 0 && good && o.metrics.n == 0) {
		good = strings_add_list(&o.metrics, "memory");
	}
	if (status < 0) {
		status = good ? plan_metrics(o.socket, o.chip, &o.metrics) : EXIT_VERB_USAGE;
	}
	strings_deinit(&o.metrics);
	return status;
}

const struct verb verb_plan = {
	.name = "plan",
	.usage = "plan --metrics LIST [--chip CHIP]",
	.summary = "show how many passes metrics need, and which fit together",
	.examples = "  gpuctr-client plan memory\n"
		    "  gpuctr-client plan --metrics 'dram__bytes_*.sum,sm__inst_executed.sum'\n",
	.takes = "LIST",
	.options = defs,
	.exec = exec_plan,
};
