/* SPDX-License-Identifier: Apache-2.0 */
/* The fake catalogue, the rule for passes, and the values.
 *
 * Passes: counters and ratios that are not SASS metrics share passes, four to a pass in the order
 * they were added; all SASS metrics together take one pass of their own; each throughput takes
 * three passes of its own. Metrics that are added by one call share no pass with those of another.
 *
 * Values: .sum = factor x source, where the source is a sum over the kernels of the range: threads
 * (grid x block), warps (threads / 32), or time (1000 + threads / 64 ns). README.md has the table.
 */

#include "tests/fake/metric.h"

#include <math.h>
#include <string.h>

#define ALL (CHIP_GH100 | CHIP_TU102)

#define COUNTER(name, unit, dimension, source, factor, instances)                                \
	{                                                                                        \
		name, unit, dimension, "# of " dimension "s: " name, METRIC_COUNTER, ALL, false, \
			source, factor, instances                                                \
	}
#define SASS(op, factor)                                                                    \
	{                                                                                   \
		"smsp__sass_thread_inst_executed_op_" op "_pred_on", "smsp", "instruction", \
			"# of " op " thread instructions with all predicates true",         \
			METRIC_COUNTER, ALL, true, SOURCE_THREADS, factor, 528              \
	}

/* clang-format off */
const struct metric metric_catalogue[] = {
	COUNTER("dram__bytes_read", "dram", "byte", SOURCE_THREADS, 16, 48),
	COUNTER("dram__bytes_write", "dram", "byte", SOURCE_THREADS, 8, 48),
	COUNTER("dram__bytes", "dram", "byte", SOURCE_THREADS, 24, 48),
	COUNTER("gpu__time_duration", "gpu", "nsecond", SOURCE_TIME, 1, 1),
	COUNTER("lts__t_bytes", "lts", "byte", SOURCE_THREADS, 32, 96),
	COUNTER("lts__t_sectors_op_read", "lts", "sector", SOURCE_THREADS, 0.5, 96),
	COUNTER("lts__t_sectors_op_write", "lts", "sector", SOURCE_THREADS, 0.25, 96),
	COUNTER("l1tex__t_bytes", "l1tex", "byte", SOURCE_THREADS, 40, 132),
	COUNTER("sm__inst_executed", "sm", "instruction", SOURCE_WARPS, 100, 132),
	COUNTER("smsp__inst_executed", "smsp", "instruction", SOURCE_WARPS, 100, 528),
	COUNTER("sm__cycles_active", "sm", "cycle", SOURCE_TIME, 132, 132),
	COUNTER("sm__cycles_elapsed", "sm", "cycle", SOURCE_TIME, 264, 132),
	{"sm__inst_executed_pipe_tensor", "sm", "instruction", "# of tensor instructions",
	 METRIC_COUNTER, CHIP_GH100, false, SOURCE_WARPS, 2, 132},
	{"sm__inst_executed_pipe_fp16", "sm", "instruction", "# of fp16 pipe instructions",
	 METRIC_COUNTER, CHIP_TU102, false, SOURCE_WARPS, 3, 72},
	COUNTER("LTS.TriageCompute.lts__t_requests", "lts", "request", SOURCE_WARPS, 1, 96),
	SASS("hadd", 1), SASS("hmul", 2), SASS("hfma", 3),
	SASS("fadd", 4), SASS("fmul", 5), SASS("ffma", 6),
	SASS("dadd", 7), SASS("dmul", 8), SASS("dfma", 9),
	{"sm__average_threads_launched_per_warp", "sm", "thread/warp", "# of threads per warp",
	 METRIC_RATIO, ALL, false, SOURCE_CONSTANT, 32, 1},
	{"smsp__thread_inst_executed_per_inst_executed", "smsp", "thread/instruction",
	 "# of active threads per instruction", METRIC_RATIO, ALL, false, SOURCE_CONSTANT, 24, 1},
	{"sm__throughput", "sm", "percent", "SM throughput", METRIC_THROUGHPUT, ALL, false,
	 SOURCE_THREADS, 1.0 / 128, 1},
	{"dram__throughput", "dram", "percent", "DRAM throughput", METRIC_THROUGHPUT, ALL, false,
	 SOURCE_THREADS, 1.0 / 256, 1},
	{0},
};
/* clang-format on */

enum { TRACED_INSTRUCTIONS = 3 }; /* a warp */

unsigned int metric_chip(const char *name)
{
	if (name && strcmp(name, "GH100") == 0) {
		return CHIP_GH100;
	}
	return name && strcmp(name, "TU102") == 0 ? CHIP_TU102 : 0;
}

const char *const *metric_endings(enum metric_type type)
{
	static const char *const counter[] = { ".avg", ".max", ".min", ".sum", ".sum.per_second",
					       NULL };
	static const char *const ratio[] = { ".max_rate", ".pct", ".ratio", NULL };
	static const char *const throughput[] = { ".avg.pct_of_peak_sustained_elapsed",
						  ".max.pct_of_peak_sustained_elapsed",
						  ".min.pct_of_peak_sustained_elapsed",
						  ".sum.pct_of_peak_sustained_elapsed", NULL };

	return type == METRIC_COUNTER ? counter : type == METRIC_RATIO ? ratio : throughput;
}

bool metric_has_ending(const struct metric *metric, const char *ending)
{
	for (const char *const *e = metric_endings(metric->type); *e; e++) {
		if (strcmp(*e, ending) == 0) {
			return true;
		}
	}
	return false;
}

const struct metric *metric_find(unsigned int chip, const char *name, const char **ret_ending)
{
	for (const struct metric *m = metric_catalogue; m->name; m++) {
		size_t len = strlen(m->name);

		if ((m->chips & chip) && strncmp(name, m->name, len) == 0 &&
		    (name[len] == '\0' || name[len] == '.')) {
			*ret_ending = name + len;
			return m;
		}
	}
	return NULL;
}

/* Lays out the passes of a section: plain counters, then SASS metrics, then throughputs. Returns
 * the first pass after it. */
static uint32_t assign_section(struct metric_set *set, uint32_t section, uint32_t first)
{
	uint32_t plain = 0, sass = 0, next;

	for (uint32_t i = 0; i < set->count; i++) {
		const struct metric *m = &metric_catalogue[set->metric[i]];

		if (set->section[i] != section) {
			continue;
		}
		if (m->is_sass) {
			sass++;
		} else if (m->type != METRIC_THROUGHPUT) {
			set->pass_mask[i] = 1u << (first + plain++ / METRICS_PER_PASS);
		}
	}
	next = first + (plain + METRICS_PER_PASS - 1) / METRICS_PER_PASS;
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->section[i] == section && metric_catalogue[set->metric[i]].is_sass) {
			set->pass_mask[i] = 1u << next;
		}
	}
	next += sass > 0;
	for (uint32_t i = 0; i < set->count; i++) {
		const struct metric *m = &metric_catalogue[set->metric[i]];

		if (set->section[i] == section && m->type == METRIC_THROUGHPUT) {
			set->pass_mask[i] = ((1u << THROUGHPUT_PASSES) - 1) << next;
			next += THROUGHPUT_PASSES;
		}
	}
	return next;
}

static void assign_passes(struct metric_set *set)
{
	set->passes = 0;
	for (uint32_t i = 1; i <= set->sections; i++) {
		set->passes = assign_section(set, i, set->passes);
	}
}

void metric_set_begin(struct metric_set *set)
{
	set->sections++;
}

bool metric_set_add(struct metric_set *set, const struct metric *metric)
{
	uint16_t index = (uint16_t)(metric - metric_catalogue);

	set->sections += set->sections == 0;
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->metric[i] == index && set->section[i] == set->sections) {
			return true;
		}
	}
	if (set->count == METRIC_MAX) {
		return false;
	}
	set->section[set->count] = (uint16_t)set->sections;
	set->metric[set->count++] = index;
	assign_passes(set);
	return true;
}

/* Tracing of kernels changes the counters within the SMs: it adds instructions to each warp, and
 * instrumented metrics count nothing (H200: 276,672 instructions became 285,160). */
static double traced(const struct metric *metric, const struct fake_work *work)
{
	if (metric->is_sass) {
		return -metric->factor * (double)work->traced_threads;
	}
	if (strcmp(metric->name, "sm__inst_executed") == 0 ||
	    strcmp(metric->name, "smsp__inst_executed") == 0) {
		return TRACED_INSTRUCTIONS * (double)work->traced_warps;
	}
	return 0;
}

double metric_value(const struct metric *metric, const char *ending, const struct fake_work *work)
{
	double source = metric->source == SOURCE_THREADS ? (double)work->threads
			: metric->source == SOURCE_WARPS ? (double)work->warps
			: metric->source == SOURCE_TIME	 ? (double)work->time_ns
							 : 1;
	double sum = metric->factor * source + traced(metric, work);

	if (metric->type == METRIC_THROUGHPUT) {
		return sum > 100 ? 100 : sum;
	}
	if (strcmp(ending, ".pct") == 0) {
		return 100 * sum / 32;
	}
	if (strcmp(ending, ".max_rate") == 0) {
		return 32;
	}
	if (strcmp(ending, ".sum.per_second") == 0) {
		return work->time_ns ? sum * 1e9 / (double)work->time_ns : NAN;
	}
	if (strcmp(ending, ".avg") == 0 || strcmp(ending, ".min") == 0 ||
	    strcmp(ending, ".max") == 0) {
		return sum / metric->instances;
	}
	return sum;
}

uint32_t metric_checksum(const struct metric_set *set)
{
	const uint8_t *p = (const uint8_t *)set;
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < sizeof(*set); i++) {
		sum = (sum ^ p[i]) * 16777619u;
	}
	return sum;
}
