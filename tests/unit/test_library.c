/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <gpuctr/gpuctr.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire/limits.h"
#include "proto/wire/wire.h"

/* Programs that were built with another version of libgpuctr: their structs are shorter or longer
 * than the library's, and it must neither look behind the end of one nor overlook what a newer
 * program asks for. The test is the daemon, as far as it takes: it welcomes, and then reads. */

struct fixture {
	char folder[64], path[96];
	int listener, peer;
	uint32_t version; /* of the protocol */
	pthread_t daemon;
	struct gpuctr *g;
	uint8_t *page; /* what follows it cannot be read */
	size_t page_bytes;
	struct buffer in;
	struct arena arena;
};

static void *welcome(void *argument)
{
	struct fixture *f = argument;
	struct wire_message m = { .type = WIRE_WELCOME, .welcome = { f->version, false, "0.0.9" } };
	struct buffer out = { 0 };
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	f->peer = accept(f->listener, NULL, NULL);
	if (wire_encode(&scratch, &out, &m) == 0) {
		send(f->peer, out.data + out.start, buffer_length(&out), MSG_NOSIGNAL);
	}
	buffer_deinit(&out);
	arena_deinit(&scratch);
	return NULL;
}

static struct wire_message expect_request(struct fixture *f)
{
	struct wire_message m = { 0 };
	struct frame frame;

	while (frame_parse(f->in.data + f->in.start, buffer_length(&f->in), &frame) != 0) {
		ssize_t n;

		assert_int_equal(buffer_reserve(&f->in, 4096), 0);
		n = recv(f->peer, f->in.data + f->in.end, 4096, 0);
		assert_true(n > 0);
		f->in.end += (size_t)n;
	}
	arena_reset(&f->arena);
	assert_int_equal(wire_decode(&f->arena, frame.type, frame.payload, frame.size, &m), 0);
	buffer_consume(&f->in, FRAME_HEADER_BYTES + frame.size);
	return m;
}

static void expect_no_request(struct fixture *f)
{
	char byte;

	assert_true(recv(f->peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	f->version = PROTO_VERSION;
	snprintf(f->folder, sizeof(f->folder), "/tmp/gpuctr-unit.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/socket", f->folder);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", f->path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f->listener, 1), 0);
	f->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	f->page = mmap(NULL, 2 * f->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(f->page != MAP_FAILED);
	assert_int_equal(mprotect(f->page + f->page_bytes, f->page_bytes, PROT_NONE), 0);
	arena_init(&f->arena, LIMIT_UNPACKED_BYTES);
	assert_int_equal(pthread_create(&f->daemon, NULL, welcome, f), 0);
	assert_int_equal(gpuctr_connect(f->path, "old", &f->g), 0);
	pthread_join(f->daemon, NULL);
	assert_int_equal(expect_request(f).type, WIRE_HELLO);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	gpuctr_disconnect(f->g);
	close(f->peer);
	close(f->listener);
	unlink(f->path);
	rmdir(f->folder);
	munmap(f->page, 2 * f->page_bytes);
	buffer_deinit(&f->in);
	arena_deinit(&f->arena);
	free(f);
	return 0;
}

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

static const char *const metrics[] = { "dram__bytes_read.sum" };
static const char *const ranges[] = { "step/", "epoch" };

static struct gpuctr_capture_options everything(void)
{
	return (struct gpuctr_capture_options){
		.size = sizeof(struct gpuctr_capture_options),
		.metrics = metrics,
		.n_metrics = 1,
		.chip = "GH100",
		.kernel_regex = "gemm",
		.launch_skip = 3,
		.launch_count = 4,
		.no_wait = true,
		.timeout_ns = 5,
		.lease_ns = 6,
		.raw_images = true,
		.recorded = true,
		.program = "program",
		.budget_ppm = 50000,
		.seed = 7,
		.nvtx_include = ranges,
		.n_nvtx_include = 2,
		.nvtx_exclude = ranges + 1,
		.n_nvtx_exclude = 1,
		.capture_range = "nvtx:A/",
		.stop_on_range_end = 1,
		.skip_first = 1,
		.wait = 2,
		.warmup = 3,
		.active = 4,
		.repeat = 5,
		.step = "B/",
		.kernel_name_base = GPUCTR_KERNEL_NAME_MANGLED,
		.launch_every = 2,
		.filter_mode = GPUCTR_FILTER_PER_KERNEL,
		.nvtx_process_scope = 1,
		.record_limit = 9,
		.permit = GPUCTR_PERMIT_BY_PRELOAD,
	};
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
static void options_may_end_after_any_member(void **state)
{
	static const size_t ends[] = {
		offsetof(struct gpuctr_capture_options, gpus),
		offsetof(struct gpuctr_capture_options, chip),
		offsetof(struct gpuctr_capture_options, kernel_regex),
		offsetof(struct gpuctr_capture_options, launch_skip),
		offsetof(struct gpuctr_capture_options, launch_count),
		offsetof(struct gpuctr_capture_options, no_wait),
		offsetof(struct gpuctr_capture_options, timeout_ns),
		offsetof(struct gpuctr_capture_options, lease_ns),
		offsetof(struct gpuctr_capture_options, raw_images),
		offsetof(struct gpuctr_capture_options, recorded),
		offsetof(struct gpuctr_capture_options, program),
		offsetof(struct gpuctr_capture_options, budget_ppm),
		offsetof(struct gpuctr_capture_options, nvtx_include),
		offsetof(struct gpuctr_capture_options, nvtx_exclude),
		offsetof(struct gpuctr_capture_options, capture_range),
		offsetof(struct gpuctr_capture_options, stop_on_range_end),
		offsetof(struct gpuctr_capture_options, skip_first),
		offsetof(struct gpuctr_capture_options, kernel_name),
		offsetof(struct gpuctr_capture_options, kernel_name_base),
		offsetof(struct gpuctr_capture_options, launch_every),
		offsetof(struct gpuctr_capture_options, filter_mode),
		offsetof(struct gpuctr_capture_options, nvtx_process_scope),
		offsetof(struct gpuctr_capture_options, record_limit),
		offsetof(struct gpuctr_capture_options, permit),
		sizeof(struct gpuctr_capture_options),
	};
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct gpuctr_capture *c;
	unsigned over = 0;

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct wire_open_capture m;

		assert_int_equal(
			gpuctr_capture_open(f->g, of_size(f, &o, ends[i]), &handler, &over, &c), 0);
		m = expect_request(f).open_capture;
		assert_int_equal(m.metrics.n, 1);
		assert_string_equal(m.chip, i >= 2 ? "GH100" : "");
		assert_string_equal(m.selection.kernel_regex, i >= 3 ? "gemm" : "");
		assert_int_equal(m.selection.launch_skip, i >= 4 ? 3 : 0);
		assert_int_equal(m.selection.launch_count, i >= 5 ? 4 : 0);
		assert_int_equal(m.no_wait, i >= 6);
		assert_int_equal(m.timeout_ns, i >= 7 ? 5 : 0);
		assert_int_equal(m.lease_ns, i >= 8 ? 6 : 0);
		assert_int_equal(m.selection.raw_images, i >= 9);
		assert_int_equal(m.recorded, i >= 10);
		assert_string_equal(m.program, i >= 11 ? "program" : "");
		assert_int_equal(m.selection.budget_ppm, i >= 12 ? 50000 : 0);
		assert_int_equal(m.selection.seed, i >= 12 ? 7 : 0);
		assert_int_equal(m.selection.nvtx_include.n, i >= 13 ? 2 : 0);
		assert_int_equal(m.selection.nvtx_exclude.n, i >= 14 ? 1 : 0);
		assert_string_equal(m.selection.capture_range, i >= 15 ? "nvtx:A/" : "");
		assert_int_equal(m.selection.stop_on_range_end, i >= 16);
		assert_int_equal(m.selection.schedule.skip_first, i >= 17 ? 1 : 0);
		assert_int_equal(m.selection.schedule.wait, i >= 17 ? 2 : 0);
		assert_int_equal(m.selection.schedule.warmup, i >= 17 ? 3 : 0);
		assert_int_equal(m.selection.schedule.active, i >= 17 ? 4 : 0);
		assert_int_equal(m.selection.schedule.repeat, i >= 17 ? 5 : 0);
		assert_string_equal(m.selection.step, i >= 17 ? "B/" : "");
		assert_int_equal(m.selection.kernel_name_base, i >= 19 ? 2 : 0);
		assert_int_equal(m.selection.launch_every, i >= 20 ? 2 : 0);
		assert_int_equal(m.selection.filter_mode, i >= 21 ? 2 : 0);
		assert_int_equal(m.selection.nvtx_process_scope, i >= 22);
		assert_int_equal(m.selection.record_limit, i >= 23 ? 9 : 0);
		assert_int_equal(m.permit, i >= 24);
	}
}

/* What the client's options cannot say, and other programs can. */
static void what_cannot_be_chosen_is_refused(void **state)
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
		wrong[i] = everything();
	}
	wrong[0].kernel_name = "gemm"; /* and an expression */
	wrong[1].kernel_name_base = GPUCTR_KERNEL_NAME_MANGLED + 1;
	wrong[2].filter_mode = GPUCTR_FILTER_PER_LAUNCH_CONFIG + 1;
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
	expect_request(f);
	partly = everything(); /* some are included that are not excluded, the first or the last */
	partly.nvtx_exclude = turned;
	partly.n_nvtx_exclude = 2;
	assert_int_equal(gpuctr_capture_open(f->g, &partly, &handler, &over, &c),
			 GPUCTR_E_BAD_PATTERN);
	for (size_t i = 0; i < 2; i++) {
		partly.nvtx_exclude = &turned[i];
		partly.n_nvtx_exclude = 1;
		assert_int_equal(gpuctr_capture_open(f->g, &partly, &handler, &over, &c), 0);
		expect_request(f);
	}
}

static void a_handler_may_end_after_any_member(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct gpuctr_capture *c;
	unsigned over = 0, begun = 0, with_end = 0;

	for (size_t size = sizeof(size_t); size <= sizeof(handler); size += sizeof(void *)) {
		with_end += size > offsetof(struct gpuctr_capture_handler, on_end);
		const void *old = of_size(f, &handler, size);

		assert_int_equal(gpuctr_capture_open(f->g, &o, old, &over, &c), 0);
		expect_request(f);
		begun++;
	}
	/* The daemon goes: only the last of them have an on_end to be called. */
	shutdown(f->peer, SHUT_RDWR);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), GPUCTR_E_DISCONNECTED);
	assert_true(begun > 10);
	assert_int_equal(over, with_end);
}

static void options_of_a_list_may_end_early(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_metrics_options o = GPUCTR_INIT(gpuctr_metrics_options);
	struct wire_metrics_request m;

	o.chip = "GH100";
	o.patterns = metrics;
	o.n_patterns = 1;
	o.describe = true;
	for (int whole = 0; whole < 2; whole++) {
		size_t size = whole ? sizeof(o) : offsetof(struct gpuctr_metrics_options, describe);

		assert_int_equal(gpuctr_list_metrics(f->g, of_size(f, &o, size), NULL, NULL, NULL),
				 0);
		m = expect_request(f).metrics_request;
		assert_string_equal(m.chip, "GH100");
		assert_int_equal(m.describe, whole);
	}
}

static void a_newer_program_is_served_while_it_asks_for_nothing_new(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct gpuctr_capture *c;
	unsigned over = 0;

	assert_int_equal(
		gpuctr_capture_open(f->g, with_more(f, &o, sizeof(o), 0), &handler, &over, &c), 0);
	assert_string_equal(expect_request(f).open_capture.program, "program");
	assert_int_equal(gpuctr_capture_open(f->g, with_more(f, &o, sizeof(o), 1), &handler, &over,
					     &c),
			 GPUCTR_E_BAD_REQUEST);
	assert_non_null(strstr(gpuctr_last_error(f->g)->message, "came after libgpuctr"));
	assert_int_equal(gpuctr_capture_open(f->g, &o, with_more(f, &handler, sizeof(handler), 1),
					     &over, &c),
			 GPUCTR_E_BAD_REQUEST);
	expect_no_request(f);
}

static void a_struct_without_its_size_is_refused(void **state)
{
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct gpuctr_metrics_options none = { 0 };
	struct gpuctr_capture *c;

	o.size = 0;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, NULL, &c), GPUCTR_E_BAD_REQUEST);
	assert_non_null(strstr(gpuctr_last_error(f->g)->remedy, "GPUCTR_INIT"));
	assert_int_equal(gpuctr_list_metrics(f->g, &none, NULL, NULL, NULL), GPUCTR_E_BAD_REQUEST);
	expect_no_request(f);
}

/* --- patterns: the test plays the daemon's part --- */

static void answer(struct fixture *f, const struct wire_message *m)
{
	struct buffer out = { 0 };
	struct arena scratch;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&scratch, &out, m), 0);
	assert_int_equal(send(f->peer, out.data + out.start, buffer_length(&out), MSG_NOSIGNAL),
			 buffer_length(&out));
	buffer_deinit(&out);
	arena_deinit(&scratch);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), 0);
}

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

	answer(f, &m);
	expect_no_request(f);
	m.metrics_reply = (struct wire_metrics_reply){ request, "GH100", { 1, &write }, true };
	answer(f, &m);
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

static void patterns_of_a_plan_are_expanded_here(void **state)
{
	static const char *const globs[] = { "dram__*.sum" }, *const none[] = { "lts__*.sum" };
	static const char *const wrong[] = { "regex:(" };
	struct fixture *f = *state;
	struct planned p = { 0 };
	struct wire_message m;

	assert_int_equal(gpuctr_plan(f->g, "GH100", globs, 1, on_plan, &p), 0);
	m = expect_request(f);
	assert_int_equal(m.type, WIRE_METRICS_REQUEST);
	assert_string_equal(m.metrics_request.chip, "GH100");
	assert_true(m.metrics_request.describe);
	answer_with_catalogue(f, m.metrics_request.request);
	m = expect_request(f);
	assert_int_equal(m.type, WIRE_PLAN_REQUEST);
	assert_string_equal(m.plan_request.chip, "GH100");
	expect_both(&m.plan_request.metrics);
	answer(f, &(struct wire_message){ .type = WIRE_PLAN_REPLY,
					  .plan_reply = { .request = m.plan_request.request } });
	assert_int_equal(p.plans, 1);
	assert_int_equal(p.errors, 0);

	assert_int_equal(gpuctr_plan(f->g, NULL, none, 1, on_plan, &p), 0);
	answer_with_catalogue(f, expect_request(f).metrics_request.request);
	expect_no_request(f);
	assert_int_equal(p.errors, 1);
	assert_int_equal(p.code, GPUCTR_E_METRIC_NO_MATCH);
	assert_int_equal(gpuctr_plan(f->g, NULL, wrong, 1, on_plan, &p), GPUCTR_E_BAD_PATTERN);
	assert_int_equal(gpuctr_last_error(f->g)->code, GPUCTR_E_BAD_PATTERN);
	expect_no_request(f);
}

static void patterns_of_a_capture_are_expanded_here(void **state)
{
	static const char *const globs[] = { "dram__*.sum" };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct gpuctr_capture *c;
	struct wire_message m;
	unsigned over = 0;

	o.metrics = globs;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m = expect_request(f);
	assert_int_equal(m.type, WIRE_METRICS_REQUEST);
	assert_string_equal(m.metrics_request.chip, "GH100");
	answer_with_catalogue(f, m.metrics_request.request);
	m = expect_request(f);
	assert_int_equal(m.type, WIRE_OPEN_CAPTURE);
	expect_both(&m.open_capture.metrics);
	assert_string_equal(m.open_capture.selection.kernel_regex, "gemm");
	assert_string_equal(m.open_capture.program, "program");
	assert_int_equal(m.open_capture.selection.launch_skip, 3);
	assert_int_equal(over, 0);
}

/* However it ends while the catalogue is on its way, it ends once. */
static void a_capture_ends_while_its_patterns_are_expanded(void **state)
{
	static const char *const globs[] = { "dram__*.sum" }, *const none[] = { "lts__*.sum" };
	struct fixture *f = *state;
	struct gpuctr_capture_options o = everything();
	struct wire_message m = { .type = WIRE_REFUSAL };
	struct gpuctr_capture *c;
	unsigned over = 0;

	o.metrics = globs;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m.refusal = (struct wire_refusal){ expect_request(f).metrics_request.request,
					   GPUCTR_E_NO_CUPTI, "none", "" };
	answer(f, &m);
	assert_int_equal(over, 1);
	o.metrics = none;
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	answer_with_catalogue(f, expect_request(f).metrics_request.request);
	assert_int_equal(over, 2);
	expect_no_request(f);
	/* A daemon that refuses what it has not been asked yet. */
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	m.refusal.request = expect_request(f).metrics_request.request - 1;
	answer(f, &m);
	assert_int_equal(over, 3);
	assert_int_equal(gpuctr_capture_open(f->g, &o, &handler, &over, &c), 0);
	shutdown(f->peer, SHUT_RDWR);
	assert_int_equal(gpuctr_dispatch(f->g, 1000), GPUCTR_E_DISCONNECTED);
	assert_int_equal(over, 4);
}

static void another_version_of_the_protocol_is_refused(void **state)
{
	struct fixture *f = *state;
	struct gpuctr *g;

	f->version = PROTO_VERSION + 1;
	close(f->peer);
	assert_int_equal(pthread_create(&f->daemon, NULL, welcome, f), 0);
	assert_int_equal(gpuctr_connect(f->path, "t", &g), GPUCTR_E_PROTOCOL);
	pthread_join(f->daemon, NULL);
	assert_string_equal(
		gpuctr_last_error(g)->message,
		"what answers there does not speak this version of gpucountd's protocol");
	gpuctr_disconnect(g);
}

/* --- answers, with a value in each field that no other has --- */

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
		105, 106, "ann",	   107, "train", GPUCTR_CAPTURE_RUNNING, ranges, 1, metrics,
		1,   108, { .seen = 109 }, 110, 111,
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
	m.status_reply.request = expect_request(f).status_request.request;
	answer(f, &m);
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
		201,	 202, 203,  "ann",
		"train", 204, 205,  "bob",
		ranges,	 2,   true, "/system.slice/slurmstepd.scope/job_4711/step_2/user",
	};
	struct wire_message m = { .type = WIRE_PROCESSES_REPLY,
				  .processes_reply = { .processes = { 1, &process } } };
	unsigned seen = 0;

	assert_int_equal(gpuctr_list_processes(f->g, on_registered, on_listed, &seen), 0);
	m.processes_reply.request = expect_request(f).processes_request.request;
	answer(f, &m);
	assert_int_equal(seen, 1);
	m.processes_reply.last = true;
	answer(f, &m);
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
		struct gpuctr_capture_options o = everything();
		struct wire_message m = { .type = WIRE_OPENED };
		struct gpuctr_capture *c;
		unsigned n = 0;

		o.raw_images = wanted != 0;
		assert_int_equal(gpuctr_capture_open(f->g, &o, &images, &n, &c), 0);
		m.opened = (struct wire_opened){ .request = expect_request(f).open_capture.request,
						 .capture = 7 + wanted,
						 .driver = "",
						 .owner = "" };
		answer(f, &m);
		m = (struct wire_message){
			.type = WIRE_RAW_IMAGE,
			.raw_image = { 7 + wanted, 1, 0, 1, 0, 4, { 2, (const uint8_t *)"da" } }
		};
		answer(f, &m);
		m.raw_image.offset = 2;
		m.raw_image.data.v = (const uint8_t *)"ta";
		answer(f, &m);
		/* What is no piece of an image. */
		m.raw_image.offset = 3;
		answer(f, &m);
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
	answer(f, &m);
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
	struct gpuctr_capture_options o = everything();
	struct wire_message m = { .type = WIRE_OPENED };
	struct gpuctr_capture *c;
	unsigned n = 0;

	assert_int_equal(gpuctr_capture_open(f->g, &o, &notices, &n, &c), 0);
	m.opened = (struct wire_opened){ .request = expect_request(f).open_capture.request,
					 .capture = 7,
					 .driver = "",
					 .owner = "" };
	answer(f, &m);
	for (uint32_t i = 0; i < 4; i++) {
		send_nest(f, 7, i * NEST);
		assert_int_equal(n, i > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(options_may_end_after_any_member, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_chosen_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_handler_may_end_after_any_member, setup,
						teardown),
		cmocka_unit_test_setup_teardown(options_of_a_list_may_end_early, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_newer_program_is_served_while_it_asks_for_nothing_new, setup, teardown),
		cmocka_unit_test_setup_teardown(a_struct_without_its_size_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(patterns_of_a_plan_are_expanded_here, setup,
						teardown),
		cmocka_unit_test_setup_teardown(patterns_of_a_capture_are_expanded_here, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_capture_ends_while_its_patterns_are_expanded,
						setup, teardown),
		cmocka_unit_test_setup_teardown(images_come_to_who_asks, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_that_are_too_deep_are_told_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_status_arrives_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_list_of_processes_arrives_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(another_version_of_the_protocol_is_refused, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
