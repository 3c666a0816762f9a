/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/library_fixture.h"

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

static void a_status_arrives_whole(void **state)
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

static void a_list_of_processes_arrives_whole(void **state)
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
static void images_come_to_who_asks(void **state)
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

enum { NEST = 2500 };

/* NEST ranges, each within the one before, of which there are before already. */
static void send_nest(struct fixture *f, uint32_t capture, uint32_t before)
{
	static uint32_t parents[NEST], none[NEST];
	static uint64_t payloads[NEST];
	const struct wire_u32s nones = { NEST, none };
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS };
	struct buffer columns = { 0 };
	struct arena scratch;

	for (uint32_t i = 0; i < NEST; i++) {
		parents[i] = before + i;
	}
	m.record_columns = (struct wire_record_columns){
		.first_node = before + 1,
		.node_parent = { NEST, parents },
		.node_domain = nones,
		.node_message = nones,
		.node_category = nones,
		.node_color = nones,
		.node_payload_type = nones,
		.node_payload = { NEST, payloads },
	};
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

static void take_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			void *userdata)
{
	(void)c;
	assert_int_equal(notice->process, 1);
	assert_int_equal(notice->error.code, GPUCTR_E_QUOTA);
	assert_non_null(strstr(notice->error.message, "4,096 NVTX ranges"));
	assert_true(notice->error.remedy[0] != '\0');
	(*(unsigned *)userdata)++;
}

/* As of a program that opens ranges and never closes them. */
static void ranges_that_are_too_deep_are_told_once(void **state)
{
	static const struct gpuctr_capture_handler notices = { .size = sizeof(notices),
							       .on_notice = take_notice };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct wire_message m = { .type = WIRE_OPENED };
	struct gpuctr_capture *c;
	unsigned n = 0;

	assert_int_equal(gpuctr_capture_open(f->g, &o, &notices, &n, &c), 0);
	m.opened = (struct wire_opened){ .request = library_expect_request(f).open_capture.request,
					 .capture = 7,
					 .driver = "",
					 .owner = "" };
	library_answer(f, &m);
	for (uint32_t i = 0; i < 4; i++) {
		send_nest(f, 7, i * NEST);
		assert_int_equal(n, i > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(images_come_to_who_asks, library_setup,
						library_teardown),
		cmocka_unit_test_setup_teardown(ranges_that_are_too_deep_are_told_once,
						library_setup, library_teardown),
		cmocka_unit_test_setup_teardown(a_status_arrives_whole, library_setup,
						library_teardown),
		cmocka_unit_test_setup_teardown(a_list_of_processes_arrives_whole, library_setup,
						library_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
