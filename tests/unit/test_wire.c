/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire_fixture.h"

/* Messages are made and compared by the protocol's own tables, so a message that is added there is
 * tested here without a line. What the tables must not be trusted with - limits, hostile bytes - is
 * written out below them. */

enum { TYPES_MAX = 256, EXPECTED_TYPES = 36 };

/* --- made-up messages --- */

struct maker {
	struct arena arena;
	uint64_t random;
};

static void maker_init(struct maker *m, uint64_t seed)
{
	arena_init(&m->arena, 64 << 20);
	m->random = seed;
}

static const char *make_string(struct maker *m, size_t limit)
{
	static const char *const pieces[] = {
		"a", "dram__bytes", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d", " "
	};
	size_t room = limit < 40 ? limit : 40, n = 0;
	char *s = arena_alloc(&m->arena, room + 1);

	for (;;) {
		const char *piece = pieces[unit_random(&m->random) % ARRAY_SIZE(pieces)];

		if (n + strlen(piece) > room || unit_random(&m->random) % 8 == 0) {
			break;
		}
		memcpy(s + n, piece, strlen(piece));
		n += strlen(piece);
	}
	s[n] = '\0';
	return s;
}

static size_t element_size(const struct wire_layout *l, const struct wire_field *f)
{
	const ProtobufCFieldDescriptor *d =
		protobuf_c_message_descriptor_get_field(l->descriptor, f->number);

	return d->type == PROTOBUF_C_TYPE_UINT32 ? 4 : 8;
}

static void set_list(const struct wire_field *f, void *plain, size_t n, const void *v)
{
	memcpy((char *)plain + f->n_offset, &n, sizeof(n));
	memcpy((char *)plain + f->offset, &v, sizeof(v));
}

static void make_fields(struct maker *m, const struct wire_layout *l, char *plain);

static void make_numbers(struct maker *m, const struct wire_layout *l, const struct wire_field *f,
			 char *plain)
{
	/* Relations that a message demands: lists of equal length have one entry each. */
	size_t n = l->validate ? 1 : unit_random(&m->random) % 5, size = element_size(l, f);
	uint8_t *v = arena_zalloc(&m->arena, n * size);

	/* A column's terms are pairs and name metrics of the plan: the one there always is. */
	if (strcmp(l->name, "column") == 0) {
		n = 1;
		v = arena_zalloc(&m->arena, 8);
	} else {
		for (size_t i = 0; i < n * size; i++) {
			v[i] = (uint8_t)unit_random(&m->random);
		}
	}
	set_list(f, plain, n, v);
}

static void make_strings(struct maker *m, const struct wire_field *f, char *plain)
{
	size_t n = 1 + unit_random(&m->random) % 4;
	const char **v = arena_alloc(&m->arena, n * sizeof(*v));

	for (size_t i = 0; i < n; i++) {
		v[i] = make_string(m, LIMIT_STRING_BYTES);
	}
	set_list(f, plain, n, v);
}

static void make_messages(struct maker *m, const struct wire_field *f, char *plain)
{
	size_t n = unit_random(&m->random) % 4;
	char *v = arena_zalloc(&m->arena, n * f->sub->size);

	for (size_t i = 0; i < n; i++) {
		make_fields(m, f->sub, v + i * f->sub->size);
	}
	set_list(f, plain, n, v);
}

static void make_field(struct maker *m, const struct wire_layout *l, const struct wire_field *f,
		       char *plain)
{
	char *dst = plain + f->offset;
	uint64_t random = unit_random(&m->random);

	switch (f->kind) {
	case WIRE_KIND_U32:
		*(uint32_t *)dst = (uint32_t)(f->limit ? random % (f->limit + 1) : random);
		break;
	case WIRE_KIND_U64:
		*(uint64_t *)dst = random;
		break;
	case WIRE_KIND_BOOL:
		*(bool *)dst = random & 1;
		break;
	case WIRE_KIND_STRING:
		*(const char **)dst = make_string(m, f->limit);
		break;
	case WIRE_KIND_BYTES:
		*(struct wire_bytes *)dst =
			(struct wire_bytes){ random % 40, arena_zalloc(&m->arena, 40) };
		break;
	case WIRE_KIND_MESSAGE:
		make_fields(m, f->sub, dst);
		break;
	case WIRE_KIND_OPTIONAL:
		*(void **)dst = random & 1 ? arena_zalloc(&m->arena, f->sub->size) : NULL;
		if (*(void **)dst) {
			make_fields(m, f->sub, *(void **)dst);
		}
		break;
	case WIRE_KIND_STRINGS:
		make_strings(m, f, plain);
		break;
	case WIRE_KIND_NUMBERS:
		make_numbers(m, l, f, plain);
		break;
	case WIRE_KIND_MESSAGES:
		make_messages(m, f, plain);
		break;
	}
}

static void make_fields(struct maker *m, const struct wire_layout *l, char *plain)
{
	for (size_t i = 0; i < l->n_fields; i++) {
		make_field(m, l, &l->fields[i], plain);
	}
}

static struct wire_message make_message(struct maker *m, unsigned type)
{
	struct wire_message message = { .type = type };

	make_fields(m, wire_layout_find(type), (char *)&message.hello);
	return message;
}

/* --- comparing --- */

static void expect_equal(const struct wire_layout *l, const char *a, const char *b);

static void expect_equal_field(const struct wire_layout *l, const struct wire_field *f,
			       const char *a_plain, const char *b_plain)
{
	const char *a = a_plain + f->offset, *b = b_plain + f->offset;
	struct wire_bytes x, y;

	if (f->kind == WIRE_KIND_BYTES) {
		x = *(const struct wire_bytes *)a;
		y = *(const struct wire_bytes *)b;
	} else {
		x = wire_list(f, a_plain);
		y = wire_list(f, b_plain);
	}
	switch (f->kind) {
	case WIRE_KIND_U32:
		assert_int_equal(*(const uint32_t *)a, *(const uint32_t *)b);
		break;
	case WIRE_KIND_U64:
		assert_int_equal(*(const uint64_t *)a, *(const uint64_t *)b);
		break;
	case WIRE_KIND_BOOL:
		assert_int_equal(*(const bool *)a, *(const bool *)b);
		break;
	case WIRE_KIND_STRING:
		assert_string_equal(*(const char *const *)a, *(const char *const *)b);
		break;
	case WIRE_KIND_BYTES:
		assert_int_equal(x.n, y.n);
		assert_true(x.n == 0 || memcmp(x.v, y.v, x.n) == 0);
		break;
	case WIRE_KIND_MESSAGE:
		expect_equal(f->sub, a, b);
		break;
	case WIRE_KIND_OPTIONAL:
		assert_int_equal(!*(const char *const *)a, !*(const char *const *)b);
		if (*(const char *const *)a) {
			expect_equal(f->sub, *(const char *const *)a, *(const char *const *)b);
		}
		break;
	case WIRE_KIND_STRINGS:
		assert_int_equal(x.n, y.n);
		for (size_t i = 0; i < x.n; i++) {
			assert_string_equal(((const char *const *)x.v)[i],
					    ((const char *const *)y.v)[i]);
		}
		break;
	case WIRE_KIND_NUMBERS:
		assert_int_equal(x.n, y.n);
		assert_true(x.n == 0 || memcmp(x.v, y.v, x.n * element_size(l, f)) == 0);
		break;
	case WIRE_KIND_MESSAGES:
		assert_int_equal(x.n, y.n);
		for (size_t i = 0; i < x.n; i++) {
			expect_equal(f->sub, (const char *)x.v + i * f->sub->size,
				     (const char *)y.v + i * f->sub->size);
		}
		break;
	}
}

static void expect_equal(const struct wire_layout *l, const char *a, const char *b)
{
	for (size_t i = 0; i < l->n_fields; i++) {
		expect_equal_field(l, &l->fields[i], a, b);
	}
}

/* --- every message --- */

TEST(every_message_comes_back_as_it_went)
{
	unsigned types = 0;

	for (unsigned type = 0; type < TYPES_MAX; type++) {
		types += wire_layout_find(type) != NULL;
		for (uint64_t seed = 1; wire_layout_find(type) && seed <= 50; seed++) {
			struct buffer b = { 0 };
			struct wire_message in, out;
			struct arena a, scratch;
			struct maker m;
			struct frame f;

			maker_init(&m, seed * 7919 + type);
			arena_init(&a, LIMIT_UNPACKED_BYTES);
			arena_init(&scratch, LIMIT_UNPACKED_BYTES);
			in = make_message(&m, type);
			assert_int_equal(wire_encode(&scratch, &b, &in), 0);
			assert_int_equal(frame_parse(b.data, buffer_length(&b), &f), 0);
			assert_int_equal(f.type, type);
			assert_int_equal(f.size + FRAME_HEADER_BYTES, buffer_length(&b));
			assert_int_equal(wire_decode(&a, f.type, f.payload, f.size, &out), 0);
			assert_int_equal(out.type, type);
			expect_equal(wire_layout_find(type), (const char *)&in.hello,
				     (const char *)&out.hello);
			buffer_deinit(&b);
			arena_deinit(&a);
			arena_deinit(&scratch);
			arena_deinit(&m.arena);
		}
	}
	assert_int_equal(types, EXPECTED_TYPES);
}

static void encode(const struct wire_message *m, struct buffer *b)
{
	struct arena scratch;

	arena_init(&scratch, 4 * LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_encode(&scratch, b, m), 0);
	arena_deinit(&scratch);
}

/* What the original pointed to is gone, and other things stand there. */
TEST(a_copy_stands_on_its_own)
{
	for (unsigned type = 1; type <= WIRE_RECORD_COLUMNS; type++) {
		for (uint64_t seed = 1; seed <= 20 && wire_layout_find(type); seed++) {
			struct wire_message in, copy;
			struct buffer before = { 0 }, after = { 0 };
			struct maker m, other;
			struct arena a;

			maker_init(&m, seed * 7919 + type);
			arena_init(&a, LIMIT_UNPACKED_BYTES);
			in = make_message(&m, type);
			encode(&in, &before);
			assert_int_equal(wire_copy(&a, &in, &copy), 0);
			assert_int_equal(copy.type, type);
			arena_deinit(&m.arena);
			maker_init(&other, seed + 1);
			make_message(&other, type);
			encode(&copy, &after);
			assert_int_equal(buffer_length(&before), buffer_length(&after));
			assert_memory_equal(before.data, after.data, buffer_length(&before));
			arena_deinit(&other.arena);
			arena_deinit(&a);
			buffer_deinit(&before);
			buffer_deinit(&after);
		}
	}
}

TEST(a_copy_has_limits_and_no_null)
{
	char name[LIMIT_NAME_BYTES + 2];
	const struct wire_message empty = { .type = WIRE_OPEN_CAPTURE };
	struct wire_message in = { .type = WIRE_HELLO, .hello.program = name }, copy;
	struct arena a, small;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	arena_init(&small, 1);
	memset(name, 'x', sizeof(name));
	name[LIMIT_NAME_BYTES + 1] = '\0';
	assert_int_equal(wire_copy(&a, &in, &copy), -EMSGSIZE);
	name[LIMIT_NAME_BYTES] = '\0';
	assert_int_equal(wire_copy(&a, &in, &copy), 0);
	assert_string_equal(copy.hello.program, name);
	assert_int_equal(wire_copy(&small, &in, &copy), -ENOMEM);
	assert_int_equal(wire_copy(&a, &empty, &copy), 0);
	assert_string_equal(copy.open_capture.selection.kernel_regex, "");
	assert_int_equal(copy.open_capture.metrics.n, 0);
	in.type = 9;
	assert_int_equal(wire_copy(&a, &in, &copy), -EINVAL);
	arena_deinit(&a);
	arena_deinit(&small);
}

static void expect_all_present(const struct wire_layout *l, const char *plain)
{
	for (size_t i = 0; i < l->n_fields; i++) {
		const struct wire_field *f = &l->fields[i];

		if (f->kind == WIRE_KIND_STRING) {
			assert_string_equal(*(const char *const *)(plain + f->offset), "");
		} else if (f->kind == WIRE_KIND_MESSAGE) {
			expect_all_present(f->sub, plain + f->offset);
		}
	}
}

/* An empty payload is every message's default: no pointer to a string may be NULL then. */
TEST(an_empty_payload_gives_empty_strings)
{
	for (unsigned type = 0; type < TYPES_MAX; type++) {
		const struct wire_layout *l = wire_layout_find(type);
		struct wire_message out;
		struct arena a;

		if (l) {
			memset(&out, 0xa5, sizeof(out));
			arena_init(&a, LIMIT_UNPACKED_BYTES);
			assert_int_equal(wire_decode(&a, type, NULL, 0, &out), 0);
			expect_all_present(l, (const char *)&out.hello);
			arena_deinit(&a);
		}
	}
}

TEST(knows_no_other_types)
{
	struct wire_message out;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	assert_int_equal(wire_decode(&a, 0, NULL, 0, &out), WIRE_E_UNKNOWN);
	assert_int_equal(wire_decode(&a, 4, NULL, 0, &out), WIRE_E_UNKNOWN);
	assert_int_equal(wire_decode(&a, 0xffff, NULL, 0, &out), WIRE_E_UNKNOWN);
	assert_string_equal(wire_type_to_string(0xffff), "unknown");
	assert_string_equal(wire_type_to_string(WIRE_HELLO), "hello");
	arena_deinit(&a);
}
