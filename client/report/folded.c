/* SPDX-License-Identifier: Apache-2.0 */

/* Folded stacks, for flamegraph.pl, speedscope and inferno: a line for each place in the program
 * and kernel, "iteration 2;Conv;aten::conv2d;void gemm<...>(...) 1234", with the sum of a counter
 * or of the time in ns. Ranges that differ only in what PyTorch counts are one frame. A semicolon
 * in a name becomes a comma, and what would break the line a question mark.
 *
 * Memory grows with the lines. */

#include "client/report/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/attribution.h"
#include "client/report/groups.h"

enum { FIRST_SLOTS = 256, KERNEL_SLOTS = 1024 };

struct line {
	unsigned process;
	const struct scope *scope; /* NULL: in no range */
	const char *kernel;	   /* of texts */
	double sum;
};

struct folded {
	const struct store_info *info;
	struct attributor *attributor;
	size_t column; /* SIZE_MAX: time */
	bool several;
	struct {
		unsigned process, kernel;
		const char *name;
	} kernels[KERNEL_SLOTS];
	struct line *lines; /* open addressing, a power of two; kernel NULL: free */
	size_t n, n_slots;
	uint64_t unknown; /* records without a value */
};

/* --- what is weighed ---------------------------------------------------------------------------
 */

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
	size_t n_matches;

	f->column = SIZE_MAX;
	if (!weight || strcmp(weight, "time") == 0) {
		return true;
	}
	f->column = find_column(plan, weight, &n_matches);
	if (n_matches == 1 && groups_adds_up(plan->columns[f->column].name)) {
		return true;
	}
	if (n_matches == 1) {
		text_terminal(why, plan->columns[f->column].name);
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

/* --- life --------------------------------------------------------------------------------------
 */

static void folded_close(void *e)
{
	struct folded *f = e;

	attributor_free(f->attributor);
	free(f->lines);
	free(f);
}

static void *folded_open(const struct store_info *info, const struct exporter_options *options,
			 struct buf *why)
{
	struct folded *f = calloc(1, sizeof(*f));

	if (!f) {
		return NULL;
	}
	f->info = info;
	f->several = options->process == 0 && info->n_processes > 1;
	f->attributor = attributor_new();
	if (!f->attributor || !take_weight(f, options->weight, why)) {
		folded_close(f);
		return NULL;
	}
	return f;
}

/* --- records -----------------------------------------------------------------------------------
 */

static struct line *find_line(struct line *lines, size_t n_slots, unsigned process,
			      const struct scope *scope, const char *kernel)
{
	uint64_t hash = texts_mix(texts_mix(process, (uintptr_t)scope), (uintptr_t)kernel);
	size_t i = hash & (n_slots - 1);

	while (lines[i].kernel && (lines[i].kernel != kernel || lines[i].scope != scope ||
				   lines[i].process != process)) {
		i = (i + 1) & (n_slots - 1);
	}
	return &lines[i];
}

static int grow(struct folded *f)
{
	size_t n = f->n_slots ? f->n_slots * 2 : FIRST_SLOTS;
	struct line *lines = calloc(n, sizeof(*lines));

	if (!lines) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < f->n_slots; i++) {
		const struct line *l = &f->lines[i];

		if (l->kernel) {
			*find_line(lines, n, l->process, l->scope, l->kernel) = *l;
		}
	}
	free(f->lines);
	f->lines = lines;
	f->n_slots = n;
	return 0;
}

static const char *find_kernel(struct folded *f, const struct gpuctr_record *record)
{
	unsigned id = record->kernel ? record->kernel->id : 0;
	size_t i = (id + record->process * 1021u) % KERNEL_SLOTS;

	if (!f->kernels[i].name || f->kernels[i].kernel != id ||
	    f->kernels[i].process != record->process) {
		f->kernels[i].process = record->process;
		f->kernels[i].kernel = id;
		f->kernels[i].name =
			texts_add_string(attributor_texts(f->attributor),
					 record->kernel ? record->kernel->name : "(not known)");
	}
	return f->kernels[i].name;
}

static int folded_record(void *e, struct buf *b, const struct gpuctr_record *record)
{
	struct folded *f = e;
	const char *kernel = find_kernel(f, record);
	double value = f->column != SIZE_MAX	 ? record->values[f->column]
		       : record->duration_ns < 0 ? NAN
						 : (double)record->duration_ns;
	struct attribution what;
	struct line *line;

	(void)b;
	if (!kernel || attributor_take(f->attributor, record, &what) ||
	    (f->n * 2 >= f->n_slots && grow(f))) {
		return -ENOMEM;
	}
	if (!isfinite(value)) {
		f->unknown++;
		return 0;
	}
	line = find_line(f->lines, f->n_slots, f->several ? record->process : 0, what.scope,
			 kernel);
	if (!line->kernel) {
		line->process = f->several ? record->process : 0;
		line->scope = what.scope;
		line->kernel = kernel;
		f->n++;
	}
	line->sum += value;
	return 0;
}

/* --- lines -------------------------------------------------------------------------------------
 */

/* Bytes that are not UTF-8 or not to be seen are no part of a line. */
static void add_frame(struct buf *b, const char *name)
{
	struct buf safe = { 0 };

	for (const char *p = *name ? name : "(no name)"; *p; p++) {
		buf_char(&safe, *p == ';' ? ',' : (unsigned char)*p < 0x20 ? '?' : *p);
	}
	text_terminal(b, buf_string(&safe));
	b->failed |= safe.failed;
	buf_deinit(&safe);
}

static void add_scopes(struct buf *b, const struct scope *scope)
{
	if (scope) {
		add_scopes(b, scope->parent);
		add_frame(b, scope->label);
		buf_char(b, ';');
	}
}

static void add_process(const struct folded *f, struct buf *b, unsigned process)
{
	for (size_t i = 0; i < f->info->n_processes; i++) {
		const struct gpuctr_process *p = &f->info->processes[i].process;

		if (p->process == process) {
			add_frame(b, p->program);
			buf_printf(b, " (%u);", p->pid);
		}
	}
}

/* As it is printed. */
struct stack {
	char *text;
	double sum;
};

static int compare_stacks(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static char *render(const struct folded *f, const struct line *line)
{
	struct buf b = { 0 };

	add_process(f, &b, line->process);
	add_scopes(&b, line->scope);
	add_frame(&b, line->kernel);
	buf_char(&b, '\0');
	if (b.failed) {
		buf_deinit(&b);
		return NULL;
	}
	return b.data;
}

static int render_all(const struct folded *f, struct stack *stacks)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_slots; i++) {
		if (f->lines[i].kernel) {
			stacks[n].text = render(f, &f->lines[i]);
			stacks[n].sum = f->lines[i].sum;
			if (!stacks[n++].text) {
				return -ENOMEM;
			}
		}
	}
	qsort(stacks, n, sizeof(*stacks), compare_stacks);
	return 0;
}

/* Places that differ in what is not shown, as the sizes of tensors, are one line. */
static int folded_end(void *e, struct buf *b)
{
	struct folded *f = e;
	struct stack *stacks = calloc(f->n + 1, sizeof(*stacks));
	int r = stacks ? render_all(f, stacks) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < f->n; i++) {
		if (i + 1 < f->n && strcmp(stacks[i].text, stacks[i + 1].text) == 0) {
			stacks[i + 1].sum += stacks[i].sum;
			continue;
		}
		buf_text(b, stacks[i].text);
		buf_char(b, ' ');
		buf_double(b, stacks[i].sum);
		buf_char(b, '\n');
	}
	for (size_t i = 0; stacks && i < f->n; i++) {
		free(stacks[i].text);
	}
	free(stacks);
	return r;
}

static void folded_tell(void *e, struct buf *b)
{
	const struct folded *f = e;

	if (f->unknown > 0) {
		text_count(b, f->unknown);
		buf_text(b, " kernels are not in it: their value is not known\n");
	}
}

const struct exporter exporter_folded = {
	.name = "folded",
	.open = folded_open,
	.close = folded_close,
	.record = folded_record,
	.end = folded_end,
	.tell = folded_tell,
};
