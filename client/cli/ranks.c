/* SPDX-License-Identifier: Apache-2.0 */

/* A line is "rank", then fields, each behind a tab: node, rank, pid, program, kernels seen,
 * measured, their time in ns, the sum of the first column, its name and unit. Text has no control
 * characters in it. */

#include "client/cli/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/text.h"

enum { FIELDS = 10 };

struct rank {
	char node[64], rank[32], program[64];
	unsigned process, pid;
	uint64_t seen, measured, time_ns;
	double value;
};

void ranks_deinit(struct ranks *r)
{
	free(r->items);
	free(r->metric);
	free(r->unit);
	*r = (struct ranks){ 0 };
}

/* --- of one node -------------------------------------------------------------------------------
 */

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
	for (size_t i = r->n; i > 0; i--) {
		if (r->items[i - 1].process == process) {
			return &r->items[i - 1];
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

void ranks_process(struct ranks *r, const struct gpuctr_process *process)
{
	struct claims claims = { process->claims, process->n_claims };
	struct rank *row = find(r, process->process);

	row = row ? row : add(r);
	if (!row) {
		return;
	}
	row->process = process->process;
	row->pid = process->pid;
	copy_plain(row->rank, sizeof(row->rank), claims_rank(&claims));
	copy_plain(row->program, sizeof(row->program), process->program);
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

void ranks_process_end(struct ranks *r, const struct gpuctr_process_end *end)
{
	struct rank *row = find(r, end->process);

	if (row) {
		row->seen = end->totals.seen;
	}
}

/* --- lines -------------------------------------------------------------------------------------
 */

void ranks_write(const struct ranks *r, const char *node, FILE *f)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct rank *row = &r->items[i];

		fprintf(f,
			"rank\t%s\t%s\t%u\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			"\t%.17g\t%s\t%s\n",
			node, row->rank, row->pid, row->program, row->seen, row->measured,
			row->time_ns, row->value, r->metric ? r->metric : "",
			r->unit ? r->unit : "");
	}
}

static size_t split(char *line, char **fields, size_t max)
{
	size_t n = 0;

	for (char *p = line; p && n < max;) {
		fields[n++] = p;
		p = strchr(p, '\t');
		if (p) {
			*p++ = '\0';
		}
	}
	return n;
}

static void take_fields(struct ranks *r, struct rank *row, char **fields)
{
	copy_plain(row->node, sizeof(row->node), fields[0]);
	copy_plain(row->rank, sizeof(row->rank), fields[1]);
	row->pid = (unsigned)strtoul(fields[2], NULL, 10);
	copy_plain(row->program, sizeof(row->program), fields[3]);
	row->seen = strtoull(fields[4], NULL, 10);
	row->measured = strtoull(fields[5], NULL, 10);
	row->time_ns = strtoull(fields[6], NULL, 10);
	row->value = strtod(fields[7], NULL);
	if (!r->metric && *fields[8]) {
		r->metric = strdup(fields[8]);
		r->unit = strdup(fields[9]);
	}
}

bool ranks_read(struct ranks *r, const char *line)
{
	char *fields[FIELDS], *copy;
	struct rank *row;
	bool whole;

	if (strncmp(line, "rank\t", 5) != 0) {
		return false;
	}
	copy = strdup(line + 5);
	whole = copy && split(copy, fields, FIELDS) == FIELDS;
	row = whole ? add(r) : NULL;
	if (row) {
		take_fields(r, row, fields);
	}
	free(copy);
	return whole;
}

/* --- the table ---------------------------------------------------------------------------------
 */

static int compare(const void *first, const void *second)
{
	const struct rank *a = first, *b = second;
	unsigned long rank_a = strtoul(a->rank, NULL, 10), rank_b = strtoul(b->rank, NULL, 10);
	int nodes = strcmp(a->node, b->node);

	if (rank_a != rank_b) {
		return rank_a < rank_b ? -1 : 1;
	}
	return nodes ? nodes : (a->pid > b->pid) - (a->pid < b->pid);
}

static void add_text(struct buf *b, const char *text, int width)
{
	struct buf safe = { 0 };

	text_terminal(&safe, text);
	buf_printf(b, "  %-*s", width, buf_string(&safe));
	buf_deinit(&safe);
}

static void add_number(struct buf *b, struct buf *number, int width)
{
	buf_printf(b, " %*s", width, buf_string(number));
	buf_deinit(number);
}

static void print_row(const struct ranks *r, const struct rank *row, struct buf *b)
{
	struct buf seen = { 0 }, measured = { 0 }, time = { 0 }, value = { 0 };

	buf_printf(b, "%5s", row->rank);
	add_text(b, row->node, 12);
	buf_printf(b, " %8u", row->pid);
	add_text(b, row->program, 15);
	text_count(&seen, row->seen);
	add_number(b, &seen, 10);
	text_count(&measured, row->measured);
	add_number(b, &measured, 10);
	text_time(&time, (double)row->time_ns);
	add_number(b, &time, 10);
	if (r->metric) {
		text_scaled(&value, row->value, r->unit ? r->unit : "");
		add_number(b, &value, 12);
	}
	buf_char(b, '\n');
}

void ranks_print(struct ranks *r, struct buf *b)
{
	if (r->n > 0) {
		qsort(r->items, r->n, sizeof(*r->items), compare);
	}
	buf_printf(b, "\n%5s  %-12s %8s  %-15s %10s %10s %10s", "rank", "node", "pid", "program",
		   "kernels", "measured", "time");
	if (r->metric) {
		add_text(b, r->metric, 12);
	}
	buf_char(b, '\n');
	for (size_t i = 0; i < r->n; i++) {
		print_row(r, &r->items[i], b);
	}
}
