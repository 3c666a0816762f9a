/* SPDX-License-Identifier: Apache-2.0 */

/* Adds a record to its leaf. */

#include <errno.h>
#include <math.h>

#include "client/report/groups_internal.h"

/* The time that a launch's operations take at the peaks of their precisions. NaN: a peak is not
 * known. Unknown counts are left out, as sums of operations leave them out, or are not known. */
static double find_peak_ns(const struct groups *g, const struct gpuctr_record *record,
			   const struct groups_device *device)
{
	const struct sums *s = &g->sums;
	double ns = 0;

	for (size_t k = 0; k < s->flops.n; k++) {
		double rate =
			device && s->precisions[k] >= 0 ? device->flop_a_ns[s->precisions[k]] : 0;

		for (size_t i = 0; i < g->n_columns; i++) {
			double value = g->columns[i] == s->flops.terms[k] ? record->values[i] : 0;

			if (value != 0 && !isnan(value)) {
				ns += rate > 0 ? value / rate : NAN;
			}
		}
	}
	return ns;
}

/* Bytes that the memory could have moved in the time of the launch. NaN: not known. */
static double peak_bytes_of(const struct gpuctr_record *record, const struct groups_device *device)
{
	return device && device->bytes_a_ns > 0 ? (double)record->duration_ns * device->bytes_a_ns
						: NAN;
}

/* If counters take turns, a launch has only some of them, so its time at the peak is unknown. */
static void add_to_kind(const struct groups *g, struct leaf *leaf,
			const struct gpuctr_record *record, const struct groups_device *device)
{
	struct kind *kind = leaf->kind;

	leaf->peak_ns = NAN;
	if (record->clock != GPUCTR_CLOCK_NONE) {
		part_add(&kind->sums[MEASURE_TIME],
			 (struct part){ 1, (double)record->duration_ns, 0 });
		kind->peak_bytes += peak_bytes_of(record, device);
		kind->ranged += record->clock == GPUCTR_CLOCK_RANGE;
	}
	for (size_t i = 0; i < g->n_columns; i++) {
		if (!isnan(record->values[i])) {
			part_add(&kind->sums[g->columns[i]],
				 (struct part){ 1, record->values[i], 0 });
		}
	}
}

static void add_record(struct groups *g, const struct groups_launch *launch,
		       const struct gpuctr_record *record)
{
	struct leaf *leaf = launch->leaf;
	bool timed = record->clock != GPUCTR_CLOCK_NONE;
	double ns = (double)record->duration_ns;

	leaf->calls++;
	leaf->small += launch->is_small;
	leaf->graphs += record->kind == GPUCTR_LAUNCH_GRAPH;
	leaf->alike += record->errors && record->alike != 0;
	leaf->ranged += record->clock == GPUCTR_CLOCK_RANGE;
	if (timed) {
		sample_add(&leaf->stats[MEASURE_TIME], ns);
		part_add(&leaf->timed[MEASURE_TIME], (struct part){ 1, ns, ns });
	}
	for (size_t i = 0; i < g->n_columns; i++) {
		double value = record->values[i];

		sample_add(&leaf->stats[g->columns[i]], value);
		if (timed && !isnan(value)) {
			part_add(&leaf->timed[g->columns[i]], (struct part){ 1, value, ns });
		}
	}
	if (timed) {
		leaf->peak_bytes += peak_bytes_of(record, launch->device);
	}
	if (timed && g->sums.has_peak) {
		leaf->peak_ns += find_peak_ns(g, record, launch->device);
	}
}

static int take_record(struct groups *g, const struct gpuctr_record *record,
		       const struct attribution *what)
{
	const struct groups_launch *launch = groups_find(g, record, what);

	if (!launch) {
		return -ENOMEM;
	}
	g->records++;
	g->by_clock[record->clock]++;
	add_record(g, launch, record);
	if (launch->leaf->kind) {
		add_to_kind(g, launch->leaf, record, launch->device);
	}
	return record->errors ? errors_record(g, launch->leaf, record) : 0;
}

int groups_record(struct groups *g, const struct gpuctr_record *record,
		  const struct attribution *what)
{
	int r = 0;

	for (; g && r == 0; g = g->beside) {
		r = take_record(g, record, what);
	}
	return r;
}
