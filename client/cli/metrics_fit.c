/* SPDX-License-Identifier: Apache-2.0 */

/* "metrics --fit": do these metrics fit together, and in how many passes? Nothing is measured. */

#include "client/cli/metrics_fit.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/text.h"

enum { NAME_WIDTH = 60, KIND_WIDTH = 10 };

void metric_line(struct buf *b, const char *head, const char *name, const char *kind,
		 const char *unit)
{
	CLEAN_BUF struct buf safe = { 0 };

	buf_text(&safe, head);
	text_terminal(&safe, name);
	text_pad(b, buf_string(&safe), NAME_WIDTH, false);
	buf_text(b, "  ");
	if (kind) {
		text_pad(b, kind, KIND_WIDTH + 2, false);
	}
	text_terminal(b, unit && *unit ? unit : "-");
	buf_char(b, '\n');
	b->failed |= safe.failed;
}

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

/* Can one run measure all groups? */
static bool may_take_turns(const struct gpuctr_plan *plan)
{
	return plan->groups <= GPUCTR_TURNS_MAX && is_in_a_group(plan);
}

/* Appends the --metrics of each group, ready to be copied. */
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
				text_printf(b, "%s%s", separator, plan->columns[i].name);
				separator = ",";
			}
		}
		buf_char(b, '\n');
	}
}

/* Appends the columns that no single run can measure. */
static void add_too_many(struct buf *b, const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (plan->columns[i].group == plan->groups) {
			text_printf(b,
				    "%s needs several passes by itself: ask for what it is made of",
				    plan->columns[i].name);
			if (strstr(plan->columns[i].name, "throughput")) {
				text_printf(b, ", breakdown:%s", plan->columns[i].name);
			}
			buf_char(b, '\n');
		}
	}
}

/* Appends how to measure a set of metrics that needs several passes. */
static void add_several(struct buf *b, const struct gpuctr_plan *plan)
{
	if (may_take_turns(plan)) {
		buf_printf(b,
			   "One run measures the %u groups in turns, each launch with one of "
			   "them:\n",
			   plan->groups);
	} else if (plan->groups > GPUCTR_TURNS_MAX) {
		buf_printf(b,
			   "One run measures up to %d groups in turns and would refuse this set, "
			   "which has %u:\n",
			   GPUCTR_TURNS_MAX, plan->groups);
	} else if (plan->groups > 0) {
		buf_printf(b, "One run would refuse this set, which has %u group%s:\n",
			   plan->groups, plan->groups == 1 ? "" : "s");
	} else {
		buf_text(b, "One run would refuse this set.\n");
	}
	add_groups(b, plan);
	add_too_many(b, plan);
}

/* passes: how often a kernel would have to run for all columns at once. groups: sets of columns
 * that one run each can measure. */
static void add_head(struct buf *b, const struct gpuctr_plan *plan)
{
	buf_printf(b, "%s: %zu column%s, %u pass%s", plan->chip, plan->n_columns,
		   plan->n_columns == 1 ? "" : "s", plan->passes, plan->passes == 1 ? "" : "es");
	if (plan->passes > 1) {
		buf_text(b, " if all were measured together");
	}
	if (plan->passes > 1 && plan->groups > 0) {
		buf_printf(b, "; %u group%s of one pass%s", plan->groups,
			   plan->groups == 1 ? "" : "s", plan->groups == 1 ? "" : " each");
	}
	buf_char(b, '\n');
}

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct request *request = userdata;
	struct buf *b = &request->b;

	if (plan) {
		add_head(b, plan);
		add_columns(b, plan, plan->passes > 1);
		if (plan->passes > 1) {
			add_several(b, plan);
		}
	}
	request_answer(request, error);
}

int metrics_fit(const char *socket, const char *chip, const struct strings *metrics)
{
	struct request request;
	int r;

	if (!request_open(&request, socket)) {
		return request.status;
	}
	r = gpuctr_plan(request.g, chip, strings_items(metrics), metrics->n, on_plan, &request);
	return request_finish(&request, r);
}
