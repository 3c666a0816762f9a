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

static void the_same_thing_keeps_its_number(void **state)
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

static void numbers_count_from_one_for_each_kind(void **state)
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

static void what_differs_gets_another_number(void **state)
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

static void definitions_are_what_was_new_in_order(void **state)
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
static void forgets_and_numbers_on(void **state)
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
static void strings_become_valid_utf8(void **state)
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
static void the_wire_takes_every_string(void **state)
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

static void marks_go_with_the_definitions(void **state)
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
	assert_int_equal(in->marks_dropped, 1);
	definitions_deinit(&d);
	for (int i = 0; i < 100000; i++) {
		intern_mark(in, 1, 1, i);
	}
	intern_take(in, &d);
	assert_int_equal(d.mark_ranges.n + in->marks_dropped - 1,
			 100000); /* none vanishes uncounted */
	assert_true(d.mark_ranges.n <= LIMIT_DEFINITIONS_PER_FRAME);
	definitions_deinit(&d);
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

static void threads_agree_on_numbers(void **state)
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_same_thing_keeps_its_number),	TEST(numbers_count_from_one_for_each_kind),
		TEST(what_differs_gets_another_number), TEST(definitions_are_what_was_new_in_order),
		TEST(forgets_and_numbers_on),		TEST(strings_become_valid_utf8),
		TEST(the_wire_takes_every_string),	TEST(marks_go_with_the_definitions),
		TEST(threads_agree_on_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
