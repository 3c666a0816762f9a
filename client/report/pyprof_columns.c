/* SPDX-License-Identifier: Apache-2.0 */

/* The text of PyProf's columns for a launch. */

#include "client/report/pyprof_internal.h"

#include <math.h>
#include <string.h>

#include "client/cli/text.h"

enum { MAX_NUMBERS = 64 };

/* --- fields ---------------------------------------------------------------------------------- */

static void add_field(struct buf *b, const char *text, char space)
{
	size_t from = b->n;

	text_terminal(b, text);
	for (size_t i = from; i < b->n; i++) {
		b->data[i] = b->data[i] == ' ' ? space : b->data[i];
	}
}

static void add_index(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_u64(b, l->index);
}

static void add_seq(struct pyprof *p, struct buf *b, const struct launch *l)
{
	if (l->what->seq >= 0) {
		buf_i64(b, l->what->seq);
	} else {
		buf_char(b, '-');
	}
}

static bool has_number(const int64_t *numbers, size_t n, int64_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (numbers[i] == number) {
			return true;
		}
	}
	return false;
}

/* The other numbers that the ranges around the launch show, innermost first. */
static void add_altseq(struct pyprof *p, struct buf *b, const struct launch *l)
{
	int64_t numbers[MAX_NUMBERS] = { l->what->seq };
	size_t n = 1;

	for (const struct gpuctr_site *site = l->record->site; site && n < MAX_NUMBERS;
	     site = site->parent) {
		int64_t seq = gpuctr_site_number(site, &l->record->at);

		if (site->numbered != GPUCTR_NUMBER_SEQ || seq < 0 || has_number(numbers, n, seq)) {
			continue;
		}
		if (n > 1) {
			buf_char(b, ',');
		}
		buf_i64(b, seq);
		numbers[n++] = seq;
	}
	if (n == 1) {
		buf_char(b, '-');
	}
}

static void add_thread(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_u64(b, l->record->thread);
}

static void add_layer(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_field(b, *l->what->layer ? l->what->layer : "-", '_');
}

static void add_nothing(struct pyprof *p, struct buf *b, const struct launch *l)
{
}

static void add_direction(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_text(b, attribution_direction_name(l->what->direction));
}

static void add_sub(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_u64(b, l->what->sub);
}

/* "aten" of "aten::conv2d". */
static void add_module(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const char *end = l->op ? strstr(l->op->name, "::") : NULL;
	CLEAN_BUF struct buf module = { 0 };

	if (end) {
		buf_add(&module, l->op->name, (size_t)(end - l->op->name));
		add_field(b, buf_string(&module), '_');
	}
	b->failed |= module.failed;
}

static void add_operator(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const char *after = l->op ? strstr(l->op->name, "::") : NULL;

	if (l->op) {
		add_field(b, after ? after + 2 : l->op->name, '_');
	}
}

void pyprof_add_kernel(struct buf *b, const char *name)
{
	CLEAN_BUF struct buf bare = { 0 };

	text_kernel_bare(&bare, name);
	add_field(b, buf_string(&bare), '_');
	b->failed |= bare.failed;
}

static void add_kernel(struct pyprof *p, struct buf *b, const struct launch *l)
{
	if (l->record->kernel) {
		pyprof_add_kernel(b, l->record->kernel->name);
	}
}

static void add_params(struct pyprof *p, struct buf *b, const struct launch *l)
{
	if (l->op) {
		add_field(b, l->op->sizes, ',');
	}
}

static void add_duration(struct pyprof *p, struct buf *b, const struct launch *l)
{
	if (isfinite(l->values[MEASURE_TIME])) {
		buf_i64(b, llround(l->values[MEASURE_TIME]));
	}
}

/* Did the kernel use tensor cores? A value of samples that is within three of its errors does not
 * say. */
static void add_tensor(struct pyprof *p, struct buf *b, const struct launch *l)
{
	const struct gpuctr_plan *plan = &p->info->plan;
	bool known = false, used = false, unsure = false;

	for (size_t i = 0; i < plan->n_columns; i++) {
		double value = l->record->values[i];
		double error = l->record->errors ? l->record->errors[i] : 0;

		if (strstr(plan->columns[i].name, "tensor") && isfinite(value)) {
			known = true;
			used = used || value > 3 * error;
			unsure = unsure || error > 0;
		}
	}
	if (known && (used || !unsure)) {
		buf_char(b, used ? '1' : '0');
	}
}

static void add_device(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_u64(b, l->record->device);
}

static void add_stream(struct pyprof *p, struct buf *b, const struct launch *l)
{
	buf_u64(b, l->record->stream);
}

static void add_shape(struct buf *b, const uint32_t shape[3])
{
	for (int i = 0; i < 3; i++) {
		if (i > 0) {
			buf_char(b, ',');
		}
		buf_u64(b, shape[i]);
	}
}

static void add_grid(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_shape(b, l->record->grid);
}

static void add_block(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_shape(b, l->record->block);
}

static void add_sum(struct buf *b, const struct launch *l, const struct sum *s)
{
	double sum = s->n > 0 ? 0 : NAN;

	for (size_t i = 0; i < s->n; i++) {
		sum += l->values[s->terms[i]];
	}
	if (isfinite(sum)) {
		buf_double(b, sum);
	}
}

static void add_flops(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_sum(b, l, &p->flops);
}

static void add_bytes(struct pyprof *p, struct buf *b, const struct launch *l)
{
	add_sum(b, l, &p->bytes);
}

const struct column pyprof_columns[PYPROF_COLUMNS] = {
	{ "idx", "Idx", 7, false, add_index },
	{ "seq", "SeqId", 7, true, add_seq },
	{ "altseq", "AltSeqId", 7, true, add_altseq },
	{ "tid", "TId", 12, false, add_thread },
	{ "layer", "Layer", 10, true, add_layer },
	{ "trace", "Trace", 25, true, add_nothing },
	{ "dir", "Direction", 5, true, add_direction },
	{ "sub", "Sub", 3, false, add_sub },
	{ "mod", "Module", 15, true, add_module },
	{ "op", "Op", 15, true, add_operator },
	{ "kernel", "Kernel", 0, true, add_kernel },
	{ "params", "Params", 0, true, add_params },
	{ "sil", "Sil(ns)", 10, false, add_duration },
	{ "tc", "TC", 2, true, add_tensor },
	{ "device", "Device", 3, false, add_device },
	{ "stream", "Stream", 3, false, add_stream },
	{ "grid", "Grid", 12, true, add_grid },
	{ "block", "Block", 12, true, add_block },
	{ "flops", "FLOPs", 12, false, add_flops },
	{ "bytes", "Bytes", 12, false, add_bytes },
};
