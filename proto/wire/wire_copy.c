/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "proto/wire/wire_layout.h"

/* A deep copy by the tables that also decode and encode, so code that keeps a message for longer
 * than its buffer needs no list of the members. */

static int copy_bytes(struct arena *a, const void *v, size_t n, const void **ret)
{
	void *copy = arena_alloc(a, n ? n : 1);

	if (!copy) {
		return -ENOMEM;
	}
	if (n > 0) {
		memcpy(copy, v, n);
	}
	*ret = copy;
	return 0;
}

static int copy_string(struct arena *a, const char *s, const char **ret)
{
	s = s ? s : "";
	return copy_bytes(a, s, strlen(s) + 1, (const void **)ret);
}

static int copy_fields(struct arena *a, const struct wire_layout *layout, const void *in,
		       void *ret);

/* Size of one element of a list of numbers. */
static size_t number_bytes(const struct wire_layout *layout, const struct wire_field *f)
{
	switch (protobuf_c_message_descriptor_get_field(layout->descriptor, f->number)->type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	default:
		return 4;
	}
}

/* A member beyond its limit could not be sent either, so it is not copied. */
static bool is_within_limit(const struct wire_field *f, const char *in)
{
	const char *s;

	switch (f->kind) {
	case WIRE_KIND_U32:
	case WIRE_KIND_U64:
	case WIRE_KIND_BOOL:
	case WIRE_KIND_MESSAGE:
	case WIRE_KIND_PACKED:
	case WIRE_KIND_OPTIONAL:
		return true;
	case WIRE_KIND_STRING:
		s = *(const char *const *)(in + f->offset);
		return !s || strlen(s) <= f->limit;
	case WIRE_KIND_BYTES:
		return ((const struct wire_bytes *)(in + f->offset))->n <= f->limit;
	default:
		return wire_list(f, in).n <= f->limit;
	}
}

static int copy_list(struct arena *a, const struct wire_layout *layout, const struct wire_field *f,
		     const void *in, void *ret)
{
	struct wire_bytes list = wire_list(f, in);
	size_t size = f->kind == WIRE_KIND_STRINGS    ? sizeof(char *)
		      : f->kind == WIRE_KIND_MESSAGES ? f->sub->size
						      : number_bytes(layout, f);
	const void *copy;
	int r = copy_bytes(a, list.v, list.n * size, &copy);
	char *v = (char *)(uintptr_t)copy;

	if (r != 0) {
		return r;
	}
	wire_list_set(f, ret, list.n, v);
	for (size_t i = 0; i < list.n && r == 0; i++) {
		if (f->kind == WIRE_KIND_MESSAGES) {
			r = copy_fields(a, f->sub, list.v + i * size, v + i * size);
		} else if (f->kind == WIRE_KIND_STRINGS) {
			r = copy_string(a, ((const char *const *)list.v)[i], (const char **)v + i);
		}
	}
	return r;
}

static int copy_piece(struct arena *a, const char *in, char *ret)
{
	const struct wire_bytes *piece = (const struct wire_bytes *)in;

	return piece->v ? copy_bytes(a, piece->v, piece->n,
				     (const void **)&((struct wire_bytes *)ret)->v)
			: 0;
}

static int copy_optional(struct arena *a, const struct wire_field *f, const void *in, void *ret)
{
	void *copy = in ? arena_alloc(a, f->sub->size) : NULL;

	*(void **)ret = copy;
	if (in && !copy) {
		return -ENOMEM;
	}
	return in ? copy_fields(a, f->sub, in, copy) : 0;
}

static int copy_field(struct arena *a, const struct wire_layout *layout, const struct wire_field *f,
		      const char *in, char *ret)
{
	int r;

	switch (f->kind) {
	case WIRE_KIND_U32:
	case WIRE_KIND_U64:
	case WIRE_KIND_BOOL:
		return 0; /* copied with the struct */
	case WIRE_KIND_STRING:
		return copy_string(a, *(const char *const *)(in + f->offset),
				   (const char **)(ret + f->offset));
	case WIRE_KIND_BYTES:
		return copy_piece(a, in + f->offset, ret + f->offset);
	case WIRE_KIND_OPTIONAL:
		return copy_optional(a, f, *(const void *const *)(in + f->offset), ret + f->offset);
	case WIRE_KIND_PACKED:
		r = copy_fields(a, f->sub, in + f->offset, ret + f->offset);
		return r == 0 ? copy_piece(a, in + f->n_offset, ret + f->n_offset) : r;
	case WIRE_KIND_MESSAGE:
		return copy_fields(a, f->sub, in + f->offset, ret + f->offset);
	default:
		return copy_list(a, layout, f, in, ret);
	}
}

static int copy_fields(struct arena *a, const struct wire_layout *layout, const void *in, void *ret)
{
	int r = 0;

	memcpy(ret, in, layout->size);
	for (size_t i = 0; i < layout->n_fields && r == 0; i++) {
		const struct wire_field *f = &layout->fields[i];

		r = is_within_limit(f, in) ? copy_field(a, layout, f, in, ret) : -EMSGSIZE;
	}
	return r;
}

int wire_copy(struct arena *a, const struct wire_message *in, struct wire_message *ret)
{
	const struct wire_layout *layout = wire_layout_find(in->type);

	if (!layout) {
		return -EINVAL;
	}
	ret->type = in->type;
	return copy_fields(a, layout, &in->hello, &ret->hello);
}
