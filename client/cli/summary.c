/* SPDX-License-Identifier: Apache-2.0 */

/* Adds up counters by kernel name. A record finds its row through a direct-mapped table by kernel
 * number; only a kernel that is new there is looked up by name, because the same kernel has another
 * number in each process. summary_print.c shows the rows. */

#include "client/cli/summary_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/format.h"

/* --- life --------------------------------------------------------------------------------------
 */

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), n_suffix = strlen(suffix);

	return n >= n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static bool take_columns(struct summary *s, const struct gpuctr_plan *plan)
{
	s->columns = calloc(plan->n_columns + 1, sizeof(*s->columns));
	if (!s->columns) {
		return false;
	}
	for (size_t i = 0; i < plan->n_columns; i++) {
		struct summary_column *column = &s->columns[i];
		const char *name = plan->columns[i].name;

		s->n_columns = i + 1;
		column->name = strdup(name);
		column->unit = strdup(plan->columns[i].unit ? plan->columns[i].unit : "");
		if (!column->name || !column->unit) {
			return false;
		}
		column->of_range = format_is_of_range(name);
		/* A derived name without rollup is a weighted sum of ".sum" counters. */
		column->adds_up = ends_with(name, ".sum") || !strchr(name, '.');
	}
	return true;
}

struct summary *summary_new(const struct gpuctr_plan *plan)
{
	struct summary *s = calloc(1, sizeof(*s));

	if (!s) {
		return NULL;
	}
	s->passes = plan->passes;
	s->chip = strdup(plan->chip ? plan->chip : "");
	s->n_slots = 256;
	s->by_name = calloc(s->n_slots, sizeof(struct summary_row *));
	if (!s->chip || !s->by_name || !take_columns(s, plan)) {
		return summary_free(s);
	}
	return s;
}

struct summary *summary_free(struct summary *s)
{
	if (!s) {
		return NULL;
	}
	for (size_t i = 0; i < s->n_rows; i++) {
		free(s->rows[i]->name);
		free(s->rows[i]->cells);
		free(s->rows[i]);
	}
	for (size_t i = 0; i < s->n_columns; i++) {
		free(s->columns[i].name);
		free(s->columns[i].unit);
	}
	free(s->rows);
	free(s->by_name);
	free(s->columns);
	free(s->chip);
	free(s->recorded_from);
	free(s->device);
	free(s->cupti);
	free(s->driver);
	free(s);
	return NULL;
}

/* --- processes ---------------------------------------------------------------------------------
 */

static void keep(char **kept, const char *text)
{
	if (!*kept && text && *text) {
		*kept = strdup(text);
	}
}

static bool is_new_device(struct summary *s, const char *uuid)
{
	size_t max = sizeof(s->uuids) / sizeof(s->uuids[0]);

	for (size_t i = 0; i < s->n_devices && i < max; i++) {
		if (strncmp(s->uuids[i], uuid, sizeof(s->uuids[i]) - 1) == 0) {
			return false;
		}
	}
	if (s->n_devices < max) {
		snprintf(s->uuids[s->n_devices], sizeof(s->uuids[0]), "%s", uuid);
	}
	return s->n_devices < max;
}

static void take_device(struct summary *s, const struct gpuctr_device *device)
{
	keep(&s->device, device->name);
	if (!is_new_device(s, device->uuid)) {
		return;
	}
	if (s->n_devices > 0 && (device->clock_sm_mhz != s->clock_sm_mhz ||
				 device->clock_mem_mhz != s->clock_mem_mhz)) {
		s->clocks_differ = true;
	}
	s->clock_sm_mhz = device->clock_sm_mhz;
	s->clock_mem_mhz = device->clock_mem_mhz;
	s->n_devices++;
}

void summary_process(struct summary *s, const struct gpuctr_process *process)
{
	if (process->process > s->processes) {
		s->processes = process->process;
	}
	keep(&s->recorded_from, process->recorded_from);
	keep(&s->cupti, process->cupti);
	keep(&s->driver, process->driver);
	for (size_t i = 0; i < process->n_devices; i++) {
		take_device(s, &process->devices[i]);
	}
}

/* --- rows --------------------------------------------------------------------------------------
 */

static size_t hash_name(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++) {
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	}
	return (size_t)(hash ^ hash >> 32);
}

static size_t find_slot(struct summary_row **slots, size_t n_slots, const char *name)
{
	size_t slot = hash_name(name) & (n_slots - 1);

	while (slots[slot] && strcmp(slots[slot]->name, name) != 0) {
		slot = (slot + 1) & (n_slots - 1);
	}
	return slot;
}

static bool grow(struct summary *s)
{
	size_t n_slots = s->n_slots * 2;
	struct summary_row **slots;

	if (s->n_rows == s->max_rows) {
		size_t max = s->max_rows ? s->max_rows * 2 : 64;
		struct summary_row **rows = realloc(s->rows, max * sizeof(struct summary_row *));

		if (!rows) {
			return false;
		}
		s->rows = rows;
		s->max_rows = max;
	}
	if (s->n_rows * 2 < s->n_slots) {
		return true;
	}
	slots = calloc(n_slots, sizeof(struct summary_row *));
	if (!slots) {
		return false;
	}
	for (size_t i = 0; i < s->n_rows; i++) {
		slots[find_slot(slots, n_slots, s->rows[i]->name)] = s->rows[i];
	}
	free(s->by_name);
	s->by_name = slots;
	s->n_slots = n_slots;
	return true;
}

static struct summary_row *new_row(struct summary *s, const char *name)
{
	struct summary_row *row = calloc(1, sizeof(*row));

	if (row) {
		row->name = strdup(name);
		row->cells = calloc(s->n_columns + 1, sizeof(*row->cells));
	}
	if (!row || !row->name || !row->cells) {
		if (row) {
			free(row->name);
			free(row->cells);
		}
		free(row);
		return NULL;
	}
	for (size_t i = 0; i < s->n_columns; i++) {
		row->cells[i].max = -INFINITY;
	}
	s->rows[s->n_rows++] = row;
	s->by_name[find_slot(s->by_name, s->n_slots, name)] = row;
	return row;
}

static struct summary_row *find_by_name(struct summary *s, const char *name)
{
	struct summary_row *row = s->by_name[find_slot(s->by_name, s->n_slots, name)];

	return row || !grow(s) ? row : new_row(s, name);
}

static struct summary_row *find_row(struct summary *s, const struct gpuctr_record *record)
{
	unsigned kernel = record->kernel ? record->kernel->id : 0;
	size_t slot = (kernel + record->process * 97u) % SUMMARY_SLOTS;

	if (!s->recent[slot].row || s->recent[slot].process != record->process ||
	    s->recent[slot].kernel != kernel) {
		s->recent[slot].process = record->process;
		s->recent[slot].kernel = kernel;
		s->recent[slot].row = find_by_name(s, record->kernel ? record->kernel->name : "?");
	}
	return s->recent[slot].row;
}

void summary_record(struct summary *s, const struct gpuctr_record *record)
{
	struct summary_row *row = find_row(s, record);

	s->records++;
	s->by_clock[record->clock]++;
	if (!row) {
		return;
	}
	row->launches++;
	if (record->clock != GPUCTR_CLOCK_NONE) {
		row->time_ns += (double)record->duration_ns;
		row->timed++;
	}
	for (size_t i = 0; i < s->n_columns; i++) {
		double value = record->values[i];

		if (!isnan(value)) {
			row->cells[i].sum += value;
			row->cells[i].n++;
			row->cells[i].max = value > row->cells[i].max ? value : row->cells[i].max;
		}
	}
}

uint64_t summary_records(const struct summary *s)
{
	return s->records;
}

unsigned summary_processes(const struct summary *s)
{
	return s->processes;
}

void summary_add_up(const struct summary *s, size_t first, struct summary_row *total)
{
	for (size_t i = 0; i < s->n_columns; i++) {
		total->cells[i].max = -INFINITY;
	}
	for (size_t r = first; r < s->n_rows; r++) {
		const struct summary_row *row = s->rows[r];

		total->launches += row->launches;
		total->timed += row->timed;
		total->time_ns += row->time_ns;
		for (size_t i = 0; i < s->n_columns; i++) {
			total->cells[i].sum += row->cells[i].sum;
			total->cells[i].n += row->cells[i].n;
			total->cells[i].max = fmax(total->cells[i].max, row->cells[i].max);
		}
	}
}

/* More first; equal rows by name, so that the table is the same each time. */
static int compare_rows(const void *a, const void *b, void *userdata)
{
	const struct summary_row *x = *(struct summary_row *const *)a;
	const struct summary_row *y = *(struct summary_row *const *)b;
	const bool *by_time = userdata;
	double left = *by_time ? x->time_ns : x->cells[0].sum;
	double right = *by_time ? y->time_ns : y->cells[0].sum;

	if (left != right) {
		return left < right ? 1 : -1;
	}
	return strcmp(x->name, y->name);
}

void summary_sort(struct summary *s)
{
	bool by_time = false;

	for (size_t i = 0; i < s->n_rows; i++) {
		by_time |= s->rows[i]->timed > 0;
	}
	if (s->n_rows > 1) {
		qsort_r(s->rows, s->n_rows, sizeof(struct summary_row *), compare_rows, &by_time);
	}
}
