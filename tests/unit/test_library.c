/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/library_fixture.h"

#include <errno.h>
#include <sys/socket.h>

#include "proto/wire/limits.h"

/* Programs that were built with another version of libgpuctr: their structs are shorter or longer
 * than the library's, and it must neither look behind the end of one nor overlook what a newer
 * program asks for. */

/* The first size bytes of a struct, as the whole of it, at the end of what can be read. */
static const void *of_size(struct fixture *f, const void *whole, size_t size)
{
	void *place = f->page + f->page_bytes - size;

	memcpy(place, whole, size);
	memcpy(place, &size, sizeof(size));
	return place;
}

/* A longer one: size bytes, zero behind what is known, but for its last byte. */
static const void *with_more(struct fixture *f, const void *whole, size_t known, uint8_t last)
{
	size_t size = known + 16;
	uint8_t *place = f->page + f->page_bytes - size;

	memset(place, 0, size);
	memcpy(place, whole, known);
	memcpy(place, &size, sizeof(size));
	place[size - 1] = last;
	return place;
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	(void)c;
	(void)end;
	(*(unsigned *)userdata)++;
}

static const struct gpuctr_capture_handler handler = { .size = sizeof(handler), .on_end = on_end };

/* --- tests --- */

/* As if each member had been added later than the one before it. */
TEST_WITH(options_may_end_after_any_member, library_setup, library_teardown)
{
	static const size_t ends[] = {
		offsetof(struct gpuctr_capture_options, gpus),
		offsetof(struct gpuctr_capture_options, chip),
		offsetof(struct gpuctr_capture_options, kernel_regex),
		offsetof(struct gpuctr_capture_options, launch_skip),
		offsetof(struct gpuctr_capture_options, launch_count),
		offsetof(struct gpuctr_capture_options, no_wait),
		offsetof(struct gpuctr_capture_options, timeout_ns),
		offsetof(struct gpuctr_capture_options, raw_images),
		offsetof(struct gpuctr_capture_options, recorded),
		offsetof(struct gpuctr_capture_options, program),
		offsetof(struct gpuctr_capture_options, nvtx_include),
		offsetof(struct gpuctr_capture_options, nvtx_exclude),
		offsetof(struct gpuctr_capture_options, capture_range),
		offsetof(struct gpuctr_capture_options, stop_on_range_end),
		offsetof(struct gpuctr_capture_options, skip_first),
		offsetof(struct gpuctr_capture_options, kernel_name),
		offsetof(struct gpuctr_capture_options, kernel_name_base),
		offsetof(struct gpuctr_capture_options, launch_every),
		offsetof(struct gpuctr_capture_options, filter_mode),
		offsetof(struct gpuctr_capture_options, permit),
		offsetof(struct gpuctr_capture_options, trace),
		offsetof(struct gpuctr_capture_options, whole_graphs),
		offsetof(struct gpuctr_capture_options, gpus_allowed),
		sizeof(struct gpuctr_capture_options),
	};
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct gpuctr_capture *c;
	unsigned over = 0;

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct wire_open_capture m;

		assert_int_equal(
			gpuctr_capture_open(f->g, of_size(f, &o, ends[i]), &handler, &over, &c), 0);
		m = library_expect_request(f).open_capture;
		assert_int_equal(m.metrics.n, 1);
		assert_string_equal(m.chip, i >= 2 ? "GH100" : "");
		assert_string_equal(m.selection.kernel_regex, i >= 3 ? "gemm" : "");
		assert_int_equal(m.selection.launch_skip, i >= 4 ? 3 : 0);
		assert_int_equal(m.selection.launch_count, i >= 5 ? 4 : 0);
		assert_int_equal(m.no_wait, i >= 6);
		assert_int_equal(m.timeout_ns, i >= 7 ? 5 : 0);
		assert_int_equal(m.selection.raw_images, i >= 8);
		assert_int_equal(m.recorded, i >= 9);
		assert_string_equal(m.program, i >= 10 ? "program" : "");
		assert_int_equal(m.selection.nvtx_include.n, i >= 11 ? 2 : 0);
		assert_int_equal(m.selection.nvtx_exclude.n, i >= 12 ? 1 : 0);
		assert_string_equal(m.selection.capture_range, i >= 13 ? "nvtx:A/" : "");
		assert_int_equal(m.selection.stop_on_range_end, i >= 14);
		assert_int_equal(m.selection.schedule.skip_first, i >= 15 ? 1 : 0);
		assert_int_equal(m.selection.schedule.wait, i >= 15 ? 2 : 0);
		assert_int_equal(m.selection.schedule.warmup, i >= 15 ? 3 : 0);
		assert_int_equal(m.selection.schedule.active, i >= 15 ? 4 : 0);
		assert_int_equal(m.selection.schedule.repeat, i >= 15 ? 5 : 0);
		assert_string_equal(m.selection.step, i >= 15 ? "B/" : "");
		assert_int_equal(m.selection.kernel_name_base, i >= 17 ? 2 : 0);
		assert_int_equal(m.selection.launch_every, i >= 18 ? 2 : 0);
		assert_int_equal(m.selection.filter_mode, i >= 19 ? 2 : 0);
		assert_int_equal(m.permit, i >= 20);
		assert_int_equal(m.trace, i >= 21);
		assert_int_equal(m.selection.whole_graphs, i >= 22);
		assert_int_equal(m.gpus_allowed, i >= 23);
	}
}

/* What the client's options cannot say, and other programs can. */
TEST_WITH(what_cannot_be_chosen_is_refused, library_setup, library_teardown)
{
	static const char *const one[] = { "A/" }, *const turned[] = { "epoch", "step/" };
	struct fixture *f = *state;
	struct gpuctr_capture_options wrong[6], partly;
	static const int codes[] = { GPUCTR_E_BAD_REQUEST, GPUCTR_E_BAD_REQUEST,
				     GPUCTR_E_BAD_REQUEST, GPUCTR_E_BAD_PATTERN,
				     GPUCTR_E_BAD_PATTERN, GPUCTR_E_BAD_REQUEST };
	struct gpuctr_capture *c;
	unsigned over = 0;

	for (size_t i = 0; i < 6; i++) {
		wrong[i] = library_ask_everything();
	}
	wrong[0].kernel_name = "gemm"; /* and an expression */
	wrong[1].kernel_name_base = GPUCTR_KERNEL_NAME_MANGLED + 1;
	wrong[2].filter_mode = GPUCTR_FILTER_PER_KERNEL + 1;
	wrong[3].nvtx_include = wrong[3].nvtx_exclude = one;
	wrong[3].n_nvtx_include = wrong[3].n_nvtx_exclude = 1;
	wrong[4].kernel_regex = NULL;
	wrong[4].kernel_name = "a::b";
	wrong[4].kernel_name_base = GPUCTR_KERNEL_NAME_FUNCTION;
	wrong[5].permit = GPUCTR_PERMIT_BY_INJECTION + 1;
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(gpuctr_capture_open(f->g, &wrong[i], &handler, &over, &c),
				 codes[i]);
		assert_true(gpuctr_last_error(f->g)->remedy[0] != '\0');
	}
	wrong[3].n_nvtx_exclude = 0; /* the other side of that border */
	assert_int_equal(gpuctr_capture_open(f->g, &wrong[3], &handler, &over, &c), 0);
	library_expect_request(f);
	partly = library_ask_everything(); /* some are included that are not excluded, the first or
					      the last */
	partly.nvtx_exclude = turned;
	partly.n_nvtx_exclude = 2;
	assert_int_equal(gpuctr_capture_open(f->g, &partly, &handler, &over, &c),
			 GPUCTR_E_BAD_PATTERN);
	for (size_t i = 0; i < 2; i++) {
		partly.nvtx_exclude = &turned[i];
		partly.n_nvtx_exclude = 1;
		assert_int_equal(gpuctr_capture_open(f->g, &partly, &handler, &over, &c), 0);
		library_expect_request(f);
	}
}

TEST_WITH(a_handler_may_end_after_any_member, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct gpuctr_capture *c;
	unsigned over = 0, begun = 0, with_end = 0;

	for (size_t size = sizeof(size_t); size <= sizeof(handler); size += sizeof(void *)) {
		with_end += size > offsetof(struct gpuctr_capture_handler, on_end);
		const void *old = of_size(f, &handler, size);

		assert_int_equal(gpuctr_capture_open(f->g, &o, old, &over, &c), 0);
		library_expect_request(f);
		begun++;
	}
	/* The daemon goes: only the last of them have an on_end to be called. */
	shutdown(f->peer, SHUT_RDWR);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), GPUCTR_E_DISCONNECTED);
	assert_true(begun > 10);
	assert_int_equal(over, with_end);
}

TEST_WITH(options_of_a_list_may_end_early, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct gpuctr_metrics_options o = GPUCTR_INIT(gpuctr_metrics_options);
	struct wire_metrics_request m;

	o.chip = "GH100";
	o.patterns = library_metrics;
	o.n_patterns = 1;
	o.describe = true;
	for (int whole = 0; whole < 2; whole++) {
		size_t size = whole ? sizeof(o) : offsetof(struct gpuctr_metrics_options, describe);

		assert_int_equal(gpuctr_list_metrics(f->g, of_size(f, &o, size), NULL, NULL, NULL),
				 0);
		m = library_expect_request(f).metrics_request;
		assert_string_equal(m.chip, "GH100");
		assert_int_equal(m.describe, whole);
	}
}

TEST_WITH(a_newer_program_is_served_while_it_asks_for_nothing_new, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct gpuctr_capture *c;
	unsigned over = 0;

	assert_int_equal(
		gpuctr_capture_open(f->g, with_more(f, &o, sizeof(o), 0), &handler, &over, &c), 0);
	assert_string_equal(library_expect_request(f).open_capture.program, "program");
	assert_int_equal(gpuctr_capture_open(f->g, with_more(f, &o, sizeof(o), 1), &handler, &over,
					     &c),
			 GPUCTR_E_BAD_REQUEST);
	assert_non_null(strstr(gpuctr_last_error(f->g)->message, "came after libgpuctr"));
	assert_int_equal(gpuctr_capture_open(f->g, &o, with_more(f, &handler, sizeof(handler), 1),
					     &over, &c),
			 GPUCTR_E_BAD_REQUEST);
	library_expect_no_request(f);
}

TEST_WITH(a_struct_without_its_size_is_refused, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct gpuctr_metrics_options none = { 0 };
	struct gpuctr_capture *c;

	o.size = 0;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, NULL, &c), GPUCTR_E_BAD_REQUEST);
	assert_non_null(strstr(gpuctr_last_error(f->g)->remedy, "GPUCTR_INIT"));
	assert_int_equal(gpuctr_list_metrics(f->g, &none, NULL, NULL, NULL), GPUCTR_E_BAD_REQUEST);
	library_expect_no_request(f);
}

/* --- patterns: the test plays the daemon's part --- */

static void answer_with_catalogue(struct fixture *f, uint32_t request)
{
	static const char *const endings[] = { ".sum" };
	const struct gpuctr_metric read = { .name = "dram__bytes_read",
					    .submetrics = endings,
					    .n_submetrics = 1 };
	const struct gpuctr_metric write = { .name = "dram__bytes_write",
					     .submetrics = endings,
					     .n_submetrics = 1 };
	struct wire_message m = { .type = WIRE_METRICS_REPLY,
				  .metrics_reply = { request, "GH100", { 1, &read }, false } };

	library_answer(f, &m);
	library_expect_no_request(f);
	m.metrics_reply = (struct wire_metrics_reply){ request, "GH100", { 1, &write }, true };
	library_answer(f, &m);
}

static void expect_both(const struct wire_strings *names)
{
	assert_int_equal(names->n, 2);
	assert_string_equal(names->v[0], "dram__bytes_read.sum");
	assert_string_equal(names->v[1], "dram__bytes_write.sum");
}

struct planned {
	unsigned plans, errors;
	int code;
};

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct planned *p = userdata;

	p->plans += plan != NULL;
	p->errors += error != NULL;
	p->code = error ? error->code : 0;
}

TEST_WITH(patterns_of_a_plan_are_expanded_here, library_setup, library_teardown)
{
	static const char *const globs[] = { "dram__*.sum" }, *const none[] = { "lts__*.sum" };
	static const char *const wrong[] = { "regex:(" };
	struct fixture *f = *state;
	struct planned p = { 0 };
	struct wire_message m;

	assert_int_equal(gpuctr_plan(f->g, "GH100", globs, 1, on_plan, &p), 0);
	m = library_expect_request(f);
	assert_int_equal(m.type, WIRE_METRICS_REQUEST);
	assert_string_equal(m.metrics_request.chip, "GH100");
	assert_true(m.metrics_request.describe);
	answer_with_catalogue(f, m.metrics_request.request);
	m = library_expect_request(f);
	assert_int_equal(m.type, WIRE_PLAN_REQUEST);
	assert_string_equal(m.plan_request.chip, "GH100");
	expect_both(&m.plan_request.metrics);
	library_answer(
		f, &(struct wire_message){ .type = WIRE_PLAN_REPLY,
					   .plan_reply = { .request = m.plan_request.request } });
	assert_int_equal(p.plans, 1);
	assert_int_equal(p.errors, 0);

	assert_int_equal(gpuctr_plan(f->g, NULL, none, 1, on_plan, &p), 0);
	answer_with_catalogue(f, library_expect_request(f).metrics_request.request);
	library_expect_no_request(f);
	assert_int_equal(p.errors, 1);
	assert_int_equal(p.code, GPUCTR_E_METRIC_NO_MATCH);
	assert_int_equal(gpuctr_plan(f->g, NULL, wrong, 1, on_plan, &p), GPUCTR_E_BAD_PATTERN);
	assert_int_equal(gpuctr_last_error(f->g)->code, GPUCTR_E_BAD_PATTERN);
	library_expect_no_request(f);
}

TEST_WITH(patterns_of_a_capture_are_expanded_here, library_setup, library_teardown)
{
	static const char *const globs[] = { "dram__*.sum" };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct gpuctr_capture *c;
	struct wire_message m;
	unsigned over = 0;

	o.metrics = globs;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m = library_expect_request(f);
	assert_int_equal(m.type, WIRE_METRICS_REQUEST);
	assert_string_equal(m.metrics_request.chip, "GH100");
	answer_with_catalogue(f, m.metrics_request.request);
	m = library_expect_request(f);
	assert_int_equal(m.type, WIRE_OPEN_CAPTURE);
	expect_both(&m.open_capture.metrics);
	assert_string_equal(m.open_capture.selection.kernel_regex, "gemm");
	assert_string_equal(m.open_capture.program, "program");
	assert_int_equal(m.open_capture.selection.launch_skip, 3);
	assert_int_equal(over, 0);
}

/* However it ends while the catalogue is on its way, it ends once. */
TEST_WITH(a_capture_ends_while_its_patterns_are_expanded, library_setup, library_teardown)
{
	static const char *const globs[] = { "dram__*.sum" }, *const none[] = { "lts__*.sum" };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = library_ask_everything();
	struct wire_message m = { .type = WIRE_REFUSAL };
	struct gpuctr_capture *c;
	unsigned over = 0;

	o.metrics = globs;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m.refusal = (struct wire_refusal){ library_expect_request(f).metrics_request.request,
					   GPUCTR_E_NO_CUPTI, "none", "" };
	library_answer(f, &m);
	assert_int_equal(over, 1);
	o.metrics = none;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	answer_with_catalogue(f, library_expect_request(f).metrics_request.request);
	assert_int_equal(over, 2);
	library_expect_no_request(f);
	/* A daemon that refuses what it has not been asked yet. */
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m.refusal.request = library_expect_request(f).metrics_request.request - 1;
	library_answer(f, &m);
	assert_int_equal(over, 3);
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	shutdown(f->peer, SHUT_RDWR);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), GPUCTR_E_DISCONNECTED);
	assert_int_equal(over, 4);
}

TEST_WITH(another_version_of_the_protocol_is_refused, library_setup, library_teardown)
{
	struct fixture *f = *state;
	struct gpuctr *g;

	f->version = PROTO_VERSION + 1;
	close(f->peer);
	library_welcome(f);
	assert_int_equal(gpuctr_connect(f->path, "t", &g), GPUCTR_E_PROTOCOL);
	pthread_join(f->daemon, NULL);
	assert_string_equal(
		gpuctr_last_error(g)->message,
		"what answers there does not speak this version of gpucountd's protocol");
	gpuctr_disconnect(g);
}
