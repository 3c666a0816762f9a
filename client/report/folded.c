/* SPDX-License-Identifier: Apache-2.0 */

/* Folded stacks, for flamegraph.pl, speedscope and inferno: a line for each call site in the
 * program and kernel, "iteration N;Conv;aten::conv2d;void gemm<...>(...) 1234", with the sum of a
 * counter or of the time in ns. Steps, and ranges that differ only in what PyTorch counts, are one
 * stack frame. A semicolon in a name becomes a comma, and what would break the line a question
 * mark. A stack of more than 32 kB is cut: names for which there is no room are "..", and then left
 * out. Where metrics take turns, sums are estimated for all launches (kinds.c). Each sum is rounded
 * to a whole number, because flamegraph.pl and speedscope read no others.
 *
 * Memory grows with the call sites in the program, not with the records. */

#include "client/report/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/attribution.h"
#include "client/report/stack_frames.h"

enum { STACK_BYTES_MAX = 32 * 1024 };

struct folded {
	const struct store_info *info;
	size_t measure; /* measure whose sums are written */
	struct stack_frames frames;
	struct groups *groups;
	uint64_t unknown; /* launches without a value */
};

/* --- what is weighed ------------------------------------------------------------------------- */

static size_t find_column(const struct gpuctr_plan *plan, const char *weight, size_t *ret_matches)
{
	size_t found = SIZE_MAX;

	*ret_matches = 0;
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (strcmp(plan->columns[i].name, weight) == 0) {
			*ret_matches = 1;
			return i;
		}
		if (strstr(plan->columns[i].name, weight)) {
			found = i;
			(*ret_matches)++;
		}
	}
	return found;
}

static bool take_weight(struct folded *f, const char *weight, struct buf *why)
{
	const struct gpuctr_plan *plan = &f->info->plan;
	size_t n_matches, column;

	f->measure = MEASURE_TIME;
	if (!weight || strcmp(weight, "time") == 0) {
		return true;
	}
	column = find_column(plan, weight, &n_matches);
	f->measure = MEASURE_TIME + 1 + column;
	if (n_matches == 1 && groups_adds_up(plan->columns[column].name)) {
		return true;
	}
	if (n_matches == 1) {
		text_terminal(why, plan->columns[column].name);
		buf_text(why, " does not add up over kernels; take a counter that ends with .sum");
		return false;
	}
	buf_text(why, n_matches == 0 ? "no counter is called '" : "more than one counter is '");
	text_terminal(why, weight);
	buf_text(why, "'; there are time");
	for (size_t i = 0; i < plan->n_columns; i++) {
		buf_text(why, ", ");
		text_terminal(why, plan->columns[i].name);
	}
	return false;
}

/* Writes a name, with ',' for ';' and '?' for control characters. */
static void write_name(struct buf *b, const char *name)
{
	CLEAN_BUF struct buf safe = { 0 };

	for (const char *p = *name ? name : "(no name)"; *p; p++) {
		buf_char(&safe, *p == ';' ? ',' : (unsigned char)*p < 0x20 ? '?' : *p);
	}
	text_terminal(b, buf_string(&safe));
	b->failed |= safe.failed;
}

/* --- life ------------------------------------------------------------------------------------ */

static void folded_close(void *e)
{
	struct folded *f = e;

	groups_free(f->groups);
	stack_frames_deinit(&f->frames);
	free(f);
}

static void *folded_open(const struct store_info *info, const struct exporter_options *options,
			 struct exporter_refusal *refusal)
{
	struct folded *f = calloc(1, sizeof(*f));

	if (!f) {
		return NULL;
	}
	f->info = info;
	f->frames.write_name = write_name;
	f->groups = stack_frames_groups(NULL, options->process == 0 && info->n_processes > 1);
	if (!f->groups || groups_begin(f->groups, &info->plan, info->path, NULL) != 0 ||
	    !take_weight(f, options->weight, &refusal->why)) {
		folded_close(f);
		return NULL;
	}
	return f;
}

/* --- records --------------------------------------------------------------------------------- */

static int folded_process(void *e, struct buf *b, const struct store_process *process)
{
	return groups_process(((struct folded *)e)->groups, &process->process);
}

static int folded_record(void *e, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	return groups_record(((struct folded *)e)->groups, record, what);
}

/* --- lines ----------------------------------------------------------------------------------- */

static int compare_frames(const void *a, const void *b)
{
	const struct stack_frame *x = *(const struct stack_frame *const *)a,
				 *y = *(const struct stack_frame *const *)b;
	int order = strcmp(x->name, y->name);

	return order ? order : x->is_kernel - y->is_kernel;
}

/* Returns the children sorted by name, which is the order of lines. */
static const struct stack_frame **sort_children(const struct stack_frame *frame, size_t *ret_n)
{
	const struct stack_frame **sorted;
	size_t n = 0;

	for (const struct stack_frame *c = frame->children; c; c = c->next) {
		n++;
	}
	sorted = calloc(n + 1, sizeof(*sorted));
	*ret_n = n;
	for (const struct stack_frame *c = frame->children; sorted && c; c = c->next) {
		sorted[--n] = c;
	}
	if (sorted && *ret_n > 1) {
		qsort(sorted, *ret_n, sizeof(*sorted), compare_frames);
	}
	return sorted;
}

static void push_name(struct buf *stack, const char *name)
{
	if (stack->n <= STACK_BYTES_MAX) {
		buf_text(stack, stack->n + strlen(name) > STACK_BYTES_MAX ? ".." : name);
		buf_char(stack, ';');
	}
}

/* Writes the line of a kernel, if its value is known. */
static void write_line(struct folded *f, struct buf *b, const struct stack_frame *kernel,
		       const struct buf *stack)
{
	const struct part *sum = &kernel->row->own[f->measure];

	f->unknown += kernel->row->calls - sum->n;
	if (sum->n > 0) {
		buf_add(b, stack->data, stack->n);
		buf_printf(b, "%s %.0f\n", kernel->name, sum->sum);
	}
}

/* Writes the lines of all kernels in a stack frame. stack: names of the stack frame and those
 * around it, each with a semicolon; unchanged on return. */
static int write_lines(struct folded *f, struct buf *b, const struct stack_frame *frame,
		       struct buf *stack)
{
	size_t n, n_stack = stack->n;
	const struct stack_frame **children = sort_children(frame, &n);
	int r = children ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (children[i]->is_kernel) {
			write_line(f, b, children[i], stack);
		} else {
			push_name(stack, children[i]->name);
			r = write_lines(f, b, children[i], stack);
		}
		stack->n = n_stack;
	}
	free(children);
	return r;
}

static int folded_end(void *e, struct buf *b)
{
	struct folded *f = e;
	CLEAN_BUF struct buf stack = { 0 };
	int r = stack_frames_make(&f->frames, f->groups);

	r = r ? r : write_lines(f, b, &f->frames.root, &stack);
	return stack.failed ? -ENOMEM : r;
}

static void folded_tell(void *e, struct buf *b)
{
	const struct folded *f = e;

	if (groups_take_turns(f->groups)) {
		buf_text(b, "metrics took turns: sums are of all launches, by those of their "
			    "kernel and "
			    "shape that\nhad the metric\n");
	}
	if (f->unknown > 0) {
		text_count(b, f->unknown);
		buf_text(b, " kernels are not in it: their value is not known\n");
	}
}

const struct exporter exporter_folded = {
	.name = "folded",
	.attributes = true,
	.brief = true,
	.only_at_end = true,
	.open = folded_open,
	.close = folded_close,
	.process = folded_process,
	.record = folded_record,
	.end = folded_end,
	.tell = folded_tell,
};
