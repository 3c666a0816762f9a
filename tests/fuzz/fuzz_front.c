/* SPDX-License-Identifier: Apache-2.0 */

/* The front and its peers: several of them, of several users, in odd chunks, that say messages in
 * any order, noise, and files where none belong; with a granter, a gpu process and a planner that
 * are slow, refuse, die and come back. What must hold is checked by the box. */

#include "proto/wire/limits.h"
#include "tests/fuzz/front_box.h"
#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 300 };

/* Strings of a message being made; freed when it has been said. */
struct strings {
	char *v[4];
	size_t n;
};

static const char *text(struct fuzz_input *in, struct strings *s)
{
	char *t = fuzz_take_text(in, TEXT_MAX);

	/* What is not allowed is said as noise; here is what is accepted. */
	if (t && strlen(t) > LIMIT_NAME_BYTES) {
		t[LIMIT_NAME_BYTES] = '\0';
	}
	return s->v[s->n++] = t;
}

/* The input is taken in statements: the order within an initialiser is the compiler's choice. */
static struct gpuctr_totals some_totals(struct fuzz_input *in)
{
	struct gpuctr_totals t = { 0 };

	t.seen = fuzz_take_number(in);
	t.measured = fuzz_take_number(in);
	t.failed = fuzz_take_u8(in);
	return t;
}

static const char *const metrics[] = { "dram__bytes.sum" };

static void make_open_capture(struct fuzz_input *in, struct strings *s, uint8_t flags,
			      struct wire_open_capture *o)
{
	static const char *const gpus[] = { "0", FRONT_BOX_UUID_1 };

	o->request = flags;
	o->metrics = (struct wire_strings){ 1, metrics };
	o->gpus = (struct wire_strings){ flags % 4 < 3 ? flags % 4 : 0, gpus };
	o->no_wait = (flags & 4) != 0;
	o->recorded = (flags & 8) != 0;
	o->selection.raw_images = (flags & 16) != 0;
	o->permit = (flags & 128) != 0;
	o->metrics.n = o->permit ? flags & 1 : 1;		   /* or one too many */
	o->timeout_ns = fuzz_take_number(in) * (flags & 32) << 25; /* about so many seconds */
	o->program = text(in, s);
	if ((flags & 64) != 0) {
		s->v[s->n] = fuzz_take_text(in, TEXT_MAX);
		o->gpus = (struct wire_strings){ 1, (const char *const *)&s->v[s->n] };
		s->n++;
	}
}

static struct wire_message client_message(struct fuzz_input *in, struct strings *s,
					  const struct front_box_heard *heard)
{
	uint8_t kind = fuzz_take_u8(in), flags = fuzz_take_u8(in);
	struct wire_message m = { 0 };

	switch (kind % 7) {
	case 0:
		m.type = WIRE_HELLO;
		m.hello = (struct wire_hello){ 1, text(in, s) };
		break;
	case 1:
		m.type = WIRE_OPEN_CAPTURE;
		make_open_capture(in, s, flags, &m.open_capture);
		break;
	case 2:
		m.type = WIRE_CLOSE_CAPTURE;
		m.close_capture.capture = flags ? flags : heard->capture;
		break;
	case 3:
		m.type = WIRE_PROCESSES_REQUEST;
		m.processes_request = (struct wire_processes_request){ flags, flags };
		break;
	case 4:
		m.type = WIRE_STATUS_REQUEST;
		m.status_request.request = flags;
		break;
	case 5:
		m.type = WIRE_PLAN_REQUEST;
		m.plan_request = (struct wire_plan_request){ flags, "GH100", { 1, metrics } };
		break;
	case 6:
		m.type = WIRE_METRICS_REQUEST;
		m.metrics_request = (struct wire_metrics_request){ flags, "GH100", true };
		break;
	}
	return m;
}

static void make_agent_hello(struct fuzz_input *in, struct strings *s, uint8_t arg,
			     struct wire_agent_hello *h)
{
	h->version = 1;
	h->token = front_box_token(arg);
	h->program = text(in, s);
	h->recorded_from = (arg & 64) != 0 ? text(in, s) : "";
	h->chip = (arg & 128) != 0 ? text(in, s) : "GH100";
}

static struct wire_message agent_message(struct fuzz_input *in, struct strings *s,
					 const struct front_box_heard *heard)
{
	static const uint8_t columns[16 * 1024];
	uint8_t kind = fuzz_take_u8(in), arg = fuzz_take_u8(in);
	uint32_t capture = heard->capture + arg / 128, process = heard->process + arg / 64 % 2;
	struct wire_message m = { 0 };

	switch (kind % 8) {
	case 0:
		m.type = WIRE_AGENT_HELLO;
		make_agent_hello(in, s, arg, &m.agent_hello);
		break;
	case 1:
		m.type = WIRE_PROCESS;
		m.process.capture = capture;
		m.process.process = process;
		m.process.cupti = text(in, s);
		break;
	case 2:
		m.type = WIRE_RECORDS;
		m.records = (struct wire_records){
			capture, process, 0, arg, { (size_t)(arg & 63) << 8, columns }
		};
		break;
	case 3:
		m.type = WIRE_RAW_IMAGE;
		m.raw_image = (struct wire_raw_image){ .capture = capture,
						       .process = process,
						       .count = 1,
						       .size = arg,
						       .data = { arg, columns } };
		break;
	case 4:
		m.type = WIRE_PROGRESS;
		m.progress = (struct wire_progress){ capture, process, some_totals(in) };
		break;
	case 5:
		m.type = WIRE_NOTICE;
		m.notice = (struct wire_notice){ capture, process, arg, text(in, s), "" };
		break;
	case 6:
		m.type = WIRE_GOODBYE;
		m.goodbye.totals = some_totals(in);
		break;
	case 7:
		m.type = WIRE_PERMISSION_REQUEST;
		m.permission_request = (struct wire_permission_request){
			front_box_token(arg), 1, 2, 3, 0xb2cc, 4, 5,
		};
		break;
	}
	return m;
}

/* What a scheduler states; it counts when the peer is root, who is the machine's here. */
static struct wire_message job_message(struct fuzz_input *in)
{
	static const char *const names[] = { "4711", "4712", "", "4713" };
	static const char *const gpus[] = { "0", FRONT_BOX_UUID_1, "2" };
	uint8_t kind = fuzz_take_u8(in), arg = fuzz_take_u8(in);
	struct wire_message m = { .type = WIRE_JOB_END };

	if ((kind & 1) != 0) {
		m.job_end = (struct wire_job_end){ arg, names[kind / 2 % 4] };
		return m;
	}
	m.type = WIRE_JOB_BEGIN;
	m.job_begin = (struct wire_job_begin){
		arg, names[kind / 2 % 4], 1000 + arg % 4, { arg / 4 % 4, gpus }, 0,
	};
	m.job_begin.time_ns = fuzz_take_number(in) * 1000000000u;
	return m;
}

static bool can_be_said(const struct wire_message *m)
{
	struct arena a, scratch;
	struct buffer b = { 0 };
	struct wire_message copy;
	bool can;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	can = wire_encode_payload(&scratch, &b, m) == 0 &&
	      wire_decode(&a, m->type, b.data, buffer_length(&b), &copy) == 0;
	buffer_deinit(&b);
	arena_deinit(&a);
	arena_deinit(&scratch);
	return can;
}

static void say_message(struct fuzz_input *in, unsigned peer, bool agent)
{
	const struct front_box_heard heard = front_box_heard(peer);
	struct strings s = { 0 };
	struct wire_message m =
		agent ? agent_message(in, &s, &heard) : client_message(in, &s, &heard);

	if (can_be_said(&m)) {
		front_box_say_message(peer, &m);
	}
	for (size_t i = 0; i < s.n; i++) {
		free(s.v[i]);
	}
}

static void say_job(struct fuzz_input *in, unsigned peer)
{
	struct wire_message m = job_message(in);

	if (can_be_said(&m)) {
		front_box_say_message(peer, &m);
	}
}

static void say_noise(struct fuzz_input *in, unsigned peer)
{
	size_t n = fuzz_take_u8(in);

	n = n < in->size ? n : in->size;
	front_box_say(peer, fuzz_take(in, n), n);
}

/* A frame with a true header, and noise. */
static void say_frame(struct fuzz_input *in, unsigned peer)
{
	uint8_t type = fuzz_take_u8(in), n = fuzz_take_u8(in);
	const uint8_t header[FRAME_HEADER_BYTES] = { n, 0, 0, 0, type, 0, 0, 0 };

	n = n < in->size ? n : (uint8_t)in->size;
	front_box_say(peer, header, sizeof(header));
	front_box_say(peer, fuzz_take(in, n), n);
}

/* More than a client that does not read may have waiting. */
static void say_much(struct fuzz_input *in, unsigned peer)
{
	const struct front_box_heard heard = front_box_heard(peer);
	unsigned n = fuzz_take_u8(in) % 6; /* slow: rather several times */
	size_t size = 1000 * 1000;
	uint8_t *zeroes = calloc(1, size);
	const struct wire_message m = {
		.type = WIRE_RECORDS,
		.records = { heard.capture, heard.process, 0, 1, { size, zeroes } },
	};

	for (unsigned i = 0; i < n; i++) {
		front_box_say_message(peer, &m);
	}
	free(zeroes);
}

static void act_of_granter(struct fuzz_input *in)
{
	static const uint32_t statuses[] = { 0, 0x1b, 0x57, 0xffffffff };
	uint8_t what = fuzz_take_u8(in), arg = fuzz_take_u8(in);
	struct granter_reply reply = {
		.size = sizeof(reply), .op = arg & 15, .id = arg, .lease = arg, .gpus = arg >> 4
	};

	switch (what % 6) {
	case 0:
		front_box_granter_set_prompt(arg & 1);
		break;
	case 1:
		front_box_granter_answer(0, statuses[arg % 4]);
		break;
	case 2:
		front_box_granter_answer(-(int)arg, 0);
		break;
	case 3:
		front_box_granter_say(&reply, arg & 128 ? sizeof(reply) - 1 : sizeof(reply));
		break;
	default:
		front_box_granter_replace(what % 6 == 4);
		break;
	}
}

static void act_of_gpu(struct fuzz_input *in)
{
	uint8_t what = fuzz_take_u8(in), arg = fuzz_take_u8(in);
	enum front_box_asked which = (enum front_box_asked)(what / 5 % FRONT_BOX_ASKED);
	size_t n = arg < in->size ? arg : in->size;

	if (what >= 0xe0) { /* as one that was taken over */
		front_box_gpu_answer_as(which, front_box_gpu_types[arg % 9]);
		return;
	}
	switch (what % 5) {
	case 0:
		front_box_gpu_set_prompt(which, arg & 1);
		break;
	case 1:
		front_box_gpu_answer(which, (enum front_box_answer)(arg % FRONT_BOX_ANSWERS));
		break;
	case 2:
		front_box_gpu_say(which, fuzz_take(in, n), n);
		break;
	default:
		front_box_gpu_replace(which, what % 5 == 3);
		break;
	}
}

static void act_of_supervisor(struct fuzz_input *in)
{
	uint8_t what = fuzz_take_u8(in);

	if (what == 0xff) {
		front_box_stop();
	} else {
		front_box_reload(what & 1, what >> 1);
	}
}

static bool act(void *userdata)
{
	struct fuzz_input *in = userdata;
	uint8_t what = fuzz_take_u8(in);
	unsigned peer = what >> 5;

	if (in->size == 0) {
		return false;
	}
	switch (what & 0x1f) {
	case 0:
	case 1:
		front_box_connect(peer, fuzz_take_u8(in));
		break;
	case 2:
	case 3:
	case 4:
	case 5:
		say_message(in, peer, false);
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		say_message(in, peer, true);
		break;
	case 10:
		say_noise(in, peer);
		break;
	case 11:
		say_frame(in, peer);
		break;
	case 12:
		say_much(in, peer);
		break;
	case 13:
		front_box_set_chunk(peer, fuzz_take_u8(in));
		break;
	case 14:
		front_box_attach(peer, fuzz_take_u8(in));
		break;
	case 15:
		front_box_set_reading(peer, fuzz_take_u8(in) & 1);
		break;
	case 16:
		front_box_close(peer, fuzz_take_u8(in) & 1);
		break;
	case 17:
	case 18:
		act_of_granter(in);
		break;
	case 19:
	case 20:
		act_of_gpu(in);
		break;
	case 21:
		act_of_supervisor(in);
		break;
	case 22:
	case 23:
		front_box_pass(UINT64_C(1) << (fuzz_take_u8(in) % 24));
		break;
	case 24:
		front_box_hold_closes(fuzz_take_u8(in) & 1);
		break;
	case 25:
		say_job(in, peer);
		break;
	default:
		break; /* the loop turns */
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };

	front_box_run(act, &in);
	return 0;
}
