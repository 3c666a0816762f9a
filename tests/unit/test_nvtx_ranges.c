/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "client/agent/nvtx.h"
#include "client/agent/nvtx_recurring.h"
#include "client/agent/nvtx_select.h"
#include "client/agent/nvtx_watch.h"
#include "client/agent/section.h"
#include "client/agent/unwatched.h"

/* The ranges of a thread and of the process, and the numbers that launches get for them: what a
 * number stands for is read back from the definitions that would be sent. */

enum { KNOWN_MAX = 128 };

static struct {
	struct intern in;
	char *strings[KNOWN_MAX];
	struct range_key ranges[KNOWN_MAX];
	size_t n_strings, n_ranges;
	uint32_t set_size; /* of the set that was defined last */
} s;

/* --- instead of nvtx_watch.c, section.c and unwatched.c: no capture is open --- */

static struct nvtx_scope *watched; /* hears of what is popped */

uint32_t nvtx_watch_push(struct stack *stack)
{
	(void)stack;
	return 0;
}

uint32_t nvtx_watch_start(const struct event *e)
{
	(void)e;
	return 0;
}

void nvtx_watch_end(uint32_t capture)
{
	(void)capture;
}

void nvtx_watch_pop(const struct entry *e)
{
	nvtx_scope_pop(watched, e->scoped);
}

void nvtx_watch_mark(struct capture *c, const struct event *e)
{
	(void)c;
	(void)e;
}

void unwatched_watch_again(struct capture *c)
{
	(void)c;
}

struct capture *section_enter(struct section **ret)
{
	*ret = NULL;
	return NULL;
}

void section_leave(struct section *v)
{
	(void)v;
}

/* --- what a number stands for --- */

static void read_definitions(void)
{
	struct definitions d;

	intern_take(&s.in, &d);
	for (size_t i = 0; i < d.strings.n; i++) {
		s.strings[s.n_strings++] = strdup(((char **)d.strings.v)[i]);
	}
	for (size_t i = 0; i < d.ranges.n; i++) {
		s.ranges[s.n_ranges++] = ((struct range_key *)d.ranges.v)[i];
	}
	if (d.set_sizes.n > 0) {
		s.set_size = ((uint32_t *)d.set_sizes.v)[d.set_sizes.n - 1];
	}
	definitions_deinit(&d);
}

static const char *string(uint32_t id)
{
	return id > 0 ? s.strings[id - 1] : "";
}

static struct range_key current(void)
{
	uint32_t id = nvtx_current_range(&s.in);

	read_definitions();
	return id > 0 ? s.ranges[id - 1] : (struct range_key){ 0 };
}

static void expect_path(const char *path)
{
	char text[512] = "";
	struct range_key key = current();

	while (key.message != 0) {
		char rest[512];

		snprintf(rest, sizeof(rest), "%s", text);
		snprintf(text, sizeof(text), "%s%s%.400s", string(key.message), *rest ? "/" : "",
			 rest);
		key = key.parent > 0 ? s.ranges[key.parent - 1] : (struct range_key){ 0 };
	}
	assert_string_equal(text, path);
}

static int begin_table(void **state)
{
	(void)state;
	s.n_strings = s.n_ranges = 0;
	return intern_init(&s.in);
}

static int end_table(void **state)
{
	(void)state;
	while (s.n_strings > 0) {
		free(s.strings[--s.n_strings]);
	}
	intern_deinit(&s.in);
	return 0;
}

static int push(const struct nvtx_domain *domain, const char *message)
{
	struct event e;

	nvtx_event_from_ascii(&e, domain, message);
	return nvtx_push(&e);
}

/* Is never freed. */
static const struct nvtx_domain *other_domain(void)
{
	static struct nvtx_domain *domain;

	domain = domain ? domain : nvtx_new_domain("D");
	return domain;
}

static nvtxRangeId_t start(const char *message)
{
	struct event e;

	nvtx_event_from_ascii(&e, NULL, message);
	return nvtx_start(&e);
}

/* --- push and pop --- */

static void a_launch_has_the_ranges_around_it(void **state)
{
	(void)state;
	expect_path("");
	assert_int_equal(push(NULL, "A"), 0);
	expect_path("A");
	assert_int_equal(push(NULL, "B"), 1);
	expect_path("A/B");
	assert_int_equal(nvtx_pop(NULL), 1);
	assert_int_equal(push(NULL, "C"), 1);
	expect_path("A/C");
	assert_int_equal(nvtx_pop(NULL), 1);
	expect_path("A");
	assert_int_equal(nvtx_pop(NULL), 0);
	expect_path("");
	assert_int_equal(nvtx_pop(NULL), NVTX_NO_PUSH_POP_TRACKING);
}

/* --- ranges that recur --- */

static void expect_recurring(const char *message)
{
	uint64_t name = nvtx_recurring_name();
	uint32_t id = nvtx_recurring_range(&s.in);

	read_definitions();
	assert_int_equal(name != 0, id != 0);
	assert_string_equal(id > 0 ? string(s.ranges[id - 1].message) : "", message);
}

static void a_range_recurs_from_its_second_time_on(void **state)
{
	uint64_t name = 0;

	(void)state;
	expect_recurring("");
	for (int i = 0; i < 3; i++) {
		push(NULL, "forward");
		expect_recurring(i > 0 ? "forward" : "");
		expect_recurring(i > 0 ? "forward" : ""); /* however often it is asked */
		assert_true(i < 2 || nvtx_recurring_name() == name);
		name = nvtx_recurring_name();
		nvtx_pop(NULL);
	}
	push(NULL, "backward");
	expect_recurring("");
	nvtx_pop(NULL);
}

/* Each drives another one away at most. */
static void names_that_are_alike_recur(void **state)
{
	char text[64];
	int n = 0;

	(void)state;
	for (int i = 0; i < 2 * 48; i++) {
		snprintf(text, sizeof(text), "head %d", i % 48);
		push(NULL, text);
		n += nvtx_recurring_name() != 0;
		nvtx_pop(NULL);
	}
	assert_in_range(n, 44, 48);
}

/* As in a training step: "iteration 3", "layer 1", "aten::add, seq = 17". */
static void names_of_one_time_are_left_out(void **state)
{
	char text[64];

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "iteration %d", i);
		push(NULL, text);
		expect_recurring("");
		push(NULL, "layer 1");
		for (int k = 0; k < 10; k++) {
			snprintf(text, sizeof(text), "add, seq = %d", 1000 * i + k);
			push(NULL, text);
			expect_recurring(i > 0 ? "layer 1" : "");
			nvtx_pop(NULL);
		}
		push(NULL, "block");
		expect_recurring(i > 0 ? "block" : "");
		nvtx_pop(NULL);
		expect_recurring(i > 0 ? "layer 1" : "");
		nvtx_pop(NULL);
		expect_recurring("");
		nvtx_pop(NULL);
	}
}

static void what_loses_a_range_around_it_loses_its_name(void **state)
{
	const struct nvtx_domain *domain = other_domain();

	(void)state;
	for (int i = 0; i < 2; i++) {
		push(domain, "outer");
		nvtx_recurring_name();
		nvtx_pop(domain);
	}
	push(domain, "outer");
	push(NULL, "inner of one time");
	expect_recurring("outer");
	nvtx_pop(domain);
	expect_recurring("");
	nvtx_pop(NULL);
	/* Also one that was never asked. */
	push(domain, "outer");
	push(NULL, "another of one time");
	nvtx_pop(domain);
	expect_recurring("");
	nvtx_pop(NULL);
}

/* Once they are known to recur, however many others come. */
static void a_recurring_name_is_not_forgotten(void **state)
{
	char text[64];

	(void)state;
	for (int i = 0; i < 2; i++) {
		push(NULL, "epoch");
		expect_recurring(i > 0 ? "epoch" : "");
		nvtx_pop(NULL);
	}
	for (int i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "batch %d", i);
		push(NULL, text);
		assert_true(nvtx_recurring_name() == 0);
		nvtx_pop(NULL);
	}
	push(NULL, "epoch");
	expect_recurring("epoch");
	nvtx_pop(NULL);
}

/* What was within the range is not any more. */
static void a_pop_takes_the_last_one_of_its_domain(void **state)
{
	const struct nvtx_domain *domain = other_domain();

	(void)state;
	push(NULL, "A");
	push(domain, "X");
	expect_path("A/X");
	assert_string_equal(string(current().domain), "D");
	assert_int_equal(nvtx_pop(NULL), 0);
	expect_path("X");
	assert_int_equal(nvtx_pop(NULL), NVTX_NO_PUSH_POP_TRACKING);
	assert_int_equal(nvtx_pop(domain), 0);
	expect_path("");
}

static void a_stack_grows_with_all_it_knows(void **state)
{
	char long_message[200];

	(void)state;
	memset(long_message, 'm', sizeof(long_message) - 1);
	long_message[sizeof(long_message) - 1] = '\0';
	for (int i = 0; i < 40; i++) {
		assert_int_equal(push(NULL, i == 3 ? long_message : "s"), i);
		if (i % 7 == 0) {
			assert_int_not_equal(nvtx_current_range(&s.in), 0);
		}
	}
	read_definitions();
	assert_int_equal(s.n_strings, 2);
	for (int i = 40; i > 0; i--) {
		uint32_t id = nvtx_current_range(&s.in);

		read_definitions();
		assert_int_equal(id, i); /* the parent of each is the one below */
		assert_string_equal(string(s.ranges[id - 1].message), i == 4 ? long_message : "s");
		nvtx_pop(NULL);
	}
	assert_int_equal(s.n_ranges, 40);
}

/* A table of another capture has numbers of its own. */
static void numbers_are_the_tables_own(void **state)
{
	(void)state;
	push(NULL, "A");
	expect_path("A");
	end_table(NULL);
	begin_table(NULL);
	push(NULL, "B");
	expect_path("A/B");
	nvtx_pop(NULL);
	nvtx_pop(NULL);
}

/* --- what a range has --- */

static struct range_key key_of(const nvtxEventAttributes_t *a)
{
	struct range_key key;
	struct event e;

	nvtx_event_from_attributes(&e, NULL, a);
	nvtx_push(&e);
	key = current();
	nvtx_pop(NULL);
	return key;
}

static void payloads_keep_their_bits(void **state)
{
	static const struct {
		int32_t type;
		uint64_t bits, kept;
	} rows[] = {
		{ NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, UINT64_MAX - 1, UINT64_MAX - 1 },
		{ NVTX_PAYLOAD_TYPE_INT64, UINT64_MAX, UINT64_MAX },
		{ NVTX_PAYLOAD_TYPE_DOUBLE, UINT64_C(0x3ff8000000000001),
		  UINT64_C(0x3ff8000000000001) },
		{ NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, UINT64_C(0x1234567812345678), 0x12345678 },
		{ NVTX_PAYLOAD_TYPE_INT32, UINT64_MAX, UINT32_MAX },
		{ NVTX_PAYLOAD_TYPE_FLOAT, UINT64_C(0xffffffff3fc00000), 0x3fc00000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const nvtxEventAttributes_t a = { .payloadType = rows[i].type,
						  .payload = { .ullValue = rows[i].bits } };
		struct range_key key = key_of(&a);

		assert_int_equal(key.payload_type, rows[i].type);
		assert_true(key.payload == rows[i].kept);
	}
	assert_int_equal(key_of(&(nvtxEventAttributes_t){ .payloadType = 77 }).payload_type, 0);
}

static void attributes_come_with_the_range(void **state)
{
	nvtxEventAttributes_t a = { .category = 7,
				    .colorType = NVTX_COLOR_ARGB,
				    .color = 0xff00ff00,
				    .messageType = NVTX_MESSAGE_TYPE_UNICODE,
				    .message = { .unicode = L"\u00e4\u20ac\U0001f600" } };
	struct range_key key;

	(void)state;
	key = key_of(&a);
	assert_string_equal(string(key.message), "\u00e4\u20ac\U0001f600");
	assert_string_equal(string(key.category), "7");
	assert_int_equal(key.color, 0xff00ff00);
	nvtx_name_category(NULL, 7, "seven");
	a.colorType = NVTX_COLOR_UNKNOWN;
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = (nvtxStringHandle_t)(uintptr_t) "registered";
	key = key_of(&a);
	assert_string_equal(string(key.message), "registered");
	assert_string_equal(string(key.category), "seven");
	assert_int_equal(key.color, 0);
}

/* --- start and end --- */

static uint32_t active_size(void)
{
	uint32_t set = nvtx_active_set(&s.in);

	read_definitions();
	return set == 0 ? 0 : s.set_size;
}

static void ranges_of_the_process_are_a_set(void **state)
{
	nvtxRangeId_t ids[3];

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = start(i == 1 ? "B" : "A");
		assert_int_equal(active_size(), i + 1);
	}
	nvtx_end(ids[0]);
	nvtx_end(ids[0]); /* is not there any more */
	assert_int_equal(active_size(), 2);
	end_table(NULL);
	begin_table(NULL);
	s.set_size = 0;
	assert_int_equal(active_size(), 2); /* in this table as well */
	nvtx_end(ids[2]);
	nvtx_end(ids[1]);
	assert_int_equal(active_size(), 0);
}

/* --- expressions --- */

static void begin_filter(struct nvtx_filter *f, struct nvtx_scope *scope, const char *text,
			 bool process_scope)
{
	const struct wire_selection selection = { .nvtx_include = { 1, &text },
						  .capture_range = "",
						  .step = "" };
	struct refusal r;

	assert_int_equal(nvtx_filter_init(f, &selection, &r), 0);
	nvtx_scope_init(scope, process_scope, f);
}

static void end_filter(struct nvtx_filter *f, struct nvtx_scope *scope)
{
	nvtx_scope_deinit(scope);
	nvtx_filter_deinit(f);
}

static void an_expression_holds_as_long_as_its_range(void **state)
{
	struct nvtx_filter first, second;
	struct nvtx_scope first_scope, second_scope;

	(void)state;
	begin_filter(&first, &first_scope, "A/", false);
	begin_filter(&second, &second_scope, "B/", false);
	assert_false(nvtx_selects(&first, &first_scope, 1));
	push(NULL, "A");
	assert_true(nvtx_selects(&first, &first_scope, 1));
	assert_false(nvtx_selects(&second, &second_scope, 2)); /* of another capture */
	assert_true(nvtx_selects(&first, &first_scope, 1));
	nvtx_pop(NULL);
	push(NULL, "B"); /* at the same depth */
	assert_false(nvtx_selects(&first, &first_scope, 1));
	assert_true(nvtx_selects(&second, &second_scope, 2));
	nvtx_pop(NULL);
	assert_false(nvtx_selects(&second, &second_scope, 2));
	end_filter(&first, &first_scope);
	end_filter(&second, &second_scope);
}

static void a_range_of_the_process_holds_for_its_expression(void **state)
{
	struct nvtx_filter first, second;
	struct nvtx_scope first_scope, second_scope;
	nvtxRangeId_t id;

	(void)state;
	begin_filter(&first, &first_scope, "A", false);
	begin_filter(&second, &second_scope, "B", false);
	id = start("A");
	assert_true(nvtx_selects(&first, &first_scope, 1));
	assert_false(nvtx_selects(&second, &second_scope, 2));
	nvtx_end(id);
	assert_false(nvtx_selects(&first, &first_scope, 1));
	end_filter(&first, &first_scope);
	end_filter(&second, &second_scope);
}

/* Whichever began first, and however many there are of one name. */
static void ranges_of_the_process_hold_beside_others(void **state)
{
	static const char *const names[] = { "A", "B", "A" };
	static const bool a_holds[] = { true, true, false }, b_holds[] = { true, false, false };
	struct nvtx_filter a, b;
	struct nvtx_scope a_scope, b_scope;
	nvtxRangeId_t ids[ARRAY_SIZE(names)];

	(void)state;
	begin_filter(&a, &a_scope, "A", false);
	begin_filter(&b, &b_scope, "B", false);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ids[i] = start(names[i]);
		assert_true(nvtx_selects(&a, &a_scope, 1));
		assert_int_equal(nvtx_selects(&b, &b_scope, 2), i >= 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		nvtx_end(ids[i]);
		assert_int_equal(nvtx_selects(&a, &a_scope, 1), a_holds[i]);
		assert_int_equal(nvtx_selects(&b, &b_scope, 2), b_holds[i]);
	}
	end_filter(&a, &a_scope);
	end_filter(&b, &b_scope);
}

/* The scope of the process is told of each range once, however the stack has grown since. */
static void a_scope_knows_each_range_once(void **state)
{
	enum { RANGES = 200 }; /* more than the stack has had room for */
	struct nvtx_scope scope;
	struct nvtx_filter f;

	(void)state;
	begin_filter(&f, &scope, "A/", true);
	watched = &scope;
	for (size_t i = 1; i <= RANGES; i++) {
		push(NULL, "A");
		assert_true(nvtx_selects(&f, &scope, 1));
		assert_int_equal(scope.n, i);
	}
	for (size_t i = RANGES; i > 0; i--) {
		nvtx_pop(NULL);
		assert_int_equal(scope.n, i - 1);
	}
	assert_false(nvtx_selects(&f, &scope, 1));
	end_filter(&f, &scope);
}

#define TABLE_TEST(f) cmocka_unit_test_setup_teardown(f, begin_table, end_table)

/* --- fork --- */

enum { CATEGORIES = 20000, FORKS = 100, CHILD_S = 30 };

static atomic_bool over;

/* Looks for a category that has no name, among many that have one. */
static void *look_for_categories(void *domain)
{
	const nvtxEventAttributes_t a = { .category = CATEGORIES + 1 };
	struct event e;

	while (!atomic_load(&over)) {
		nvtx_event_from_attributes(&e, domain, &a);
		nvtx_push(&e);
		nvtx_current_range(&s.in);
		nvtx_pop(domain);
	}
	return NULL;
}

/* The child has none of the threads that may hold a lock. One that waits for it is ended in time.
 */
static void a_child_names_a_category(void **state)
{
	struct nvtx_domain *before = nvtx_new_domain("before"), *d = nvtx_new_domain("d");
	pthread_t thread;
	int status;

	(void)state;
	for (uint32_t i = 1; i <= CATEGORIES; i++) {
		nvtx_name_category(d, i, "category");
	}
	over = false;
	assert_int_equal(pthread_create(&thread, NULL, look_for_categories, d), 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			alarm(CHILD_S);
			nvtx_name_category(NULL, 1, "category");
			nvtx_name_category(before, 1, "category");
			nvtx_name_category(d, 1, "category");
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		nvtx_name_category(d, 1, "category"); /* and so does the parent */
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

static bool fork_once(const struct event *e, void *userdata)
{
	pid_t pid = fork();

	if (pid == 0) {
		_exit(0);
	}
	assert_int_equal(waitpid(pid, userdata, 0), pid);
	return false;
}

/* Its thread holds the lock that is taken around a fork. */
static void a_signal_handler_forks(void **state)
{
	struct event e;
	int status = -1;

	alarm(CHILD_S);
	nvtx_event_from_ascii(&e, NULL, "range");
	nvtx_start(&e);
	nvtx_for_each_started(fork_once, &status);
	assert_int_equal(status, 0);
	nvtx_event_from_ascii(&e, NULL, "another");
	nvtx_end(nvtx_start(&e));
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(a_launch_has_the_ranges_around_it),
		TABLE_TEST(a_range_recurs_from_its_second_time_on),
		TABLE_TEST(names_that_are_alike_recur),
		TABLE_TEST(names_of_one_time_are_left_out),
		TABLE_TEST(what_loses_a_range_around_it_loses_its_name),
		TABLE_TEST(a_recurring_name_is_not_forgotten),
		TABLE_TEST(a_pop_takes_the_last_one_of_its_domain),
		TABLE_TEST(a_stack_grows_with_all_it_knows),
		TABLE_TEST(numbers_are_the_tables_own),
		TABLE_TEST(payloads_keep_their_bits),
		TABLE_TEST(attributes_come_with_the_range),
		TABLE_TEST(ranges_of_the_process_are_a_set),
		cmocka_unit_test(an_expression_holds_as_long_as_its_range),
		cmocka_unit_test(a_range_of_the_process_holds_for_its_expression),
		cmocka_unit_test(ranges_of_the_process_hold_beside_others),
		cmocka_unit_test(a_scope_knows_each_range_once),
		TABLE_TEST(a_child_names_a_category),
		TABLE_TEST(a_signal_handler_forks),
	};

	nvtx_stack_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
