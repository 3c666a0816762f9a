/* SPDX-License-Identifier: Apache-2.0 */

/* "plan": do these metrics fit together, and in how many passes? Nothing is measured. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/text.h"
#include "proto/base/blocking.h"

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

static bool is_in_a_group(const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (plan->columns[i].group >= plan->groups) {
			return false;
		}
	}
	return true;
}

/* What was seen on one H200 with CUDA 13.0 (docs/internals/budget.md): the agent expects the same
 * until it has timed its own calls. Each turn is a batch, of 64 at first. */
#define RANGE_US 51.0
#define SM_RANGE_US 763.0
#define TURN_US 14e3
#define FIRST_START_US 228e3
#define PLANNED 0.93   /* of the budget: the rest is for calls that take longer */
#define BEFOREHAND_S 1 /* what one second brings is there at the beginning, and paid back */
#define FIRST_START_US_PER_RANGE 900
enum { BATCH = 64, LARGE_BATCH = 256 };

static double range_us(const struct gpuctr_plan *plan, unsigned group)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (plan->columns[i].group == group && metric_blocks(plan->columns[i].name)) {
			return SM_RANGE_US;
		}
	}
	return RANGE_US;
}

/* Groups that cost little have larger batches where others cost much, from a budget on that pays
 * the larger first Start back within ten seconds. */
static double round_us(const struct gpuctr_plan *plan, unsigned percent)
{
	double us = FIRST_START_US;
	unsigned n_dear = 0, batch;

	for (unsigned group = 0; group < plan->groups; group++) {
		n_dear += range_us(plan, group) == SM_RANGE_US;
	}
	batch = n_dear > 0 && n_dear < plan->groups && percent > 3 ? LARGE_BATCH : BATCH;
	us += FIRST_START_US_PER_RANGE * (batch - BATCH);
	for (unsigned group = 0; group < plan->groups; group++) {
		double range = range_us(plan, group);

		us += TURN_US + range * (range == SM_RANGE_US ? BATCH : batch);
	}
	return us;
}

/* How long it takes until each group has had a turn, at budgets that people ask for. */
static void add_costs(struct buf *b, const struct gpuctr_plan *plan)
{
	static const unsigned percents[] = { 2, 5, 10 };

	buf_text(b, "By what was seen on one H200, not on this machine, measuring a launch takes");
	for (unsigned group = 0; group < plan->groups; group++) {
		buf_printf(b, "%s %.0f us in group %u", group > 0 ? "," : "", range_us(plan, group),
			   group);
	}
	buf_text(b, ".\nEach group has then had a turn after about");
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		double s = round_us(plan, percents[i]) * 1e-6 / (PLANNED * percents[i] / 100) +
			   BEFOREHAND_S;

		buf_printf(b, "%s %.0f s with --budget %u%%", i > 0 ? "," : "", s, percents[i]);
	}
	buf_text(b, ".\nA kernel has a value of a metric after a turn in which it ran, and an "
		    "error then or after the next.\n");
}

/* What one run could do with it. */
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
	add_costs(b, plan);
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

struct plan_options {
	const char *socket, *chip;
	struct strings metrics;
	bool given, help;
};

static bool take_option(void *userdata, int id, const char *value)
{
	struct plan_options *o = userdata;

	switch (id) {
	case OPTION_CHIP:
		o->chip = value;
		return true;
	case OPTION_SOCKET:
		o->socket = value;
		return true;
	case OPTION_METRICS:
		o->given = true;
		return strings_add_list(&o->metrics, value);
	default:
		o->help = true;
		return true;
	}
}

static int exec_plan(const struct verb *const *verbs, int argc, char **argv)
{
	struct plan_options o = { 0 };
	int rest, status = EXIT_VERB_USAGE;
	enum options_result result = options_parse(defs, argc, argv, take_option, &o, &rest);

	(void)verbs;
	/* "plan a,b" is what people type. */
	o.given |= rest < argc;
	for (; result == OPTIONS_END && rest < argc; rest++) {
		strings_add_list(&o.metrics, argv[rest]);
	}
	if (o.metrics.n == 0 && !o.given) {
		strings_add_list(&o.metrics, "memory");
	}
	if (o.help) {
		verb_print_help(&verb_plan);
		status = 0;
	} else if (result == OPTIONS_END && o.metrics.n == 0) {
		say_usage("plan: the list of metrics is empty; leave it out for its default");
	} else if (result == OPTIONS_END) {
		status = plan_metrics(o.socket, o.chip, &o.metrics);
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
