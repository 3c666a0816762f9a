/* SPDX-License-Identifier: Apache-2.0 */

/* What groups learn before the first record: the columns of captures, and processes with their
 * devices. groups_records.c takes the records, fold.c makes rows of them. */

#include "client/report/groups_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/claims.h"
#include "client/cli/text.h"
#include "client/report/peaks.h"
#include "client/store/reader.h"
#include "client/store/schema.h"
#include "proto/base/array.h"

/* --- life ------------------------------------------------------------------------------------ */

static size_t add_measure(struct groups *g, const char *name, const char *unit)
{
	struct measure *measures = realloc(g->measures, (g->n_measures + 1) * sizeof(*g->measures));
	struct measure *m;

	if (!measures) {
		return SIZE_MAX;
	}
	g->measures = measures;
	m = &measures[g->n_measures];
	*m = (struct measure){ .name = texts_add_string(&g->texts, name),
			       .unit = texts_add_string(&g->texts, unit) };
	return m->name && m->unit ? g->n_measures++ : SIZE_MAX;
}

struct groups *groups_new(const struct keys *keys)
{
	struct groups *g = calloc(1, sizeof(*g));

	if (!g) {
		return NULL;
	}
	g->keys = *keys;
	for (unsigned i = 0; i < keys->n; i++) {
		g->by_step = g->by_step || keys->keys[i] == KEY_STEP;
	}
	if (add_measure(g, "time", "ns") == SIZE_MAX) {
		return groups_free(g);
	}
	g->measures[MEASURE_TIME].adds_up = true;
	return g;
}

struct groups *groups_beside(struct groups *first, const struct keys *keys)
{
	struct groups *g = groups_new(keys);

	if (g) {
		g->beside = first->beside;
		first->beside = g;
	}
	return g;
}

static void free_processes(struct groups *g)
{
	for (size_t i = 0; i < g->n_processes; i++) {
		free(g->processes[i].devices);
	}
	free(g->processes);
	g->processes = NULL;
	g->n_processes = g->max_processes = 0;
}

struct groups *groups_free(struct groups *g)
{
	if (!g) {
		return NULL;
	}
	for (size_t i = 0; i < g->n_leaves; i++) {
		free(g->leaves[i]->stats);
		free(g->leaves[i]->timed);
		free(g->leaves[i]);
	}
	free_processes(g);
	texts_deinit(&g->texts);
	texts_deinit(&g->row_texts);
	free(g->measures);
	free(g->columns);
	free(g->row_leaves);
	map_deinit(&g->known_kinds);
	map_deinit(&g->known_alike);
	free(g->leaves);
	map_deinit(&g->known_leaves);
	free(g->rows);
	map_deinit(&g->known_rows);
	free(g);
	return NULL;
}

/* --- captures and processes ------------------------------------------------------------------ */

bool groups_adds_up(const char *column)
{
	return schema_adds_up(column);
}

bool groups_is_of_range(const char *column)
{
	return strstr(column, "elapsed") || strstr(column, ".per_second") ||
	       strncmp(column, "gpu__time_duration", strlen("gpu__time_duration")) == 0;
}

static size_t find_measure(const struct groups *g, const char *name)
{
	for (size_t i = MEASURE_TIME + 1; i < g->n_measures; i++) {
		if (strcmp(g->measures[i].name, name) == 0) {
			return i;
		}
	}
	return SIZE_MAX;
}

static int take_column(struct groups *g, const struct gpuctr_column *column, size_t *ret,
		       struct buf *why)
{
	const char *unit = column->unit ? column->unit : "";
	size_t i = find_measure(g, column->name);

	if (i == SIZE_MAX) {
		i = add_measure(g, column->name, unit);
		if (i == SIZE_MAX) {
			return -ENOMEM;
		}
		g->measures[i].adds_up = groups_adds_up(column->name);
		g->measures[i].of_range = groups_is_of_range(column->name);
	} else if (strcmp(g->measures[i].unit, unit) != 0) {
		if (why) {
			text_terminal(why, column->name);
			buf_text(why, " has the unit '");
			text_terminal(why, unit);
			buf_text(why, "' here and '");
			text_terminal(why, g->measures[i].unit);
			buf_text(why, "' in an earlier capture");
		}
		return -EINVAL;
	}
	if (g->takes_turns) {
		g->measures[i].turn = column->group + 1;
	}
	if (g->takes_turns && strcmp(column->name, "gpu__time_duration.sum") == 0) {
		g->measures[MEASURE_TIME].turn =
			column->group + 1; /* the time is then the length of a range */
	}
	*ret = i;
	return 0;
}

/* Makes room for counters that earlier captures did not have. */
static bool grow_stats(struct groups *g, size_t from)
{
	for (size_t i = 0; i < g->n_leaves && from < g->n_measures; i++) {
		struct leaf *leaf = g->leaves[i];
		struct sample *stats = realloc(leaf->stats, g->n_measures * sizeof(*stats));
		struct part *timed = realloc(leaf->timed, g->n_measures * sizeof(*timed));

		leaf->stats = stats ? stats : leaf->stats;
		leaf->timed = timed ? timed : leaf->timed;
		if (!stats || !timed) {
			return false;
		}
		memset(stats + from, 0, (g->n_measures - from) * sizeof(*stats));
		memset(timed + from, 0, (g->n_measures - from) * sizeof(*timed));
	}
	return true;
}

static int begin(struct groups *g, const struct gpuctr_plan *plan, const char *name,
		 struct buf *why)
{
	size_t had = g->n_measures;
	int r = 0;

	free(g->columns);
	g->n_columns = 0;
	g->takes_turns = plan->groups > 1;
	g->turns |= g->takes_turns;
	g->columns = calloc(plan->n_columns + 1, sizeof(*g->columns));
	g->capture = texts_add_string(&g->texts, name);
	g->host = "";
	if (!g->columns || !g->capture) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < plan->n_columns && r == 0; i++) {
		r = take_column(g, &plan->columns[i], &g->columns[i], why);
		g->n_columns = i + 1;
	}
	if (r || !grow_stats(g, had)) {
		return r ? r : -ENOMEM;
	}
	sums_find(g->measures, g->n_measures, &g->sums);
	g->n_captures++;
	g->announced++;
	free_processes(g);
	return 0;
}

int groups_begin(struct groups *g, const struct gpuctr_plan *plan, const char *name,
		 struct buf *why)
{
	int r = 0;

	for (; g && r == 0; g = g->beside) {
		r = begin(g, plan, name, why);
	}
	return r;
}

bool groups_are_sampled(const struct groups *g)
{
	return g->sampled;
}

bool groups_take_turns(const struct groups *g)
{
	return g->turns;
}

double groups_flop_peak(const struct groups *g, enum peaks_precision precision)
{
	bool known = !g->flop_peaks_unknown[precision] && sums_has_precision(&g->sums, precision);

	return known ? g->flop_peaks[precision] * 1e9 : 0;
}

static void note_flop_peak(struct groups *g, enum peaks_precision precision, double peak)
{
	g->flop_peaks_unknown[precision] = g->flop_peaks_unknown[precision] || peak <= 0;
	if (peak > g->flop_peaks[precision]) {
		g->flop_peaks[precision] = peak;
	}
}

int groups_host(struct groups *g, const char *host)
{
	for (; g; g = g->beside) {
		g->host = texts_add_string(&g->texts, host);
		if (!g->host) {
			return -ENOMEM;
		}
	}
	return 0;
}

static const char *add_text(struct groups *g, struct buf *b)
{
	const char *text = b->failed ? NULL : texts_add_string(&g->texts, buf_string(b));

	buf_deinit(b);
	return text;
}

static int take_devices(struct groups *g, struct groups_process *p,
			const struct gpuctr_process *process)
{
	free(p->devices);
	p->n_devices = 0;
	p->devices = calloc(process->n_devices + 1, sizeof(*p->devices));
	if (!p->devices) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < process->n_devices; i++) {
		const struct gpuctr_device *device = &process->devices[i];
		struct groups_device *d = &p->devices[i];
		struct buf b = { 0 };

		/* Each process numbers its devices itself, so devices are compared by UUID. */
		buf_printf(&b, "%s %.12s", device->name, device->uuid);
		d->index = device->index;
		d->label = add_text(g, &b);
		d->multiprocessors = peaks_multiprocessors(device);
		d->bytes_a_ns = peaks_bytes_a_ns(device);
		for (int k = 0; k < PEAKS_PRECISIONS; k++) {
			d->flop_a_ns[k] = peaks_flop_a_ns(device, (enum peaks_precision)k);
			note_flop_peak(g, (enum peaks_precision)k, d->flop_a_ns[k]);
		}
		p->n_devices = i + 1;
		if (!d->label) {
			return -ENOMEM;
		}
	}
	return 0;
}

/* The index of the process, or where it is to be inserted: processes are sorted by number. */
static size_t process_index(const struct groups *g, unsigned process)
{
	return ARRAY_FIND_INDEX(g->processes, g->n_processes, process, process);
}

struct groups_process *groups_find_process(struct groups *g, unsigned process)
{
	size_t at = process_index(g, process);

	return at < g->n_processes && g->processes[at].process == process ? &g->processes[at]
									  : NULL;
}

const struct groups_device *groups_find_device(const struct groups_process *p, unsigned index)
{
	for (size_t i = 0; p && i < p->n_devices; i++) {
		if (p->devices[i].index == index) {
			return &p->devices[i];
		}
	}
	return NULL;
}

/* NULL: out of memory. */
static struct groups_process *add_process(struct groups *g, unsigned process)
{
	size_t at = process_index(g, process);
	struct groups_process *p;

	if (!array_make_room(&g->processes, sizeof(*p), g->n_processes, &g->max_processes)) {
		return NULL;
	}
	p = &g->processes[at];
	memmove(p + 1, p, (g->n_processes++ - at) * sizeof(*p));
	*p = (struct groups_process){ .process = process };
	return p;
}

/* "rank 3"; "" without a claim. NULL: out of memory. */
static const char *add_claim(struct groups *g, const char *what, const char *value)
{
	struct buf b = { 0 };

	if (value) {
		buf_printf(&b, "%s %s", what, value);
	}
	return add_text(g, &b);
}

static int take_claims(struct groups *g, struct groups_process *p,
		       const struct gpuctr_process *process)
{
	const struct claims claims = { process->claims, process->n_claims };

	p->rank = add_claim(g, "rank", claims_rank(&claims));
	p->task = add_claim(g, "task", claims_task(&claims));
	return p->rank && p->task ? 0 : -ENOMEM;
}

static int take_process(struct groups *g, const struct gpuctr_process *process)
{
	struct groups_process *p = groups_find_process(g, process->process);
	struct buf b = { 0 };

	g->announced += p != NULL;
	p = p ? p : add_process(g, process->process);
	if (!p) {
		return -ENOMEM;
	}
	buf_printf(&b, "%s (%u)", process->program ? process->program : TEXT_UNKNOWN, process->pid);
	p->label = add_text(g, &b);
	if (!p->label || take_claims(g, p, process)) {
		return -ENOMEM;
	}
	return take_devices(g, p, process);
}

int groups_process(struct groups *g, const struct gpuctr_process *process)
{
	int r = 0;

	for (; g && r == 0; g = g->beside) {
		r = take_process(g, process);
	}
	return r;
}

/* --- what is known --------------------------------------------------------------------------- */

const struct keys *groups_keys(const struct groups *g)
{
	return &g->keys;
}

size_t groups_measures(const struct groups *g, const struct measure **ret)
{
	*ret = g->measures;
	return g->n_measures;
}

size_t groups_rows(struct groups *g, struct group ***ret)
{
	*ret = g->rows;
	return g->n_rows;
}

const struct group *groups_all(const struct groups *g)
{
	return g->all;
}

uint64_t groups_records(const struct groups *g)
{
	return g->records;
}

uint64_t groups_clock(const struct groups *g, enum gpuctr_clock clock)
{
	return g->by_clock[clock];
}
