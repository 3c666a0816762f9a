/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/intern.h"
#include "proto/wire/limits.h"
#include "proto/wire/wire.h"

static int setup(void **state)
{
	static struct intern in;

	*state = &in;
	return intern_init(&in);
}

static int teardown(void **state)
{
	intern_deinit(*state);
	return 0;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(the_same_thing_keeps_its_number)
{
	struct intern *in = *state;
	const struct range_key range = { .parent = 0, .domain = 1, .message = 2, .payload = 7 };
	const uint32_t set[] = { 1, 2, 3 };
	uint32_t string = intern_string(in, "step"),
		 function = intern_function(in, "_Z1kPf", 512, 32);
	uint32_t node = intern_range(in, &range), active = intern_set(in, set, 3);
	struct definitions d;

	intern_take(in, &d); /* sent: it is still known */
	definitions_deinit(&d);
	assert_int_equal(intern_string(in, "step"), string);
	assert_int_equal(intern_function(in, "_Z1kPf", 512, 32), function);
	assert_int_equal(intern_range(in, &range), node);
	assert_int_equal(intern_set(in, set, 3), active);
	intern_take(in, &d);
	assert_int_equal(d.strings.n + d.functions.n + d.ranges.n + d.set_sizes.n, 0);
	definitions_deinit(&d);
}

FIXTURE_TEST(numbers_count_from_one_for_each_kind)
{
	struct intern *in = *state;
	struct range_key range = { 0 };
	char text[16];

	for (uint32_t i = 1; i <= 100; i++) {
		snprintf(text, sizeof(text), "s%u", i);
		range.message = i;
		assert_int_equal(intern_string(in, text), i);
		assert_int_equal(intern_range(in, &range), i);
		assert_int_equal(intern_set(in, &i, 1), i);
	}
	assert_int_equal(intern_function(in, "s5", 0, 0),
			 1); /* its name is a string that is there */
	assert_int_equal(intern_string(in, "new"), 101);
}

FIXTURE_TEST(what_differs_gets_another_number)
{
	struct intern *in = *state;
	struct range_key base = { 1, 2, 3, 4, 5, 6, 7 },
			 keys[7] = { base, base, base, base, base, base, base };
	const uint32_t sets[][2] = { { 1, 2 }, { 2, 1 }, { 1, 0 } };
	uint32_t first = intern_range(in, &base);

	keys[0].parent++;
	keys[1].domain++;
	keys[2].message++;
	keys[3].category++;
	keys[4].color++;
	keys[5].payload_type++;
	keys[6].payload++;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		assert_int_equal(intern_range(in, &keys[i]), first + 1 + i);
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(sets); i++) {
		assert_int_equal(intern_set(in, sets[i], 2), i + 1);
	}
	assert_int_equal(intern_set(in, sets[0], 1), 4);
	assert_int_equal(intern_set(in, sets[0], 0), 5);
	assert_int_equal(intern_function(in, "k", 1, 2), 1);
	assert_int_equal(intern_function(in, "k", 2, 2), 2);
	assert_int_equal(intern_function(in, "k", 1, 3), 3);
}

FIXTURE_TEST(definitions_are_what_was_new_in_order)
{
	struct intern *in = *state;
	struct definitions d;

	intern_string(in, "a");
	intern_take(in, &d);
	definitions_deinit(&d);
	intern_string(in, "b");
	intern_function(in, "k", 512, 32);
	intern_string(in, "a");
	intern_take(in, &d);
	assert_int_equal(d.first_string, 2);
	assert_int_equal(d.strings.n, 2);
	assert_string_equal(((char **)d.strings.v)[0], "b");
	assert_string_equal(((char **)d.strings.v)[1], "k");
	assert_int_equal(d.first_function, 1);
	assert_int_equal(d.functions.n, 1);
	assert_int_equal(((struct function_key *)d.functions.v)->name, 3);
	assert_int_equal(((struct function_key *)d.functions.v)->static_shared_bytes, 512);
	definitions_deinit(&d);
}

/* A program whose messages never repeat must not grow: everything is forgotten at some point, and
 * numbers go on as if nothing had happened, because the client keeps what it was sent. */
FIXTURE_TEST(forgets_and_numbers_on)
{
	struct intern *in = *state;
	uint32_t before = intern_generation(in), expected = 0, number;
	struct definitions d;
	size_t defined = 0;
	char text[32];

	for (unsigned i = 0; intern_generation(in) == before; i++) {
		assert_true(i < 2000000);
		snprintf(text, sizeof(text), "message %u", i);
		assert_int_equal(intern_string(in, text), ++expected);
		if (i % 4096 == 0) {
			intern_take(in, &d);
			defined += d.strings.n;
			definitions_deinit(&d);
		}
	}
	assert_true(in->n_slots <= 1u << 19);
	number =
		intern_string(in, "message 0"); /* forgotten: it is new again, under a new number */
	assert_int_equal(number, expected + 1);
	assert_int_equal(intern_string(in, "message 0"), number);
	intern_take(in, &d);
	definitions_deinit(&d);
	assert_true(defined > 0);
}

/* What comes from a program goes to a daemon that refuses what is not UTF-8. */
FIXTURE_TEST(strings_become_valid_utf8)
{
	static const char *const texts[][2] = {
		{ "plain", "plain" },
		{ "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8d",
		  "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\x8d" },
		{ "\xff", "?" },
		{ "a\x80z", "a?z" },
		{ "\xc3", "?" },
		{ "\xc3z", "?z" },
		{ "\xc0\x80", "??" },
		{ "\xe0\x80\x80", "???" },
		{ "\xed\xa0\x80", "???" },
		{ "\xf4\x90\x80\x80", "????" },
		{ "\xf5\x80\x80\x80", "????" },
		{ "\xe2\x82", "??" },
		{ "\xf0\x9f\x8c", "???" },
	};
	struct intern *in = *state;
	struct definitions d;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		intern_string(in, texts[i][0]);
		intern_take(in, &d);
		assert_int_equal(d.strings.n, 1);
		assert_string_equal(((char **)d.strings.v)[0], texts[i][1]);
		definitions_deinit(&d);
	}
}

static int decode_strings(char **strings, size_t n)
{
	struct wire_message m = { .type = WIRE_RECORD_COLUMNS }, out;
	struct buffer b = { 0 };
	struct arena a;
	int r;

	arena_init(&a, 4 * LIMIT_UNPACKED_BYTES);
	m.record_columns.strings = (struct wire_strings){ n, (const char *const *)strings };
	assert_int_equal(wire_encode_payload(&a, &b, &m), 0);
	r = wire_decode(&a, m.type, b.data, buffer_length(&b), &out);
	buffer_deinit(&b);
	arena_deinit(&a);
	return r;
}

/* Any bytes: the wire's own check takes what comes out, and so it does after a cut in a character.
 */
FIXTURE_TEST(the_wire_takes_every_string)
{
	struct intern *in = *state;
	uint64_t random = 3;
	char *text = malloc(LIMIT_STRING_BYTES + 64);
	struct definitions d;

	for (int round = 0; round < 2000; round++) {
		char noise[24];

		for (size_t i = 0; i < sizeof(noise) - 1; i++) {
			noise[i] =
				(char)(unit_random(&random) % 3 ? 0x80 | unit_random(&random)
								: 1 + unit_random(&random) % 255);
		}
		noise[sizeof(noise) - 1] = '\0';
		intern_string(in, noise);
	}
	for (size_t shift = 0; shift < 4; shift++) {
		memset(text, 'x', shift);
		for (size_t i = shift; i + 4 < LIMIT_STRING_BYTES + 64; i += 4) {
			memcpy(text + i, "\xf0\x9f\x8c\x8d", 5);
		}
		intern_string(in, text);
	}
	intern_take(in, &d);
	assert_true(d.strings.n > 1900);
	assert_int_equal(strlen(((char **)d.strings.v)[d.strings.n - 1]), LIMIT_STRING_BYTES);
	assert_int_equal(decode_strings(d.strings.v, d.strings.n), 0);
	definitions_deinit(&d);
	free(text);
}

FIXTURE_TEST(marks_go_with_the_definitions)
{
	struct intern *in = *state;
	struct definitions d;

	intern_mark(in, 3, 77, -5);
	intern_mark(in, 0, 77, 1); /* a range that could not be numbered */
	intern_mark(in, 4, 78, 6);
	intern_take(in, &d);
	assert_int_equal(d.mark_ranges.n, 2);
	assert_int_equal(d.mark_threads.n, 2);
	assert_int_equal(d.mark_times.n, 2);
	assert_int_equal(((uint32_t *)d.mark_ranges.v)[1], 4);
	assert_int_equal(((uint32_t *)d.mark_threads.v)[0], 77);
	assert_true(((int64_t *)d.mark_times.v)[0] == -5);
	assert_int_equal(intern_left_out(in).marks, 1);
	definitions_deinit(&d);
	for (int i = 0; i < 100000; i++) {
		intern_mark(in, 1, 1, i);
	}
	intern_take(in, &d);
	assert_int_equal(d.mark_ranges.n + intern_left_out(in).marks - 1,
			 100000); /* none vanishes uncounted */
	assert_true(d.mark_ranges.n <= LIMIT_DEFINITIONS_PER_FRAME);
	definitions_deinit(&d);
}

/* --- what waits to be sent --- */

enum { PENDING_BYTES = 64 * 1024, MANY = 10000 };

static uint32_t new_string(struct intern *in, uint32_t i)
{
	char text[32];

	snprintf(text, sizeof(text), "string %u", i);
	return intern_string(in, text);
}

static uint32_t new_function(struct intern *in, uint32_t i)
{
	char text[32];

	snprintf(text, sizeof(text), "kernel %u", i);
	return intern_function(in, text, i, i);
}

static uint32_t new_range(struct intern *in, uint32_t i)
{
	return intern_range(in, &(struct range_key){ .message = i });
}

static uint32_t new_set(struct intern *in, uint32_t i)
{
	return intern_set(in, (uint32_t[]){ i, i + 1 }, 2);
}

static const struct {
	uint32_t (*add)(struct intern *in, uint32_t i);
	size_t most; /* that wait, at 12 bytes or more each, or 48 */
} kinds[] = {
	{ new_string, PENDING_BYTES / 12 },
	{ new_function, (PENDING_BYTES + INTERN_FUNCTION_BYTES_MAX) / 48 },
	{ new_range, PENDING_BYTES / 12 },
	{ new_set, PENDING_BYTES / 12 },
};

/* Numbers those from *next on, and returns how many get a number, one after the other. */
static size_t fill(struct intern *in, size_t kind, uint32_t *next)
{
	uint32_t first = kinds[kind].add(in, *next), n = 0;

	while (n <= kinds[kind].most && kinds[kind].add(in, *next + n) == first + n && first != 0) {
		n++;
	}
	*next += n;
	return n;
}

/* Nobody takes what waits: new things get no number, known ones keep theirs, and all goes on when
 * it has been taken. */
FIXTURE_TEST(what_waits_to_be_sent_is_bounded)
{
	struct intern *in = *state;
	struct definitions d;

	in->pending_bytes_max = PENDING_BYTES;
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		uint32_t next = 1, known = kinds[kind].add(in, 1);
		uint32_t generation = intern_generation(in);
		size_t n = fill(in, kind, &next);

		assert_in_range(n, 100, kinds[kind].most);
		assert_int_equal(kinds[kind].add(in, next), 0);
		if (intern_generation(in) == generation) {
			assert_int_equal(kinds[kind].add(in, 1), known);
		}
		intern_take(in, &d);
		definitions_deinit(&d);
		assert_in_range(fill(in, kind, &next), 100, kinds[kind].most);
		intern_take(in, &d);
		definitions_deinit(&d);
	}
}

/* Names that never repeat take the room of other names, not that of kernels. */
FIXTURE_TEST(kernels_have_room_of_their_own)
{
	struct intern *in = *state;
	uint32_t next = 1;

	in->pending_bytes_max = PENDING_BYTES;
	fill(in, 0, &next);
	fill(in, 2, &next);
	assert_int_equal(new_string(in, MANY), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(new_function(in, i), i + 1);
	}
}

/* --- threads --- */

enum { THREADS = 4, PER_THREAD = 5000 };

static void *intern_many(void *argument)
{
	struct intern *in = argument;
	uint32_t *numbers = calloc(PER_THREAD, sizeof(*numbers));
	char text[32];

	for (unsigned i = 0; i < PER_THREAD; i++) {
		snprintf(text, sizeof(text), "shared %u", i);
		numbers[i] = intern_string(in, text);
	}
	return numbers;
}

FIXTURE_TEST(threads_agree_on_numbers)
{
	struct intern *in = *state;
	pthread_t threads[THREADS];
	uint32_t *numbers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, intern_many, in), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], (void **)&numbers[i]);
		assert_memory_equal(numbers[0], numbers[i], PER_THREAD * sizeof(uint32_t));
	}
	assert_int_equal(in->last_string, PER_THREAD);
	for (int i = 0; i < THREADS; i++) {
		free(numbers[i]);
	}
}
