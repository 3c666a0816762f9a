/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "client/agent/nvtx.h"
#include "client/agent/nvtx_stack.h"
#include "client/agent/section.h"
#include "proto/base/numbers.h"
#include "proto/base/site_name.h"

/* The ranges of a thread and of the process, and the numbers that launches get for them: what a
 * number stands for is read back from the definitions that would be sent. */

enum { KNOWN_MAX = 1024 };

static struct {
	struct intern in;
	char *strings[KNOWN_MAX];
	struct site_key sites[KNOWN_MAX];
	size_t n_strings, n_sites;
	struct site_path path; /* of the last launch */
	uint32_t set_size;     /* of the set that was defined last */
} s;

/* --- instead of section.c: no capture is open --- */

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
	for (size_t i = 0; i < d.sites.n; i++) {
		s.sites[s.n_sites++] = ((struct site_key *)d.sites.v)[i];
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

static uint32_t current_site(void)
{
	nvtx_current_path(&s.in, &s.path);
	return s.path.site;
}

static struct site_key current(void)
{
	uint32_t id = current_site();

	read_definitions();
	return id > 0 ? s.sites[id - 1] : (struct site_key){ 0 };
}

static void expect_path(const char *path)
{
	char text[512] = "";
	struct site_key key = current();

	while (key.name != 0) {
		char rest[512];

		snprintf(rest, sizeof(rest), "%s", text);
		snprintf(text, sizeof(text), "%s%s%.400s", string(key.name), *rest ? "/" : "",
			 rest);
		key = key.parent > 0 ? s.sites[key.parent - 1] : (struct site_key){ 0 };
	}
	assert_string_equal(text, path);
}

static int begin_table(void **state)
{
	(void)state;
	s.n_strings = s.n_sites = 0;
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

#define TABLE_TEST(f) TEST_WITH(f, begin_table, end_table)

TABLE_TEST(a_launch_has_the_ranges_around_it)
{
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

/* What was within the range is not any more. */
TABLE_TEST(a_pop_takes_the_last_one_of_its_domain)
{
	const struct nvtx_domain *domain = other_domain();

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

/* What a stack is, said by searching it. */
struct model {
	int domains[64];
	char names[64];
	size_t n;
};

static int model_count(const struct model *m, int domain)
{
	int n = 0;

	for (size_t i = 0; i < m->n; i++) {
		n += m->domains[i] == domain;
	}
	return n;
}

static int model_push(struct model *m, int domain, char name)
{
	int depth = model_count(m, domain);

	m->domains[m->n] = domain;
	m->names[m->n++] = name;
	return depth;
}

static int model_pop(struct model *m, int domain)
{
	size_t i = m->n;

	while (i > 0 && m->domains[i - 1] != domain) {
		i--;
	}
	if (i == 0) {
		return NVTX_NO_PUSH_POP_TRACKING;
	}
	for (; i < m->n; i++) {
		m->domains[i - 1] = m->domains[i];
		m->names[i - 1] = m->names[i];
	}
	m->n--;
	return model_count(m, domain);
}

static void expect_model(const struct model *m)
{
	const struct stack *stack = nvtx_stack();

	assert_int_equal(stack->n, m->n);
	for (size_t i = 0; i < m->n; i++) {
		assert_int_equal(stack->v[i].event.message[0], m->names[i]);
	}
}

TEST(domains_come_and_go_in_any_order)
{
	const struct nvtx_domain *domains[5] = { NULL };
	struct model m = { .n = 0 };
	uint64_t random = 88172645463325252;

	for (int i = 1; i < 5; i++) {
		domains[i] = nvtx_new_domain("of the model");
	}
	for (int i = 0; i < 20000; i++) {
		uint64_t r = unit_random(&random);
		int domain = (int)(r >> 8 & 0xff) % 5;
		char name[2] = { (char)('a' + i % 26), '\0' };

		/* More come than go, and then the other way round. */
		if (m.n < 64 && r % 8 < (i / 64 % 2 ? 3 : 5)) {
			assert_int_equal(push(domains[domain], name),
					 model_push(&m, domain, name[0]));
		} else {
			assert_int_equal(nvtx_pop(domains[domain]), model_pop(&m, domain));
		}
		expect_model(&m);
	}
	for (int i = 0; i < 5; i++) {
		while (nvtx_pop(domains[i]) != NVTX_NO_PUSH_POP_TRACKING) {
		}
	}
	assert_int_equal(nvtx_stack()->n, 0);
	assert_int_equal(nvtx_stack()->n_tops, 0);
}

/* The best of several, in ns: a push and a pop in the domain of what was left open, the same in
 * another one, and pops where there is nothing. */
static uint64_t time_of_pushes(void)
{
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < 20; round++) {
		uint64_t begin_ns = clock_now_ns(), ns;

		for (int i = 0; i < 50; i++) {
			push(NULL, "aten::add");
			push(other_domain(), "aten::add");
			nvtx_pop(other_domain());
			nvtx_pop(other_domain());
			nvtx_pop(NULL);
		}
		ns = clock_now_ns() - begin_ns;
		best = ns < best ? ns : best;
	}
	return best;
}

/* A program that leaves ranges open slows down by nothing. */
TEST(ranges_left_open_cost_nothing)
{
	uint64_t before_ns = time_of_pushes(), after_ns;

	for (int i = 0; i < 60000; i++) {
		assert_int_equal(push(NULL, "left open"), i);
	}
	after_ns = time_of_pushes();
	if (after_ns > 10 * before_ns) {
		fail_msg("%lu ns, and before %lu", (unsigned long)after_ns,
			 (unsigned long)before_ns);
	}
	while (nvtx_pop(NULL) != NVTX_NO_PUSH_POP_TRACKING) {
	}
}

TABLE_TEST(a_stack_grows_with_all_it_knows)
{
	char long_message[200];

	memset(long_message, 'm', sizeof(long_message) - 1);
	long_message[sizeof(long_message) - 1] = '\0';
	for (int i = 0; i < 40; i++) {
		assert_int_equal(push(NULL, i == 3 ? long_message : "s"), i);
		if (i % 7 == 0) {
			assert_int_not_equal(current_site(), 0);
		}
	}
	read_definitions();
	assert_int_equal(s.n_strings, 2);
	for (int i = 40; i > 0; i--) {
		uint32_t id = current_site();

		read_definitions();
		assert_int_equal(id, i); /* the parent of each is the one below */
		assert_string_equal(string(s.sites[id - 1].name), i == 4 ? long_message : "s");
		nvtx_pop(NULL);
	}
	assert_int_equal(s.n_sites, 40);
}

/* A table of another capture has numbers of its own. */
TABLE_TEST(numbers_are_the_tables_own)
{
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

static struct site_key key_of(const nvtxEventAttributes_t *a)
{
	struct site_key key;
	struct event e;

	nvtx_event_from_attributes(&e, NULL, a);
	nvtx_push(&e);
	key = current();
	nvtx_pop(NULL);
	return key;
}

TABLE_TEST(payloads_keep_their_bits)
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

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const nvtxEventAttributes_t a = { .payloadType = rows[i].type,
						  .payload = { .ullValue = rows[i].bits } };

		push(NULL, "outer");
		key_of(&a);
		assert_int_equal(s.path.payload_type, rows[i].type);
		assert_true(s.path.payload == rows[i].kept);
		current_site();
		assert_int_equal(s.path.payload_type, 0);
		nvtx_pop(NULL);
	}
	key_of(&(nvtxEventAttributes_t){ .payloadType = 77 });
	assert_int_equal(s.path.payload_type, 0);
	assert_int_equal(s.n_sites, 3); /* which payloads do not make */
}

TABLE_TEST(attributes_come_with_the_range)
{
	nvtxEventAttributes_t a = { .category = 7,
				    .colorType = NVTX_COLOR_ARGB,
				    .color = 0xff00ff00,
				    .messageType = NVTX_MESSAGE_TYPE_UNICODE,
				    .message = { .unicode = L"\u00e4\u20ac\U0001f600" } };
	struct site_key key;

	key = key_of(&a);
	assert_string_equal(string(key.name), "\u00e4\u20ac\U0001f600");
	assert_string_equal(string(key.category), "7");
	assert_int_equal(key.color, 0xff00ff00);
	nvtx_name_category(NULL, 7, "seven");
	a.colorType = NVTX_COLOR_UNKNOWN;
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = (nvtxStringHandle_t)(uintptr_t) "registered";
	key = key_of(&a);
	assert_string_equal(string(key.name), "registered");
	assert_string_equal(string(key.category), "seven");
	assert_int_equal(key.color, 0);
}

/* --- what differs from one time to the next --- */

static void expect_numbers(size_t n, const int64_t *wanted)
{
	int64_t numbers[64];
	size_t found;

	current_site();
	assert_true(numbers_decode(s.path.numbers, s.path.n_numbers, numbers, 64, &found));
	assert_int_equal(found, n);
	assert_memory_equal(numbers, wanted, n * sizeof(*wanted));
}

/* A training has as many sites after its first step as after all of them. */
TABLE_TEST(steps_are_one_site)
{
	const struct nvtx_domain *domain = other_domain();
	char text[128];

	for (int64_t i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "iteration %d", (int)i);
		push(NULL, text);
		push(domain, "layer 1");
		snprintf(
			text, sizeof(text),
			"aten::mm, seq = %d, op_id = %d, sizes = [[2, 3]], input_op_ids = [(%d,0)]",
			(int)i * 7, (int)i * 9, (int)i * 8);
		push(NULL, text);
		expect_numbers(2, (int64_t[]){ i, i * 7 });
		assert_int_equal(s.path.opened, 0);
		nvtx_pop(NULL);
		expect_numbers(1, (int64_t[]){ i });
		assert_int_equal(s.path.opened, 2);
		nvtx_pop(domain);
		nvtx_pop(NULL);
	}
	read_definitions();
	assert_int_equal(s.n_sites, 3);
	assert_string_equal(string(s.sites[0].name), "iteration N");
	assert_int_equal(s.sites[0].kind, SITE_STEP);
	assert_int_equal(s.sites[0].numbered, SITE_NUMBER_STEP);
	assert_string_equal(string(s.sites[1].name), "layer 1");
	assert_string_equal(string(s.sites[1].domain), "D");
	assert_string_equal(string(s.sites[2].name), "aten::mm");
	assert_string_equal(string(s.sites[2].sizes), "[[2, 3]]");
	assert_int_equal(s.sites[2].kind, SITE_OPERATOR);
	assert_int_equal(intern_left_out(&s.in).ranges, 0);
}

TABLE_TEST(occurrences_are_told_apart)
{
	push(NULL, "A");
	push(NULL, "B");
	current_site();
	assert_int_equal(s.path.opened, 0);
	current_site();
	assert_int_equal(s.path.opened, 2);
	nvtx_pop(NULL);
	push(NULL, "B");
	current_site();
	assert_int_equal(s.path.opened, 1); /* of one name, and another one */
	nvtx_pop(NULL);
	nvtx_pop(NULL);
	push(NULL, "A");
	push(NULL, "B");
	current_site();
	assert_int_equal(s.path.opened, 0);
	nvtx_pop(NULL);
	nvtx_pop(NULL);
}

/* Those for which there is no room are left out, from the first of them on. */
TABLE_TEST(numbers_have_room_for_some)
{
	int64_t numbers[64];
	size_t found;
	char text[32];

	for (int i = 0; i < 60; i++) {
		snprintf(text, sizeof(text), "epoch %d", i);
		push(NULL, text);
	}
	assert_int_not_equal(current_site(), 0);
	assert_true(numbers_decode(s.path.numbers, s.path.n_numbers, numbers, 64, &found));
	assert_in_range(found, 40, SITE_PATH_NUMBERS);
	for (size_t i = 0; i < found; i++) {
		assert_int_equal(numbers[i], i);
	}
	while (nvtx_pop(NULL) > 0) {
	}
}

/* --- start and end --- */

static uint32_t active_size(void)
{
	uint32_t set = nvtx_active_set(&s.in);

	read_definitions();
	return set == 0 ? 0 : s.set_size;
}

TABLE_TEST(ranges_of_the_process_are_a_set)
{
	nvtxRangeId_t ids[3];

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

/* --- names that wait to be sent --- */

/* Nobody takes them: the table is full of those of others. */
static void fill_table(void)
{
	char text[32];
	uint32_t i = 0;

	s.in.pending_bytes_max = 8 * 1024;
	do {
		snprintf(text, sizeof(text), "name %u", i++);
	} while (intern_string(&s.in, text) != 0);
}

/* A launch is in the ranges that have a number, and in all of them as soon as there is room. */
TABLE_TEST(a_range_without_room_is_left_out)
{
	const struct nvtx_domain *domain = other_domain();

	push(NULL, "A");
	expect_path("A");
	fill_table();
	push(domain, "B");
	push(NULL, "A"); /* whose name is known */
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(current_site(), 1);
		assert_int_equal(intern_left_out(&s.in).ranges, i);
	}
	read_definitions();
	expect_path("A/B/A");
	assert_int_equal(intern_left_out(&s.in).ranges, 3);
	nvtx_pop(NULL);
	nvtx_pop(domain);
	expect_path("A");
	nvtx_pop(NULL);
}

TABLE_TEST(a_started_range_without_room_is_left_out)
{
	nvtxRangeId_t known = start("A"), other;

	assert_int_equal(active_size(), 1);
	fill_table();
	other = start("B");
	for (int i = 1; i <= 3; i++) { /* and is looked for again each time */
		uint32_t set = nvtx_active_set(&s.in);

		assert_int_equal(set, 1); /* that of A alone */
		assert_int_equal(intern_left_out(&s.in).ranges, i);
	}
	read_definitions();
	assert_int_equal(active_size(), 2);
	assert_int_equal(intern_left_out(&s.in).ranges, 3);
	nvtx_end(known);
	nvtx_end(other);
}

/* --- expressions --- */

static void begin_filter(struct nvtx_filter *f, const char *text)
{
	const struct wire_selection selection = { .nvtx_include = { 1, &text },
						  .capture_range = "",
						  .step = "" };
	struct refusal r;

	assert_int_equal(nvtx_filter_init(f, &selection, &r), 0);
}

TEST(an_expression_holds_as_long_as_its_range)
{
	struct nvtx_filter first, second;

	begin_filter(&first, "A/");
	begin_filter(&second, "B/");
	assert_false(nvtx_selects(&first, 1));
	push(NULL, "A");
	assert_true(nvtx_selects(&first, 1));
	assert_false(nvtx_selects(&second, 2)); /* of another capture */
	assert_true(nvtx_selects(&first, 1));
	nvtx_pop(NULL);
	push(NULL, "B"); /* at the same depth */
	assert_false(nvtx_selects(&first, 1));
	assert_true(nvtx_selects(&second, 2));
	nvtx_pop(NULL);
	assert_false(nvtx_selects(&second, 2));
	nvtx_filter_deinit(&first);
	nvtx_filter_deinit(&second);
}

TEST(a_range_of_the_process_holds_for_its_expression)
{
	struct nvtx_filter first, second;
	nvtxRangeId_t id;

	begin_filter(&first, "A");
	begin_filter(&second, "B");
	id = start("A");
	assert_true(nvtx_selects(&first, 1));
	assert_false(nvtx_selects(&second, 2));
	nvtx_end(id);
	assert_false(nvtx_selects(&first, 1));
	nvtx_filter_deinit(&first);
	nvtx_filter_deinit(&second);
}

/* Whichever began first, and however many there are of one name. */
TEST(ranges_of_the_process_hold_beside_others)
{
	static const char *const names[] = { "A", "B", "A" };
	static const bool a_holds[] = { true, true, false }, b_holds[] = { true, false, false };
	struct nvtx_filter a, b;
	nvtxRangeId_t ids[ARRAY_SIZE(names)];

	begin_filter(&a, "A");
	begin_filter(&b, "B");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ids[i] = start(names[i]);
		assert_true(nvtx_selects(&a, 1));
		assert_int_equal(nvtx_selects(&b, 2), i >= 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		nvtx_end(ids[i]);
		assert_int_equal(nvtx_selects(&a, 1), a_holds[i]);
		assert_int_equal(nvtx_selects(&b, 2), b_holds[i]);
	}
	nvtx_filter_deinit(&a);
	nvtx_filter_deinit(&b);
}

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
		current_site();
		nvtx_pop(domain);
	}
	return NULL;
}

/* The child has none of the threads that may hold a lock. One that waits for it is ended in time.
 */
TABLE_TEST(a_child_names_a_category)
{
	struct nvtx_domain *before = nvtx_new_domain("before"), *d = nvtx_new_domain("d");
	pthread_t thread;
	int status;

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

/* Its thread holds the lock of the list. */
TABLE_TEST(a_signal_handler_forks)
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
	nvtx_stack_prepare();
	return unit_run();
}
