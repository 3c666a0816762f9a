/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages as plain structs. Handlers use only these and no protobuf types.
 *
 * wire_decode() returns only checked messages: every string is present ("" when it was absent),
 * valid UTF-8 without NUL and within its limit, every count within its limit, every enum a known
 * value. All pointers live in the arena given, until it is reset. When encoding, pointers are
 * borrowed for the call, and a NULL string is "". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/wire/frame.h"

enum {
	WIRE_E_UNKNOWN = 1,   /* no such type */
	WIRE_E_MALFORMED = 2, /* protobuf cannot parse it, or it exceeds a limit */
};

struct wire_bytes {
	size_t n;
	const uint8_t *v;
};
struct wire_strings {
	size_t n;
	const char *const *v;
};
struct wire_u32s {
	size_t n;
	const uint32_t *v;
};
struct wire_u64s {
	size_t n;
	const uint64_t *v;
};
struct wire_i64s {
	size_t n;
	const int64_t *v;
};
struct wire_doubles {
	size_t n;
	const double *v;
};

#define WIRE_UNKNOWN_ATTRIBUTE UINT32_MAX /* attribute of a kernel */

/* Has enum wire_type, a plain struct for each message, and struct wire_message, which holds any of
 * them. Generated from gpuctr.proto and agent.proto, whose comments explain each field. */
#include "proto/wire/wire_messages.h"

/* A column that is in no group because it needs several passes alone; NULL: none. */
const struct wire_column *wire_plan_find_ungrouped(const struct wire_plan *plan);

/* Is every column in a group? */
bool wire_plan_is_grouped(const struct wire_plan *plan);

/* "hello", ...; "unknown". Static. */
const char *wire_type_to_string(unsigned type);

/* Unpacks a payload. WIRE_E_*; -ENOMEM if not even the arena's first block can be allocated. */
int wire_decode(struct arena *a, unsigned type, const uint8_t *payload, size_t size,
		struct wire_message *ret);

/* Removes the first message from in, and decodes it into a, which is reset before. FRAME_E_MORE: it
 * is not complete; -EPROTO: it is malformed. */
int wire_next(struct buffer *in, struct arena *a, struct wire_message *ret);

/* Appends a whole frame to out. scratch is used for the conversion and may be reset after the call.
 * -ENOMEM; -EMSGSIZE: the message exceeds the limits, which is the caller's mistake. */
int wire_encode(struct arena *scratch, struct buffer *out, const struct wire_message *message);

/* Deep-copies a message into a, by encoding and decoding it; a NULL string becomes "". -ENOMEM: a
 * is full; -EMSGSIZE: the message exceeds the limits. *ret must not be used after an error. */
int wire_copy(struct arena *a, const struct wire_message *in, struct wire_message *ret);

/* Appends the payload without a frame header, for RecordColumns, which is sent inside Records. */
int wire_encode_payload(struct arena *scratch, struct buffer *out,
			const struct wire_message *message);
