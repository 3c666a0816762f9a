/* SPDX-License-Identifier: Apache-2.0 */

/* Records of a trace and samples, as the client divides them: each record gets the value and the
 * error that attribution has for its kernel (test_sampled.c says how good these are), from what was
 * recorded on an H200. */

#include <math.h>
#include <zlib.h>

#include "tests/unit/unit.h"

#include "client/cli/sampled.h"

enum { KERNELS_MOST = 40000, SHAPES_MOST = 4096 };

static const char *folder;

static const struct gpuctr_column columns[] = {
	{ "written", "byte", 0 },
	{ "twice", "byte", 0 }, /* what was read and twice what was written */
};
static const char *const metrics[] = { "dram__bytes_read.sum", "dram__bytes_write.sum" };
static const struct gpuctr_term terms[] = { { 0, 1, 1 }, { 1, 0, 1 }, { 1, 1, 2 } };
static const struct gpuctr_plan plan = {
	.chip = "GH100",
	.passes = 1,
	.groups = 1,
	.columns = columns,
	.n_columns = 2,
	.metrics = metrics,
	.n_metrics = 2,
	.terms = terms,
	.n_terms = 3,
};
static const struct gpuctr_device device = { .index = 3, .uuid = "GPU-0" };
static const struct gpuctr_process process = {
	.process = 1, .pid = 7, .program = "net.py", .devices = &device, .n_devices = 1
};

static struct kernel {
	struct attribution_kernel k;
	uint32_t position;
	enum attribution_state state;
	struct attribution_value values[2];
	double told[2], errors[2];
	unsigned alike;
	bool is_copy;
	struct gpuctr_copy copy;
} kernels[KERNELS_MOST];
static size_t n_kernels;
static struct gpuctr_kernel named[SHAPES_MOST];
static char names[SHAPES_MOST][16];
static struct attribution *direct;

static gzFile open_file(const char *name)
{
	char path[1000];
	gzFile file;

	snprintf(path, sizeof(path), "%s/transformer-sampling/%s.gz", folder, name);
	file = gzopen(path, "rb");
	assert_non_null(file);
	return file;
}

static int compare_starts(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	return x->k.start_ns < y->k.start_ns ? -1 : x->k.start_ns > y->k.start_ns;
}

static struct kernel copy_of(char kind, long start, long end, long bytes)
{
	return (struct kernel){
		.k = { .shape = (uint32_t)kind << 24 | (uint32_t)(bytes & 0xffffff),
		       .start_ns = start,
		       .end_ns = end },
		.is_copy = true,
		.copy = { .process = 1,
			  .kind = kind == 'S' ? GPUCTR_COPY_SET : GPUCTR_COPY_MEMORY,
			  .device = 3,
			  .bytes = (uint64_t)bytes,
			  .start_ns = start,
			  .duration_ns = end - start },
	};
}

/* test_sampled.c has the format. */
static void read_kernels(void)
{
	gzFile file = open_file("k.txt");
	static char line[8000];

	n_kernels = 0;
	while (gzgets(file, line, sizeof(line))) {
		unsigned shape;
		long start, end, bytes;

		assert_true(n_kernels < KERNELS_MOST);
		if (sscanf(line, "K %u %ld %ld", &shape, &start, &end) == 3) {
			assert_true(shape < SHAPES_MOST);
			kernels[n_kernels++] = (struct kernel){ .k = { .sequence = 1,
								       .shape = shape,
								       .start_ns = start,
								       .end_ns = end } };
		} else if (line[0] != 'N' &&
			   sscanf(line + 1, "%ld %ld %ld", &start, &end, &bytes) == 3) {
			kernels[n_kernels++] = copy_of(line[0], start, end, bytes);
		}
	}
	gzclose(file);
	qsort(kernels, n_kernels, sizeof(kernels[0]), compare_starts);
	for (size_t i = 0; i < n_kernels; i++) {
		kernels[i].k.id = i;
	}
}

static void on_kernel(void *user, const struct attribution_result *result)
{
	struct kernel *k = &kernels[result->id];

	(void)user;
	k->position = result->position;
	k->state = result->state;
	if (result->values) {
		memcpy(k->values, result->values, sizeof(k->values));
	}
}

static struct gpuctr_record record_of(size_t i)
{
	const struct kernel *k = &kernels[i];
	struct gpuctr_kernel *name = &named[k->k.shape];

	snprintf(names[k->k.shape], sizeof(names[0]), "k%u", k->k.shape);
	*name = (struct gpuctr_kernel){ .name = "same", .mangled = names[k->k.shape] };
	return (struct gpuctr_record){ .process = 1,
				       .index = i,
				       .kernel = name,
				       .device = 3,
				       .stream = 7,
				       .start_ns = k->k.start_ns,
				       .duration_ns = k->k.end_ns - k->k.start_ns,
				       .clock = GPUCTR_CLOCK_GPU };
}

static void give(struct sampled *s)
{
	for (size_t i = 0; i < n_kernels; i++) {
		struct gpuctr_record r;

		if (kernels[i].is_copy) {
			sampled_copy(s, &kernels[i].copy);
			continue;
		}
		r = record_of(i);
		sampled_record(s, &r, 0);
	}
}

static void take(struct sampled *s)
{
	size_t n = 0;

	for (size_t i = 0; i < n_kernels; i++) {
		struct kernel *k = &kernels[i];
		struct gpuctr_record r;

		if (k->is_copy) {
			continue;
		}
		r = record_of(i);
		sampled_apply(s, n++, &r);
		k->alike = r.alike;
		memcpy(k->told, r.values, sizeof(k->told));
		memcpy(k->errors, r.errors, sizeof(k->errors));
	}
}

static void join(struct sampled *s)
{
	gzFile file = open_file("s.txt");
	char line[200];

	assert_int_equal(sampled_add_gpu(s, "GPU-0"), 0);
	sampled_process(s, &process);
	give(s);
	while (gzgets(file, line, sizeof(line))) {
		double values[2];
		long start, end;

		assert_int_equal(
			sscanf(line, "%ld %ld %lf %lf", &start, &end, &values[0], &values[1]), 4);
		sampled_sample(s, 0, start, end, values);
	}
	gzclose(file);
	sampled_finish(s);
	take(s);
}

static void attribute_directly(void)
{
	struct attribution_options options = { .metrics = 2, .on_kernel = on_kernel };
	gzFile file = open_file("s.txt");
	char line[200];
	size_t next = 0;

	direct = attribution_new(&options);
	assert_non_null(direct);
	while (gzgets(file, line, sizeof(line))) {
		double values[2];
		long start, end;

		sscanf(line, "%ld %ld %lf %lf", &start, &end, &values[0], &values[1]);
		for (; next < n_kernels && kernels[next].k.start_ns < end; next++) {
			assert_int_equal(attribution_kernel(direct, &kernels[next].k), 0);
		}
		assert_int_equal(attribution_sample(direct, start, end, values), 0);
	}
	gzclose(file);
	assert_int_equal(attribution_finish(direct), 0);
}

static bool is_same(double a, double b)
{
	return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fabs(a);
}

TEST(records_get_what_attribution_found)
{
	struct sampled *s = sampled_new(&plan, NULL);
	const struct sampled_counts *c;
	size_t known = 0, too_short = 0, records = 0;

	assert_non_null(s);
	read_kernels();
	attribute_directly();
	join(s);
	for (size_t i = 0; i < n_kernels; i++) {
		const struct kernel *k = &kernels[i];
		struct attribution_value v[2] = { k->values[0], k->values[1] };
		bool short0, short1;

		if (k->is_copy) {
			continue;
		}
		records++;
		if (k->state != ATTRIBUTION_MEASURED) {
			assert_true(isnan(k->told[0]) && isnan(k->told[1]));
			continue;
		}
		if (k->position != ATTRIBUTION_NO_POSITION) {
			attribution_position(direct, k->position, v);
			assert_true(k->alike > 0);
		}
		short0 = v[0].state != ATTRIBUTION_MEASURED;
		short1 = v[1].state != ATTRIBUTION_MEASURED;
		assert_true(is_same(k->told[0], short1 ? NAN : v[1].value));
		assert_true(is_same(k->errors[0], short1 ? NAN : v[1].error));
		assert_true(
			is_same(k->told[1], short0 || short1 ? NAN : v[0].value + 2 * v[1].value));
		assert_true(is_same(k->errors[1],
				    short0 || short1 ? NAN : hypot(v[0].error, 2 * v[1].error)));
		known += !isnan(k->told[0]);
		too_short += short0 || short1;
	}
	c = sampled_counts(s);
	printf("%zu kernels: %zu have what was written; too short to tell %zu, lost %zu\n", records,
	       known, (size_t)c->without[SAMPLED_TOO_SHORT], (size_t)c->without[SAMPLED_LOST]);
	assert_int_equal(c->kernels, records);
	assert_int_equal(c->without[SAMPLED_TOO_SHORT], too_short);
	assert_true(known > records * 8 / 10);
	assert_true(c->shift_known);
	assert_true(c->too_short_sum > 0 && c->too_short_sum < 0.02 * c->sum);
	sampled_free(s);
	attribution_free(direct);
}

/* Each for its own reason. */
TEST(records_without_a_value_are_counted)
{
	static const struct gpuctr_device two[] = { { .index = 0, .uuid = "GPU-0" },
						    { .index = 1, .uuid = "GPU-1" } };
	static const char *const wanted[] = { "samples missing", "on GPUs without samples",
					      "without a time" };
	const struct gpuctr_process p = { .process = 1, .devices = two, .n_devices = 2 };
	struct gpuctr_record r[] = {
		{ .start_ns = 1000000, .duration_ns = 1000, .clock = GPUCTR_CLOCK_GPU },
		{ .index = 1, .device = 1, .clock = GPUCTR_CLOCK_GPU },
		{ .index = 2, .clock = GPUCTR_CLOCK_NONE, .duration_ns = -1 },
	};
	struct sampled *s = sampled_new(&plan, NULL);
	const uint64_t *without = sampled_counts(s)->without;

	sampled_add_gpu(s, "GPU-0");
	sampled_process(s, &p);
	for (size_t i = 0; i < 3; i++) {
		r[i].process = 1;
		sampled_record(s, &r[i], 0);
	}
	sampled_finish(s);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(sampled_apply(s, i, &r[i]), wanted[i]);
		assert_true(isnan(r[i].values[0]) && isnan(r[i].errors[0]));
	}
	assert_int_equal(without[SAMPLED_LOST], 1);
	assert_int_equal(without[SAMPLED_OTHER_GPU], 1);
	assert_int_equal(without[SAMPLED_NO_TIME], 1);
	sampled_free(s);
}

TEST(what_adds_up_can_be_sampled)
{
	static const char *const wrong[] = { "dram__bytes_read.sum", "sm__cycles_active.avg" };
	struct gpuctr_plan other = plan;

	assert_null(sampled_misfit(&plan));
	other.metrics = wrong;
	assert_string_equal(sampled_misfit(&other), "sm__cycles_active.avg");
}

int main(int argc, char **argv)
{
	folder = argc > 1 ? argv[1] : "tests/unit/data";
	return unit_run();
}
