/* SPDX-License-Identifier: Apache-2.0 */

/* Floating-point operations are counted by instruction counters with the names of the catalogue (an
 * FMA counts twice), and by counters of the tensor pipe's operations (multiply and add counted
 * apart). Operations on integers do not count. A counter that is a part of another measured counter
 * is left out (sm__ops_path_tensor_op_hgmma_src_fp16 of sm__ops_path_tensor_src_fp16). Operations
 * of precisions that were not measured are missing, so a caller that shows a rate says which are
 * counted (sums_add_flops()). */

#include "client/report/sums.h"

#include <math.h>
#include <string.h>

static size_t find(const struct measure *measures, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(measures[i].name, name) == 0) {
			return i;
		}
	}
	return SIZE_MAX;
}

static void find_bytes(const struct measure *measures, size_t n, struct sums *ret)
{
	size_t both = find(measures, n, "dram__bytes.sum");
	size_t read = find(measures, n, "dram__bytes_read.sum");
	size_t write = find(measures, n, "dram__bytes_write.sum");

	ret->both_ways = both != SIZE_MAX || (read != SIZE_MAX && write != SIZE_MAX);
	if (both != SIZE_MAX) {
		ret->bytes = (struct sum){ { both }, 1 };
	} else if (ret->both_ways) {
		ret->bytes = (struct sum){ { read, write }, 2 };
	} else if (read != SIZE_MAX || write != SIZE_MAX) {
		ret->bytes = (struct sum){ { read != SIZE_MAX ? read : write }, 1 };
	}
}

/* Parts of "sm__ops_path_tensor_op_hgmma_src_fp16_dst_fp32.sum": op is "hgmma", values
 * "src_fp16_dst_fp32". */
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

/* The precision that a counter of tensor cores names; -1: none with a known peak, as for sparse
 * matrices. Turing's counters name bf16 and tf32 too, which its tensor cores do not have. */
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

void sums_find(const struct measure *measures, size_t n, struct sums *ret)
{
	struct sum *flops = &ret->flops;

	*ret = (struct sums){ .both_ways = false };
	find_bytes(measures, n, ret);
	for (size_t i = 0; i < n && flops->n < SUM_TERMS; i++) {
		if (counts_flops(measures, n, i)) {
			ret->precisions[flops->n] = precision_of(measures[i].name);
			ret->has_peak = ret->has_peak || ret->precisions[flops->n] >= 0;
			flops->terms[flops->n++] = i;
		}
	}
}

bool sums_has_precision(const struct sums *s, enum peaks_precision precision)
{
	for (size_t i = 0; i < s->flops.n; i++) {
		if (s->precisions[i] == (int)precision) {
			return true;
		}
	}
	return false;
}

/* Appends "src_fp16_dst_fp32" as "fp16 to fp32". */
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

bool sums_add_flops(const struct measure *measures, size_t n, struct buf *b)
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

double sums_value(const struct sum *s, const struct group *group)
{
	double sum = s->n > 0 ? 0 : NAN;

	for (size_t i = 0; i < s->n; i++) {
		const struct part *term = &group->timed[s->terms[i]];
		bool known =
			group->total_error ? term->n > 0 : term->n == group->timed[MEASURE_TIME].n;

		sum += known ? term->sum : NAN;
	}
	return sum;
}

double sums_ns(const struct sum *s, const struct group *group)
{
	double least = group->timed[MEASURE_TIME].ns;

	for (size_t i = 0; i < s->n; i++) {
		least = fmin(least, group->timed[s->terms[i]].ns);
	}
	return least;
}
