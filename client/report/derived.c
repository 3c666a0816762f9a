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

#include <string.h>

#include <math.h>

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
static const char *find_bytes(const struct measure *measures, size_t n, struct derived_sum *bytes)
{
	size_t both = find(measures, n, "dram__bytes.sum");
	size_t read = find(measures, n, "dram__bytes_read.sum");
	size_t write = find(measures, n, "dram__bytes_write.sum");

	if (both != SIZE_MAX || (read != SIZE_MAX && write != SIZE_MAX)) {
		*bytes = both != SIZE_MAX ? (struct derived_sum){ { both }, 1 }
					  : (struct derived_sum){ { read, write }, 2 };
		return "dram_bandwidth";
	}
	if (read == SIZE_MAX && write == SIZE_MAX) {
		return NULL;
	}
	*bytes = (struct derived_sum){ { read != SIZE_MAX ? read : write }, 1 };
	return read != SIZE_MAX ? "dram_read_bandwidth" : "dram_write_bandwidth";
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

/* Is the peak of any of these precisions known? */
static bool find_flops(const struct measure *measures, size_t n, struct derived_sum *flops,
		       int *precisions)
{
	bool known = false;

	for (size_t i = 0; i < n && flops->n < DERIVED_TERMS; i++) {
		if (counts_flops(measures, n, i)) {
			precisions[flops->n] = precision_of(measures[i].name);
			known = known || precisions[flops->n] >= 0;
			flops->terms[flops->n++] = i;
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

/* A column is a part over a whole: sums of measures, or what the device could have done meanwhile.
 */
static const struct {
	enum operand { NOTHING, TIME, BYTES, FLOPS, PEAK_BYTES, PEAK_TIME } part, whole;
	const char *name, *unit;
} columns[DERIVED_BUILT_IN] = {
	[DERIVED_BANDWIDTH] = { BYTES, TIME, "dram_bandwidth", "byte/second" },
	[DERIVED_PEAK] = { BYTES, PEAK_BYTES, "of_peak", "percent" },
	/* if several counters count parts of them */
	[DERIVED_FLOP] = { FLOPS, NOTHING, "flop", "FLOP" },
	[DERIVED_RATE] = { FLOPS, TIME, "flop_rate", "FLOP/second" },
	/* what tensor cores need for the operations, each in its precision, by the time that they
	   took */
	[DERIVED_FLOP_PEAK] = { FLOPS, PEAK_TIME, "of_flop_peak", "percent" },
	[DERIVED_INTENSITY] = { FLOPS, BYTES, "intensity", "FLOP/byte" },
};

bool derived_counts_operations(enum derived_kind kind)
{
	return kind != DERIVED_DEFINED && columns[kind].part == FLOPS;
}

size_t derived_find(const struct measure *measures, size_t n, struct derived ret[DERIVED_MAX])
{
	struct derived_sum sums[] = { [TIME] = { { MEASURE_TIME }, 1 }, [PEAK_TIME] = { .n = 0 } };
	int precisions[DERIVED_TERMS];
	const char *bandwidth = find_bytes(measures, n, &sums[BYTES]);
	bool both = bandwidth && strcmp(bandwidth, columns[DERIVED_BANDWIDTH].name) == 0;
	bool has_peak = find_flops(measures, n, &sums[FLOPS], precisions);
	const bool there[DERIVED_BUILT_IN] = {
		[DERIVED_BANDWIDTH] = bandwidth,    [DERIVED_PEAK] = both,
		[DERIVED_FLOP] = sums[FLOPS].n > 1, [DERIVED_RATE] = sums[FLOPS].n > 0,
		[DERIVED_FLOP_PEAK] = has_peak,	    [DERIVED_INTENSITY] = both && sums[FLOPS].n > 0,
	};
	size_t n_ret = 0;

	for (size_t kind = 0; kind < DERIVED_BUILT_IN; kind++) {
		if (there[kind]) {
			struct derived *d = &ret[n_ret++];

			*d = (struct derived){ .kind = (enum derived_kind)kind,
					       .name = kind == DERIVED_BANDWIDTH
							       ? bandwidth
							       : columns[kind].name,
					       .unit = columns[kind].unit,
					       .part = sums[columns[kind].part],
					       .whole = sums[columns[kind].whole] };
			memcpy(d->precisions, precisions, sums[FLOPS].n * sizeof(*precisions));
		}
	}
	return n_ret;
}

static double add_values(const double *values, const struct derived_sum *sum)
{
	double all = 0;

	for (size_t i = 0; i < sum->n; i++) {
		all += values[sum->terms[i]];
	}
	return all;
}

bool derived_terms(const struct derived *d, const double *values, double time_ns, double peak_bytes,
		   double *ret_part, double *ret_whole)
{
	*ret_part = add_values(values, &d->part);
	*ret_whole = d->kind == DERIVED_PEAK	    ? peak_bytes / 100
		     : d->kind == DERIVED_INTENSITY ? add_values(values, &d->whole)
		     : d->kind == DERIVED_FLOP	    ? 1 /* a sum includes launches without a time */
						    : time_ns * 1e-9;
	/* What tensor cores could do is computed for whole rows. */
	return isfinite(*ret_part) && isfinite(*ret_whole) && d->kind != DERIVED_FLOP_PEAK;
}
