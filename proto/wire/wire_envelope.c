/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/wire/wire.h"
#include "proto/wire/wire_layout.h"

/* Reads the envelope of messages that are only passed on: which process they are of, how many
 * records they hold. These messages are flat, numbers and one piece of bytes, so reading them takes
 * no memory, and the piece stays where it is. wire_decode() reads the same from every message that
 * is accepted here, which tests/unit/test_wire.c checks; any other form is malformed. */

enum {
	VARINT_BYTES_MAX = 10,
	WIRE_TYPE_VARINT = 0,
	WIRE_TYPE_64 = 1,
	WIRE_TYPE_BYTES = 2,
	WIRE_TYPE_32 = 5
};

struct input {
	const uint8_t *at, *end;
};

static bool read_varint(struct input *in, uint64_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < VARINT_BYTES_MAX && in->at < in->end; i++) {
		uint8_t byte = *in->at++;

		*ret |= (uint64_t)(byte & 0x7f) << (7 * i);
		if ((byte & 0x80) == 0) {
			return true;
		}
	}
	return false;
}

static bool read_bytes(struct input *in, uint64_t n, struct wire_bytes *ret)
{
	if (n > (uint64_t)(in->end - in->at)) {
		return false;
	}
	*ret = (struct wire_bytes){ (size_t)n, in->at };
	in->at += n;
	return true;
}

/* Reads a value of any type: a number into *ret_number, bytes into *ret_bytes. */
static bool read_value(struct input *in, unsigned wire_type, uint64_t *ret_number,
		       struct wire_bytes *ret_bytes)
{
	switch (wire_type) {
	case WIRE_TYPE_VARINT:
		return read_varint(in, ret_number);
	case WIRE_TYPE_64:
		return read_bytes(in, 8, ret_bytes);
	case WIRE_TYPE_32:
		return read_bytes(in, 4, ret_bytes);
	case WIRE_TYPE_BYTES:
		return read_varint(in, ret_number) && read_bytes(in, *ret_number, ret_bytes);
	default:
		return false;
	}
}

static const struct wire_field *find_field(const struct wire_layout *layout, uint64_t number)
{
	for (size_t i = 0; i < layout->n_fields; i++) {
		if (layout->fields[i].number == number) {
			return &layout->fields[i];
		}
	}
	return NULL;
}

static bool store(const struct wire_field *f, unsigned wire_type, uint64_t number,
		  const struct wire_bytes *bytes, char *plain)
{
	uint32_t number32 = (uint32_t)number;

	switch (f->kind) {
	case WIRE_KIND_U32:
		memcpy(plain + f->offset, &number32, sizeof(number32));
		return wire_type == WIRE_TYPE_VARINT && (f->limit == 0 || number32 <= f->limit);
	case WIRE_KIND_U64:
		memcpy(plain + f->offset, &number, sizeof(number));
		return wire_type == WIRE_TYPE_VARINT;
	default:
		memcpy(plain + f->offset, bytes, sizeof(*bytes));
		return wire_type == WIRE_TYPE_BYTES && bytes->n <= f->limit;
	}
}

static bool read_field(struct input *in, const struct wire_layout *layout, char *plain)
{
	struct wire_bytes bytes = { 0 };
	const struct wire_field *f;
	uint64_t tag, number = 0;

	if (!read_varint(in, &tag) || tag >> 3 == 0 || tag > UINT32_MAX ||
	    !read_value(in, tag & 7, &number, &bytes)) {
		return false;
	}
	f = find_field(layout, tag >> 3);
	return !f || store(f, tag & 7, number, &bytes, plain);
}

static bool is_flat(const struct wire_layout *layout)
{
	for (size_t i = 0; i < layout->n_fields; i++) {
		enum wire_kind kind = layout->fields[i].kind;

		if (kind != WIRE_KIND_U32 && kind != WIRE_KIND_U64 && kind != WIRE_KIND_BYTES) {
			return false;
		}
	}
	return !layout->validate;
}

int wire_decode_envelope(unsigned type, const uint8_t *payload, size_t size,
			 struct wire_message *ret)
{
	const struct wire_layout *layout = wire_layout_find(type);
	struct input in = { payload, payload + size };

	if (!layout || !is_flat(layout)) {
		return WIRE_E_UNKNOWN;
	}
	ret->type = type;
	memset(&ret->hello, 0, layout->size);
	while (in.at < in.end) {
		if (!read_field(&in, layout, (char *)&ret->hello)) {
			return WIRE_E_MALFORMED;
		}
	}
	return 0;
}
