/* SPDX-License-Identifier: Apache-2.0 */

/* Adds up a file's records by their keys, and collects facts of the whole capture: devices, clocks,
 * versions. The rows come from client/report, which prints them; summary_end.c prints the lines
 * below them. */

#include "client/cli/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/say.h"
#include "proto/base/array.h"

/* --- life ------------------------------------------------------------------------------------ */

bool summary_take_keys(void *keys, const char *value)
{
	CLEAN_BUF struct buf why = { 0 };
	bool good = keys_parse(value, keys, &why);

	if (!good) {
		say_usage("--by: %s", buf_string(&why));
	}
	return good;
}

struct summary *summary_new(const struct keys *keys)
{
	struct summary *s = calloc(1, sizeof(*s));

	if (!s) {
		return NULL;
	}
	s->groups = groups_new(keys);
	return s->groups ? s : summary_free(s);
}

static void free_texts(struct summary_texts *texts)
{
	for (unsigned i = 0; i < texts->n; i++) {
		free(texts->items[i]);
	}
}

struct summary *summary_free(struct summary *s)
{
	if (!s) {
		return NULL;
	}
	groups_free(s->groups);
	free_texts(&s->chips);
	free(s->recorded_from);
	free_texts(&s->cuptis);
	free_texts(&s->drivers);
	map_deinit_items(&s->seen);
	free(s->devices);
	free(s);
	return NULL;
}

static void keep(char **kept, const char *text)
{
	if (!*kept && text && *text) {
		*kept = strdup(text);
	}
}

/* Keeps a version that differs from those before, to be shown beside them. */
static void keep_also(struct summary_texts *kept, const char *text)
{
	if (!text || !*text) {
		return;
	}
	for (unsigned i = 0; i < kept->n; i++) {
		if (strcmp(kept->items[i], text) == 0) {
			return;
		}
	}
	if (kept->n == sizeof(kept->items) / sizeof(kept->items[0])) {
		kept->more = true;
		return;
	}
	kept->items[kept->n] = strdup(text);
	kept->n += kept->items[kept->n] != NULL;
}

int summary_begin(struct summary *s, const struct gpuctr_plan *plan, const char *name,
		  struct buf *why)
{
	keep_also(&s->chips, plan->chip);
	snprintf(s->chip_here, sizeof(s->chip_here), "%s", plan->chip ? plan->chip : "");
	s->passes = plan->passes > s->passes ? plan->passes : s->passes;
	s->turns = plan->groups > 1 && plan->groups > s->turns ? plan->groups : s->turns;
	s->processes += s->processes_here;
	s->processes_here = 0;
	return groups_begin(s->groups, plan, name, why);
}

/* --- processes ------------------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct summary_devices *find_kind(struct summary *s, const struct gpuctr_device *device)
{
	struct summary_devices kind = { .clock_sm_mhz = device->clock_sm_mhz,
					.clock_mem_mhz = device->clock_mem_mhz };

	snprintf(kind.chip, sizeof(kind.chip), "%s", *s->chip_here ? s->chip_here : device->chip);
	snprintf(kind.name, sizeof(kind.name), "%s", device->name);
	for (size_t i = 0; i < s->n_kinds; i++) {
		struct summary_devices *d = &s->devices[i];

		if (strcmp(d->chip, kind.chip) == 0 && strcmp(d->name, kind.name) == 0 &&
		    d->clock_sm_mhz == kind.clock_sm_mhz &&
		    d->clock_mem_mhz == kind.clock_mem_mhz) {
			return d;
		}
	}
	if (!array_make_room(&s->devices, sizeof(kind), s->n_kinds, &s->max_kinds)) {
		return NULL;
	}
	s->devices[s->n_kinds] = kind;
	return &s->devices[s->n_kinds++];
}

static bool is_text(const void *item, const void *key)
{
	return strcmp(item, key) == 0;
}

static void take_device(struct summary *s, const struct gpuctr_device *device)
{
	struct summary_devices *kind = find_kind(s, device);
	uint64_t hash;
	char *key;

	if (!kind || asprintf(&key, "%s of kind %td", device->uuid, kind - s->devices) < 0) {
		s->failed = true;
		return;
	}
	hash = map_hash(key, strlen(key));
	if (map_find(&s->seen, hash, is_text, key) || map_add(&s->seen, hash, key) < 0) {
		free(key);
	} else {
		kind->n++;
	}
}

void summary_process(struct summary *s, const struct gpuctr_process *process)
{
	if (process->process > s->processes_here) {
		s->processes_here = process->process;
	}
	s->failed |= groups_process(s->groups, process) != 0;
	keep(&s->recorded_from, process->recorded_from);
	keep_also(&s->cuptis, process->cupti);
	keep_also(&s->drivers, process->driver);
	for (size_t i = 0; i < process->n_devices; i++) {
		take_device(s, &process->devices[i]);
	}
}

/* --- records --------------------------------------------------------------------------------- */

void summary_record(struct summary *s, const struct gpuctr_record *record,
		    const struct attribution *what)
{
	s->failed |= groups_record(s->groups, record, what) != 0;
}

unsigned summary_processes(const struct summary *s)
{
	return s->processes + s->processes_here;
}

struct groups *summary_groups(struct summary *s)
{
	return s->failed || groups_finish(s->groups) ? NULL : s->groups;
}
