/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/library_fixture.h"

#include <sys/socket.h>

#include "client/lib/internal.h"
#include "proto/wire/limits.h"

/* What the daemon tells arrives whole: each field has a value that no other has. */

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	const struct gpuctr_capture_info *c = &status->captures[0];
	const struct gpuctr_gpu *g = &status->gpus[0];

	assert_null(error);
	(*(unsigned *)userdata)++;
	assert_string_equal(status->daemon, "0.0.9");
	assert_string_equal(status->driver, "580");
	assert_string_equal(status->cupti, "13");
	assert_int_equal(status->restricted, GPUCTR_RESTRICTED);
	assert_int_equal(status->trouble.code, GPUCTR_E_NO_GPU);
	assert_string_equal(status->trouble.message, "none");
	assert_string_equal(status->trouble.remedy, "buy one");
	assert_int_equal(status->uptime_ns, 101);
	assert_int_equal(status->peers, 102);
	assert_int_equal(status->n_gpus, 1);
	assert_int_equal(g->index, 3);
	assert_string_equal(g->uuid, "GPU-3");
	assert_string_equal(g->name, "H200");
	assert_string_equal(g->chip, "GH100");
	assert_int_equal(g->holder, 103);
	assert_int_equal(g->waiting, 104);
	assert_string_equal(g->job, "4711");
	assert_string_equal(g->job_user, "bob");
	assert_int_equal(status->n_captures, 1);
	assert_int_equal(c->capture, 105);
	assert_int_equal(c->uid, 106);
	assert_string_equal(c->user, "ann");
	assert_int_equal(c->pid, 107);
	assert_string_equal(c->program, "train");
	assert_int_equal(c->state, GPUCTR_CAPTURE_RUNNING);
	assert_int_equal(c->n_gpus, 1);
	assert_string_equal(c->gpus[0], "step/");
	assert_int_equal(c->n_metrics, 1);
	assert_string_equal(c->metrics[0], "dram__bytes_read.sum");
	assert_int_equal(c->position, 108);
	assert_int_equal(c->totals.seen, 109);
	assert_int_equal(c->lease_left_ns, 110);
	assert_int_equal(c->processes, 111);
	assert_null(status->counts);
}

TEST_WITH(a_status_arrives_whole, library_setup, library_teardown)
{
	struct fixture *f = *state;
	const struct gpuctr_gpu gpu = { 3, "GPU-3", "H200", "GH100", 103, 104, "4711", "bob" };
	const struct gpuctr_capture_info capture = {
		105,
		106,
		"ann",
		107,
		"train",
		GPUCTR_CAPTURE_RUNNING,
		library_ranges,
		1,
		library_metrics,
		1,
		108,
		{ .seen = 109 },
		110,
		111,
	};
	struct wire_message m = { .type = WIRE_STATUS_REPLY,
				  .status_reply = { .daemon = "0.0.9",
						    .driver = "580",
						    .cupti = "13",
						    .restricted = GPUCTR_RESTRICTED,
						    .gpus = { 1, &gpu },
						    .captures = { 1, &capture },
						    .uptime_ns = 101,
						    .trouble = "none",
						    .peers = 102,
						    .trouble_code = GPUCTR_E_NO_GPU,
						    .trouble_remedy = "buy one" } };
	unsigned answers = 0;

	assert_int_equal(gpuctr_get_status(f->g, on_status, &answers), 0);
	m.status_reply.request = library_expect_request(f).status_request.request;
	library_answer(f, &m);
	assert_int_equal(answers, 1);
}

static void on_registered(const struct gpuctr_registered_process *p, void *userdata)
{
	(*(unsigned *)userdata)++;
	assert_int_equal(p->process, 201);
	assert_int_equal(p->pid, 202);
	assert_int_equal(p->uid, 203);
	assert_string_equal(p->user, "ann");
	assert_string_equal(p->program, "train");
	assert_int_equal(p->age_ns, 204);
	assert_int_equal(p->capture, 205);
	assert_string_equal(p->holder, "bob");
	assert_int_equal(p->n_claims, 2);
	assert_string_equal(p->claims[1], "epoch");
	assert_true(p->foreign);
	assert_string_equal(p->cgroup, "/system.slice/slurmstepd.scope/job_4711/step_2/user");
	assert_string_equal(p->cgroup_job, "4711");
	assert_string_equal(p->cgroup_step, "2");
	assert_string_equal(p->container, "");
	assert_string_equal(p->runtime, "");
	assert_string_equal(p->pod_uid, "");
}

static void on_listed(const struct gpuctr_error *error, void *userdata)
{
	assert_null(error);
	*(unsigned *)userdata += 100;
}

TEST_WITH(a_list_of_processes_arrives_whole, library_setup, library_teardown)
{
	struct fixture *f = *state;
	const struct gpuctr_registered_process process = {
		201,   202,	203,
		"ann", "train", 204,
		205,   "bob",	library_ranges,
		2,     true,	"/system.slice/slurmstepd.scope/job_4711/step_2/user",
	};
	struct wire_message m = { .type = WIRE_PROCESSES_REPLY,
				  .processes_reply = { .processes = { 1, &process } } };
	unsigned seen = 0;

	assert_int_equal(gpuctr_list_processes(f->g, on_registered, on_listed, &seen), 0);
	m.processes_reply.request = library_expect_request(f).processes_request.request;
	library_answer(f, &m);
	assert_int_equal(seen, 1);
	assert_int_equal(library_expect_request(f).processes_request.after, 201);
	m.processes_reply.last = true;
	library_answer(f, &m);
	assert_int_equal(seen, 102);
}

static void count_image(struct gpuctr_capture *c, const struct gpuctr_image *image, void *userdata)
{
	unsigned *n = userdata;

	(void)c;
	assert_int_equal(image->size, 4);
	assert_memory_equal(image->data, "data", 4);
	(*n)++;
}

static void count_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			 void *userdata)
{
	(void)c;
	(void)notice;
	*(unsigned *)userdata += 100;
}

/* A process may send what nobody has asked it for: it is not kept, and nothing is said of it. */
TEST_WITH(images_come_to_who_asks, library_setup, library_teardown)
{
	static const struct gpuctr_capture_handler images = { .size = sizeof(images),
							      .on_image = count_image,
							      .on_notice = count_notice };
	struct fixture *f = *state;

	for (unsigned wanted = 0; wanted < 2; wanted++) {
		struct gpuctr_capture_options o = library_ask_everything();
		struct wire_message m = { .type = WIRE_OPENED };
		struct gpuctr_capture *c;
		unsigned n = 0;

		o.raw_images = wanted != 0;
		assert_int_equal(gpuctr_capture_open(f->g, &o, &images, &n, &c), 0);
		m.opened = (struct wire_opened){
			.request = library_expect_request(f).open_capture.request,
			.capture = 7 + wanted,
			.driver = "",
			.owner = ""
		};
		library_answer(f, &m);
		m = (struct wire_message){
			.type = WIRE_RAW_IMAGE,
			.raw_image = { 7 + wanted, 1, 0, 1, 0, 4, { 2, (const uint8_t *)"da" } }
		};
		library_answer(f, &m);
		m.raw_image.offset = 2;
		m.raw_image.data.v = (const uint8_t *)"ta";
		library_answer(f, &m);
		/* What is no piece of an image. */
		m.raw_image.offset = 3;
		library_answer(f, &m);
		assert_int_equal(n, wanted ? 101 : 0);
	}
}

enum { NEST = 2500, CAPTURE = 7, PROCESSES = 2, BATCHES = 4 };

/* NEST ranges of a process, each within the one before, and the first within parent; there are
 * before already. */
static void send_nest(struct fixture *f, uint32_t process, uint32_t before, uint32_t parent)
{
	static uint32_t parents[NEST], none[NEST];
	const struct wire_u32s nones = { NEST, none };
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS };
	struct buffer columns = { 0 };
	struct arena scratch;

	for (uint32_t i = 0; i < NEST; i++) {
		parents[i] = i > 0 ? before + i : parent;
	}
	m.record_columns = (struct wire_record_columns){
		.first_site = before + 1,
		.site_parent = { NEST, parents },
		.site_domain = nones,
		.site_name = nones,
		.site_category = nones,
		.site_color = nones,
		.site_sizes = nones,
		.site_kind = nones,
		.site_numbered = nones,
	};
	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode_payload(&scratch, &columns, &m), 0);
	m = (struct wire_message){ .type = WIRE_RECORDS,
				   .records = { CAPTURE,
						process,
						0,
						0,
						{ buffer_length(&columns),
						  columns.data + columns.start } } };
	library_answer(f, &m);
	buffer_deinit(&columns);
	arena_deinit(&scratch);
}

static void send_image(struct fixture *f, uint32_t process, uint32_t batch)
{
	const struct wire_message m = {
		.type = WIRE_RAW_IMAGE,
		.raw_image = { CAPTURE, process, batch, 1, 0, 4, { 4, (const uint8_t *)"data" } }
	};

	library_answer(f, &m);
}

static const char *const limits[] = { "4,096 NVTX ranges", "take more memory than",
				      "images of raw counter data" };

struct told {
	unsigned n[ARRAY_SIZE(limits)][PROCESSES];
};

static void take_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			void *userdata)
{
	struct told *told = userdata;
	size_t i = 0;

	(void)c;
	assert_in_range(notice->process, 1, PROCESSES);
	assert_int_equal(notice->error.code, GPUCTR_E_QUOTA);
	assert_true(notice->error.remedy[0] != '\0');
	while (i < ARRAY_SIZE(limits) && !strstr(notice->error.message, limits[i])) {
		i++;
	}
	assert_true(i < ARRAY_SIZE(limits));
	told->n[i][notice->process - 1]++;
}

/* As of programs that open ranges and never close them, have names without end, and send more
 * counter data than anybody keeps: of each process each of these is told, with whichever batch it
 * begins, and no batch after that tells it again. */
TEST_WITH(limits_are_told_once_of_each_process, library_setup, library_teardown)
{
	static const struct gpuctr_capture_handler notices = { .size = sizeof(notices),
							       .on_notice = take_notice };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct wire_message m = { .type = WIRE_OPENED };
	struct gpuctr_capture *c;
	struct told told = { 0 };

	o.raw_images = true;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &notices, &told, &c), 0);
	m.opened = (struct wire_opened){ .request = library_expect_request(f).open_capture.request,
					 .capture = CAPTURE,
					 .driver = "",
					 .owner = "" };
	library_answer(f, &m);
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		for (uint32_t process = 1; process <= PROCESSES; process++) {
			send_nest(f, process, batch * NEST, batch * NEST);
			assert_int_equal(told.n[0][process - 1], batch > 0);
			assert_int_equal(told.n[1][process - 1] + told.n[2][process - 1], 0);
		}
	}
	c->memory.objects.max = c->memory.objects.used;
	c->memory.images.max = 1;
	for (uint32_t batch = 0; batch < BATCHES; batch++) {
		for (uint32_t process = 1; process <= PROCESSES; process++) {
			send_nest(f, process, (BATCHES + batch) * NEST, 0);
			send_image(f, process, batch);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		for (uint32_t process = 1; process <= PROCESSES; process++) {
			assert_int_equal(told.n[i][process - 1], 1);
		}
	}
}

/* --- when the connection ends --- */

struct answers {
	unsigned metrics, plan, status, jobs, processes, capture;
};

static void expect_disconnected(const struct gpuctr_error *error, unsigned *answers)
{
	assert_non_null(error);
	assert_int_equal(error->code, GPUCTR_E_DISCONNECTED);
	(*answers)++;
}

static void on_no_metric(const struct gpuctr_metric *metric, void *userdata)
{
	(void)metric;
	(void)userdata;
	fail();
}

static void on_no_metrics(const char *chip, const struct gpuctr_error *error, void *userdata)
{
	assert_string_equal(chip, "");
	expect_disconnected(error, &((struct answers *)userdata)->metrics);
}

static void on_no_plan(const struct gpuctr_plan *p, const struct gpuctr_error *error,
		       void *userdata)
{
	assert_null(p);
	expect_disconnected(error, &((struct answers *)userdata)->plan);
}

static void on_no_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
			 void *userdata)
{
	assert_null(status);
	expect_disconnected(error, &((struct answers *)userdata)->status);
}

static void on_no_job(const struct gpuctr_error *error, void *userdata)
{
	expect_disconnected(error, &((struct answers *)userdata)->jobs);
}

static void on_no_process(const struct gpuctr_registered_process *process, void *userdata)
{
	(void)process;
	(void)userdata;
	fail();
}

static void on_no_list(const struct gpuctr_error *error, void *userdata)
{
	expect_disconnected(error, &((struct answers *)userdata)->processes);
}

static void on_no_capture(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	(void)c;
	expect_disconnected(&end->error, &((struct answers *)userdata)->capture);
}

/* Whatever was asked is answered, once: a program that waits for an answer would wait for ever. Of
 * captures one waits for its patterns to be expanded, and one for the daemon. */
TEST_WITH(the_end_of_the_connection_answers_each_question, library_setup, library_teardown)
{
	static const struct gpuctr_capture_handler ends = { .size = sizeof(ends),
							    .on_end = on_no_capture };
	static const char *const patterns[] = { "dram__*" };
	struct fixture *f = *state;
	const struct gpuctr_metrics_options list = GPUCTR_INIT(gpuctr_metrics_options);
	struct gpuctr_job_options job = GPUCTR_INIT(gpuctr_job_options);
	struct gpuctr_capture_options o = library_ask_everything();
	struct answers n = { 0 };
	struct gpuctr_capture *c;

	job.job = "4711";
	job.gpus = library_ranges;
	job.n_gpus = 1;
	assert_int_equal(gpuctr_list_metrics(f->g, &list, on_no_metric, on_no_metrics, &n), 0);
	assert_int_equal(gpuctr_plan(f->g, NULL, library_metrics, 1, on_no_plan, &n), 0);
	assert_int_equal(gpuctr_plan(f->g, NULL, patterns, 1, on_no_plan, &n), 0);
	assert_int_equal(gpuctr_get_status(f->g, on_no_status, &n), 0);
	assert_int_equal(gpuctr_begin_job(f->g, &job, on_no_job, &n), 0);
	assert_int_equal(gpuctr_end_job(f->g, "4711", on_no_job, &n), 0);
	assert_int_equal(gpuctr_list_processes(f->g, on_no_process, on_no_list, &n), 0);
	assert_int_equal(gpuctr_capture_open(f->g, &o, &ends, &n, &c), 0);
	o.metrics = patterns;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &ends, &n, &c), 0);
	assert_int_equal(shutdown(f->peer, SHUT_RDWR), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(gpuctr_dispatch(f->g, 1000), GPUCTR_E_DISCONNECTED);
	}
	assert_int_equal(n.metrics, 1);
	assert_int_equal(n.plan, 2);
	assert_int_equal(n.status, 1);
	assert_int_equal(n.jobs, 2);
	assert_int_equal(n.processes, 1);
	assert_int_equal(n.capture, 2);
}

/* --- what a program may make its capturer keep ---- */

struct kept {
	unsigned n_notices;
	size_t n_devices; /* of the process that was told last */
};

static void keep_process(struct gpuctr_capture *c, const struct gpuctr_process *process,
			 void *userdata)
{
	(void)c;
	((struct kept *)userdata)->n_devices = process->n_devices;
}

static void keep_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			void *userdata)
{
	(void)c;
	(void)notice;
	((struct kept *)userdata)->n_notices++;
}

static const struct gpuctr_capture_handler keeping = { .size = sizeof(keeping),
						       .on_process = keep_process,
						       .on_notice = keep_notice };

static void open_of(struct fixture *f, const char *owner, uint32_t capture, struct kept *kept)
{
	struct gpuctr_capture_options o = library_ask_everything();
	struct wire_message m = { .type = WIRE_OPENED };
	struct gpuctr_capture *c;

	assert_int_equal(gpuctr_capture_open(f->g, &o, &keeping, kept, &c), 0);
	m.opened = (struct wire_opened){ .request = library_expect_request(f).open_capture.request,
					 .capture = capture,
					 .driver = "",
					 .owner = owner };
	library_answer(f, &m);
}

/* A process may be told any number of times, and each time of other devices. */
TEST_WITH(a_process_has_no_more_devices_than_a_machine, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct kept kept = { 0 };
	struct gpuctr_device devices[2];
	struct wire_message m = { .type = WIRE_PROCESS,
				  .process = { .capture = 7,
					       .process = 1,
					       .program = "",
					       .cupti = "",
					       .driver = "",
					       .recorded_from = "",
					       .devices = { 2, devices } } };

	open_of(f, "", 7, &kept);
	for (unsigned i = 0; i < 3 * LIMIT_GPUS; i++) {
		bool is_known = i + 1 < LIMIT_GPUS;

		devices[0] = (struct gpuctr_device){ .uuid = "GPU-1", .name = "", .chip = "" };
		devices[1] = devices[0];
		devices[0].index = i;
		devices[1].index = i + 1;
		library_answer(f, &m);
		assert_int_equal(kept.n_devices, is_known ? 2 : 0);
		assert_int_equal(kept.n_notices, is_known ? 0 : 1);
	}
}

enum { LONG = 15000, STRINGS = 8 };

/* So many strings, and no record. */
static void send_strings(struct fixture *f, uint32_t capture, uint32_t before)
{
	static char text[LONG + 1];
	static const char *strings[STRINGS];
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS };
	struct buffer columns = { 0 };
	struct arena scratch;

	memset(text, 'x', LONG);
	for (size_t i = 0; i < STRINGS; i++) {
		strings[i] = text;
	}
	m.record_columns = (struct wire_record_columns){ .first_string = before + 1,
							 .strings = { STRINGS, strings } };
	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode_payload(&scratch, &columns, &m), 0);
	m = (struct wire_message){ .type = WIRE_RECORDS,
				   .records = { capture,
						1,
						0,
						0,
						{ buffer_length(&columns),
						  columns.data + columns.start } } };
	library_answer(f, &m);
	buffer_deinit(&columns);
	arena_deinit(&scratch);
}

TEST_WITH(another_users_program_is_bounded_more_closely_than_ones_own, library_setup,
	  library_teardown)
{
	static const char *const owners[] = { "", "bob" };
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 2; i++) {
		struct kept kept = { 0 };

		open_of(f, owners[i], 7 + i, &kept);
		for (uint32_t k = 0; k < 400; k++) {
			send_strings(f, 7 + i, k * STRINGS);
			if (k * STRINGS * LONG < 30 << 20) {
				assert_int_equal(kept.n_notices, 0);
			}
		}
		assert_int_equal(kept.n_notices, i);
	}
}
