/* SPDX-License-Identifier: Apache-2.0 */

/* A row is made when its process is chosen, or when it attaches as the child of a program. At the
 * end the row knows what became of each of its kernels. */

#include "client/cli/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/grid.h"
#include "client/cli/procstat.h"
#include "client/cli/say.h"
#include "client/cli/text.h"

#define STOPPED "stopped, by a signal or a debugger"

struct rank {
	char rank[32], program[64], note[64], why[256];
	unsigned process; /* number in the capture; 0: the process has not attached */
	unsigned pid;	  /* as the daemon sees it */
	unsigned own_pid; /* as we do */
	bool answered, ended, stopped, left_out;
	struct gpuctr_totals totals; /* of a process that has ended */
	uint64_t seen, measured, lost, time_ns;
	double value;
};

void ranks_deinit(struct ranks *r)
{
	free(r->items);
	free(r->metric);
	free(r->unit);
	*r = (struct ranks){ 0 };
}

/* --- of one node ----------------------------------------------------------------------------- */

static void copy_plain(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from ? from : "-");
	for (char *p = to; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 127) {
			*p = '?';
		}
	}
}

static struct rank *find(struct ranks *r, unsigned process)
{
	if (r->last < r->n && r->items[r->last].process == process) {
		return &r->items[r->last];
	}
	for (size_t i = r->n; i > 0; i--) {
		if (r->items[i - 1].process == process) {
			r->last = i - 1;
			return &r->items[i - 1];
		}
	}
	return NULL;
}

static struct rank *find_expected(struct ranks *r, unsigned pid)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->items[i].process == 0 && r->items[i].pid == pid) {
			return &r->items[i];
		}
	}
	return NULL;
}

static struct rank *add(struct ranks *r)
{
	struct rank *items = realloc(r->items, (r->n + 1) * sizeof(*items));

	if (!items) {
		return NULL;
	}
	r->items = items;
	items[r->n] = (struct rank){ 0 };
	return &items[r->n++];
}

static bool adds_up(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && strcmp(name + n - 4, ".sum") == 0;
}

void ranks_plan(struct ranks *r, const struct gpuctr_plan *plan)
{
	if (plan->n_columns > 0 && adds_up(plan->columns[0].name)) {
		r->metric = strdup(plan->columns[0].name);
		r->unit = strdup(plan->columns[0].unit ? plan->columns[0].unit : "");
	}
}

static void name(struct rank *row, unsigned pid, const char *rank, const char *program)
{
	row->pid = pid;
	row->own_pid = row->own_pid ? row->own_pid : pid;
	copy_plain(row->rank, sizeof(row->rank), rank && *rank ? rank : NULL);
	copy_plain(row->program, sizeof(row->program), program);
}

void ranks_expect(struct ranks *r, const struct chosen *chosen)
{
	struct rank *row = add(r);

	if (row) {
		row->own_pid = chosen->own_pid;
		name(row, chosen->pid, chosen->rank, chosen->program);
	}
}

void ranks_process(struct ranks *r, const struct gpuctr_process *process)
{
	struct claims claims = { process->claims, process->n_claims };
	struct rank *row = find(r, process->process);

	row = row ? row : find_expected(r, process->pid);
	row = row ? row : add(r);
	if (row) {
		row->process = process->process;
		row->answered = row->answered || (process->cupti && *process->cupti);
		name(row, process->pid, claims_rank(&claims), process->program);
	}
}

void ranks_record(struct ranks *r, const struct gpuctr_record *record)
{
	struct rank *row = find(r, record->process);

	if (row) {
		row->measured++;
		row->time_ns += record->duration_ns > 0 ? (uint64_t)record->duration_ns : 0;
		row->value += r->metric && !isnan(record->values[0]) ? record->values[0] : 0;
	}
}

void ranks_leave_out(struct ranks *r, unsigned pid, const char *why)
{
	struct rank *row = find_expected(r, pid);

	if (row) {
		row->left_out = true;
		copy_plain(row->note, sizeof(row->note), why);
	}
}

void ranks_notice(struct ranks *r, const struct gpuctr_notice *notice)
{
	struct rank *row = notice->process ? find(r, notice->process) : NULL;

	/* What a filter left out is counted. */
	if (row && !*row->note && notice->error.code != GPUCTR_OK &&
	    notice->error.code != GPUCTR_E_KERNEL_NO_MATCH) {
		copy_plain(row->note, sizeof(row->note), gpuctr_error_name(notice->error.code));
	}
}

static void note_speechless(struct ranks *r, bool is_there, bool is_stopped, uint64_t uncounted_ns)
{
	uint64_t *longest_ns = is_there ? &r->cut_off_uncounted_ns : &r->uncounted_ns;

	if (is_stopped) {
		return;
	}
	*(is_there ? &r->n_cut_off : &r->n_speechless) += 1;
	*longest_ns = uncounted_ns > *longest_ns ? uncounted_ns : *longest_ns;
}

void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end)
{
	struct rank *row = find(r, end->process);
	struct procstat stat;

	if (!row) {
		return;
	}
	row->ended = true;
	row->totals = end->totals;
	if (!end->clean) {
		bool there = procstat_read((pid_t)row->own_pid, &stat) && !stat.exiting;

		row->stopped = there && procstat_is_stopped(&stat);
		note_speechless(r, there, row->stopped, end->uncounted_ns);
		copy_plain(row->note, sizeof(row->note),
			   row->stopped ? STOPPED
			   : there	? "lost its connection"
					: "ended without a last word");
	}
}

bool ranks_tell(const struct ranks *r)
{
	return r->n > 1 || (r->n == 1 && (!r->items[0].ended || r->items[0].stopped));
}

bool ranks_none_answered(const struct ranks *r)
{
	bool none = r->n > 0;

	for (size_t i = 0; i < r->n; i++) {
		none = none && !r->items[i].answered;
	}
	return none;
}

void ranks_look(struct ranks *r, ranks_on_stopped on_stopped, void *userdata)
{
	for (size_t i = 0; i < r->n; i++) {
		struct rank *row = &r->items[i];
		struct procstat stat;
		bool stopped = !row->ended && !row->left_out &&
			       procstat_read((pid_t)row->own_pid, &stat) &&
			       procstat_is_stopped(&stat);

		if (stopped && !row->stopped) {
			on_stopped(row->own_pid, row->program, userdata);
		}
		row->stopped = stopped;
	}
}

void ranks_look_for_silent(const struct ranks *r, ranks_on_stopped on_silent, void *userdata)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rank *row = &r->items[i];

		if (row->process != 0 && !row->answered && !row->ended && !row->stopped) {
			on_silent(row->own_pid, row->program, userdata);
		}
	}
}

/* --- the end of one node --------------------------------------------------------------------- */

static void add_part(struct buf *b, uint64_t n, const char *what)
{
	if (n > 0) {
		buf_text(b, b->n > 0 ? ", " : "");
		text_count(b, n);
		buf_printf(b, " %s", what);
	}
}

static void add_note(struct buf *b, const char *note)
{
	if (*note) {
		buf_printf(b, "%s%s", b->n > 0 ? "; " : "", note);
	}
}

/* For a process that has not said goodbye. */
static const char *look_after(const struct rank *row)
{
	struct procstat stat;
	bool there = procstat_read((pid_t)row->own_pid, &stat);

	if (there && procstat_is_stopped(&stat)) {
		return STOPPED;
	}
	return row->answered ? "its last word did not come"
	       : there	     ? "did not answer"
			     : "had ended";
}

static void end_row(struct rank *row)
{
	const struct gpuctr_totals *t = &row->totals;
	CLEAN_BUF struct buf b = { 0 };

	add_part(&b, t->filtered, "filtered");
	add_part(&b, t->capturing, "into graphs");
	add_part(&b, t->unready, "not ready");
	add_part(&b, t->failed, "failed");
	add_part(&b, t->dropped, "dropped");
	add_part(&b, t->lost, "not delivered");
	add_note(&b, row->note);
	if (!row->ended && !row->left_out) {
		add_note(&b, look_after(row));
	}
	copy_plain(row->why, sizeof(row->why), buf_string(&b));
	row->lost = t->unready + t->failed + t->dropped + t->lost;
	row->seen = t->seen > row->measured ? t->seen : row->measured;
}

static bool is_without_end(const struct rank *row)
{
	return row->process != 0 && !row->ended && !row->left_out;
}

static void take_away(struct gpuctr_totals *from, const struct gpuctr_totals *t)
{
#define TAKE(name) from->name -= t->name < from->name ? t->name : from->name;
	GPUCTR_TOTALS(TAKE)
#undef TAKE
}

static void share_out(struct ranks *r, const struct gpuctr_totals *all)
{
	struct gpuctr_totals rest = *all;
	struct rank *only = NULL;
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (is_without_end(&r->items[i])) {
			only = &r->items[i];
			n++;
		}
		take_away(&rest, &r->items[i].totals);
	}
	if (n == 1) {
		only->totals = rest;
	}
}

void ranks_end(struct ranks *r, const struct gpuctr_totals *all)
{
	if (all) {
		share_out(r, all);
	}
	for (size_t i = 0; i < r->n; i++) {
		end_row(&r->items[i]);
	}
}

void ranks_tell_why(const struct ranks *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rank *row = &r->items[i];

		if (*row->why) {
			say("rank %s, process %u (%s): %s", row->rank, row->pid, row->program,
			    row->why);
		}
	}
}

/* --- the table ------------------------------------------------------------------------------- */

static int compare(const void *first, const void *second)
{
	const struct rank *a = first, *b = second;
	unsigned long rank_a = strtoul(a->rank, NULL, 10), rank_b = strtoul(b->rank, NULL, 10);

	if (rank_a != rank_b) {
		return rank_a < rank_b ? -1 : 1;
	}
	return (a->pid > b->pid) - (a->pid < b->pid);
}

/* Shows a column only if it says something: the first metric, the reasons. */
struct shown {
	bool metric, why;
	struct grid_column columns[9];
	size_t n;
};

static void add_column(struct shown *s, const char *title, bool right)
{
	s->columns[s->n++] = (struct grid_column){ title, .right = right };
}

static void choose_columns(const struct ranks *r, struct shown *s)
{
	s->metric = r->metric != NULL;
	for (size_t i = 0; i < r->n; i++) {
		s->why = s->why || *r->items[i].why;
	}
	add_column(s, "rank", true);
	add_column(s, "pid", true);
	add_column(s, "program", false);
	add_column(s, "kernels", true);
	add_column(s, "measured", true);
	add_column(s, "lost", true);
	add_column(s, "time", true);
	if (s->metric) {
		add_column(s, r->metric, true);
	}
	if (s->why) {
		add_column(s, "why", false);
	}
}

static void add_cell(struct grid *g, struct buf *text)
{
	grid_text(g, buf_string(text));
	g->failed |= text->failed;
	buf_clear(text);
}

static void add_row(const struct ranks *r, const struct rank *row, const struct shown *s,
		    struct grid *g)
{
	const uint64_t counts[] = { row->seen, row->measured, row->lost };
	CLEAN_BUF struct buf b = { 0 };

	grid_text(g, row->rank);
	buf_u64(&b, row->pid);
	add_cell(g, &b);
	grid_text(g, row->program);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		text_count(&b, counts[i]);
		add_cell(g, &b);
	}
	text_time(&b, (double)row->time_ns);
	add_cell(g, &b);
	if (s->metric) {
		text_scaled(&b, row->value, r->unit ? r->unit : "");
		add_cell(g, &b);
	}
	if (s->why) {
		grid_text(g, row->why);
	}
}

void ranks_print(struct ranks *r, size_t max, struct buf *b)
{
	size_t n = max > 0 && max < r->n ? max : r->n;
	struct shown shown = { 0 };
	struct grid grid;

	if (r->n > 0) {
		qsort(r->items, r->n, sizeof(*r->items), compare);
	}
	choose_columns(r, &shown);
	grid_init(&grid, shown.columns, shown.n);
	for (size_t i = 0; i < n; i++) {
		add_row(r, &r->items[i], &shown, &grid);
	}
	buf_char(b, '\n');
	grid_print(&grid, SIZE_MAX, false, b);
	grid_deinit(&grid);
	if (n < r->n) {
		buf_printf(b, "and %zu process%s more\n", r->n - n, r->n - n == 1 ? "" : "es");
	}
}
