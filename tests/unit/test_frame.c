/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <endian.h>

#include "proto/wire/frame.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"

static void put_header(uint8_t *data, uint32_t size, uint16_t type, uint16_t zero)
{
	size = htole32(size);
	type = htole16(type);
	zero = htole16(zero);
	memcpy(data, &size, 4);
	memcpy(data + 4, &type, 2);
	memcpy(data + 6, &zero, 2);
}

TEST(begins_and_ends_as_documented)
{
	struct buffer b = { 0 };
	struct frame f;
	size_t offset;

	assert_int_equal(buffer_append(&b, "before", 6), 0);
	buffer_consume(&b, 2);
	assert_int_equal(frame_begin(&b, WIRE_RECORDS, &offset), 0);
	assert_int_equal(buffer_append(&b, "payload", 7), 0);
	frame_end(&b, offset);
	buffer_consume(&b, 4);
	assert_memory_equal(b.data + b.start, "\7\0\0\0\37\0\0\0payload", 15);
	assert_int_equal(frame_parse(b.data + b.start, buffer_length(&b), &f), 0);
	assert_int_equal(f.type, WIRE_RECORDS);
	assert_int_equal(f.size, 7);
	assert_ptr_equal(f.payload, b.data + b.start + FRAME_HEADER_BYTES);
	buffer_deinit(&b);
}

/* A frame that arrives in two pieces, cut anywhere. */
TEST(waits_for_the_rest)
{
	uint8_t data[FRAME_HEADER_BYTES + 20] = { 0 };
	struct frame f;

	put_header(data, 20, WIRE_HELLO, 0);
	for (size_t n = 0; n < sizeof(data); n++) {
		assert_int_equal(frame_parse(data, n, &f), FRAME_E_MORE);
	}
	assert_int_equal(frame_parse(data, sizeof(data), &f), 0);
	assert_int_equal(f.size, 20);
}

TEST(takes_an_empty_payload)
{
	uint8_t data[FRAME_HEADER_BYTES];
	struct frame f;

	put_header(data, 0, WIRE_GOODBYE, 0);
	assert_int_equal(frame_parse(data, sizeof(data), &f), 0);
	assert_int_equal(f.size, 0);
}

/* The size is refused as soon as it is known: nothing is allocated or waited for. */
TEST(refuses_an_oversize_at_once)
{
	static const uint32_t sizes[] = { LIMIT_FRAME_BYTES + 1, 1u << 24, INT32_MAX,
					  UINT32_MAX - 8, UINT32_MAX };
	uint8_t data[FRAME_HEADER_BYTES];
	struct frame f;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		put_header(data, sizes[i], WIRE_HELLO, 0);
		assert_int_equal(frame_parse(data, sizeof(data), &f), FRAME_E_TOO_LARGE);
	}
	put_header(data, LIMIT_FRAME_BYTES, WIRE_HELLO, 0);
	assert_int_equal(frame_parse(data, sizeof(data), &f), FRAME_E_MORE);
}

TEST(refuses_a_nonzero_zero)
{
	uint8_t data[FRAME_HEADER_BYTES + 4] = { 0 };
	struct frame f;

	for (unsigned bit = 0; bit < 16; bit++) {
		put_header(data, 4, WIRE_HELLO, (uint16_t)(1u << bit));
		assert_int_equal(frame_parse(data, sizeof(data), &f), FRAME_E_MALFORMED);
		assert_int_equal(frame_parse(data, FRAME_HEADER_BYTES, &f), FRAME_E_MALFORMED);
	}
}
