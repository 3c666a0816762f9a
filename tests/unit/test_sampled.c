/* SPDX-License-Identifier: Apache-2.0 */

/* Attribution of what was recorded on an H200, where the truth is known: the same kernels measured
 * in ranges, or copies whose bytes are known (data/README.md). The bounds are what is reached, and
 * a margin; dividing samples by overlap, and plain least squares by position, do not keep them. */

#include <math.h>
#include <zlib.h>

#include "tests/unit/unit.h"

#include "client/attribution/attribution.h"
#include "client/attribution/window.h"

#define KERNELS_MOST 40000
#define SHAPES_MOST 4096
#define STEP_MOST 1200

static const char *folder;
static const char *labels[] = { "read", "written" };

struct kernel {
	struct attribution_kernel k;
	uint32_t place; /* in the step of the truth; STEP_MOST: none */
	uint32_t position;
	enum attribution_state state;
	struct attribution_value values[2];
};

struct truth {
	char name[100];
	double values[2], times;
};

static struct recorded {
	struct kernel kernels[KERNELS_MOST];
	uint32_t count, step;
	struct truth truth[STEP_MOST];
	struct window window; /* the same, to be cut */
	struct attribution *attribution;
	/* By place: what was found, and its error. */
	double found[2][STEP_MOST], error[2][STEP_MOST], ns[STEP_MOST], times[STEP_MOST];
	int too_short[2];
} * r;

static gzFile open_file(const char *set, const char *name)
{
	char path[1000];
	gzFile file;

	snprintf(path, sizeof(path), "%s/%s/%s.gz", folder, set, name);
	file = gzopen(path, "rb");
	assert_non_null(file);
	return file;
}

static void on_kernel(void *user, const struct attribution_result *result)
{
	struct kernel *k = &r->kernels[result->id];

	(void)user;
	k->position = result->position;
	k->state = result->state;
	if (result->values) {
		memcpy(k->values, result->values, sizeof(k->values));
	}
}

static int compare_starts(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	return x->k.start_ns < y->k.start_ns ? -1 : x->k.start_ns > y->k.start_ns;
}

static char shape_names[SHAPES_MOST][4000];

/* `N shape name`, `K shape start end`, and `M` or `S start end bytes` for copies and sets of
 * memory. */
static void read_kernels(const char *set)
{
	gzFile file = open_file(set, "k.txt");
	static char line[8000];

	while (gzgets(file, line, sizeof(line))) {
		struct attribution_kernel k = { .sequence = line[0] == 'K' };
		long start, end, bytes;
		unsigned shape;
		int at;

		if (sscanf(line, "N %u %n", &shape, &at) == 1) {
			assert_true(shape < SHAPES_MOST);
			snprintf(shape_names[shape], sizeof(shape_names[0]), "%.3999s", line + at);
			continue;
		}
		if (sscanf(line, "K %u %ld %ld", &shape, &start, &end) != 3) {
			assert_int_equal(sscanf(line + 1, "%ld %ld %ld", &start, &end, &bytes), 3);
			shape = (uint32_t)line[0] << 24 | (uint32_t)(bytes & 0xffffff);
		}
		k.shape = shape;
		k.start_ns = start;
		k.end_ns = end;
		assert_true(r->count < KERNELS_MOST);
		r->kernels[r->count++].k = k;
	}
	gzclose(file);
	qsort(r->kernels, r->count, sizeof(r->kernels[0]), compare_starts);
	for (uint32_t i = 0; i < r->count; i++) {
		r->kernels[i].k.id = i;
	}
}

/* Launches measured one by one, `index name read written`, whatever step they begin in. */
static void read_truth(const char *set)
{
	gzFile file = open_file(set, "range.tsv");
	static char line[8000], name[8000];
	uint32_t n = 0;

	while (gzgets(file, line, sizeof(line))) {
		double read, written;
		struct truth *t = &r->truth[n++ % r->step];

		assert_int_equal(sscanf(line, "%*d %7999[^\t] %lf %lf", name, &read, &written), 3);
		snprintf(t->name, sizeof(t->name), "%.99s", name);
		t->values[0] += read;
		t->values[1] += written;
		t->times++;
	}
	gzclose(file);
	for (uint32_t i = 0; i < r->step; i++) {
		r->truth[i].values[0] /= r->truth[i].times;
		r->truth[i].values[1] /= r->truth[i].times;
	}
}

/* Where in the truth's step the recording begins: where all names agree. */
static void find_places(void)
{
	uint32_t best = 0, from = 0, n = 0;

	for (uint32_t offset = 0; offset < r->step; offset++) {
		uint32_t same = 0;

		n = 0;
		for (uint32_t i = 0; n < r->step; i++) {
			const struct kernel *k = &r->kernels[i];
			const char *name = r->truth[(n + offset) % r->step].name;

			if (k->k.sequence == 1) {
				same += strncmp(shape_names[k->k.shape], name, strlen(name)) == 0;
				n++;
			}
		}
		if (same > best) {
			best = same;
			from = offset;
		}
	}
	assert_int_equal(best, r->step);
	n = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		r->kernels[i].place =
			r->kernels[i].k.sequence == 1 ? (n++ + from) % r->step : STEP_MOST;
	}
}

static void attribute(const char *set)
{
	struct attribution_options options = { .metrics = 2, .on_kernel = on_kernel };
	gzFile file = open_file(set, "s.txt");
	char line[200];
	uint32_t next = 0;

	r->window.metrics = 2;
	r->attribution = attribution_new(&options);
	assert_non_null(r->attribution);
	while (gzgets(file, line, sizeof(line))) {
		double values[2];
		long start, end;

		assert_int_equal(
			sscanf(line, "%ld %ld %lf %lf", &start, &end, &values[0], &values[1]), 4);
		for (; next < r->count && r->kernels[next].k.start_ns < end; next++) {
			assert_int_equal(attribution_kernel(r->attribution, &r->kernels[next].k),
					 0);
			assert_int_equal(window_add_kernel(&r->window, &r->kernels[next].k), 0);
		}
		assert_int_equal(attribution_sample(r->attribution, start, end, values), 0);
		assert_int_equal(window_add_sample(&r->window, start, end, values), 0);
	}
	gzclose(file);
	assert_int_equal(attribution_finish(r->attribution), 0);
}

static void collect(void)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct kernel *k = &r->kernels[i];

		if (k->place >= r->step || k->state != ATTRIBUTION_MEASURED) {
			continue;
		}
		if (k->position != ATTRIBUTION_NO_POSITION) {
			attribution_position(r->attribution, k->position, k->values);
		}
		r->times[k->place]++;
		r->ns[k->place] += (double)(k->k.end_ns - k->k.start_ns);
		for (int m = 0; m < 2; m++) {
			r->too_short[m] += r->times[k->place] == 1 &&
					   k->values[m].state == ATTRIBUTION_TOO_SHORT;
			r->found[m][k->place] += k->values[m].value;
			r->error[m][k->place] += k->values[m].error;
		}
	}
	for (uint32_t i = 0; i < r->step; i++) {
		assert_true(r->times[i] > 0);
		r->ns[i] /= r->times[i];
		for (int m = 0; m < 2; m++) {
			r->found[m][i] /= r->times[i];
			r->error[m][i] /= r->times[i];
		}
	}
}

struct figures {
	double median, ninth; /* of relative errors */
	int count;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of kernels that take so long and have so many bytes. */
static struct figures figures_of(int m, double from_ns, double to_ns, double bytes)
{
	static double errors[STEP_MOST];
	int n = 0;

	for (uint32_t i = 0; i < r->step; i++) {
		double truth = r->truth[i].values[m];

		if (r->ns[i] >= from_ns && r->ns[i] < to_ns && truth >= bytes) {
			errors[n++] = fabs(r->found[m][i] / truth - 1);
		}
	}
	qsort(errors, (size_t)n, sizeof(errors[0]), compare_doubles);
	return n == 0 ? (struct figures){ 0 }
		      : (struct figures){ errors[n / 2], errors[n * 9 / 10], n };
}

static double total_of(int m)
{
	double total = 0;

	for (uint32_t i = 0; i < r->step; i++) {
		total += r->truth[i].values[m];
	}
	return total;
}

/* Of the whole: what the total is off by, and the sum of what each place is off by. */
static struct figures whole_of(int m)
{
	struct figures f = { 0 };

	for (uint32_t i = 0; i < r->step; i++) {
		double off = r->found[m][i] - r->truth[i].values[m];

		f.median += off / total_of(m);
		f.ninth += fabs(off) / total_of(m);
	}
	return f;
}

static double within_three_errors(double bytes)
{
	double within = 0, all = 0;

	for (int m = 0; m < 2; m++) {
		for (uint32_t i = 0; i < r->step; i++) {
			double off = fabs(r->found[m][i] - r->truth[i].values[m]);

			if (r->truth[i].values[m] >= bytes) {
				within += off <= 3 * r->error[m][i];
				all++;
			}
		}
	}
	return within / all;
}

static void print_table(const char *set, double part)
{
	static const double from_us[] = { 100, 30, 10, 0 }, to_us[] = { 1e9, 100, 30, 10 };
	const struct attribution_counts *c = attribution_counts(r->attribution);

	printf("\n%s: %u kernels, %lu samples, shifts %ld and %ld ns\n", set, r->count,
	       (unsigned long)c->samples, (long)c->shift_ns[0], (long)c->shift_ns[1]);
	for (int m = 0; m < 2; m++) {
		struct figures whole = whole_of(m);

		printf("%-7s total %+.2f%%, weighted %.2f%%; from 100, 30, 10 and 0 us:", labels[m],
		       100 * whole.median, 100 * whole.ninth);
		for (int i = 0; i < 4; i++) {
			struct figures f = figures_of(m, from_us[i] * 1e3, to_us[i] * 1e3, part);

			printf("  %.2f%% %.2f%% (%d)", 100 * f.median, 100 * f.ninth, f.count);
		}
		printf("\n");
	}
	printf("within three told errors: %.1f%%; too short to tell: %d and %d of %u places\n",
	       100 * within_three_errors(part), r->too_short[0], r->too_short[1], r->step);
}

static void load(const char *set, uint32_t step)
{
	r = calloc(1, sizeof(*r));
	assert_non_null(r);
	r->step = step;
	read_kernels(set);
	read_truth(set);
	find_places();
	attribute(set);
	collect();
}

static void unload(void)
{
	window_deinit(&r->window);
	attribution_free(r->attribution);
	free(r);
}

static void expect_figures(int m, double from_us, double to_us, double bytes, double median,
			   double ninth)
{
	struct figures f = figures_of(m, from_us * 1e3, to_us * 1e3, bytes);

	assert_true(f.count > 0);
	assert_true(f.median <= median);
	assert_true(f.ninth <= ninth);
}

/* A transformer: 1,179 kernels and 85 ms a step, two seconds. */
TEST(test_transformer)
{
	double least;

	load("transformer-sampling", 1179);
	least = total_of(0) / 1000;
	print_table("transformer", least);
	for (int m = 0; m < 2; m++) {
		expect_figures(m, 100, 1e9, least, 0.004, 0.012);
		expect_figures(m, 30, 100, least, 0.005, 0.011);
		assert_true(fabs(whole_of(m).median) < 0.002);
		assert_true(whole_of(m).ninth < 0.011);
	}
	assert_true(within_three_errors(least) >= 0.99);
	unload();
}

/* ResNet-18 at batch 64: 356 kernels and 6 ms a step, the median kernel of 5 us in samples of 10.
 */
TEST(test_resnet18)
{
	load("resnet18-sampling", 356);
	print_table("resnet18", 2e6);
	expect_figures(0, 0, 1e9, 2e6, 0.03, 0.14);
	expect_figures(1, 0, 1e9, 2e6, 0.06, 0.19);
	for (int m = 0; m < 2; m++) {
		assert_true(fabs(whole_of(m).median) < 0.003);
		assert_true(whole_of(m).ninth < (m ? 0.06 : 0.03));
	}
	assert_true(within_three_errors(2e6) >= 0.985);
	unload();
}

struct copy {
	char name[100];
	long grid, start, end;
};

/* Kernels whose bytes are known: copyk reads and writes, readk reads, spin does nothing, in samples
 * of 20 us. What is written stays in the L2 cache of 50 MB for a while, so only what is read is
 * exact. */
TEST(test_copies)
{
	gzFile file = open_file("copies-sampling", "k.txt");
	static struct copy copies[KERNELS_MOST];
	char line[300];

	r = calloc(1, sizeof(*r));
	assert_non_null(r);
	while (gzgets(file, line, sizeof(line))) {
		struct copy *c = &copies[r->count];
		struct attribution_kernel *k = &r->kernels[r->count].k;

		assert_int_equal(
			sscanf(line, "%99s %ld %ld %ld", c->name, &c->grid, &c->start, &c->end), 4);
		k->id = r->count++;
		k->shape = (uint32_t)c->grid * 3 + (strstr(c->name, "copyk") != NULL) +
			   2 * (strstr(c->name, "readk") != NULL);
		k->start_ns = c->start;
		k->end_ns = c->end;
	}
	gzclose(file);
	attribute("copies-sampling");
	printf("\ncopies: shift %ld ns\n", (long)attribution_counts(r->attribution)->shift_ns[0]);
	for (uint32_t i = 0; i < 7; i++) {
		const struct copy *c = &copies[i];
		double bytes = strstr(c->name, "spin") ? 0 : (double)c->grid * 256 * 16, off;
		double limit = (c->end - c->start > 100000 ? 0.005 : 0.026) * bytes;
		struct attribution_value values[2];

		assert_true(r->kernels[i].position != ATTRIBUTION_NO_POSITION);
		attribution_position(r->attribution, r->kernels[i].position, values);
		off = values[0].value - bytes;
		printf("%-24s %4ld us  known %11.0f  read %11.0f  error %9.0f  off %+.2f%%\n",
		       c->name, (c->end - c->start) / 1000, bytes, values[0].value, values[0].error,
		       bytes > 0 ? 100 * off / bytes : 0);
		assert_true(fabs(off) <= (bytes > 0 ? limit : 1e6));
		assert_true(fabs(off) <= 3 * values[0].error);
	}
	unload();
}

/* A transformer in samples of 200 us, which hold whole kernels: instructions and active cycles of
 * 132 SMs. 958 kernels, beside copies and sets, and 80 ms a step, 32 steps. */
TEST(test_long_samples)
{
	double least;

	labels[0] = "insts";
	labels[1] = "cycles";
	load("transformer-sm-sampling", 958);
	least = total_of(0) / 1000;
	print_table("transformer, 200 us", least);
	expect_figures(0, 100, 1e9, least, 0.01, 0.045);
	expect_figures(1, 100, 1e9, least, 0.006, 0.04);
	expect_figures(0, 30, 100, least, 0.045, 0.11);
	expect_figures(1, 30, 100, least, 0.03, 0.08);
	assert_true(whole_of(0).ninth < 0.045);
	assert_true(whole_of(1).ninth < 0.03);
	assert_true(within_three_errors(least) >= 0.98);
	unload();
}

/* --- programs of a moment -------------------------------------------------------------------- */

struct cut {
	uint32_t kernels, states[ATTRIBUTION_COSTLY + 1];
	uint32_t values, within; /* three errors */
};

static void count_kernel(struct cut *cut, struct kernel *k)
{
	const struct truth *truth = &r->truth[k->place < STEP_MOST ? k->place : 0];

	if (k->state == ATTRIBUTION_MEASURED && k->position != ATTRIBUTION_NO_POSITION) {
		attribution_position(r->attribution, k->position, k->values);
		k->state = k->values[0].state;
	}
	cut->kernels++;
	cut->states[k->state]++;
	for (int m = 0; m < 2 && k->state == ATTRIBUTION_MEASURED && k->place < STEP_MOST; m++) {
		const struct attribution_value *v = &k->values[m];

		if (v->state == ATTRIBUTION_MEASURED) {
			cut->values++;
			cut->within += fabs(v->value - truth->values[m]) <= 3 * v->error;
		}
	}
}

/* What began and ended in this time, and the samples of the same. */
static void attribute_cut(int64_t from_ns, int64_t to_ns, struct cut *cut)
{
	struct attribution_options options = { .metrics = 2, .on_kernel = on_kernel };
	const struct window *w = &r->window;

	r->attribution = attribution_free(r->attribution);
	r->attribution = attribution_new(&options);
	assert_non_null(r->attribution);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct attribution_kernel *k = &r->kernels[i].k;

		if (k->start_ns >= from_ns && k->end_ns <= to_ns) {
			assert_int_equal(attribution_kernel(r->attribution, k), 0);
		}
	}
	for (size_t i = 0; i < w->samples_used; i++) {
		const struct window_sample *s = &w->samples[i];

		if (s->start_ns >= from_ns && s->end_ns <= to_ns) {
			assert_int_equal(attribution_sample(r->attribution, s->start_ns, s->end_ns,
							    w->values + i * w->metrics),
					 0);
		}
	}
	assert_int_equal(attribution_finish(r->attribution), 0);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct attribution_kernel *k = &r->kernels[i].k;

		if (k->start_ns >= from_ns && k->end_ns <= to_ns) {
			count_kernel(cut, &r->kernels[i]);
		}
	}
}

/* The clocks are the same, however little there is to see of it, and errors are as large as the
 * shift is uncertain. */
TEST(test_recordings_cut_short)
{
	static const struct {
		const char *set;
		uint32_t step;
		int ms;
		double within;
	} rows[] = {
		{ "transformer-sampling", 1179, 3, 0.99 },
		{ "transformer-sampling", 1179, 100, 0.99 },
		{ "resnet18-sampling", 356, 3, 0.9 },
		{ "resnet18-sampling", 356, 100, 0.98 },
		{ "transformer-sm-sampling", 958, 10, 0.85 },
		{ "transformer-sm-sampling", 958, 100, 0.97 },
		{ "transformer-sm-sampling", 958, 210, 0.96 },
	};

	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		int64_t ns = INT64_C(1000000) * rows[row].ms, at;
		struct cut cut = { 0 };

		load(rows[row].set, rows[row].step);
		at = r->kernels[0].k.start_ns;
		for (int i = 0; i < 10 && at + ns < r->kernels[r->count - 1].k.start_ns; i++) {
			attribute_cut(at, at + ns, &cut);
			at += INT64_C(37000000);
		}
		printf("%s, %d ms: %u kernels, %u have values, too short %u, together %u, lost %u, "
		       "clocks %u; within three errors %.1f%%\n",
		       rows[row].set, rows[row].ms, cut.kernels, cut.states[ATTRIBUTION_MEASURED],
		       cut.states[ATTRIBUTION_TOO_SHORT], cut.states[ATTRIBUTION_TOGETHER],
		       cut.states[ATTRIBUTION_LOST], cut.states[ATTRIBUTION_CLOCKS],
		       100.0 * cut.within / cut.values);
		assert_int_equal(cut.states[ATTRIBUTION_CLOCKS], 0);
		assert_true(cut.states[ATTRIBUTION_MEASURED] * 3 > cut.kernels);
		assert_true(cut.within >= rows[row].within * cut.values);
		unload();
	}
}

int main(int argc, char **argv)
{
	folder = argc > 1 ? argv[1] : "tests/unit/data";
	return unit_run();
}
