/* SPDX-License-Identifier: Apache-2.0 */

/* Prints the lines below a table, or, when there is no table, why nothing was measured. */

#include "client/cli/summary.h"

#include <string.h>

#include "client/cli/text.h"
#include "client/report/derived.h"

static void add_part(struct buf *b, uint64_t value, const char *what, bool *first)
{
	if (value > 0) {
		buf_printf(b, "%s%s %s", *first ? ": " : ", ", TEXT_COUNT(value), what);
		*first = false;
	}
}

static void add_totals(const struct summary *s, const struct summary_end *end, struct buf *b)
{
	const struct gpuctr_totals *t = &end->totals;
	unsigned processes = summary_processes(s);
	bool first = true;

	buf_printf(b, "%s kernel%s seen in %u process%s", TEXT_COUNT(t->seen),
		   t->seen == 1 ? "" : "s", processes, processes == 1 ? "" : "es");
	/* add_sampled() adds how many of these records have values. */
	add_part(b, t->measured, groups_are_sampled(s->groups) ? "recorded" : "measured", &first);
	add_part(b, t->filtered, "filtered", &first);
	add_part(b, t->capturing, "skipped (into a graph being captured)", &first);
	add_part(b, t->unready, "skipped (device not ready or not leased)", &first);
	add_part(b, t->failed, "failed", &first);
	add_part(b, t->dropped, "dropped", &first);
	add_part(b, t->lost,
		 end->has_totals ? "not delivered by their process" : "lost on their way", &first);
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
		buf_printf(b, ", %s not written to the file", TEXT_COUNT(end->unsaved));
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
	if (d->n > 1) {
		buf_printf(b, " x %u", d->n);
	}
}

/* "NVIDIA H200 x 8, NVIDIA H100" */
static void add_kinds(const struct summary *s, struct buf *b)
{
	for (size_t i = 0; i < s->n_kinds; i++) {
		buf_text(b, i > 0 ? ", " : "");
		add_kind(&s->devices[i], b);
	}
}

/* The clocks' highest rates follow the devices: once if all are of one kind, else behind each
 * kind. */
static void add_devices(const struct summary *s, struct buf *b)
{
	for (size_t i = 0; i < s->n_kinds; i++) {
		buf_text(b, i > 0 ? "; " : "");
		text_printf(b, "%s%s", s->devices[i].chip,
			    *s->devices[i].chip && *s->devices[i].name ? ", " : "");
		add_kind(&s->devices[i], b);
		if (s->n_kinds > 1) {
			add_clock_rates(&s->devices[i], b);
		}
	}
	if (s->n_kinds > 0 && s->devices[0].clock_sm_mhz) {
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
		text_printf(b, "%s%s", i > 0 ? " and " : "", texts->items[i]);
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
		text_printf(b, "; driver %s", end->driver);
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

/* A trace has the kernels' own times, or none, whatever the metrics are. */
static bool is_trace(const struct summary *s)
{
	return s->passes == 0 || groups_are_sampled(s->groups);
}

/* Appends which times are not the kernels' own. */
static void add_range_times(const struct summary *s, struct buf *b)
{
	uint64_t ranges = groups_clock(s->groups, GPUCTR_CLOCK_RANGE);

	if (ranges > 0) {
		if (ranges < groups_records(s->groups)) {
			buf_printf(b, "%s of %s ", TEXT_COUNT(ranges),
				   TEXT_COUNT(groups_records(s->groups)));
		}
		buf_text(b, "times are lengths of ranges, which are longer than the kernels: they "
			    "hold the launch\n"
			    "and, with a kernel's first launch, the loading of its module\n");
	}
}

static void add_no_times(const struct summary *s, struct buf *b)
{
	const struct group *all = groups_all(s->groups);
	uint64_t none = all ? all->calls - all->own[MEASURE_TIME].n : 0,
		 records = groups_records(s->groups);

	if (none > 0) {
		buf_printf(b, "%s of %s kernels have no time: %s%s\n", TEXT_COUNT(none),
			   TEXT_COUNT(records),
			   none < records || is_trace(s)
				   ? "it did not come from CUPTI"
				   : "with several groups of metrics, or metrics of the SMs, it "
				     "is\nthe length of a range, which was not measured: add "
				     "gpu__time_duration.sum to --metrics",
			   none < records ? " (sums: \"*\")" : "");
	}
}

/* Names counters that some launches lack, so that sums and means are of the other launches. */
static void add_missing(const struct summary *s, struct buf *b)
{
	const struct group *all = groups_all(s->groups);
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);

	for (size_t i = MEASURE_TIME + 1; all && i < n; i++) {
		if (all->own[i].n == all->calls) {
			continue;
		}
		if (all->own[i].n == 0) {
			text_printf(b, "%s is not known of any launch\n", measures[i].name);
			continue;
		}
		text_printf(b,
			    "%s is not known of %s of %s launches: its figures are of the others "
			    "(sums: \"*\")\n",
			    measures[i].name, TEXT_COUNT(all->calls - all->own[i].n),
			    TEXT_COUNT(all->calls));
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

/* Names the shown columns whose values are of ranges. Lengths and cycles of ranges are larger than
 * the kernels' own; ratios to them are smaller. */
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
			text_printf(b, "%s%s", any ? ", " : "", name);
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

/* "flop_rate, intensity": the shown columns that are made of counted operations. */
static void add_names_of_flops(const struct measure *measures, size_t n, const struct view *view,
			       struct buf *b)
{
	struct derived_columns columns;
	bool ok = derived_init(&columns, measures, n) == 0;

	for (size_t i = 0; i < columns.n; i++) {
		if (columns.items[i].of_flops && shows(view, columns.items[i].name)) {
			buf_printf(b, "%s%s", b->n > 0 ? ", " : "", columns.items[i].name);
		}
	}
	b->failed |= !ok;
	derived_deinit(&columns);
}

/* Names the operations that were counted: no rate includes others that the program computes. */
static void add_flops(const struct summary *s, const struct view *view, struct buf *b)
{
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	CLEAN_BUF struct buf flops = { 0 }, names = { 0 };

	add_names_of_flops(measures, n, view, &names);
	if (sums_add_flops(measures, n, &flops) && names.n > 0) {
		text_printf(b, "operations (%s) are those that were counted, and no others: %s\n",
			    buf_string(&names), buf_string(&flops));
	}
}

/* Appends how many launches have each metric, and which derived columns join metrics of different
 * launches. */
static void add_turns(const struct summary *s, struct buf *b)
{
	const struct group *all = groups_all(s->groups);
	struct derived_columns columns;
	const struct measure *measures;
	size_t n = groups_measures(s->groups, &measures);
	bool first = true;

	buf_printf(
		b,
		"the metrics took turns in %u groups: a launch has those of one group, and a sum "
		"is the mean of the launches that had the metric times all launches of their "
		"kernel and shape; had it",
		s->turns);
	for (size_t i = MEASURE_TIME + 1; all && i < n; i++) {
		text_printf(b, "%s%s %s of %s", i == MEASURE_TIME + 1 ? ": " : ", ",
			    measures[i].name, TEXT_COUNT(all->self[i].n), TEXT_COUNT(all->calls));
	}
	b->failed |= derived_init(&columns, measures, n) != 0;
	for (size_t i = 0; i < columns.n; i++) {
		if (columns.items[i].joined) {
			buf_printf(b, "%s%s",
				   first ? ";\nJOINED from launches of different groups: " : ", ",
				   columns.items[i].name);
			first = false;
		}
	}
	derived_deinit(&columns);
	buf_char(b, '\n');
}

/* Appends where sampled values come from, and how many kernels have none. */
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

/* Appends a few words behind the totals, where add_explanations() has sentences. Column headings
 * mark the metrics of ranges. */
static void add_reservations(const struct summary *s, struct buf *b)
{
	if (s->n_kinds > 0) {
		buf_text(b, "; ");
		add_kinds(s, b);
	}
	if (groups_clock(s->groups, GPUCTR_CLOCK_RANGE) > 0) {
		buf_text(b, "; times are of ranges");
	}
	buf_text(b, groups_records(s->groups) > 0 ? "; -v explains\n" : "\n");
}

/* Appends how kernels were measured, and what the figures mean. */
static void add_explanations(const struct summary *s, const struct summary_end *end,
			     const struct view *view, struct buf *b)
{
	buf_char(b, '\n');
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
	if (s->turns > 0) {
		add_turns(s, b);
	}
	if (groups_are_sampled(s->groups)) {
		add_sampled(end, b);
	}
	add_no_times(s, b);
	add_missing(s, b);
	if (s->recorded_from) {
		text_printf(b, "RECORDED on %s, not measured here\n", s->recorded_from);
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
		 "No process of the program used CUDA, so nothing was measured.\n"
		 "  remedy: see that it finds a GPU (nvidia-smi); what sudo, ssh, docker or srun "
		 "starts, measure there.\n");
}

/* end->unmatched: a process has reported that --kernel matched no kernel. */
static void add_all_filtered(const struct summary_end *end, struct buf *b)
{
	if (end->unmatched && *end->unmatched) {
		buf_text(b, "Nothing was measured: no kernel was chosen.\n");
		text_printf(b, "%s\n", end->unmatched);
		return;
	}
	buf_text(b,
		 "Nothing was measured: no kernel passed --kernel, --skip, --count and what else\n"
		 "chooses kernels, NVTX ranges or steps.\n");
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
	} else if (t->filtered > 0 && t->filtered + t->capturing == t->seen) {
		add_all_filtered(end, b);
	} else if (t->capturing == t->seen) {
		buf_text(b,
			 "Nothing was measured: all launches went into CUDA graphs, and no graph "
			 "was launched.\n");
	} else if (t->measured > 0) {
		buf_text(b, "No record of the kernels that were measured was kept.\n");
	} else {
		buf_text(b, "Nothing was measured, though kernels ran.\n");
	}
}
