/* SPDX-License-Identifier: Apache-2.0 */

/* The lines below the table, and what stands in its place when there is none: why nothing was
 * measured. */

#include "client/cli/summary_internal.h"

#include <string.h>

#include "client/cli/text.h"
#include "client/report/derived.h"
#include "client/report/estimated.h"

static void add_part(struct buf *b, uint64_t value, const char *what, bool *first)
{
	if (value > 0) {
		buf_text(b, *first ? ": " : ", ");
		text_count(b, value);
		buf_printf(b, " %s", what);
		*first = false;
	}
}

/* With a budget, a launch is chosen for the present batch, and for the group of metrics whose turn
 * it is. */
static const char *why_unready(const struct summary *s, const struct gpuctr_totals *t)
{
	return s->turns > 0	 ? "skipped (device not ready or not leased, or chosen for a "
				   "batch or turn that had ended)"
	       : t->unchosen > 0 ? "skipped (device not ready or not leased, or chosen for a batch "
				   "that had ended)"
				 : "skipped (device not ready or not leased)";
}

static void add_totals(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	const struct gpuctr_totals *t = &end->totals;
	unsigned processes = summary_processes(s);
	bool first = true;

	text_count(b, t->seen);
	buf_printf(b, " kernel%s seen in %u process%s", t->seen == 1 ? "" : "s", processes,
		   processes == 1 ? "" : "es");
	add_part(b, t->measured, "measured", &first);
	add_part(b, t->unchosen, "not sampled", &first);
	add_part(b, t->filtered, "filtered", &first);
	text_part_of(b, end->beyond, "by --record-limit");
	add_part(b, t->capturing, "skipped (into a graph being captured)", &first);
	add_part(b, t->unready, why_unready(s, t), &first);
	add_part(b, t->failed, "failed", &first);
	add_part(b, t->dropped, "dropped", &first);
	add_part(b, t->lost,
		 end->has_totals ? "not delivered by their process" : "lost on their way", &first);
	if (t->unchosen > 0 && !summary_is_estimated(s)) {
		buf_text(b, " (the rows hold the launches that were measured, chosen at random, "
			    "and not "
			    "those that were not)");
	}
	if (end->unfinished) {
		buf_text(b, " (of what is written: what else was seen is not known)");
	} else if (t->dropped == 0) {
		buf_text(b, first ? ": 0 dropped" : ", 0 dropped");
	}
	if (!end->has_totals) {
		buf_text(b, " (as far as known: the capture broke off)");
	} else if (end->error != GPUCTR_OK) {
		buf_text(b, " (until the capture ended early: what ran after that is not counted)");
	}
	if (end->unsaved > 0) {
		buf_text(b, ", ");
		text_count(b, end->unsaved);
		buf_text(b, " not written to the file");
	}
}

static void add_clock_rates(const struct summary_devices *d, struct buf *b)
{
	if (d->clock_sm_mhz) {
		buf_printf(b, " (SM up to %u MHz, memory %u MHz)", d->clock_sm_mhz,
			   d->clock_mem_mhz);
	}
}

static void add_kind(const struct summary_devices *d, struct buf *b)
{
	text_terminal(b, d->name);
	if (d->n > 1 || d->more) {
		buf_printf(b, " x %u%s", d->n, d->more ? " or more" : "");
	}
}

/* "NVIDIA H200 x 8 and others" */
static void add_kinds(const struct summary *s, struct buf *b)
{
	for (unsigned i = 0; i < s->n_kinds; i++) {
		buf_text(b, i > 0 ? ", " : "");
		add_kind(&s->devices[i], b);
	}
	buf_text(b, s->more_kinds > 0 ? " and others" : "");
}

/* The clocks' highest rates follow the devices: once if all are of one kind, else behind each
 * kind. */
static void add_devices(const struct summary *s, struct buf *b)
{
	for (unsigned i = 0; i < s->n_kinds; i++) {
		buf_text(b, i > 0 ? "; " : "");
		text_terminal(b, s->devices[i].chip);
		buf_text(b, *s->devices[i].chip && *s->devices[i].name ? ", " : "");
		add_kind(&s->devices[i], b);
		if (s->n_kinds > 1) {
			add_clock_rates(&s->devices[i], b);
		}
	}
	if (s->more_kinds > 0) {
		buf_printf(b, "; %u %sothers", s->more_kinds, s->more_of_those ? "or more " : "");
	}
	if (s->devices[0].clock_sm_mhz) {
		buf_text(b, "; clocks not locked");
		if (s->n_kinds == 1) {
			add_clock_rates(&s->devices[0], b);
		}
	}
}

/* "A and B" */
static void add_texts(const struct summary_texts *texts, struct buf *b)
{
	for (unsigned i = 0; i < texts->n; i++) {
		buf_text(b, i > 0 ? " and " : "");
		text_terminal(b, texts->items[i]);
	}
	buf_text(b, texts->more ? " and others" : "");
}

void summary_add_machine(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (s->n_kinds > 0) {
		add_devices(s, b);
	} else {
		add_texts(&s->chips, b);
	}
	if (s->drivers.n > 0) {
		buf_text(b, "; driver ");
		add_texts(&s->drivers, b);
	} else if (end->driver && *end->driver) {
		buf_text(b, "; driver ");
		text_terminal(b, end->driver);
	}
	if (s->cuptis.n > 0) {
		buf_text(b, ", CUPTI ");
		add_texts(&s->cuptis, b);
	}
}

static void add_hardware(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (s->passes == 0) { /* of a trace */
		buf_text(b, "no counter was read; ");
	} else {
		buf_printf(b, "%s, no replay, caches not flushed; ",
			   s->passes == 1 ? "single pass" : "several passes");
	}
	summary_add_machine(s, end, b);
	buf_char(b, '\n');
}

/* Do tables mark sums that lack launches with an asterisk? Not with a budget or where metrics take
 * turns, because estimates have marks of their own. */
static bool marks_sums(const struct summary *s)
{
	const struct group *all = groups_all(s->groups);

	return all && !all->estimated && s->turns == 0;
}

/* A trace has the kernels' own times, or none, whatever the metrics are. */
static bool is_trace(const struct summary *s)
{
	return s->passes == 0 || groups_are_sampled(s->groups);
}

/* Says which times are not the kernels' own. */
static void add_range_times(const struct summary *s, struct buf *b)
{
	uint64_t ranges = groups_clock(s->groups, GPUCTR_CLOCK_RANGE);

	if (ranges > 0) {
		if (ranges < summary_records(s)) {
			text_count(b, ranges);
			buf_text(b, " of ");
			text_count(b, summary_records(s));
			buf_char(b, ' ');
		}
		buf_text(b, "times are lengths of ranges, which are longer than the kernels: they "
			    "hold the launch\n"
			    "and, with a kernel's first launch, the loading of its module\n");
	}
}

static void add_no_times(const struct summary *s, struct buf *b)
{
	uint64_t none = groups_clock(s->groups, GPUCTR_CLOCK_NONE), records = summary_records(s);

	if (none > 0) {
		text_count(b, none);
		buf_text(b, " of ");
		text_count(b, records);
		buf_text(
			b,
			none < records || is_trace(s)
				? " kernels have no time: it did not come from CUPTI"
				: " kernels have no time: with --budget, or metrics of the SMs, it "
				  "is the length of a range,\nwhich was not measured: add "
				  "gpu__time_duration.sum to --metrics");
		buf_text(b, none < records && marks_sums(s) ? " (sums: \"*\")\n" : "\n");
	}
}

/* Names counters whose sums and means lack launches of the row. */
static void add_missing(const struct summary *s, struct buf *b)
{
	const struct group *all = groups_all(s->groups);
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);

	for (size_t i = MEASURE_TIME + 1; marks_sums(s) && i < n; i++) {
		if (all->self[i].n == all->calls) {
			continue;
		}
		if (all->self[i].n == 0) {
			text_terminal(b, measures[i].name);
			buf_text(b, " is not known of any launch\n");
			continue;
		}
		text_terminal(b, measures[i].name);
		buf_text(b, " is not known of ");
		text_count(b, all->calls - all->self[i].n);
		buf_text(b, " of ");
		text_count(b, all->calls);
		buf_text(b, " launches: its figures are of the others (sums: \"*\")\n");
	}
}

/* view NULL: every column is shown. */
static bool shows(const struct view *view, const char *name)
{
	for (size_t i = 0; view && i < view->n_columns; i++) {
		if (view->columns[i].chosen && strcmp(view->columns[i].name, name) == 0) {
			return true;
		}
	}
	return !view;
}

/* Of the columns that are shown, by name: lengths and cycles, which are more than the kernels' own,
 * or ratios to them, which are less. */
static void add_of_range(const struct summary *s, const struct view *view, bool ratios,
			 struct buf *b)
{
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const char *name = measures[i].name;
		bool is_ratio = strstr(name, ".per_") || strstr(name, ".pct");

		if (measures[i].of_range && is_ratio == ratios && shows(view, name)) {
			buf_text(b, any ? ", " : "");
			text_terminal(b, name);
			any = true;
		}
	}
	if (any) {
		buf_text(b, ratios ? ": by the ranges around the kernels, which are longer, so "
				     "lower than the kernels' own\n"
				   : ": of the ranges around the kernels, which are longer than "
				     "the kernels\n");
	}
}

/* "flop_rate, intensity": those that are shown. */
static void add_names_of_flops(const struct measure *measures, size_t n, const struct view *view,
			       struct buf *b)
{
	struct derived derived[DERIVED_MAX];
	size_t n_derived = derived_find(measures, n, derived);

	for (size_t i = 0; i < n_derived; i++) {
		if (derived_counts_operations(derived[i].kind) && shows(view, derived[i].name)) {
			buf_printf(b, "%s%s", b->n > 0 ? ", " : "", derived[i].name);
		}
	}
}

/* The program also computes in precisions that were not counted and are in no rate. */
static void add_flops(const struct summary *s, const struct view *view, struct buf *b)
{
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	CLEAN_BUF struct buf flops = { 0 }, names = { 0 };

	add_names_of_flops(measures, n, view, &names);
	if (derived_add_flops(measures, n, &flops) && names.n > 0) {
		buf_printf(b, "operations (%s) are those that were counted, and no others: ",
			   buf_string(&names));
		text_terminal(b, buf_string(&flops));
		buf_char(b, '\n');
	}
}

void summary_add_budget(struct buf *b, uint32_t budget_ppm, uint64_t seed)
{
	buf_printf(b, "%s--budget %g%%, seed %llu", b->n > 0 ? "; " : "", budget_ppm * 1e-4,
		   (unsigned long long)seed);
}

/* Nothing is estimated if the budget was enough for every launch. */
static bool is_estimate(const struct summary *s)
{
	return s->turns > 0 || summary_records(s) != groups_launches_of_strata(s->groups);
}

/* The largest number of launches that any column lacks. */
static uint64_t count_unknown(const struct summary *s, size_t from)
{
	const struct group *all = groups_all(s->groups);
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	uint64_t unknown = 0;

	for (size_t i = from; all && all->estimated && i < n; i++) {
		const struct estimate_total *t = &all->estimated->total[i];

		unknown = t->unknown > unknown ? t->unknown : unknown;
	}
	return unknown;
}

/* The metrics are of different launches, and so may be the terms of a derived column. */
static void add_turns(const struct summary *s, struct buf *b)
{
	const struct group *all = groups_all(s->groups);
	struct derived derived[DERIVED_MAX];
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	bool first = true;

	buf_printf(
		b,
		"the metrics took turns in %u groups: each launch that was measured has those of "
		"one group",
		s->turns);
	n = derived_find(measures, n, derived);
	for (size_t i = 0; all && i < n; i++) {
		if (derived_is_joined(&derived[i], all)) {
			buf_printf(b, "%s%s",
				   first ? ";\nJOINED from launches of different groups: " : ", ",
				   derived[i].name);
			first = false;
		}
	}
	buf_char(b, '\n');
}

/* Processes report totals four times a second and strata once a second. If the program or the
 * daemon died in between, some launches are in no row. */
static void add_uncounted(const struct summary *s, const struct gpuctr_totals *t, struct buf *b)
{
	uint64_t in_rows = groups_launches_of_strata(s->groups) + t->filtered + t->capturing;

	if (t->seen > in_rows) {
		text_count(b, t->seen - in_rows);
		buf_text(b,
			 " launches are in no row and no value: the capture broke off before their "
			 "kinds were told\n");
	}
}

/* Says which figures are counted, which are estimated, and how far these may be off. */
static void add_how_estimated(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (!is_estimate(s)) {
		buf_text(b, "nothing is estimated: all launches were measured");
	} else {
		buf_text(b, "sums, means and shares are ESTIMATED from launches chosen at random: "
			    "95 % within 2 x error");
	}
	if (end->budgets && *end->budgets) {
		buf_text(b, "; ");
		buf_text(b, end->budgets);
	}
	buf_printf(
		b,
		"\nlaunches are counted, but for \"~\"; error is the standard error, \"once\" that "
		"it is not known because one launch%s was measured; min, max and stddev are of "
		"what was measured\n",
		s->turns > 0 ? " or turn" : "");
}

/* Says which launches the estimates lack, and which columns are made of different launches. */
static void add_not_estimated(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	uint64_t unknown = count_unknown(s, MEASURE_TIME + 1);

	if (!end->selected) {
		add_uncounted(s, &end->totals, b);
	}
	if (unknown > 0) {
		text_count(b, unknown);
		buf_text(b,
			 s->turns == 0
				 ? " launches are of kinds of which none was measured, and in no "
				   "value (\"part\")\n"
				 : " launches are of kinds of which none was measured for some of "
				   "the metrics, and not in those (\"part\")\n");
	}
	if (s->turns > 0) {
		add_turns(s, b);
	}
}

/* Says where sampled values come from, and how many kernels have none. */
static void add_sampled(const struct summary_end *end, struct buf *b)
{
	buf_text(b, "values are SAMPLED: ");
	if (end->sampled_ns > 0) {
		text_time(b, (double)end->sampled_ns);
		buf_char(b, ' ');
	}
	buf_text(b, "samples of the whole GPU, divided among kernels; error is the standard error "
		    "of a sum\n");
	if (end->unsampled && *end->unsampled) {
		buf_text(b, end->unsampled);
		buf_char(b, '\n');
	}
}

/* Behind the totals, in a few words, what add_explanations() says in sentences. Headings of columns
 * say which metrics are of ranges. */
static void add_reservations(const struct summary *s, struct buf *b)
{
	if (s->n_kinds > 0) {
		buf_text(b, "; ");
		add_kinds(s, b);
	}
	if (summary_is_estimated(s) && is_estimate(s)) {
		buf_text(b, "; ESTIMATED: 95 % within 2 x error");
	}
	if (groups_clock(s->groups, GPUCTR_CLOCK_RANGE) > 0) {
		buf_text(b, "; times are of ranges");
	}
	buf_text(b, summary_records(s) > 0 ? "; -v explains\n" : "\n");
}

/* Says how it was measured, and what the figures mean. */
static void add_explanations(const struct summary *s, const struct summary_end *end,
			     const struct view *view, struct buf *b)
{
	buf_char(b, '\n');
	if (summary_is_estimated(s)) {
		add_how_estimated(s, end, b);
	}
	add_range_times(s, b);
	add_of_range(s, view, false, b);
	add_of_range(s, view, true, b);
	add_flops(s, view, b);
}

void summary_print_tail(const struct summary *s, const struct summary_end *end,
			const struct view *view, struct buf *b)
{
	if (end->verbose) {
		add_hardware(s, end, b);
	}
	add_totals(s, end, b);
	if (end->verbose) {
		add_explanations(s, end, view, b);
	} else {
		add_reservations(s, b);
	}
	if (summary_is_estimated(s)) {
		add_not_estimated(s, end, b);
	}
	if (groups_are_sampled(s->groups)) {
		add_sampled(end, b);
	}
	add_no_times(s, b);
	add_missing(s, b);
	if (s->recorded_from) {
		buf_text(b, "RECORDED on ");
		text_terminal(b, s->recorded_from);
		buf_text(b, ", not measured here\n");
	}
}

/* --- nothing measured ------------------------------------------------------------------------ */

static void add_no_process(const struct summary_end *end, struct buf *b)
{
	if (end->recorded) {
		buf_text(b, "Nothing was measured: no GPU was leased, so only a recording could "
			    "answer, and the\n"
			    "program played none. To play one: gpuctr-client gpuctr-replay FILE\n");
		return;
	}
	if (end->program_refused) {
		buf_text(b, "Nothing was measured: the program ended with status 125 before it "
			    "used CUDA, as a\n"
			    "gpuctr-client in it does that is refused, with its reason above.\n");
		return;
	}
	buf_text(b,
		 "No process of the program used CUDA, so nothing was measured. Likely "
		 "reasons:\n"
		 "  - it ran on the CPU: check that it finds a GPU (nvidia-smi, "
		 "CUDA_VISIBLE_DEVICES);\n"
		 "  - it starts the work elsewhere, as another user or with a cleared "
		 "environment (sudo,\n"
		 "    su, ssh, docker, srun):\n"
		 "    run gpuctr-client inside, next to the program;\n"
		 "  - it starts a gpuctr-client itself, which was refused, with its reason above;\n"
		 "  - in a container: mount the agent at the same path, or set "
		 "GPUCTR_AGENT.\n");
}

/* A budget is named, because without it metrics of several passes would be refused. */
static void add_too_short(const struct summary *s, struct buf *b)
{
	buf_text(b, "Nothing was measured: this was too short for its --budget. ");
	buf_text(b, s->turns > 0
			    ? "Give it more, or\nmeasure metrics of one pass with --budget 100%.\n"
			    : "With --budget 100%\neverything is measured.\n");
}

/* A process may have reported which option chose none. */
static void add_all_filtered(const struct summary_end *end, struct buf *b)
{
	if (end->unmatched && *end->unmatched) {
		buf_text(b, "Nothing was measured: no kernel was chosen.\n");
		text_terminal(b, end->unmatched);
		buf_char(b, '\n');
		return;
	}
	buf_text(b,
		 "Nothing was measured: no kernel passed --kernel, --launch-skip, --launch-count "
		 "and what\n"
		 "else chooses kernels, NVTX ranges, capture ranges or steps.\n");
}

void summary_add_nothing(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	const struct gpuctr_totals *t = &end->totals;

	if (end->unfinished) {
		buf_text(
			b,
			"The file holds no kernel: its writing was cut off, as by a full disk or a "
			"killed client,\n"
			"before the first one was in it.\n");
	} else if (end->error != GPUCTR_OK) {
		buf_text(b, "Nothing was measured before the capture ended with an error.\n");
	} else if (t->seen == 0 && end->unanswered && !end->refused) {
		buf_text(b, "Nothing was measured: no process answered.\n");
	} else if (summary_processes(s) == 0) {
		add_no_process(end, b);
	} else if (t->seen == 0 && end->refused) {
		buf_text(b, "Nothing was measured; the warning above says why.\n");
	} else if (t->seen == 0 && end->speechless) {
		buf_text(b, "Nothing was measured: a program ended, or was cut off, before it "
			    "could tell of a launch.\n");
	} else if (t->seen == 0) {
		buf_text(b,
			 "Nothing was measured: the program used CUDA but launched no kernel.\n");
	} else if (t->unchosen > 0 && t->unchosen + t->filtered + t->capturing == t->seen) {
		add_too_short(s, b);
	} else if (t->filtered > 0 && t->filtered + t->capturing == t->seen) {
		add_all_filtered(end, b);
	} else if (t->capturing == t->seen) {
		buf_text(b,
			 "Nothing was measured: all launches went into CUDA graphs, and no graph "
			 "was launched.\n");
	} else {
		buf_text(b, "Nothing was measured, though kernels ran.\n");
	}
}

void summary_print_nothing(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	if (summary_records(s) == 0) {
		summary_add_nothing(s, end, b);
		add_totals(s, end, b);
		buf_char(b, '\n');
	}
}
