/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store_fixture.h"

#include "client/store/packed.h"

/* The capture file: what is written is read back, a killed writer costs its last second and no
 * more, and a damaged or hostile file gives a code. Links client/store. */

/* --- parts ----------------------------------------------------------------------------------- */

static void expect_packed(const uint8_t *image, size_t size, size_t most)
{
	struct packed in = { 0 }, out = { 0 };
	const uint8_t *data, *again;
	size_t n;

	data = packed_pack(&in, image, size, &n);
	assert_non_null(data);
	assert_true(n <= most);
	assert_int_equal(packed_unpack(&out, data, n, size, &again), 0);
	assert_memory_equal(again, image, size);
	/* Cut off, and of another size than is said. */
	assert_true(n == size || packed_unpack(&out, data, n - 1, size, &again) == -EBADMSG);
	assert_int_equal(packed_unpack(&out, data, n, size + 1, &again), -EBADMSG);
	assert_int_equal(packed_unpack(&out, data, n, size - 1, &again), -EBADMSG);
	assert_int_equal(packed_unpack(&out, data, n, SIZE_MAX, &again), -EBADMSG);
	assert_int_equal(packed_unpack(&out, image, 4 << 20, (size_t)2 << 30, &again), -EFBIG);
	packed_deinit(&in);
	packed_deinit(&out);
}

TEST(test_images_are_packed)
{
	static uint8_t image[200000];
	uint32_t random = 7;

	for (size_t i = 0; i < sizeof(image); i += 100) {
		image[i] = (uint8_t)i;
	}
	expect_packed(image, sizeof(image), sizeof(image) / 10);
	for (size_t i = 0; i < sizeof(image); i++) {
		random = random * 1664525 + 1013904223; /* Numerical Recipes' */
		image[i] = (uint8_t)(random >> 24);
	}
	expect_packed(image, sizeof(image), sizeof(image)); /* as it is */
	expect_packed(image, 1, 1);
}

TEST(test_command_is_quoted_for_a_shell)
{
	static const char *const argv[] = { "a-b", "c d", "it's", "", "$x", NULL };
	char *text = meta_quote_command(argv);

	assert_string_equal(text, "a-b 'c d' 'it'\\''s' '' '$x'");
	sqlite3_free(text);
}

/* --- round trip ------------------------------------------------------------------------------ */

FIXTURE_TEST(test_capture_comes_back)
{
	struct fixture *f = *state;
	const struct store_info *info;
	struct store_reader *r;

	write_file(f, 10);
	r = open_file(f);
	info = store_info(r);
	assert_string_equal(info->version, "0.1.0");
	assert_string_equal(info->command, "python net.py 'it'\\''s' ''");
	assert_string_equal(info->driver, "580.159.04");
	assert_string_equal(info->recorded_from, "");
	assert_true(info->created_ns > INT64_C(1500000000000000000));
	assert_true(info->complete);
	assert_int_equal(info->totals.seen, 12);
	assert_int_equal(info->totals.measured, 10);
	assert_int_equal(info->totals.filtered, 2);
	assert_string_equal(info->plan.chip, "GH100");
	assert_int_equal(info->plan.passes, 1);
	assert_int_equal(info->plan.n_columns, 3);
	assert_string_equal(info->plan.columns[1].name, "dram__bytes_write.sum");
	assert_string_equal(info->plan.columns[1].unit, "byte");
	assert_int_equal(info->plan.n_metrics, 3);
	assert_string_equal(info->plan.metrics[2], "gpu__time_duration.sum");
	assert_int_equal(info->n_processes, 1);
	assert_int_equal(info->processes[0].records, 0);
	assert_int_equal(store_count_rows(r), 0);
	assert_int_equal(info->processes[0].records, 10);
	assert_int_equal(info->processes[0].last, 9);
	assert_int_equal(info->processes[0].process.pid, 4711);
	assert_int_equal(info->processes[0].process.n_devices, 1);
	assert_string_equal(info->processes[0].process.devices[0].name, "NVIDIA H200");
	assert_int_equal(info->processes[0].process.devices[0].clock_sm_mhz, 1980);
	assert_false(info->processes[0].ended);
	store_reader_free(r);
}

static void expect_same_range(const struct gpuctr_site *a, const struct gpuctr_site *b)
{
	for (; a && b; a = a->parent, b = b->parent) {
		assert_int_equal(a->id, b->id);
		assert_int_equal(a->depth, b->depth);
		assert_int_equal(a->color, b->color);
		assert_string_equal(a->name, b->name);
		assert_string_equal(a->sizes, b->sizes);
		assert_string_equal(a->category, b->category);
		assert_string_equal(a->domain, b->domain);
		assert_int_equal(a->kind, b->kind);
		assert_int_equal(a->numbered, b->numbered);
		assert_int_equal(a->n_numbers, b->n_numbers);
	}
	assert_true(!a && !b);
}

static void expect_same_occurrence(const struct gpuctr_site *site,
				   const struct gpuctr_occurrence *a,
				   const struct gpuctr_occurrence *b)
{
	assert_memory_equal(a->numbers, b->numbers, site->n_numbers * sizeof(*a->numbers));
	assert_int_equal(a->payload_type, b->payload_type);
	assert_true(a->payload == b->payload);
}

static void expect_same_record(const struct gpuctr_record *a, const struct gpuctr_record *b)
{
	assert_int_equal(a->process, b->process);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->kind, b->kind);
	assert_string_equal(a->kernel->name, b->kernel->name);
	assert_string_equal(a->kernel->mangled, b->kernel->mangled);
	assert_int_equal(a->kernel->registers, b->kernel->registers);
	assert_memory_equal(a->grid, b->grid, sizeof(a->grid));
	assert_memory_equal(a->block, b->block, sizeof(a->block));
	assert_int_equal(a->dynamic_shared_bytes, b->dynamic_shared_bytes);
	assert_int_equal(a->stream, b->stream);
	assert_int_equal(a->correlation, b->correlation);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->start_ns, b->start_ns);
	assert_int_equal(a->duration_ns, b->duration_ns);
	assert_int_equal(a->clock, b->clock);
	assert_memory_equal(a->values, b->values, SYNTHETIC_COLUMNS * sizeof(double));
	expect_same_range(a->site, b->site);
	expect_same_occurrence(a->site, &a->at, &b->at);
	assert_int_equal(a->opened, b->opened);
}

FIXTURE_TEST(test_records_come_back_in_order)
{
	struct fixture *f = *state;
	const struct gpuctr_record *record;
	struct store_reader *r;
	struct store_cursor *c;

	write_file(f, 5000);
	r = open_file(f);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	for (unsigned i = 0; i < 5000; i++) {
		assert_int_equal(store_next_record(c, &record), 0);
		assert_non_null(record);
		expect_same_record(record, synthetic_record(&f->synthetic, i));
	}
	assert_int_equal(store_next_record(c, &record), 0);
	assert_null(record);
	store_cursor_free(c);

	assert_int_equal(store_records(r, 1, 256, 256, &c), 0);
	for (unsigned i = 256; i < 512; i++) {
		assert_int_equal(store_next_record(c, &record), 0);
		assert_int_equal(record->index, i);
	}
	assert_int_equal(store_next_record(c, &record), 0);
	assert_null(record);
	store_cursor_free(c);

	assert_int_equal(store_records(r, 2, 0, 0, &c), 0);
	assert_int_equal(store_next_record(c, &record), 0);
	assert_null(record);
	store_cursor_free(c);
	store_reader_free(r);
}

FIXTURE_TEST(test_each_definition_is_written_once)
{
	struct fixture *f = *state;

	write_file(f, 5000);
	assert_int_equal(query(f, "SELECT count(*) FROM kernel"), SYNTHETIC_KERNELS);
	/* 25 steps of 200 kernels, four sites each. */
	assert_int_equal(query(f, "SELECT count(*) FROM site"), 100);
	assert_int_equal(query(f, "SELECT count(*) FROM active"), 0);
}

FIXTURE_TEST(test_extreme_values_come_back)
{
	struct fixture *f = *state;
	struct gpuctr_record odd = *synthetic_record(&f->synthetic, 7);
	double values[3] = { NAN, -1.5e300, 0.1 };
	const int64_t numbers[3] = { INT64_MAX, -1, INT64_MIN };
	const struct gpuctr_site deep = { .parent = &f->synthetic.sites[3].site,
					  .domain = "d",
					  .name = "caf\xc3\xa9 'quoted' \"x\"",
					  .sizes = "[[1], [",
					  .category = "7",
					  .color = 0xffffffff,
					  .kind = GPUCTR_SITE_ENGINE,
					  .numbered = GPUCTR_NUMBER_SEQ,
					  .n_numbers = 3,
					  .id = 900,
					  .depth = 4 };
	const struct gpuctr_kernel unknown = {
		.name = "?", .mangled = "?", .static_shared_bytes = -1, .registers = -1, .id = 9
	};
	struct store *s = create(f);
	const struct gpuctr_record *record;
	struct store_reader *r;
	struct store_cursor *c;

	odd.process = 3;
	odd.index = 123456789012;
	odd.kind = GPUCTR_LAUNCH_GRAPH;
	odd.grid[0] = UINT32_MAX;
	odd.stream = UINT64_MAX - 1;
	odd.duration_ns = -1;
	odd.clock = GPUCTR_CLOCK_NONE;
	odd.kernel = &unknown;
	odd.site = &deep;
	odd.at = (struct gpuctr_occurrence){ numbers, 1, UINT64_MAX };
	odd.opened = 5;
	odd.values = values;
	assert_int_equal(store_write_record(s, &odd, NULL), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);

	/* The process was never announced, but its records are there. */
	r = open_file(f);
	assert_int_equal(store_records(r, 3, 0, 0, &c), 0);
	assert_int_equal(store_next_record(c, &record), 0);
	assert_int_equal(record->index, 123456789012);
	assert_int_equal(record->kind, GPUCTR_LAUNCH_GRAPH);
	assert_int_equal(record->grid[0], UINT32_MAX);
	assert_true(record->stream == UINT64_MAX - 1);
	assert_int_equal(record->duration_ns, -1);
	assert_int_equal(record->clock, GPUCTR_CLOCK_NONE);
	assert_int_equal(record->kernel->registers, -1);
	assert_int_equal(record->kernel->static_shared_bytes, -1);
	assert_true(isnan(record->values[0]));
	assert_true(record->values[1] == -1.5e300 && record->values[2] == 0.1);
	expect_same_range(record->site, &deep);
	expect_same_occurrence(&deep, &record->at, &odd.at);
	assert_int_equal(record->opened, 5);
	store_cursor_free(c);
	store_reader_free(r);
	assert_int_equal(query(f,
			       "SELECT count(*) FROM records WHERE duration_ns IS NULL AND clock ="
			       " 'none' AND registers IS NULL AND static_shared_bytes IS NULL"),
			 1);
}

FIXTURE_TEST(test_active_sets_are_interned)
{
	struct fixture *f = *state;
	const struct gpuctr_site *one[] = { &f->synthetic.sites[0].site };
	const struct gpuctr_site *two[] = { &f->synthetic.sites[0].site,
					    &f->synthetic.sites[7].site };
	struct store *s = create(f);
	const struct gpuctr_record *record;
	struct store_reader *r;
	struct store_cursor *c;

	for (unsigned i = 0; i < 300; i++) {
		struct gpuctr_record with = *synthetic_record(&f->synthetic, i);

		with.active = i % 3 == 1 ? one : two;
		with.n_active = i % 3;
		assert_int_equal(store_write_record(s, &with, NULL), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(DISTINCT set_id) FROM active"), 2);
	assert_int_equal(query(f, "SELECT count(*) FROM active"), 3);

	r = open_file(f);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(store_next_record(c, &record), 0);
		assert_int_equal(record->n_active, i % 3);
		if (i % 3 > 0) {
			expect_same_range(record->active[0], &f->synthetic.sites[0].site);
		}
		if (i % 3 > 1) {
			expect_same_range(record->active[1], &f->synthetic.sites[7].site);
		}
	}
	store_cursor_free(c);
	store_reader_free(r);
}

FIXTURE_TEST(test_many_active_sets)
{
	struct fixture *f = *state;
	struct store *s = create(f);

	for (unsigned i = 0; i < 2000; i++) {
		struct gpuctr_record with = *synthetic_record(&f->synthetic, i);
		const struct gpuctr_site *pair[] = { &f->synthetic.sites[i % 50].site,
						     &f->synthetic.sites[100 + i % 40].site };

		with.active = pair;
		with.n_active = 2;
		assert_int_equal(store_write_record(s, &with, NULL), 0);
	}
	store_close(s);
	assert_int_equal(query(f, "SELECT count(DISTINCT set_id) FROM active"),
			 200); /* lcm(50, 40) */
}

FIXTURE_TEST(test_images_marks_and_notices_come_back)
{
	struct fixture *f = *state;
	uint8_t data[70000];
	const struct gpuctr_mark mark = {
		1, &f->synthetic.sites[2].site, { f->synthetic.sites[2].numbers, 2, 7 }, 42, -5
	};
	const struct gpuctr_notice notice = { 1, { GPUCTR_E_CUPTI_IN_USE, "cause", "cure" } };
	const struct gpuctr_process_end process_end = { 1, { .seen = 9, .lost = 4 }, true };
	const struct gpuctr_mark *mark_back;
	const struct gpuctr_notice *notice_back;
	const struct gpuctr_image *image_back;
	struct store *s = create(f);
	struct store_reader *r;
	struct store_cursor *c;
	size_t n;

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i * i);
	}
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < 3; i++) {
		const struct gpuctr_image image = { 1, i * 256, 256, data, sizeof(data) - i };

		assert_int_equal(store_write_image(s, &image), 0);
	}
	assert_int_equal(store_write_mark(s, &mark), 0);
	assert_int_equal(store_write_notice(s, &notice), 0);
	assert_int_equal(store_write_process_end(s, &process_end), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);

	r = open_file(f);
	assert_int_equal(store_count_rows(r), 0);
	assert_int_equal(store_info(r)->processes[0].images, 3);
	assert_true(store_info(r)->processes[0].ended && store_info(r)->processes[0].clean);
	assert_int_equal(store_info(r)->processes[0].totals.lost, 4);
	assert_int_equal(store_images(r, 1, 256, 512, &c), 0);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(store_next_image(c, &image_back), 0);
		assert_int_equal(image_back->first, i * 256);
		assert_int_equal(image_back->count, 256);
		assert_int_equal(image_back->size, sizeof(data) - i);
		assert_memory_equal(image_back->data, data, sizeof(data) - i);
	}
	assert_int_equal(store_next_image(c, &image_back), 0);
	assert_null(image_back);
	store_cursor_free(c);
	assert_int_equal(store_marks(r, 1, &c), 0);
	assert_int_equal(store_next_mark(c, &mark_back), 0);
	expect_same_range(mark_back->site, mark.site);
	expect_same_occurrence(mark.site, &mark_back->at, &mark.at);
	assert_int_equal(mark_back->thread, 42);
	assert_int_equal(mark_back->time_ns, -5);
	store_cursor_free(c);
	assert_int_equal(store_notices(r, &notice_back, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(notice_back->error.code, GPUCTR_E_CUPTI_IN_USE);
	assert_string_equal(notice_back->error.remedy, "cure");
	store_reader_free(r);
}

/* Nor is what is not there found missing. */
FIXTURE_TEST(test_marks_are_whole_where_records_are_brief)
{
	struct fixture *f = *state;
	const struct gpuctr_mark mark = {
		1, &f->synthetic.sites[2].site, { f->synthetic.sites[2].numbers, 2, 7 }, 42, -5
	};
	const struct gpuctr_record *record;
	const struct gpuctr_mark *mark_back;
	struct store *s = create(f);
	struct store_reader *r;
	struct store_cursor *c;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), NULL), 0);
	assert_int_equal(store_write_mark(s, &mark), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	store_be_brief(r, true);
	assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
	assert_int_equal(store_next_record(c, &record), 0);
	assert_string_equal(record->kernel->name, f->synthetic.kernels[0].name);
	store_cursor_free(c);
	assert_int_equal(store_marks(r, 1, &c), 0);
	assert_int_equal(store_next_mark(c, &mark_back), 0);
	assert_int_equal(mark_back->site->id, mark.site->id);
	assert_int_equal(mark_back->at.payload, 7);
	assert_int_equal(mark_back->thread, 42);
	store_cursor_free(c);
	store_reader_free(r);
}

/* A program says of itself what it likes; the file stays readable. */
FIXTURE_TEST(test_huge_counts_are_cut)
{
	struct fixture *f = *state;
	const struct gpuctr_process_end process_end = { 1, { .seen = UINT64_MAX }, true };
	const struct gpuctr_end end = { .totals = { .seen = UINT64_MAX, .lost = 1 },
					.error = { 0, "", "" } };
	struct store *s = create(f);
	struct store_reader *r;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_process_end(s, &process_end), 0);
	assert_int_equal(store_finish(s, &end), 0);
	store_close(s);
	r = open_file(f);
	assert_int_equal(store_info(r)->processes[0].totals.seen, INT64_MAX);
	assert_int_equal(store_info(r)->totals.seen, INT64_MAX);
	assert_int_equal(store_info(r)->totals.lost, 1);
	store_reader_free(r);
}

FIXTURE_TEST(test_process_may_be_told_again)
{
	struct fixture *f = *state;
	struct gpuctr_process first = f->synthetic.process;
	struct store *s = create(f);
	struct store_reader *r;

	first.n_devices = 0;
	first.cupti = "";
	assert_int_equal(store_write_process(s, &first), 0);
	f->synthetic.process.recorded_from = "NVIDIA H200";
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	assert_int_equal(store_info(r)->n_processes, 1);
	assert_string_equal(store_info(r)->processes[0].process.cupti, "2025.3.1");
	assert_int_equal(store_info(r)->processes[0].process.n_devices, 1);
	assert_string_equal(store_info(r)->recorded_from, "NVIDIA H200");
	store_reader_free(r);
}

FIXTURE_TEST(test_ends_of_processes_come_back)
{
	struct fixture *f = *state;
	const struct gpuctr_process_end end = { .process = 1, .totals = { .seen = 9, .lost = 4 } };
	struct store *s = create(f);
	const struct store_process *p;
	struct store_reader *r;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_process_end(s, &end), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	p = &store_info(r)->processes[0];
	assert_true(p->ended);
	assert_false(p->clean);
	assert_int_equal(p->totals.seen, 9);
	assert_int_equal(p->totals.lost, 4);
	store_reader_free(r);
}

/* SQLite takes "UUID" and "uuid" for the same column. */
FIXTURE_TEST(test_metrics_may_be_called_like_columns)
{
	static const char *const names[] = { "UUID",  "nvtx", "device_name", "mangled",
					     "clock", "OP",   "launches" };
	struct fixture *f = *state;
	char sql[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		f->synthetic.columns[0].name = names[i];
		write_file(f, 1);
		snprintf(sql, sizeof(sql),
			 "SELECT count([metric:%s]) FROM records WHERE uuid <> ''", names[i]);
		assert_int_equal(query(f, sql), 1);
		unlink(f->path);
	}
}

FIXTURE_TEST(test_view_joins_names_and_path)
{
	struct fixture *f = *state;

	f->synthetic.columns[0].name = "Kernel";
	f->synthetic.columns[1].name = "a\"b";
	write_file(f, 400);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE nvtx ="
				  " 'step N/forward 1/layer1.0.conv1/aten::convolution'"),
			 200);
	assert_int_equal(
		query(f,
		      "SELECT count(*) FROM records WHERE kernel LIKE 'void at::%' AND"
		      " device_name = 'NVIDIA H200' AND \"metric:Kernel\" > 0 AND \"a\"\"b\" > 0"),
		400);
	store_reader_free(open_file(f));
}

/* Of each record; places once; texts that are "" are NULL. */
FIXTURE_TEST(test_attributions_are_kept)
{
	static const struct store_attribution first = {
		"aten::mm", "[2,3]", "fprop", "l1", 4, 12, 7
	};
	static const struct store_attribution engine = { "engine", "", "bprop", "", 0, -1, -1 };
	static const struct store_attribution nothing = { "", "", "", "", 0, -1, -1 };
	struct fixture *f = *state;
	struct store_attribution known = engine;
	const struct store_attribution *const all[] = { &first, &engine, &known, &nothing, NULL };
	struct store *s = create(f);

	known.layer = "l1";
	known.seq = 7;
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < 800; i++) {
		assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, i),
						    all[i / 10 % 5]),
				 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(*) FROM place"), 3);
	assert_int_equal(query(f, "SELECT count(*) FROM record r JOIN launch l ON l.id = r.launch"
				  " WHERE place = 0 AND seq IS NULL"
				  " AND step IS NULL AND layer_site = 0"),
			 320);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE op = 'aten::mm' AND seq = 7"
				  " AND sizes = '[2,3]' AND dir = 'fprop' AND layer = 'l1'"
				  " AND step = 12"),
			 160);
	assert_int_equal(query(f, "SELECT count(*) FROM record WHERE launch IN"
				  " (SELECT id FROM launch WHERE layer_site = 4)"),
			 160);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE op = 'engine' AND seq = 7"
				  " AND sizes IS NULL AND layer = 'l1'"),
			 160);
	store_reader_free(open_file(f));
}

/* "iteration N" is one site, and each record has its path. */
FIXTURE_TEST(test_views_tell_steps)
{
	struct fixture *f = *state;
	struct store *s = create(f);
	struct made_site step, op;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	for (unsigned i = 0; i < 6; i++) {
		struct gpuctr_record record = *synthetic_record(&f->synthetic, i);
		const struct store_attribution what = { "", "", "", "", 0, i / 2, -1 };
		char text[32];

		snprintf(text, sizeof(text), "iteration %u", i / 2);
		make_site(&step, NULL, 1, text);
		make_site(&op, &step, 2, "it's");
		put_into(&record, &op);
		record.opened = i % 2 ? 2 : 0;
		assert_int_equal(store_write_record(s, &record, &what), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(*) FROM site"), 2);
	assert_int_equal(query(f, "SELECT launches FROM by_nvtx WHERE nvtx = 'iteration N'"), 6);
	assert_int_equal(query(f, "SELECT count(*) FROM by_nvtx"), 2);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE nvtx = 'iteration 2/it''s'"),
			 2);
	assert_int_equal(query(f, "SELECT count(*) FROM nvtx_spans WHERE launches = 2"), 6);
	assert_int_equal(query(f, "SELECT count(*) FROM nvtx_spans WHERE step = 1"), 2);
}

/* What the writer has found comes back, in a brief record without its sequence number. */
FIXTURE_TEST(test_readers_get_what_was_found)
{
	struct fixture *f = *state;
	const struct store_attribution what = { "aten::mm", "", "bprop", "", 1, 12, 7 };
	struct store *s = create(f);
	struct store_reader *r;
	struct store_cursor *c;
	const struct gpuctr_record *record;

	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 0), &what), 0);
	assert_int_equal(store_write_record(s, synthetic_record(&f->synthetic, 1), NULL), 0);
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	r = open_file(f);
	for (int brief = 0; brief < 2; brief++) {
		store_be_brief(r, brief);
		assert_int_equal(store_records(r, 1, 0, 0, &c), 0);
		assert_int_equal(store_next_record(c, &record), 0);
		assert_non_null(record->site);
		assert_int_equal(store_record_found(c)->launch, 1);
		assert_int_equal(store_record_found(c)->step, 12);
		assert_int_equal(store_record_found(c)->seq, brief ? -1 : 7);
		assert_int_equal(store_record_found(c)->forward->id, 1);
		assert_int_equal(store_next_record(c, &record), 0);
		assert_int_equal(store_record_found(c)->launch, 2);
		assert_int_equal(store_record_found(c)->step, -1);
		assert_null(store_record_found(c)->forward);
		store_cursor_free(c);
	}
	store_reader_free(r);
}

/* Two processes number their kernels and devices alike, and each time has its clock. */
FIXTURE_TEST(test_views_keep_processes_apart)
{
	struct fixture *f = *state;
	struct store *s = create(f);
	struct gpuctr_device device = f->synthetic.process.devices[0];
	struct gpuctr_process second = f->synthetic.process;

	device.name = "NVIDIA B200";
	second.process = 2;
	second.devices = &device;
	assert_int_equal(store_write_process(s, &f->synthetic.process), 0);
	assert_int_equal(store_write_process(s, &second), 0);
	for (unsigned i = 0; i < 6; i++) {
		struct gpuctr_record record = *synthetic_record(&f->synthetic, i);

		record.process = 1 + i % 2;
		record.clock = (enum gpuctr_clock)(i / 2);
		record.duration_ns = record.clock == GPUCTR_CLOCK_NONE ? -1 : 5;
		assert_int_equal(store_write_record(s, &record, NULL), 0);
	}
	assert_int_equal(store_finish(s, &all_well), 0);
	store_close(s);
	assert_int_equal(query(f, "SELECT count(*) FROM records"), 6);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE process = 2 AND device_name ="
				  " 'NVIDIA B200'"),
			 3);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE clock = 'none' AND"
				  " duration_ns IS NULL"),
			 2);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE clock = 'range'"), 2);
	assert_int_equal(query(f, "SELECT count(*) FROM records WHERE clock = 'gpu' AND"
				  " duration_ns = 5"),
			 2);
}
