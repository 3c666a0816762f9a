/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/unseen.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

/* Agents report their counts four times a second. Records arrive within a few seconds: a batch
 * waits for half a second, and then up to two seconds for CUPTI. */
#define COUNTED_NS INT64_C(1000000000)
#define UNDELIVERED_NS INT64_C(5000000000)

struct unseen_device {
	unsigned process, index;
	char *gpu;	 /* UUID */
	int64_t last_ns; /* end of the last kernel with a record; at first, the last sample when the
			    process began */
	bool is_over;	 /* the process has ended */
};

static bool is_device(const void *item, const void *key)
{
	const struct unseen_device *d = item, *wanted = key;

	return d->process == wanted->process && d->index == wanted->index;
}

static struct unseen_device *find(const struct unseen *u, unsigned process, unsigned index)
{
	const struct unseen_device wanted = { .process = process, .index = index };

	return map_find(&u->map, map_mix(map_mix(0, process), index), is_device, &wanted);
}

/* False: out of memory. */
static bool add(struct unseen *u, unsigned process, const struct gpuctr_device *d)
{
	struct unseen_device *device = calloc(1, sizeof(*device));
	char *gpu = strdup(d->uuid);

	if (!device || !gpu || !array_make_room(&u->devices, sizeof(*u->devices), u->n, &u->max) ||
	    map_add(&u->map, map_mix(map_mix(0, process), d->index), device) < 0) {
		free(device);
		free(gpu);
		return false;
	}
	*device = (struct unseen_device){ process, d->index, gpu, u->last_sample(u->user, gpu),
					  false };
	u->devices[u->n++] = device;
	return true;
}

void unseen_process(struct unseen *u, const struct gpuctr_process *process)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		if (!find(u, process->process, process->devices[i].index)) {
			add(u, process->process, &process->devices[i]);
		}
	}
}

void unseen_ran(struct unseen *u, unsigned process, unsigned device, int64_t end_ns)
{
	struct unseen_device *d = find(u, process, device);

	if (d && end_ns > d->last_ns) {
		d->last_ns = end_ns;
	}
}

void unseen_progress(struct unseen *u, const struct gpuctr_totals *t)
{
	uint64_t known = t->measured + t->filtered + t->capturing + t->unready + t->failed +
			 t->dropped + t->lost;

	u->undelivered = t->seen > known ? t->seen - known : 0;
}

/* Nothing is unknown if the process began, or ended its last kernel, behind the last sample. */
static void note(struct unseen *u, const struct unseen_device *d, int64_t start_ns, int64_t end_ns)
{
	if (start_ns < end_ns) {
		u->on_unknown(u->user, &(struct store_unknown){ d->gpu, start_ns, end_ns });
	}
}

/* A killed process may have run kernels since its last record; if all counted launches have
 * records, only since its last count. */
void unseen_process_end(struct unseen *u, const struct gpuctr_process_end *end, int64_t now_ns)
{
	int64_t uncounted_ns =
		end->uncounted_ns > COUNTED_NS ? (int64_t)end->uncounted_ns : COUNTED_NS;

	for (size_t i = 0; i < u->n; i++) {
		struct unseen_device *d = u->devices[i];
		int64_t since_ns = d->last_ns;

		if (d->process != end->process || d->is_over) {
			continue;
		}
		d->is_over = true;
		if (end->totals.lost == 0 && since_ns < now_ns - uncounted_ns) {
			since_ns = now_ns - uncounted_ns;
		}
		if (!end->clean || end->totals.lost > 0) {
			note(u, d, since_ns, now_ns);
		}
	}
}

void unseen_finish(struct unseen *u)
{
	for (size_t i = 0; i < u->n; i++) {
		struct unseen_device *d = u->devices[i];
		int64_t end_ns = u->last_sample(u->user, d->gpu);
		int64_t since_ns = end_ns - (u->undelivered > 0 ? UNDELIVERED_NS : COUNTED_NS);

		if (!d->is_over) {
			note(u, d, d->last_ns > since_ns ? d->last_ns : since_ns, end_ns);
		}
		d->is_over = true;
	}
}

void unseen_deinit(struct unseen *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->devices[i]->gpu);
		free(u->devices[i]);
	}
	free(u->devices);
	map_deinit(&u->map);
}
