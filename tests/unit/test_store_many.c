/* SPDX-License-Identifier: Apache-2.0 */

/* What has more of a thing than the other tests: ranges within ranges, words of a command,
 * processes, bytes of a character. Links client/store. */

#include "tests/unit/store_fixture.h"

#include <time.h>

enum { FEW = 10000, MANY = 40000, TRIES = 5, WORDS = 12, PROCESSES = 300 };

static double processor_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct gpuctr_site *make_nest(unsigned n)
{
	struct gpuctr_site *ranges = calloc(n, sizeof(*ranges));

	assert_non_null(ranges);
	for (unsigned i = 0; i < n; i++) {
		ranges[i] = (struct gpuctr_site){ .parent = i ? &ranges[i - 1] : NULL,
						  .domain = "",
						  .name = "range",
						  .sizes = "",
						  .category = "",
						  .id = i + 1,
						  .depth = i };
	}
	return ranges;
}

/* Seconds that it takes to write a launch within n ranges. */
static double write_nest(struct fixture *f, unsigned n)
{
	struct gpuctr_site *ranges = make_nest(n);
	struct gpuctr_record record = *synthetic_record(&f->synthetic, 0);
	struct store *s = create(f);
	double seconds;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	record.site = &ranges[n - 1];
	seconds = processor_seconds();
	assert_int_equal(store_write_record(s, &record, NULL), 0);
	seconds = processor_seconds() - seconds;
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(*) FROM site r JOIN site p ON p.process ="
				  " r.process AND p.id = r.parent AND p.depth + 1 = r.depth"),
			 n - 1);
	free(ranges);
	assert_int_equal(unlink(f->path), 0);
	return seconds;
}

/* Four times as many took sixteen times as long. */
FIXTURE_TEST(ranges_within_ranges_take_time_as_they_are_many)
{
	double least = INFINITY;

	for (int i = 0; i < TRIES && least >= 8; i++) {
		double few = write_nest(*state, FEW), many = write_nest(*state, MANY);

		least = fmin(least, many / few);
	}
	print_message("%d ranges take %.1f times as long as %d\n", MANY, least, FEW);
	assert_true(least < 8);
}

/* Words have numbers: the eleventh comes behind the third. */
FIXTURE_TEST(words_come_back_in_their_order)
{
	static const char *const command[WORDS + 1] = { "a", "b", "c", "d", "e", "f",
							"g", "h", "i", "j", "k", "l" };
	struct fixture *f = *state;
	struct store_options options = { .path = f->path,
					 .plan = &f->synthetic.plan,
					 .command = command,
					 .driver = "",
					 .version = "" };
	struct store_reader *r;
	struct store *s;

	assert_int_equal(store_create(&options, &f->error, &s), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	for (size_t i = 0; i < WORDS; i++) {
		assert_string_equal(store_info(r)->argv[i], command[i]);
	}
	assert_null(store_info(r)->argv[WORDS]);
	store_reader_free(r);
}

static void write_one_of_many(struct fixture *f, struct store *s, unsigned process)
{
	struct gpuctr_device devices[2] = { f->synthetic.device, f->synthetic.device };
	struct gpuctr_process p = f->synthetic.process;
	struct gpuctr_record record = *synthetic_record(&f->synthetic, 0);
	char claim[32];

	p.process = process;
	p.devices = devices;
	p.n_devices = process % 3;
	devices[0].clock_sm_mhz = process;
	devices[1].index = 1;
	assert_int_equal(store_write_process(s, &p), 0);
	for (unsigned i = 0; i < process % 4; i++) {
		snprintf(claim, sizeof(claim), "NAME%u=%u", i, process);
		assert_int_equal(store_write_claim(s, process, claim), 0);
	}
	record.process = process;
	if (process % 5 == 0) {
		assert_int_equal(store_write_record(s, &record, NULL), 0);
	}
}

static void expect_one_of_many(struct store_reader *r, const struct store_process *p)
{
	struct store_kernels kernels, again;
	unsigned process = p->process.process;
	char claim[32];

	assert_int_equal(p->process.n_devices, process % 3);
	for (size_t i = 0; i < p->process.n_devices; i++) {
		assert_int_equal(p->process.devices[i].index, i);
	}
	if (process % 3 > 0) {
		assert_int_equal(p->process.devices[0].clock_sm_mhz, process);
	}
	assert_int_equal(p->process.n_claims, process % 4);
	for (unsigned i = 0; i < process % 4; i++) {
		snprintf(claim, sizeof(claim), "NAME%u=%u", i, process);
		assert_string_equal(p->process.claims[i], claim);
	}
	assert_int_equal(p->has_records, process % 5 == 0);
	assert_int_equal(p->has_marks, process % 7 == 0);
	assert_int_equal(store_load_kernels(r, process, &kernels), 0);
	assert_int_equal(kernels.n, process % 5 == 0);
	assert_int_equal(store_load_kernels(r, process, &again), 0);
	assert_ptr_equal(kernels.items, again.items);
}

/* Each has its own devices, claims and rows, also where numbers are left out. */
FIXTURE_TEST(processes_keep_what_is_theirs)
{
	struct fixture *f = *state;
	struct store *s = create(f);
	struct store_reader *r;

	for (unsigned process = PROCESSES; process > 0; process -= 1 + (process % 13 == 0)) {
		struct gpuctr_mark mark = {
			.process = process,
			.site = &f->synthetic.sites[0].site,
			.at = { .numbers = f->synthetic.sites[0].numbers },
			.thread = 1,
			.time_ns = 1,
		};

		write_one_of_many(f, s, process);
		assert_true(process % 7 || store_write_mark(s, &mark) == 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	alter(f,
	      "INSERT INTO meta VALUES('process.012.NAME0', 'x'), ('process.99999999999.A', 'x'),"
	      " ('process.12', 'x'), ('process..A', 'x'), ('process.7777.A', 'x')");
	alter(f, "INSERT INTO device VALUES(-1, 0, '', '', '', 1, 1), (7777, 0, '', '', '', 1, 1)");
	r = open_file(f);
	assert_true(store_info(r)->n_processes > PROCESSES / 2);
	for (size_t i = 0; i < store_info(r)->n_processes; i++) {
		expect_one_of_many(r, &store_info(r)->processes[i]);
	}
	store_reader_free(r);
}
