/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/wire.h"

#include <errno.h>
#include <string.h>

#include "proto/base/utf8.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire_layout.h"

/* One decoder and one encoder for all messages, driven by the tables that make_wire.py generates
 * from the .proto files. protobuf-c unpacks into the arena, whose limit bounds what hostile input
 * can cost. The plain struct then borrows strings and arrays from the unpacked message, so nothing
 * is copied twice. */

/* --- decoding --- */

static void *pb_alloc(void *arena, size_t bytes)
{
	return arena_alloc(arena, bytes);
}

static void pb_free(void *arena, void *p)
{
	(void)arena; /* arena_reset() takes it back */
}

static bool string_is_valid(const char *s, size_t limit)
{
	size_t length = strlen(s);

	if (length > limit) {
		return false;
	}
	for (size_t i = 0; i < length;) {
		size_t n = utf8_sequence(s + i);

		if (n == 0) {
			return false;
		}
		i += n;
	}
	return true;
}

static int decode_fields(struct arena *a, const struct wire_layout *layout, const void *pb,
			 void *plain);

static int decode_string(const struct wire_field *f, const char *s, const char **ret)
{
	if (!s) {
		s = "";
	}
	if (!string_is_valid(s, f->limit)) {
		return WIRE_E_MALFORMED;
	}
	*ret = s;
	return 0;
}

static int decode_list(struct arena *a, const struct wire_field *f, void *v, size_t n, void *plain)
{
	bool are_messages = f->kind == WIRE_KIND_MESSAGES;
	char *made = are_messages && n <= f->limit ? arena_alloc(a, n * f->sub->size) : v;
	int r = n > f->limit || (are_messages && !made) ? WIRE_E_MALFORMED : 0;

	for (size_t i = 0; i < n && r == 0 && f->kind != WIRE_KIND_NUMBERS; i++) {
		if (are_messages) {
			r = decode_fields(a, f->sub, ((void **)v)[i], made + i * f->sub->size);
		} else if (!string_is_valid(((char **)v)[i], LIMIT_STRING_BYTES)) {
			r = WIRE_E_MALFORMED;
		}
	}
	memcpy((char *)plain + f->n_offset, &n, sizeof(n));
	memcpy((char *)plain + f->offset, &made, sizeof(made));
	return r;
}

static int decode_optional(struct arena *a, const struct wire_field *f, const void *pb, void *dst)
{
	void *made = pb ? arena_alloc(a, f->sub->size) : NULL;

	*(void **)dst = made;
	if (pb && !made) {
		return WIRE_E_MALFORMED;
	}
	return pb ? decode_fields(a, f->sub, pb, made) : 0;
}

static int decode_single(struct arena *a, const struct wire_field *f, const char *src, char *dst)
{
	switch (f->kind) {
	case WIRE_KIND_U32:
		memcpy(dst, src, sizeof(uint32_t));
		return f->limit && *(uint32_t *)dst > f->limit ? WIRE_E_MALFORMED : 0;
	case WIRE_KIND_U64:
		memcpy(dst, src, sizeof(uint64_t));
		return 0;
	case WIRE_KIND_BOOL:
		*(bool *)dst = *(const protobuf_c_boolean *)src != 0;
		return 0;
	case WIRE_KIND_STRING:
		return decode_string(f, *(char *const *)src, (const char **)dst);
	case WIRE_KIND_BYTES: {
		const ProtobufCBinaryData *b = (const ProtobufCBinaryData *)src;

		*(struct wire_bytes *)dst = (struct wire_bytes){ b->len, b->data };
		return b->len > f->limit ? WIRE_E_MALFORMED : 0;
	}
	case WIRE_KIND_MESSAGE:
		return decode_fields(a, f->sub, *(void *const *)src, dst);
	case WIRE_KIND_OPTIONAL:
		return decode_optional(a, f, *(void *const *)src, dst);
	default:
		return WIRE_E_MALFORMED;
	}
}

/* Fills plain for an absent message: zeros and empty strings, at all levels. */
static void decode_absent(const struct wire_layout *layout, char *plain)
{
	memset(plain, 0, layout->size);
	for (size_t i = 0; i < layout->n_fields; i++) {
		const struct wire_field *f = &layout->fields[i];

		if (f->kind == WIRE_KIND_STRING) {
			*(const char **)(plain + f->offset) = "";
		} else if (f->kind == WIRE_KIND_MESSAGE) {
			decode_absent(f->sub, plain + f->offset);
		}
	}
}

static int decode_fields(struct arena *a, const struct wire_layout *layout, const void *pb,
			 void *plain)
{
	decode_absent(layout, plain);
	if (!pb) {
		return 0;
	}
	for (size_t i = 0; i < layout->n_fields; i++) {
		const struct wire_field *f = &layout->fields[i];
		const ProtobufCFieldDescriptor *d =
			protobuf_c_message_descriptor_get_field(layout->descriptor, f->number);
		const char *src = (const char *)pb + d->offset;
		int r;

		if (f->kind >= WIRE_KIND_STRINGS) {
			size_t n = *(const size_t *)((const char *)pb + d->quantifier_offset);

			r = decode_list(a, f, *(void *const *)src, n, plain);
		} else {
			r = decode_single(a, f, src, (char *)plain + f->offset);
		}
		if (r != 0) {
			return r;
		}
	}
	return layout->validate && !layout->validate(plain) ? WIRE_E_MALFORMED : 0;
}

int wire_decode(struct arena *a, unsigned type, const uint8_t *payload, size_t size,
		struct wire_message *ret)
{
	const struct wire_layout *layout = wire_layout_find(type);
	ProtobufCAllocator allocator = { pb_alloc, pb_free, a };
	ProtobufCMessage *pb;

	if (!layout) {
		return WIRE_E_UNKNOWN;
	}
	pb = protobuf_c_message_unpack(layout->descriptor, &allocator, size, payload);
	if (!pb) {
		return WIRE_E_MALFORMED;
	}
	ret->type = type;
	return decode_fields(a, layout, pb, &ret->hello);
}

int wire_next(struct buffer *in, struct arena *a, struct wire_message *ret)
{
	struct frame f;
	int r = frame_parse(in->data + in->start, buffer_length(in), &f);

	if (r == FRAME_E_MORE) {
		return r;
	}
	arena_reset(a);
	if (r != 0 || wire_decode(a, f.type, f.payload, f.size, ret) != 0) {
		return -EPROTO;
	}
	buffer_consume(in, FRAME_HEADER_BYTES + f.size);
	return 0;
}

/* --- encoding --- */

static ProtobufCMessage *encode_fields(struct arena *a, const struct wire_layout *layout,
				       const void *plain);

struct wire_bytes wire_list(const struct wire_field *f, const void *plain)
{
	struct wire_bytes list;

	memcpy(&list.n, (const char *)plain + f->n_offset, sizeof(list.n));
	memcpy(&list.v, (const char *)plain + f->offset, sizeof(list.v));
	return list;
}

static int encode_list(struct arena *a, const struct wire_field *f, const void *plain,
		       size_t *ret_n, const void **ret)
{
	struct wire_bytes list = wire_list(f, plain);
	void **v;

	*ret_n = list.n;
	*ret = list.v;
	if (list.n > f->limit) {
		return -EMSGSIZE;
	}
	if (f->kind != WIRE_KIND_MESSAGES) {
		return 0;
	}
	v = arena_alloc(a, list.n * sizeof(*v));
	for (size_t i = 0; v && i < list.n; i++) {
		v[i] = encode_fields(a, f->sub, list.v + i * f->sub->size);
		if (!v[i]) {
			return -errno;
		}
	}
	*ret = v;
	return v ? 0 : -ENOMEM;
}

static int encode_single(struct arena *a, const struct wire_field *f, const char *src, char *dst)
{
	switch (f->kind) {
	case WIRE_KIND_U32:
		memcpy(dst, src, sizeof(uint32_t));
		return 0;
	case WIRE_KIND_U64:
		memcpy(dst, src, sizeof(uint64_t));
		return 0;
	case WIRE_KIND_BOOL:
		*(protobuf_c_boolean *)dst = *(const bool *)src;
		return 0;
	case WIRE_KIND_STRING:
		if (!*(const char *const *)src) {
			return 0;
		}
		*(const char **)dst = *(const char *const *)src;
		return strlen(*(const char *const *)src) > f->limit ? -EMSGSIZE : 0;
	case WIRE_KIND_BYTES: {
		const struct wire_bytes *b = (const struct wire_bytes *)src;

		*(ProtobufCBinaryData *)dst =
			(ProtobufCBinaryData){ b->n, (uint8_t *)(uintptr_t)b->v };
		return b->n > f->limit ? -EMSGSIZE : 0;
	}
	case WIRE_KIND_OPTIONAL:
		src = *(const char *const *)src;
		if (!src) {
			return 0;
		}
		/* fall through */
	case WIRE_KIND_MESSAGE:
		*(void **)dst = encode_fields(a, f->sub, src);
		return *(void **)dst ? 0 : -errno;
	default:
		return -EINVAL;
	}
}

static ProtobufCMessage *encode_fields(struct arena *a, const struct wire_layout *layout,
				       const void *plain)
{
	ProtobufCMessage *pb = arena_zalloc(a, layout->descriptor->sizeof_message);

	if (!pb) {
		errno = ENOMEM;
		return NULL;
	}
	protobuf_c_message_init(layout->descriptor, pb);
	for (size_t i = 0; i < layout->n_fields; i++) {
		const struct wire_field *f = &layout->fields[i];
		const ProtobufCFieldDescriptor *d =
			protobuf_c_message_descriptor_get_field(layout->descriptor, f->number);
		const char *src = (const char *)plain + f->offset;
		char *dst = (char *)pb + d->offset;
		int r;

		if (f->kind >= WIRE_KIND_STRINGS) {
			r = encode_list(a, f, plain, (size_t *)((char *)pb + d->quantifier_offset),
					(const void **)dst);
		} else {
			r = encode_single(a, f, src, dst);
		}
		if (r < 0) {
			errno = -r;
			return NULL;
		}
	}
	return pb;
}

int wire_encode_payload(struct arena *scratch, struct buffer *out,
			const struct wire_message *message)
{
	const struct wire_layout *layout = wire_layout_find(message->type);
	ProtobufCMessage *pb;
	size_t size;
	int r;

	if (!layout) {
		return -EINVAL;
	}
	pb = encode_fields(scratch, layout, &message->hello);
	if (!pb) {
		return -errno;
	}
	size = protobuf_c_message_get_packed_size(pb);
	if (size > LIMIT_FRAME_BYTES) {
		return -EMSGSIZE;
	}
	r = buffer_reserve(out, size);
	if (r < 0) {
		return r;
	}
	out->end += protobuf_c_message_pack(pb, out->data + out->end);
	return 0;
}

int wire_encode(struct arena *scratch, struct buffer *out, const struct wire_message *message)
{
	size_t offset, length = buffer_length(out);
	int r = frame_begin(out, message->type, &offset);

	if (r < 0) {
		return r;
	}
	r = wire_encode_payload(scratch, out, message);
	if (r < 0) {
		out->end = out->start + length;
		return r;
	}
	frame_end(out, offset);
	return 0;
}

int wire_copy(struct arena *a, const struct wire_message *in, struct wire_message *ret)
{
	struct buffer payload = { 0 };
	struct arena scratch;
	int r;

	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	r = wire_encode_payload(&scratch, &payload, in);
	arena_deinit(&scratch);
	if (r == 0 && wire_decode(a, in->type, payload.data, buffer_length(&payload), ret) != 0) {
		r = -ENOMEM;
	}
	buffer_deinit(&payload);
	return r;
}

const char *wire_type_to_string(unsigned type)
{
	const struct wire_layout *layout = wire_layout_find(type);

	return layout ? layout->name : "unknown";
}
