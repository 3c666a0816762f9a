/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/intern.h"
#include "proto/base/site_name.h"
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

static struct site_text site_named(const char *name)
{
	return (struct site_text){
		.domain = "", .name = name, .n_name = strlen(name), .sizes = "", .category = ""
	};
}

FIXTURE_TEST(the_same_thing_keeps_its_number)
{
	struct intern *in = *state;
	const struct site_text site = site_named("step N");
	const uint32_t set[] = { 1, 2, 3 };
	uint32_t string = intern_string(in, "step"),
		 function = intern_function(in, "_Z1kPf", 512, 32);
	uint32_t at = intern_site(in, &site), active = intern_set(in, set, 3);
	struct definitions d;

	intern_take(in, &d); /* sent: it is still known */
	definitions_deinit(&d);
	assert_int_equal(intern_string(in, "step"), string);
	assert_int_equal(intern_function(in, "_Z1kPf", 512, 32), function);
	assert_int_equal(intern_site(in, &site), at);
	assert_int_equal(intern_set(in, set, 3), active);
	intern_take(in, &d);
	assert_int_equal(d.strings.n + d.functions.n + d.sites.n + d.set_sizes.n, 0);
	definitions_deinit(&d);
}

FIXTURE_TEST(numbers_count_from_one_for_each_kind)
{
	struct intern *in = *state;
	char text[16];

	for (uint32_t i = 1; i <= 100; i++) {
		snprintf(text, sizeof(text), "s%u", i);
		assert_int_equal(intern_string(in, text), i);
		assert_int_equal(intern_site(in, &(struct site_text){ .domain = "",
								      .name = text,
								      .n_name = strlen(text),
								      .sizes = "",
								      .category = "" }),
				 i);
		assert_int_equal(intern_set(in, &i, 1), i);
	}
	assert_int_equal(intern_function(in, "s5", 0, 0),
			 1); /* its name is a string that is there */
	assert_int_equal(intern_string(in, "new"), 101);
}

FIXTURE_TEST(what_differs_gets_another_number)
{
	struct intern *in = *state;
	struct site_text base = { 0, "d", "name", "[1]", "c", 3, 3, 5, SITE_LABEL, 0 };
	struct site_text texts[9] = { base, base, base, base, base, base, base, base, base };
	const uint32_t sets[][2] = { { 1, 2 }, { 2, 1 }, { 1, 0 } };
	uint32_t first = intern_site(in, &base);

	texts[0].parent = first;
	texts[1].domain = "e";
	texts[2].name = "nam2";
	texts[2].n_name = 4;
	texts[3].n_name = 4;
	texts[4].sizes = "[2]";
	texts[5].category = "";
	texts[6].color++;
	texts[7].kind = SITE_STEP;
	texts[8].numbered = SITE_NUMBER_STEP;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(intern_site(in, &texts[i]), first + 1 + i);
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

/* A program whose names never repeat must not grow for ever: first digits are left out of its
 * names, and at last a new site is the one around it. What is known keeps its number. */
FIXTURE_TEST(sites_are_bounded)
{
	struct intern *in = *state;
	struct site_text outer = site_named("outer"), last;
	uint32_t around = intern_site(in, &outer), number = 0, with_n = 0;
	struct definitions d;
	size_t defined = 0;
	char text[32];

	for (unsigned i = 0; i < 200000; i++) {
		/* Without digits in the name they would differ as well. */
		const char letters[] = { (char)('a' + i % 26), (char)('a' + i / 26 % 26),
					 (char)('a' + i / 676 % 26), (char)('a' + i / 17576), 0 };

		snprintf(text, sizeof(text), "%s", letters);
		last = site_named(text);
		last.parent = around;
		number = intern_site(in, &last);
		assert_true(number <= INTERN_SITES_MAX);
		assert_true(number == i + 2 || number == around);
		if (i % 4096 == 0) {
			intern_take(in, &d);
			defined += d.sites.n;
			definitions_deinit(&d);
		}
		if (i + 2 == INTERN_DIGITS_MAX) {
			last = site_named("request 17");
			with_n = intern_site(in, &last);
			last = site_named("request 4711");
			assert_int_equal(intern_site(in, &last), with_n);
			assert_int_equal(in->left_out.digits, 2);
			break;
		}
	}
	assert_int_equal(with_n, INTERN_DIGITS_MAX + 1);
	for (unsigned i = 0; i < 10000; i++) {
		char name[3] = { (char)(1 + i % 31), (char)(1 + i / 31 % 31), (char)(1 + i / 961) };

		last = site_named("");
		last.name = name;
		last.n_name = sizeof(name);
		last.parent = around;
		number = intern_site(in, &last);
	}
	assert_int_equal(number, around);
	assert_true(in->left_out.ranges > 5000);
	assert_int_equal(intern_left_out(in).waits, 0);
	assert_int_equal(intern_site(in, &outer), around);
	intern_take(in, &d);
	defined += d.sites.n;
	assert_string_equal(
		((char **)
			 d.strings.v)[d.strings.n - 1 - (INTERN_SITES_MAX - INTERN_DIGITS_MAX - 1)],
		"request N");
	definitions_deinit(&d);
	assert_int_equal(defined, INTERN_SITES_MAX);
	assert_true(in->n_slots <= 1u << 19);
}

FIXTURE_TEST(sets_are_bounded)
{
	struct intern *in = *state;
	struct definitions d;

	for (uint32_t i = 0; i < INTERN_SETS_MAX; i++) {
		assert_int_equal(intern_set(in, (uint32_t[]){ i, i + 1 }, 2), i + 1);
		if (i % 4096 == 0) {
			intern_take(in, &d);
			definitions_deinit(&d);
		}
	}
	assert_int_equal(intern_set(in, (uint32_t[]){ 7, 7 }, 2), 0);
	assert_int_equal(intern_left_out(in).ranges, 1);
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
	const struct mark *marks;
	struct definitions d;

	intern_mark(in, &(struct mark){ { .site = 3 }, 77, -5 });
	intern_mark(in, &(struct mark){ { .site = 0 }, 77, 1 }); /* a site without a number */
	intern_mark(in, &(struct mark){ { .site = 4 }, 78, 6 });
	intern_take(in, &d);
	assert_int_equal(d.marks.n, 2);
	marks = d.marks.v;
	assert_int_equal(marks[1].path.site, 4);
	assert_int_equal(marks[0].thread, 77);
	assert_true(marks[0].time_ns == -5);
	assert_int_equal(intern_left_out(in).marks, 1);
	definitions_deinit(&d);
	for (int i = 0; i < 100000; i++) {
		intern_mark(in, &(struct mark){ { .site = 1 }, 1, i });
	}
	intern_take(in, &d);
	assert_int_equal(d.marks.n + intern_left_out(in).marks - 1,
			 100000); /* none vanishes uncounted */
	assert_true(d.marks.n <= INTERN_MARKS_MAX);
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

static uint32_t new_site(struct intern *in, uint32_t i)
{
	char text[32] = "";
	struct site_text site = site_named(text);

	snprintf(text, sizeof(text), "site %u", i);
	site.n_name = strlen(text);
	return intern_site(in, &site);
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
	{ new_site, PENDING_BYTES / 12 },
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
		size_t n = fill(in, kind, &next);

		assert_in_range(n, 100, kinds[kind].most);
		assert_int_equal(kinds[kind].add(in, next), 0);
		assert_int_equal(kinds[kind].add(in, 1), known);
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
