/* SPDX-License-Identifier: Apache-2.0 */

/* R3: nothing of the user's but integers reaches the ioctl. The granter's box looks at every
 * argument of every call: pointers lead to the granter's own memory, which holds two handles of the
 * request, and rights, flags, sizes and padding are zero whatever was asked. The same is seen from
 * the other side by the fake driver, of requests that came all the way from a user's socket. */

#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/granter_box.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* A life of the granter: with more requests its objects pile up, and it looks at them all each
 * time. */
enum { LEASES = 1, RUN = 500 };

static uint64_t random_state = 3;

static uint64_t some(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* --- the granter alone --- */

static void leave_out(uint32_t *root, uint32_t *parent, uint32_t *object)
{
	uint32_t *const numbers[] = { root, parent, object };

	*numbers[some() % ARRAY_SIZE(numbers)] = 0;
}

/* First the leases, then requests of which every word but those that the checks look at is noise.
 * One in eight breaks a check as well, and one in 16 lets the driver choose a number. */
static void next_step(struct box_step *step, void *userdata)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_OPEN };
	size_t *left = userdata;
	uint32_t *words = (uint32_t *)&q;

	if (*left == 0) {
		step->kind = BOX_END;
		return;
	}
	--*left;
	if (*left >= RUN) {
		q.lease = *left - RUN + 1;
		q.uid = (uint32_t)q.lease;
		q.gpus = UINT64_C(1) << q.lease;
		box_packet(step, &q, BOX_NO_FILE);
		return;
	}
	for (size_t i = 0; i < offsetof(struct granter_request, names) / sizeof(*words); i++) {
		words[i] = (uint32_t)(some() >> 32);
	}
	q.size = sizeof(q);
	q.op = GRANTER_ALLOC;
	q.lease = 1 + some() % LEASES;
	q.uid = (uint32_t)q.lease;
	q.pid = 1 + (uint32_t)(some() % (BOX_PIDS - 1));
	q.object_class = RM_CLASS_PROFILER_DEVICE;
	if (some() % 8 == 0) {
		words[1 + some() % (sizeof(q) / sizeof(*words) - 1)] = (uint32_t)some();
	}
	if (some() % 16 == 0) {
		leave_out(&q.root, &q.parent, &q.object);
	}
	step->driver_status = some() % 4 == 0 ? RM_STATUS_OK : (uint32_t)some();
	box_packet(step, &q, q.op == GRANTER_ALLOC ? BOX_CONTROL_DEVICE : BOX_NO_FILE);
}

TEST(requests_are_rebuilt_from_integers)
{
	size_t wanted = requirement_amount(10000000, 1000000000);
	struct box_figures sum = { 0 };

	while (sum.packets < wanted) {
		size_t left = RUN + LEASES;
		struct box_figures f = box_run(next_step, &left);

		sum.packets += f.packets;
		sum.allocs += f.allocs;
		sum.frees += f.frees;
	}
	assert_true(sum.allocs > sum.packets / 2);
	requirement_figure("R3",
			   "%zu fuzzed requests, of which %zu allocations and %zu frees reached "
			   "the driver: every pointer the granter's own, every other word zero or "
			   "a handle",
			   (size_t)sum.packets, (size_t)sum.allocs, (size_t)sum.frees);
}

/* --- the whole way --- */

/* Fields of a later version, or of an attacker: skipped, whatever they hold. */
static void append_unknown_fields(struct buffer *b)
{
	for (unsigned number = 8; number < 16; number++) {
		uint8_t field[11] = { (uint8_t)(number << 3) };
		size_t n = 1;

		for (uint64_t v = some() | 1; v != 0; v >>= 7) {
			field[n++] = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
		}
		assert_int_equal(buffer_append(b, field, n), 0);
	}
}

static void send_request(int fd, const struct wire_permission_request *q, int device)
{
	const struct wire_message m = { .type = WIRE_PERMISSION_REQUEST, .permission_request = *q };
	struct buffer b = { 0 };
	struct arena scratch;
	size_t offset;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	assert_int_equal(frame_begin(&b, m.type, &offset), 0);
	assert_int_equal(wire_encode_payload(&scratch, &b, &m), 0);
	append_unknown_fields(&b);
	frame_end(&b, offset);
	raw_send_bytes(fd, b.data + b.start, buffer_length(&b), device);
	arena_deinit(&scratch);
	buffer_deinit(&b);
}

/* Patiently, as raw_ask_patiently(); returns 0, or why not. */
static int ask(struct fixture *f, const struct wire_permission_request *q, int device)
{
	uint64_t by_ms = now_ms() + PATIENCE_MS;
	struct raw_answer answer;

	do {
		int fd = raw_connect(f, USER_SELF);

		send_request(fd, q, device);
		answer = raw_take_answer(fd);
	} while (answer.code == GPUCTR_E_QUOTA && now_ms() < by_ms);
	return answer.code;
}

/* It must not be in the driver's log. */
static void ask_without_a_number(struct fixture *f, struct wire_permission_request q, int device)
{
	leave_out(&q.root, &q.parent, &q.object);
	assert_int_equal(ask(f, &q, device), GPUCTR_E_NOT_ALLOWED);
}

/* The line that the fake driver wrote of this request; see tests/fake/README.md for its columns. */
static void expect_line(const char *line, const struct wire_permission_request *q)
{
	unsigned long long rights;
	unsigned number, size, class, root, parent, object, client, context, flags, parameters_size;
	int given;

	assert_int_equal(sscanf(line,
				"%*u %*d %*u %*d 0x%x %u 0x%x 0x%x 0x%x 0x%x 0x%x 0x%x 0x%llx 0x%x "
				"%u %d",
				&number, &size, &class, &root, &parent, &object, &client, &context,
				&rights, &flags, &parameters_size, &given),
			 12);
	assert_int_equal(number, RM_ESCAPE_ALLOC);
	assert_int_equal(size, sizeof(struct rm_alloc));
	assert_int_equal(class, RM_CLASS_PROFILER_DEVICE);
	assert_int_equal(root, q->root);
	assert_int_equal(parent, q->parent);
	assert_int_equal(object, q->object);
	assert_int_equal(client, q->client_target);
	assert_int_equal(context, q->context_target);
	assert_int_equal(rights, 0);
	assert_int_equal(flags, 0);
	assert_int_equal(parameters_size, 0);
	assert_int_equal(given, 1);
}

/* Allocations among the driver's lines, in the order of the requests. Frees of what was made are
 * between them. */
static void expect_log(struct fixture *f, const struct wire_permission_request *asked, size_t n)
{
	struct program *p = fixture_run(f, USER_SELF, TEST_FAKECTL, "log", NULL);
	CLEAN_FREE char *text = NULL;
	char *save = NULL;
	size_t found = 0;

	expect_exit(p, 0);
	text = read_file(p->out);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strstr(line, " 0x2b ") && strstr(line, " 0xb2cc ")) {
			assert_true(found < n);
			expect_line(line, &asked[found++]);
		}
	}
	assert_int_equal(found, n);
}

SYSTEM_TEST(users_requests_are_rebuilt_from_integers)
{
	struct gpuctr_capture_options options = recorder_options();
	size_t n = requirement_amount(3000, 100000);
	CLEAN_FREE struct wire_permission_request *asked = calloc(n, sizeof(*asked));
	int device = raw_control_device(), code;
	struct fixture *f = *state;
	struct recorder r;

	assert_non_null(asked);
	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_SELF);
	recorder_open(&r, &options);
	recorder_until(&r, &r.ready);
	for (size_t i = 0; i < n; i++) {
		asked[i] = (struct wire_permission_request){
			recorder_token(&r),   (uint32_t)some(),		(uint32_t)some(),
			(uint32_t)some() | 1, RM_CLASS_PROFILER_DEVICE, (uint32_t)RAW_CLIENT,
			(uint32_t)some(),
		};
		code = ask(f, &asked[i], device);
		assert_true(code == 0 || code == GPUCTR_E_GRANT_REFUSED); /* by the driver */
		if (i % 16 == 0) {
			ask_without_a_number(f, asked[i], device);
		}
	}
	expect_log(f, asked, n);
	recorder_close(&r);
	recorder_disconnect(&r);
	close(device);
	requirement_figure("R3",
			   "%zu requests over sockets, with fields that are not known: the driver "
			   "saw their five numbers and zeroes",
			   n);
}
