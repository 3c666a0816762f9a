/* SPDX-License-Identifier: Apache-2.0 */

/* Groups against plain arithmetic: what a loop over all records adds up is what the rows say. */

#include "tests/unit/made_site.h"
#include "tests/unit/unit.h"

#include <errno.h>

#include "client/report/view.h"

enum { RANGES = 60, KERNELS = 5, RECORDS = 4000, OPERATORS = 6, COLUMNS = 2 };

/* A made-up capture: a tree of operators in which one may be within another of its name. */
struct made {
	struct made_site ranges[RANGES];
	unsigned operator[RANGES];
	struct gpuctr_kernel kernels[KERNELS];
	struct gpuctr_device device;
	struct gpuctr_process process;
	struct gpuctr_plan plan;
	struct gpuctr_record records[RECORDS];
	double values[RECORDS][COLUMNS];
	struct attributor *attributor;
	struct groups *groups;
};

static const struct gpuctr_column columns[COLUMNS] = {
	{ .name = "dram__bytes.sum", .unit = "byte" },
	{ .name = "sm__throughput.avg.pct", .unit = "percent" },
};
static const char *const kernel_names[KERNELS] = { "alpha", "beta", "gamma", "delta", "epsilon" };

static void make_ranges(struct made *m, unsigned *seed)
{
	for (unsigned i = 0; i < RANGES; i++) {
		unsigned parent = i == 0 ? 0 : (unsigned)rand_r(seed) % i;
		bool top = i == 0 || rand_r(seed) % 5 == 0;
		char text[96];

		m->operator[i] =(unsigned) rand_r(seed) % OPERATORS;
		snprintf(text, sizeof(text), "aten::op%u, seq = %u, op_id = %u, sizes = [[%u, 8]]",
			 m->operator[i], i, i * 2, m->operator[i] % 2);
		make_site(&m->ranges[i], top ? NULL : &m->ranges[parent], i + 1, text);
	}
}

static void make_records(struct made *m, unsigned *seed)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		bool timed = rand_r(seed) % 10 != 0;

		/* Whole numbers, so that sums are exact in any order. */
		m->values[i][0] = (double)(rand_r(seed) % 1000000) * 32;
		m->values[i][1] = rand_r(seed) % 7 == 0 ? NAN : (double)(rand_r(seed) % 100);
		m->records[i] = (struct gpuctr_record){
			.process = 1,
			.index = i,
			.kernel = &m->kernels[rand_r(seed) % KERNELS],
			.grid = { 1 + (unsigned)rand_r(seed) % 300, 1, 1 },
			.block = { 32, 1, 1 },
			.stream = 7 + (unsigned)rand_r(seed) % 2,
			.clock = timed ? GPUCTR_CLOCK_GPU : GPUCTR_CLOCK_NONE,
			.duration_ns = timed ? 1000 + rand_r(seed) % 5000 : -1,
			.values = m->values[i],
		};
		put_into(&m->records[i],
			 rand_r(seed) % 20 == 0 ? NULL : &m->ranges[rand_r(seed) % RANGES]);
	}
}

static int set_up(void **state)
{
	struct made *m = calloc(1, sizeof(*m));
	unsigned seed = 4711;

	if (!m) {
		return -1;
	}
	for (unsigned i = 0; i < KERNELS; i++) {
		m->kernels[i] = (struct gpuctr_kernel){ .name = kernel_names[i],
							.mangled = "",
							.id = i + 1 };
	}
	m->plan = (struct gpuctr_plan){
		.chip = "GH100", .passes = 1, .columns = columns, .n_columns = COLUMNS
	};
	m->device = (struct gpuctr_device){
		.uuid = "GPU-1", .name = "NVIDIA H200", .chip = "GH100", .clock_mem_mhz = 3201
	};
	m->process = (struct gpuctr_process){ .process = 1,
					      .pid = 10,
					      .program = "p",
					      .recorded_from = "",
					      .devices = &m->device,
					      .n_devices = 1 };
	make_ranges(m, &seed);
	make_records(m, &seed);
	*state = m;
	return 0;
}

static int tear_down(void **state)
{
	struct made *m = *state;

	groups_free(m->groups);
	attributor_free(m->attributor);
	free(m);
	return 0;
}

static void group_all(struct made *m, const char *by)
{
	struct keys keys;

	m->groups = groups_free(m->groups);
	attributor_free(m->attributor);
	m->attributor = attributor_new();
	assert_non_null(m->attributor);
	assert_true(keys_parse(by, &keys, NULL));
	m->groups = groups_new(&keys);
	assert_non_null(m->groups);
	assert_int_equal(groups_begin(m->groups, &m->plan, "made", NULL), 0);
	assert_int_equal(groups_process(m->groups, &m->process), 0);
	for (unsigned i = 0; i < RECORDS; i++) {
		struct attribution what;

		assert_int_equal(attributor_take(m->attributor, &m->records[i], &what), 0);
		assert_int_equal(groups_record(m->groups, &m->records[i], &what), 0);
	}
	assert_int_equal(groups_finish(m->groups), 0);
}

static const struct group *find_row(struct made *m, const char *first, const char *second)
{
	struct group **rows;
	size_t n = groups_rows(m->groups, &rows);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(rows[i]->labels[0], first) == 0 &&
		    (!second || strcmp(rows[i]->labels[1], second) == 0)) {
			return rows[i];
		}
	}
	return NULL;
}

/* --- plain arithmetic ------------------------------------------------------------------------ */

struct plain {
	uint64_t n, calls;
	double sum, min, max;
};

static void plain_add(struct plain *p, double value)
{
	p->calls++;
	if (isnan(value)) {
		return;
	}
	p->min = p->n == 0 || value < p->min ? value : p->min;
	p->max = p->n == 0 || value > p->max ? value : p->max;
	p->sum += value;
	p->n++;
}

static double value_of(const struct gpuctr_record *record, unsigned measure)
{
	if (measure > 0) {
		return record->values[measure - 1];
	}
	return record->clock == GPUCTR_CLOCK_NONE ? NAN : (double)record->duration_ns;
}

static void expect_sample(const struct sample *got, const struct plain *want, double squares)
{
	double mean = want->sum / (double)want->n;

	assert_int_equal(got->n, want->n);
	assert_true(got->sum == want->sum);
	assert_true(got->min == want->min && got->max == want->max);
	assert_true(fabs(got->sum / (double)got->n - mean) <= 1e-12 * fabs(mean));
	assert_true(fabs(sample_deviation(got) - sqrt(squares / (double)(want->n - 1))) <=
		    1e-9 * sample_deviation(got));
}

TEST_WITH(rows_are_what_a_loop_adds_up, set_up, tear_down)
{
	struct made *m = *state;

	group_all(m, "kernel,stream");
	for (unsigned k = 0; k < KERNELS * 2; k++) {
		const char *stream = k % 2 ? "stream 8" : "stream 7";
		const struct group *row = find_row(m, kernel_names[k / 2], stream);

		assert_non_null(row);
		for (unsigned measure = 0; measure <= COLUMNS; measure++) {
			struct plain want = { 0 };
			double squares = 0, mean;

			for (unsigned pass = 0; pass < 2; pass++) {
				mean = want.n ? want.sum / (double)want.n : 0;
				for (unsigned i = 0; i < RECORDS; i++) {
					const struct gpuctr_record *r = &m->records[i];
					double value = value_of(r, measure);

					if (r->kernel != &m->kernels[k / 2] ||
					    r->stream != 7 + k % 2) {
						continue;
					}
					if (pass == 0) {
						plain_add(&want, value);
					} else if (!isnan(value)) {
						squares += (value - mean) * (value - mean);
					}
				}
			}
			assert_int_equal(row->calls, want.calls);
			expect_sample(&row->self[measure], &want, squares);
			assert_true(row->total[measure].sum == want.sum);
		}
	}
}

/* Put together from the samples of many rows. */
TEST_WITH(all_is_what_a_loop_adds_up, set_up, tear_down)
{
	struct made *m = *state;

	group_all(m, "nvtx,kernel,shape");
	for (unsigned measure = 0; measure <= COLUMNS; measure++) {
		struct plain want = { 0 };
		double squares = 0;

		for (unsigned i = 0; i < RECORDS; i++) {
			plain_add(&want, value_of(&m->records[i], measure));
		}
		for (unsigned i = 0; i < RECORDS; i++) {
			double off = value_of(&m->records[i], measure) - want.sum / (double)want.n;

			squares += isnan(off) ? 0 : off * off;
		}
		expect_sample(&groups_all(m->groups)->self[measure], &want, squares);
	}
}

/* The name of the operator is that of the range: each range is one here. */
static bool is_within(const struct made *m, const struct gpuctr_site *range, unsigned operator)
{
	for (; range; range = range->parent) {
		if (m->operator[range->id - 1] == operator) {
			return true;
		}
	}
	return false;
}

TEST_WITH(operators_nest, set_up, tear_down)
{
	struct made *m = *state;
	double selves = 0, all = 0;

	group_all(m, "op");
	for (unsigned o = 0; o < OPERATORS; o++) {
		struct plain self = { 0 }, total = { 0 };
		const struct group *row;
		char name[32];

		snprintf(name, sizeof(name), "aten::op%u", o);
		row = find_row(m, name, NULL);
		assert_non_null(row);
		for (unsigned i = 0; i < RECORDS; i++) {
			const struct gpuctr_record *r = &m->records[i];

			if (r->site && m->operator[r->site->id - 1] == o) {
				plain_add(&self, r->values[0]);
			}
			if (is_within(m, r->site, o)) {
				plain_add(&total, r->values[0]);
			}
		}
		assert_int_equal(row->calls, self.calls);
		assert_int_equal(row->total_calls, total.calls);
		assert_true(row->self[1].sum == self.sum);
		assert_true(row->total[1].sum == total.sum);
		assert_true(total.sum > self.sum); /* something does nest here */
		selves += self.sum;
	}
	selves += find_row(m, "", NULL)->self[1].sum; /* outside of all operators */
	for (unsigned i = 0; i < RECORDS; i++) {
		all += m->records[i].values[0];
	}
	assert_true(selves == all);
	assert_true(groups_all(m->groups)->self[1].sum == all);
}

TEST_WITH(every_record_is_in_one_row, set_up, tear_down)
{
	static const char *const lists[] = { "kernel", "op",	"nvtx",	     "nvtx:1",
					     "layer",  "shape", "op,shape",  "nvtx:2,kernel,stream",
					     "dir",    "step",	"device,op", "process,thread",
					     "capture" };
	struct made *m = *state;

	for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++) {
		struct group **rows;
		uint64_t calls = 0;
		double bytes = 0;
		size_t n;

		group_all(m, lists[l]);
		n = groups_rows(m->groups, &rows);
		for (size_t i = 0; i < n; i++) {
			calls += rows[i]->calls;
			bytes += rows[i]->self[1].sum;
			assert_true(rows[i]->total[1].sum >= rows[i]->self[1].sum);
		}
		assert_int_equal(calls, RECORDS);
		assert_true(bytes == groups_all(m->groups)->self[1].sum);
	}
}

TEST_WITH(paths_are_cut_at_their_depth, set_up, tear_down)
{
	struct made *m = *state;
	struct group **rows;
	size_t n;

	group_all(m, "nvtx:2");
	n = groups_rows(m->groups, &rows);
	for (size_t i = 0; i < n; i++) {
		const char *slash = strchr(rows[i]->labels[0], '/');

		assert_true(!slash || !strchr(slash + 1, '/'));
	}
}

/* Finished twice, with records between: the rows are those of all. */
TEST_WITH(finishing_is_not_the_end, set_up, tear_down)
{
	struct made *m = *state;

	group_all(m, "kernel");
	assert_int_equal(groups_record(m->groups, &m->records[0], NULL), 0);
	assert_int_equal(groups_finish(m->groups), 0);
	assert_int_equal(groups_records(m->groups), RECORDS + 1);
	assert_int_equal(groups_all(m->groups)->calls, RECORDS + 1);
}

TEST_WITH(captures_with_other_columns_are_put_together, set_up, tear_down)
{
	static const struct gpuctr_column other[] = {
		{ .name = "lts__t_bytes.sum", .unit = "byte" },
		{ .name = "dram__bytes.sum", .unit = "byte" },
	};
	static const struct gpuctr_column clash = { .name = "dram__bytes.sum", .unit = "sector" };
	struct gpuctr_plan plan = { .chip = "", .columns = other, .n_columns = 2 };
	struct made *m = *state;
	const struct measure *measures;
	struct buf why = { 0 };
	double before, values[] = { 5, 7 };
	struct gpuctr_record record = m->records[0];

	group_all(m, "kernel");
	before = groups_all(m->groups)->self[1].sum;
	assert_int_equal(groups_begin(m->groups, &plan, "second", NULL), 0);
	record.values = values;
	assert_int_equal(groups_record(m->groups, &record, NULL), 0);
	assert_int_equal(groups_finish(m->groups), 0);
	assert_int_equal(groups_measures(m->groups, &measures), 4);
	assert_string_equal(measures[3].name, "lts__t_bytes.sum");
	assert_true(groups_all(m->groups)->self[1].sum == before + 7);
	assert_int_equal(groups_all(m->groups)->self[3].n, 1);
	assert_true(groups_all(m->groups)->self[3].sum == 5);
	plan.columns = &clash;
	plan.n_columns = 1;
	assert_int_equal(groups_begin(m->groups, &plan, "third", &why), -EINVAL);
	assert_non_null(strstr(buf_string(&why), "'sector' here and 'byte' in an earlier"));
	buf_deinit(&why);
}

/* --- keys, order, derived columns ------------------------------------------------------------ */

static void expect_refused(const char *list, const char *reason)
{
	struct buf why = { 0 };
	struct keys keys;

	assert_false(keys_parse(list, &keys, &why));
	if (!strstr(buf_string(&why), reason)) {
		fail_msg("'%s': %s", list, buf_string(&why));
	}
	buf_deinit(&why);
}

TEST(wrong_keys_are_refused)
{
	expect_refused("kernal", "did you mean 'kernel'?");
	expect_refused("", "the keys are kernel, nvtx");
	expect_refused("op,", "there is no key ''");
	expect_refused("op,op", "'op' is given twice");
	expect_refused("op:2", "only 'nvtx' has one");
	expect_refused("nvtx:0", "not a number of at least 1");
	expect_refused("nvtx:2x", "not a number of at least 1");
	expect_refused("ranks", "did you mean 'rank'?");
	expect_refused("\033[2J", "'\\x1b[2J'");
	expect_refused("kernel,nvtx,op,layer,shape,dir,step", "at most 6 keys");
}

static struct view open_view(struct made *m, const char *sort, bool skip_zero, size_t limit)
{
	const struct view_options options = { .sort = sort,
					      .skip_zero = skip_zero,
					      .limit = limit };
	struct view v;

	assert_int_equal(view_init(&v, m->groups, &options, NULL), 0);
	return v;
}

TEST_WITH(rows_are_sorted_and_chosen, set_up, tear_down)
{
	struct made *m = *state;
	struct view v;

	group_all(m, "kernel");
	v = open_view(m, NULL, false, 0);
	for (size_t i = 1; i < v.n_rows; i++) {
		assert_true(v.rows[i - 1]->total[0].sum >= v.rows[i]->total[0].sum);
	}
	view_deinit(&v);
	v = open_view(m, "dram:max", false, 2);
	assert_int_equal(v.n_shown, 2);
	for (size_t i = 1; i < v.n_rows; i++) {
		assert_true(v.rows[i - 1]->self[1].max >= v.rows[i]->self[1].max);
	}
	view_deinit(&v);
	v = open_view(m, "name", false, 0);
	assert_string_equal(v.rows[0]->labels[0], "alpha");
	assert_string_equal(v.rows[4]->labels[0], "gamma");
	view_deinit(&v);
	group_all(m, "op");
	v = open_view(m, NULL, false, 0);
	assert_int_equal(v.n_zero, 0);
	view_deinit(&v);
}

TEST_WITH(wrong_orders_are_refused, set_up, tear_down)
{
	static const char *const wrong[] = { "nonsense", "m", "time:nonsense", "calls:mean",
					     "sm__throughput:sum" };
	struct made *m = *state;

	group_all(m, "kernel");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct view_options options = { .sort = wrong[i] };
		struct buf why = { 0 };
		struct view v;

		assert_int_equal(view_init(&v, m->groups, &options, &why), -EINVAL);
		assert_true(why.n > 0);
		buf_deinit(&why);
	}
}

TEST_WITH(derived_columns_divide_sums, set_up, tear_down)
{
	struct made *m = *state;
	const struct group *all;
	struct view v;
	double bytes, ns, peak;

	group_all(m, "kernel");
	v = open_view(m, NULL, false, 0);
	all = v.all;
	bytes = ns = 0;
	for (unsigned i = 0; i < RECORDS; i++) {
		if (m->records[i].clock == GPUCTR_CLOCK_GPU) {
			bytes += m->values[i][0];
			ns += (double)m->records[i].duration_ns;
		}
	}
	assert_int_equal(v.derived.n, 2);
	assert_string_equal(v.derived.items[0].name, "dram_bandwidth");
	assert_true(fabs(derived_value(&v.derived.items[0], all) / (bytes / ns * 1e9) - 1) < 1e-12);
	/* 6144 wires, two values a clock */
	peak = 2 * 3201e6 * 6144 / 8;
	assert_true(fabs(derived_value(&v.derived.items[1], all) / (bytes / ns * 1e9 / peak * 100) -
			 1) < 1e-9);
	view_deinit(&v);
}

/* A launch without its bytes would make the others look slow. */
TEST_WITH(what_is_not_known_derives_nothing, set_up, tear_down)
{
	struct made *m = *state;
	unsigned timed = 0;
	struct view v;

	while (m->records[timed].clock != GPUCTR_CLOCK_GPU) {
		timed++;
	}
	m->values[timed][0] = NAN;
	group_all(m, "kernel");
	v = open_view(m, NULL, false, 0);
	assert_true(isnan(derived_value(&v.derived.items[0], v.all)));
	for (size_t i = 0; i < v.n_rows; i++) {
		bool holds = strcmp(v.rows[i]->labels[0], m->records[timed].kernel->name) == 0;

		assert_int_equal(isnan(derived_value(&v.derived.items[0], v.rows[i])) != 0, holds);
	}
	view_deinit(&v);
}

/* A slice of a device beside a whole one: bytes of both are no share of the one's peak. */
TEST_WITH(a_share_of_the_peak_needs_the_peaks_of_all, set_up, tear_down)
{
	struct made *m = *state;
	const struct gpuctr_device devices[] = { m->device,
						 { .index = 1,
						   .uuid = "MIG-1",
						   .name = "NVIDIA H200 MIG 1g.18gb",
						   .chip = "GH100",
						   .clock_mem_mhz = 3201 } };
	unsigned timed = 0;
	struct view v;

	while (m->records[timed].clock != GPUCTR_CLOCK_GPU) {
		timed++;
	}
	m->records[timed].device = 1;
	m->process.devices = devices;
	m->process.n_devices = 2;
	group_all(m, "kernel");
	v = open_view(m, NULL, false, 0);
	assert_string_equal(v.derived.items[1].name, "of_peak");
	assert_true(isnan(derived_value(&v.derived.items[1], v.all)));
	for (size_t i = 0; i < v.n_rows; i++) {
		bool holds = strcmp(v.rows[i]->labels[0], m->records[timed].kernel->name) == 0;

		assert_int_equal(isnan(derived_value(&v.derived.items[1], v.rows[i])) != 0, holds);
	}
	view_deinit(&v);
}

/* Each set of them once, whichever was opened first. */
TEST_WITH(start_end_ranges_are_a_key, set_up, tear_down)
{
	struct made *m = *state;
	const struct gpuctr_site load = {
		.domain = "io", .name = "load", .sizes = "", .category = ""
	};
	const struct gpuctr_site train = {
		.domain = "", .name = "train", .sizes = "", .category = ""
	};
	const struct gpuctr_site *const both[] = { &train, &load }, *const turned[] = { &load,
											&train };
	struct group **rows;

	for (unsigned i = 0; i < RECORDS; i++) {
		m->records[i].active = i % 2 ? both : turned;
		m->records[i].n_active = i % 3;
	}
	group_all(m, "range");
	assert_int_equal(groups_rows(m->groups, &rows), 4);
	assert_string_equal(rows[0]->labels[0], "");
	assert_string_equal(rows[1]->labels[0], "train");
	assert_string_equal(rows[2]->labels[0], "io:load; train");
	assert_string_equal(rows[3]->labels[0], "io:load");
}

TEST_WITH(a_comparison_joins_rows_by_name, set_up, tear_down)
{
	struct made *m = *state, other = *m;
	struct view_options options = { 0 };
	const struct group *row;
	struct view v;

	group_all(m, "kernel");
	other.groups = NULL;
	other.kernels[0].name = "zeta"; /* alpha is there no more */
	for (unsigned i = 0; i < RECORDS; i++) {
		other.records[i].kernel = &other.kernels[m->records[i].kernel - m->kernels];
	}
	group_all(&other, "kernel");
	options.against = m->groups;
	assert_int_equal(view_init(&v, other.groups, &options, NULL), 0);
	assert_int_equal(v.n_rows, KERNELS + 1);
	for (size_t i = 0; i < v.n_rows; i++) {
		row = v.rows[i];
		if (strcmp(row->labels[0], "alpha") == 0) {
			assert_int_equal(row->total_calls, 0);
			assert_true(fields_value(FIELD_BEFORE, &v.measures[1], 1, row, v.all) > 0);
		} else if (strcmp(row->labels[0], "zeta") == 0) {
			assert_null(row->before);
		} else {
			assert_true(fields_value(FIELD_CHANGE, &v.measures[1], 1, row, v.all) == 0);
		}
	}
	view_deinit(&v);
	groups_free(other.groups);
	attributor_free(other.attributor);
}
