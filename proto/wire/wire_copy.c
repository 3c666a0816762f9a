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

static int copy_strings(struct arena *a, const struct wire_strings *in, struct wire_strings *ret)
{
	const char **v = arena_alloc(a, (in->n + 1) * sizeof(*v));
	int r = v ? 0 : -ENOMEM;

	for (size_t i = 0; i < in->n && r == 0; i++) {
		r = copy_string(a, in->v[i], &v[i]);
	}
	*ret = (struct wire_strings){ r == 0 ? in->n : 0, v };
	return r;
}

static int copy_fields(struct arena *a, const struct wire_layout *layout, const void *in,
		       void *ret);

static int copy_messages(struct arena *a, const struct wire_field *f, const struct wire_bytes *in,
			 struct wire_bytes *ret)
{
	uint8_t *v = arena_alloc(a, (in->n + 1) * f->sub->size);
	int r = v ? 0 : -ENOMEM;

	for (size_t i = 0; i < in->n && r == 0; i++) {
		r = copy_fields(a, f->sub, in->v + i * f->sub->size, v + i * f->sub->size);
	}
	*ret = (struct wire_bytes){ r == 0 ? in->n : 0, v };
	return r;
}

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
static bool is_within_limit(const struct wire_field *f, const void *in)
{
	const char *s;

	switch (f->kind) {
	case WIRE_KIND_STRING:
		s = *(const char *const *)in;
		return !s || strlen(s) <= f->limit;
	case WIRE_KIND_BYTES:
	case WIRE_KIND_STRINGS:
	case WIRE_KIND_NUMBERS:
	case WIRE_KIND_MESSAGES:
		return ((const struct wire_bytes *)in)->n <= f->limit;
	default:
		return true;
	}
}

static int copy_list(struct arena *a, const struct wire_bytes *in, size_t element_bytes,
		     struct wire_bytes *ret)
{
	const void *v;
	int r = copy_bytes(a, in->v, in->n * element_bytes, &v);

	*ret = (struct wire_bytes){ r == 0 ? in->n : 0, r == 0 ? v : NULL };
	return r;
}

static int copy_field(struct arena *a, const struct wire_layout *layout, const struct wire_field *f,
		      const void *in, void *ret)
{
	if (!is_within_limit(f, in)) {
		return -EMSGSIZE;
	}
	switch (f->kind) {
	case WIRE_KIND_STRING:
		return copy_string(a, *(const char *const *)in, ret);
	case WIRE_KIND_BYTES:
		return copy_list(a, in, 1, ret);
	case WIRE_KIND_NUMBERS:
		return copy_list(a, in, number_bytes(layout, f), ret);
	case WIRE_KIND_STRINGS:
		return copy_strings(a, in, ret);
	case WIRE_KIND_MESSAGE:
		return copy_fields(a, f->sub, in, ret);
	case WIRE_KIND_MESSAGES:
		return copy_messages(a, f, in, ret);
	default:
		return 0; /* copied with the struct */
	}
}

static int copy_fields(struct arena *a, const struct wire_layout *layout, const void *in, void *ret)
{
	int r = 0;

	memcpy(ret, in, layout->size);
	for (size_t i = 0; i < layout->n_fields && r == 0; i++) {
		const struct wire_field *f = &layout->fields[i];

		r = copy_field(a, layout, f, (const char *)in + f->offset, (char *)ret + f->offset);
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
