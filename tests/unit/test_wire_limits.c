/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire_fixture.h"

/* Limits of strings, lists and numbers, and bytes that no side of ours would send. */

/* --- limits --- */

static int encode_and_decode(const struct wire_message *in, struct wire_message *out,
			     struct arena *a)
{
	struct buffer b = { 0 };
	struct arena scratch;
	int r;

	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	r = wire_encode_payload(&scratch, &b, in);
	if (r == 0) {
		r = wire_decode(a, in->type, b.data, buffer_length(&b), out);
	}
	buffer_deinit(&b);
	arena_deinit(&scratch);
	return r;
}

/* Bytes as a peer without our encoder would send them: field number, wire type 2, length. */
static void put_field(struct buffer *b, unsigned number, const void *data, size_t n)
{
	uint8_t head[16];
	size_t k = 0;
	uint64_t tag = number << 3 | 2;

	for (; tag >= 0x80; tag >>= 7) {
		head[k++] = (uint8_t)(tag | 0x80);
	}
	head[k++] = (uint8_t)tag;
	for (size_t left = n;; left >>= 7) {
		if (left < 0x80) {
			head[k++] = (uint8_t)left;
			break;
		}
		head[k++] = (uint8_t)(left | 0x80);
	}
	assert_int_equal(buffer_append(b, head, k), 0);
	assert_int_equal(buffer_append(b, data, n), 0);
}

TEST(strings_end_at_their_limit)
{
	char text[LIMIT_NAME_BYTES + 2];
	struct buffer b = { 0 };

	memset(text, 'x', sizeof(text));
	put_field(&b, 3, text, LIMIT_NAME_BYTES);
	assert_int_equal(decode_anything(WIRE_HELLO, b.data, buffer_length(&b)), 0);
	buffer_deinit(&b);
	put_field(&b, 3, text, LIMIT_NAME_BYTES + 1);
	assert_int_equal(decode_anything(WIRE_HELLO, b.data, buffer_length(&b)), WIRE_E_MALFORMED);
	buffer_deinit(&b);
}

TEST(counts_end_at_their_limit)
{
	struct buffer b = { 0 };

	for (int i = 0; i < LIMIT_METRICS; i++) {
		put_field(&b, 2, "dram", 4);
	}
	assert_int_equal(decode_anything(WIRE_OPEN_CAPTURE, b.data, buffer_length(&b)), 0);
	put_field(&b, 2, "dram", 4);
	assert_int_equal(decode_anything(WIRE_OPEN_CAPTURE, b.data, buffer_length(&b)),
			 WIRE_E_MALFORMED);
	buffer_deinit(&b);
}

TEST(a_string_of_a_list_has_a_limit_too)
{
	char *text = calloc(1, LIMIT_STRING_BYTES + 1);
	struct buffer b = { 0 };

	memset(text, 'x', LIMIT_STRING_BYTES + 1);
	put_field(&b, 2, text, LIMIT_STRING_BYTES);
	assert_int_equal(decode_anything(WIRE_RECORD_COLUMNS, b.data, buffer_length(&b)), 0);
	put_field(&b, 2, text, LIMIT_STRING_BYTES + 1);
	assert_int_equal(decode_anything(WIRE_RECORD_COLUMNS, b.data, buffer_length(&b)),
			 WIRE_E_MALFORMED);
	buffer_deinit(&b);
	free(text);
}

TEST(enums_are_known_values)
{
	static const uint8_t good[] = { 0x28, 2 }, bad[] = { 0x28, 3 },
			     huge[] = { 0x28, 0xff, 0xff, 0xff, 0xff, 0x0f };

	assert_int_equal(decode_anything(WIRE_STATUS_REPLY, good, sizeof(good)), 0);
	assert_int_equal(decode_anything(WIRE_STATUS_REPLY, bad, sizeof(bad)), WIRE_E_MALFORMED);
	assert_int_equal(decode_anything(WIRE_STATUS_REPLY, huge, sizeof(huge)), WIRE_E_MALFORMED);
}

/* Ours to send: refused before it is sent, with what was in the buffer untouched. */
TEST(the_encoder_keeps_the_limits)
{
	char text[LIMIT_TEXT_BYTES + 2] = { 0 };
	const char *metrics[LIMIT_METRICS + 1];
	struct wire_message long_text = { .type = WIRE_NOTICE },
			    many = { .type = WIRE_PLAN_REQUEST };
	struct wire_message large = { .type = WIRE_RECORDS };
	uint8_t *bytes = calloc(1, LIMIT_FRAME_BYTES);
	struct buffer b = { 0 };
	struct arena a;

	arena_init(&a, 4 * LIMIT_UNPACKED_BYTES);
	memset(text, 'x', LIMIT_TEXT_BYTES + 1);
	long_text.notice.message = text;
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		metrics[i] = "m";
	}
	many.plan_request.metrics = (struct wire_strings){ ARRAY_SIZE(metrics), metrics };
	large.records.columns = (struct wire_bytes){ LIMIT_FRAME_BYTES, bytes };
	assert_int_equal(buffer_append(&b, "kept", 4), 0);
	assert_int_equal(wire_encode(&a, &b, &long_text), -EMSGSIZE);
	assert_int_equal(wire_encode(&a, &b, &many), -EMSGSIZE);
	assert_int_equal(wire_encode(&a, &b, &large), -EMSGSIZE);
	assert_int_equal(buffer_length(&b), 4);
	assert_memory_equal(b.data + b.start, "kept", 4);
	buffer_deinit(&b);
	arena_deinit(&a);
	free(bytes);
}

TEST(a_plan_refers_only_to_its_own_metrics)
{
	static const char *const names[] = { "dram__bytes_read.sum" };
	uint32_t metric[2] = { 0, 0 };
	double weight[2] = { 1, 1 };
	struct wire_column column = { .name = "c",
				      .metric = { 1, metric },
				      .weight = { 1, weight } };
	struct wire_message in = { .type = WIRE_PLAN_REPLY }, out;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	in.plan_reply.plan = (struct wire_plan){ .chip = "GH100",
						 .metrics = { 1, names },
						 .columns = { 1, &column } };
	assert_int_equal(encode_and_decode(&in, &out, &a), 0);
	metric[0] = 1;
	assert_int_equal(encode_and_decode(&in, &out, &a), WIRE_E_MALFORMED);
	metric[0] = 0;
	column.weight.n = 2;
	assert_int_equal(encode_and_decode(&in, &out, &a), WIRE_E_MALFORMED);
	arena_deinit(&a);
}

/* --- hostile bytes --- */

/* A frame of the largest size, full of the smallest messages there are. */
TEST(a_frame_of_empty_messages_costs_a_bounded_amount)
{
	static const struct {
		unsigned type, field;
	} repeated[] = { { WIRE_METRICS_REPLY, 3 }, { WIRE_STATUS_REPLY, 6 },
			 { WIRE_STATUS_REPLY, 7 },  { WIRE_OPENED, 4 },
			 { WIRE_PROCESS, 7 },	    { WIRE_OPEN_CAPTURE, 2 },
			 { WIRE_RECORD_COLUMNS, 2 } };
	uint8_t *data = malloc(LIMIT_FRAME_BYTES);

	for (size_t i = 0; i < ARRAY_SIZE(repeated); i++) {
		for (size_t k = 0; k < LIMIT_FRAME_BYTES; k += 2) {
			data[k] = (uint8_t)(repeated[i].field << 3 | 2);
			data[k + 1] = 0;
		}
		assert_int_equal(decode_anything(repeated[i].type, data, LIMIT_FRAME_BYTES),
				 WIRE_E_MALFORMED);
	}
	free(data);
}

TEST(strings_are_utf8)
{
	static const char *const good[] = {
		"",
		"a",
		"\x7f",
		"\xc2\x80",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xef\xbf\xbf",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc3",
		"\xc3(",
		"\xe0\x80\x80",
		"\xe0\x9f\xbf",
		"\xe2\x82",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xf0\x80\x80\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf0\x9f\x8c",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xf8\x88\x80\x80\x80",
		"\xfe",
		"\xff",
		"good\xffnot",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good) + ARRAY_SIZE(bad); i++) {
		const char *text = i < ARRAY_SIZE(good) ? good[i] : bad[i - ARRAY_SIZE(good)];
		int expected = i < ARRAY_SIZE(good) ? 0 : WIRE_E_MALFORMED;
		struct buffer single = { 0 }, listed = { 0 };

		put_field(&single, 3, text, strlen(text));
		put_field(&listed, 2, text, strlen(text));
		assert_int_equal(decode_anything(WIRE_HELLO, single.data, buffer_length(&single)),
				 expected);
		assert_int_equal(decode_anything(WIRE_OPEN_CAPTURE, listed.data,
						 buffer_length(&listed)),
				 expected);
		buffer_deinit(&single);
		buffer_deinit(&listed);
	}
}

/* What is behind a NUL never reaches a handler. */
TEST(a_string_ends_at_its_nul)
{
	struct buffer b = { 0 };
	struct wire_message out;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	put_field(&b, 3, "sh\0 -c", 6);
	assert_int_equal(wire_decode(&a, WIRE_HELLO, b.data, buffer_length(&b), &out), 0);
	assert_string_equal(out.hello.program, "sh");
	arena_deinit(&a);
	buffer_deinit(&b);
}

TEST(unknown_fields_are_passed_over)
{
	struct buffer b = { 0 };
	struct wire_message out;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	put_field(&b, 1000, "of a later version", 18);
	put_field(&b, 3, "python3", 7);
	put_field(&b, 15, "", 0);
	assert_int_equal(wire_decode(&a, WIRE_HELLO, b.data, buffer_length(&b), &out), 0);
	assert_string_equal(out.hello.program, "python3");
	arena_deinit(&a);
	buffer_deinit(&b);
}
