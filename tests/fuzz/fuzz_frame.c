/* SPDX-License-Identifier: Apache-2.0 */

/* A byte stream of anybody, in odd chunks, through proto/frame and proto/wire: the same frames come
 * out however the stream is cut, and what is accepted as a message is the same message after it has
 * been encoded and decoded once more. */

#include "proto/base/buffer.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/fuzz/fuzz.h"

/* Encoding may write less than it was given (unknown fields, defaults), but what it writes is a
 * fixed point: encoded, decoded and encoded again it is the same bytes. */
static void check_round_trip(struct arena *scratch, const struct wire_message *m)
{
	struct buffer once = { 0 }, twice = { 0 };
	struct wire_message again;
	struct arena a;
	int r = wire_encode_payload(scratch, &once, m);

	/* Unknown fields are left out, and a default costs nothing: it never gets longer, but for
	 * negative numbers of an enumeration, which no accepted message holds. */
	fuzz_check(r == 0);
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	r = wire_decode(&a, m->type, once.data, buffer_length(&once), &again);
	fuzz_check(r == 0);
	arena_reset(scratch);
	fuzz_check(wire_encode_payload(scratch, &twice, &again) == 0);
	fuzz_check(buffer_length(&once) == buffer_length(&twice));
	fuzz_check(buffer_length(&once) == 0 ||
		   memcmp(once.data, twice.data, buffer_length(&once)) == 0);
	arena_deinit(&a);
	buffer_deinit(&once);
	buffer_deinit(&twice);
}

static void handle(const struct frame *f)
{
	struct wire_message m;
	struct arena a, scratch;
	int r;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	r = wire_decode(&a, f->type, f->payload, f->size, &m);
	fuzz_check(r == 0 || r == WIRE_E_UNKNOWN || r == WIRE_E_MALFORMED);
	if (r == 0) {
		fuzz_check(m.type == f->type);
		check_round_trip(&scratch, &m);
	}
	if (r == 0 && m.type == WIRE_RECORDS) {
		struct frame inner = { WIRE_RECORD_COLUMNS, m.records.columns.v,
				       m.records.columns.n };

		handle(&inner);
	}
	arena_deinit(&a);
	arena_deinit(&scratch);
}

/* The stream arrives chunk by chunk, as a peer reads it. Returns how much of it was framed. */
static size_t read_in_chunks(const uint8_t *data, size_t size, size_t chunk, bool decode)
{
	struct buffer b = { 0 };
	struct frame f;
	size_t framed = 0;
	int r = FRAME_E_MORE;

	for (size_t at = 0; at < size && r == FRAME_E_MORE;) {
		size_t n = size - at < chunk ? size - at : chunk;

		fuzz_check(buffer_append(&b, data + at, n) == 0);
		at += n;
		while ((r = frame_parse(b.data + b.start, buffer_length(&b), &f)) == 0) {
			if (decode) {
				handle(&f);
			}
			framed += FRAME_HEADER_BYTES + f.size;
			buffer_consume(&b, FRAME_HEADER_BYTES + f.size);
		}
	}
	buffer_deinit(&b);
	return framed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	size_t chunk = 1 + fuzz_take_u8(&in);

	fuzz_check(read_in_chunks(in.data, in.size, chunk, true) ==
		   read_in_chunks(in.data, in.size, SIZE_MAX, false));
	return 0;
}
