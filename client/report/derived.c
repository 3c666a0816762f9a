/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes: what went to and from the device's memory. With one direction measured alone, the column
 * says so in its name and there is no intensity, which would be wrong.
 *
 * Floating-point operations: instruction counters as catalogue names give them (an FMA counts
 * twice) and operations of the tensor pipe, multiply and add apart, of all precisions that were
 * measured, but not of integers. Where a counter is a part of another that was measured too
 * (sm__ops_path_tensor_op_hgmma_src_fp16 of sm__ops_path_tensor_src_fp16), it is in it already.
 * Only what was measured is in it: with one precision measured, those of the others are missing,
 * and who shows a rate says which are there (derived_add_flops()). */

#include "client/report/derived.h"
#include "client/report/define.h"

#include <string.h>

#include "client/report/estimated.h"

static size_t find(const struct measure *measures, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(measures[i].name, name) == 0) {
			return i;
		}
	}
	return SIZE_MAX;
}

/* Returns the name of the bandwidth, or NULL when no bytes were measured. */
static const char *find_bytes(const struct measure *measures, size_t n, struct derived *d)
{
	size_t both = find(measures, n, "dram__bytes.sum");
	size_t read = find(measures, n, "dram__bytes_read.sum");
	size_t write = find(measures, n, "dram__bytes_write.sum");

	if (both != SIZE_MAX) {
		d->bytes[d->n_bytes++] = both;
		return "dram_bandwidth";
	}
	if (read != SIZE_MAX) {
		d->bytes[d->n_bytes++] = read;
	}
	if (write != SIZE_MAX) {
		d->bytes[d->n_bytes++] = write;
	}
	return d->n_bytes == 2	   ? "dram_bandwidth"
	       : read != SIZE_MAX  ? "dram_read_bandwidth"
	       : write != SIZE_MAX ? "dram_write_bandwidth"
				   : NULL;
}

/* "sm__ops_path_tensor_op_hgmma_src_fp16_dst_fp32.sum": by hgmma, src_fp16_dst_fp32. */
struct tensor_counter {
	const char *op, *values;
	size_t op_length, values_length;
};

static bool parse_tensor(const char *name, struct tensor_counter *ret)
{
	static const char prefix[] = "sm__ops_path_tensor_", op[] = "op_";
	const char *rest = name + sizeof(prefix) - 1, *src;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || !(src = strstr(rest, "src_"))) {
		return false;
	}
	*ret = (struct tensor_counter){ .values = src, .values_length = strcspn(src, ".") };
	if (strncmp(rest, op, sizeof(op) - 1) == 0 && src > rest + sizeof(op)) {
		ret->op = rest + sizeof(op) - 1;
		ret->op_length = (size_t)(src - ret->op) - 1;
	}
	return true;
}

static bool is_part_of(const struct tensor_counter *a, const struct tensor_counter *whole)
{
	bool same_op = !whole->op || (a->op && a->op_length == whole->op_length &&
				      strncmp(a->op, whole->op, a->op_length) == 0);

	return same_op && a->values_length >= whole->values_length &&
	       strncmp(a->values, whole->values, whole->values_length) == 0 &&
	       (a->values_length == whole->values_length || a->values[whole->values_length] == '_');
}

static bool is_in_another(const struct measure *measures, size_t n, size_t i)
{
	struct tensor_counter a, other;

	for (size_t k = 0; k < n && parse_tensor(measures[i].name, &a); k++) {
		if (k != i && measures[k].adds_up && parse_tensor(measures[k].name, &other) &&
		    is_part_of(&a, &other)) {
			return true;
		}
	}
	return false;
}

static bool counts_flops(const struct measure *measures, size_t n, size_t i)
{
	static const char integer[] = "src_int";
	struct tensor_counter t;

	if (!measures[i].adds_up) {
		return false;
	}
	if (parse_tensor(measures[i].name, &t)) {
		return strncmp(t.values, integer, sizeof(integer) - 1) != 0 &&
		       !is_in_another(measures, n, i);
	}
	return strcmp(measures[i].unit, "FLOP") == 0;
}

/* Turing's tensor cores know no bf16 and no tf32, but its counter's name does. Sparse matrices have
 * another peak. */
static int precision_of(const char *name)
{
	static const struct {
		const char *values;
		enum peaks_precision precision;
	} known[] = { { "src_bf16", PEAKS_HALF },
		      { "src_fp16", PEAKS_HALF },
		      { "src_tf32", PEAKS_TF32 },
		      { "src_fp8", PEAKS_FP8 } };
	struct tensor_counter t;

	for (size_t i = 0; parse_tensor(name, &t) && i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(t.values, known[i].values, strlen(known[i].values)) == 0 &&
		    !strstr(t.values, "sparsity")) {
			return (int)known[i].precision;
		}
	}
	return -1;
}

bool derived_has_precision(const struct measure *measures, size_t n, enum peaks_precision precision)
{
	for (size_t i = 0; i < n; i++) {
		if (counts_flops(measures, n, i) &&
		    precision_of(measures[i].name) == (int)precision) {
			return true;
		}
	}
	return false;
}

/* Is a peak known of any of them? */
static bool find_flops(const struct measure *measures, size_t n, struct derived *d)
{
	bool known = false;

	for (size_t i = 0; i < n && d->n_flops < DERIVED_TERMS; i++) {
		if (counts_flops(measures, n, i)) {
			int precision = precision_of(measures[i].name);

			known = known || precision >= 0;
			d->precisions[d->n_flops] = precision;
			d->flops[d->n_flops++] = i;
		}
	}
	return known;
}

/* "src_fp16_dst_fp32" as "fp16 to fp32". */
static void add_tensor(const struct tensor_counter *t, struct buf *b)
{
	static const char to[] = "_dst_";

	for (size_t i = 4; i < t->values_length; i++) {
		if (strncmp(t->values + i, to, sizeof(to) - 1) == 0) {
			buf_text(b, " to ");
			i += sizeof(to) - 2;
		} else {
			buf_char(b, t->values[i] == '_' ? '/' : t->values[i]);
		}
	}
	if (t->op) {
		buf_text(b, " by ");
		buf_add(b, t->op, t->op_length);
	}
}

bool derived_add_flops(const struct measure *measures, size_t n, struct buf *b)
{
	bool tensor = false, any = false;

	for (size_t i = 0; i < n; i++) {
		struct tensor_counter t;

		if (!counts_flops(measures, n, i)) {
			continue;
		}
		buf_text(b, any ? ", " : "");
		if (!parse_tensor(measures[i].name, &t)) {
			buf_text(b, measures[i].name);
		} else {
			buf_text(b, tensor ? "" : "of the tensor cores ");
			add_tensor(&t, b);
			tensor = true;
		}
		any = true;
	}
	return any;
}

bool derived_counts_operations(enum derived_kind kind)
{
	return kind == DERIVED_FLOP || kind == DERIVED_RATE || kind == DERIVED_FLOP_PEAK ||
	       kind == DERIVED_INTENSITY;
}

static void add(struct derived *ret, size_t *n, const struct derived *terms, enum derived_kind kind,
		const char *name, const char *unit)
{
	ret[*n] = *terms;
	ret[*n].kind = kind;
	ret[*n].name = name;
	ret[*n].unit = unit;
	(*n)++;
}

size_t derived_find(const struct measure *measures, size_t n, struct derived ret[DERIVED_MAX])
{
	struct derived terms = { 0 };
	const char *bandwidth = find_bytes(measures, n, &terms);
	bool both = bandwidth && strcmp(bandwidth, "dram_bandwidth") == 0;
	bool has_peak = find_flops(measures, n, &terms);
	size_t n_ret = 0;

	if (bandwidth) {
		add(ret, &n_ret, &terms, DERIVED_BANDWIDTH, bandwidth, "byte/second");
	}
	if (both) {
		add(ret, &n_ret, &terms, DERIVED_PEAK, "of_peak", "percent");
	}
	if (terms.n_flops > 1) {
		add(ret, &n_ret, &terms, DERIVED_FLOP, "flop", "FLOP");
	}
	if (terms.n_flops > 0) {
		add(ret, &n_ret, &terms, DERIVED_RATE, "flop_rate", "FLOP/second");
	}
	if (has_peak) {
		add(ret, &n_ret, &terms, DERIVED_FLOP_PEAK, "of_flop_peak", "percent");
	}
	if (terms.n_flops > 0 && both) {
		add(ret, &n_ret, &terms, DERIVED_INTENSITY, "intensity", "FLOP/byte");
	}
	return n_ret;
}

/* NaN when one of the terms is not known of as many launches as there are. */
static double add_up(const struct part *parts, const size_t *terms, size_t n, uint64_t launches)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += parts[terms[i]].n == launches ? parts[terms[i]].sum : NAN;
	}
	return sum;
}

static double divide(double part, double whole)
{
	return whole > 0 ? part / whole : NAN;
}

static double intensity(const struct derived *d, const struct group *group)
{
	return divide(add_up(group->total, d->flops, d->n_flops, group->total_calls),
		      add_up(group->total, d->bytes, d->n_bytes, group->total_calls));
}

static double add_values(const double *values, const size_t *terms, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += values[terms[i]];
	}
	return sum;
}

bool derived_terms(const struct derived *d, const double *values, double time_ns, double peak_bytes,
		   double *ret_part, double *ret_whole)
{
	double bytes = add_values(values, d->bytes, d->n_bytes);
	double flops = add_values(values, d->flops, d->n_flops);

	*ret_part = d->kind == DERIVED_BANDWIDTH || d->kind == DERIVED_PEAK ? bytes : flops;
	*ret_whole = d->kind == DERIVED_PEAK	    ? peak_bytes / 100
		     : d->kind == DERIVED_INTENSITY ? bytes
		     : d->kind == DERIVED_FLOP ? 1 /* a sum is of a launch without a time, too */
					       : time_ns * 1e-9;
	/* What tensor cores could do is known by rows only. */
	return isfinite(*ret_part) && isfinite(*ret_whole) && d->kind != DERIVED_FLOP_PEAK;
}

/* Of columns that were not measured in the same launches. */
static struct estimate add_estimates(const struct group *group, const size_t *terms, size_t n)
{
	struct estimate sum = { .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };

	for (size_t i = 0; i < n; i++) {
		struct estimate one = estimate_total_of(&group->estimated->total[terms[i]], 1);

		if (one.kind == ESTIMATE_NONE) {
			return one;
		}
		estimate_add_up(&sum, &one);
	}
	return sum;
}

static struct estimate apart(const struct derived *d, const struct group *group)
{
	static const size_t time = MEASURE_TIME;
	bool of_bytes = d->kind == DERIVED_BANDWIDTH || d->kind == DERIVED_PEAK;
	struct estimate part = of_bytes ? add_estimates(group, d->bytes, d->n_bytes)
					: add_estimates(group, d->flops, d->n_flops);
	struct estimate whole = d->kind == DERIVED_INTENSITY
					? add_estimates(group, d->bytes, d->n_bytes)
					: add_estimates(group, &time, 1);
	double scale = d->kind == DERIVED_INTENSITY ? 1 : 1e-9;

	/* What a memory could have moved is known by launches only. */
	if (d->kind == DERIVED_PEAK) {
		return (struct estimate){ .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };
	}
	whole.value *= scale;
	whole.error *= scale;
	return estimate_ratio(&part, &whole);
}

/* The most launches of which one of the terms is not known. */
static uint64_t most_unknown(const struct estimate_total *totals, const size_t *terms, size_t n)
{
	uint64_t most = 0;

	for (size_t i = 0; i < n; i++) {
		most = totals[terms[i]].unknown > most ? totals[terms[i]].unknown : most;
	}
	return most;
}

bool derived_is_joined(const struct derived *d, const struct group *group)
{
	const struct estimate_total *totals = group->estimated ? group->estimated->total : NULL;
	static const size_t time = MEASURE_TIME;
	uint64_t unknown = 0, other = 0;

	if (!totals || d->kind == DERIVED_DEFINED || d->kind == DERIVED_PEAK ||
	    d->kind == DERIVED_FLOP_PEAK) {
		return false;
	}
	unknown = d->kind == DERIVED_BANDWIDTH ? most_unknown(totals, &time, 1)
					       : most_unknown(totals, d->flops, d->n_flops);
	other = d->kind == DERIVED_FLOP	  ? unknown
		: d->kind == DERIVED_RATE ? most_unknown(totals, &time, 1)
					  : most_unknown(totals, d->bytes, d->n_bytes);
	return group->estimated->derived[d->kind].unknown > (unknown > other ? unknown : other);
}

uint64_t derived_unknown(const struct derived *d, const struct group *group)
{
	return d->kind == DERIVED_FLOP && group->estimated
		       ? most_unknown(group->estimated->total, d->flops, d->n_flops)
		       : 0;
}

/* Counters of one launch go up and down together, so that their errors add up to more than those of
 * counters that know nothing of each other. */
static struct estimate estimate_flop(const struct derived *d, const struct group *group)
{
	return derived_is_joined(d, group)
		       ? add_estimates(group, d->flops, d->n_flops)
		       : estimate_total_of(&group->estimated->derived[DERIVED_FLOP], 1);
}

struct estimate derived_estimate(const struct derived *d, const struct group *group)
{
	const struct estimate_total *together;

	/* A definition may take sums and means of anything: its error is not known. */
	if (d->kind == DERIVED_DEFINED) {
		double value = define_value(d->define, group);

		return (struct estimate){ .kind = isnan(value) ? ESTIMATE_NONE : ESTIMATE_GUESS,
					  .value = value,
					  .error = NAN };
	}
	if (d->kind == DERIVED_FLOP) {
		return estimate_flop(d, group);
	}
	if (d->kind == DERIVED_FLOP_PEAK) {
		return (struct estimate){ .kind = ESTIMATE_NONE, .value = NAN, .error = NAN };
	}
	together = &group->estimated->derived[d->kind];
	return derived_is_joined(d, group) ? apart(d, group) : estimate_total_ratio(together);
}

/* Of a row that is gone a sum is not known, rather than 0, as with all else. */
static double sum_of_flops(const struct derived *d, const struct group *group)
{
	return group->total_calls > 0
		       ? add_up(group->total, d->flops, d->n_flops, group->total_calls)
		       : NAN;
}

/* A counter that some of these launches lack is in their time, and not in what their operations
 * need. */
static double share_of_peak(const struct derived *d, const struct group *group)
{
	const struct part *time = &group->timed[MEASURE_TIME];

	return isnan(add_up(group->timed, d->flops, d->n_flops, time->n))
		       ? NAN
		       : divide(group->total_peak_ns, time->sum) * 100;
}

double derived_value(const struct derived *d, const struct group *group)
{
	const struct part *time = &group->timed[MEASURE_TIME];
	double bytes;

	if (group->estimated) {
		return derived_estimate(d, group).value;
	}
	if (d->kind == DERIVED_DEFINED) {
		return define_value(d->define, group);
	}
	bytes = add_up(group->timed, d->bytes, d->n_bytes, time->n);
	switch (d->kind) {
	case DERIVED_BANDWIDTH:
		return divide(bytes, time->sum) * 1e9;
	case DERIVED_PEAK:
		return divide(bytes, group->total_peak_bytes) * 100;
	case DERIVED_FLOP:
		return sum_of_flops(d, group);
	case DERIVED_RATE:
		return divide(add_up(group->timed, d->flops, d->n_flops, time->n), time->sum) * 1e9;
	case DERIVED_FLOP_PEAK:
		return share_of_peak(d, group);
	case DERIVED_INTENSITY:
		return intensity(d, group);
	case DERIVED_DEFINED:
		break;
	}
	return NAN;
}

/* --- comparison ------------------------------------------------------------------------------ */

static struct estimate value_of(const struct derived *d, const struct group *group)
{
	double value;

	if (group && group->estimated) {
		return derived_estimate(d, group);
	}
	value = group && group_launches(group, true) > 0 ? derived_value(d, group) : NAN;
	return (struct estimate){ .kind = isnan(value) ? ESTIMATE_NONE : ESTIMATE_EXACT,
				  .value = value,
				  .error = isnan(value) ? NAN : 0 };
}

bool derived_uses_time(const struct derived *d)
{
	return d->kind == DERIVED_DEFINED ? define_uses_time(d->define)
					  : d->kind != DERIVED_INTENSITY && d->kind != DERIVED_FLOP;
}

bool derived_is_of_part(const struct derived *d, const struct group *group)
{
	const struct group *before = group->before;
	double launches = group_launches(group, true);
	double launches_before = before ? group_launches(before, true) : 0;

	return launches > 0 && launches_before > 0 &&
	       fabs((double)derived_unknown(d, group) / launches -
		    (double)derived_unknown(d, before) / launches_before) > 0.01;
}

double derived_compare(const struct derived *d, enum field field, const struct group *group)
{
	struct estimate now = value_of(d, group), before = value_of(d, group->before);

	if (field != FIELD_BEFORE && derived_uses_time(d) && !fields_same_clock(group)) {
		return NAN;
	}
	if (field != FIELD_BEFORE && derived_is_of_part(d, group)) {
		return NAN;
	}
	return fields_compare(field, &now, &before);
}
