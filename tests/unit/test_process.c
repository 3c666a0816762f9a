/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>

#include "daemon/broker/capture.h"
#include "daemon/broker/process.h"

static struct world {
	struct registry captures;
	struct processes all;
	struct accounts accounts;
	struct account *account;
} w;

static int setup(void **state)
{
	(void)state;
	registry_init(&w.captures);
	processes_init(&w.all);
	accounts_init(&w.accounts);
	w.account = account_of(&w.accounts, 1000);
	return w.account ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	while (!list_is_empty(&w.all.all)) {
		process_free(&w.all, list_entry(w.all.all.next, struct process, all_link));
	}
	while (!list_is_empty(&w.captures.captures)) {
		capture_free(&w.captures,
			     list_entry(w.captures.captures.next, struct capture, link));
	}
	assert_int_equal(w.account->bytes.used, 0);
	assert_int_equal(w.account->registered, 0);
	assert_int_equal(w.all.n_registered, 0);
	assert_int_equal(w.account->refs, 1);
	account_unref(w.account);
	return 0;
}

/* NULL: the capture has as many as it may. */
static struct process *attach(struct capture *c, pid_t pid)
{
	struct process *p = process_new(&w.all, pid, 1000, NULL);

	assert_non_null(p);
	if (process_attach(p, c) != 0) {
		return process_free(&w.all, p);
	}
	process_begin(p);
	return p;
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(totals_are_the_sum_over_processes_past_and_present)
{
	struct capture *c = capture_new(&w.captures);
	struct process *a = attach(c, 100), *b = attach(c, 101);
	struct gpuctr_totals sum;

	assert_int_equal(a->number, 1);
	assert_int_equal(b->number, 2);
	a->totals = (struct gpuctr_totals){ 36, 1, 2, 3, 4, 5, 6, 7 };
	b->totals = (struct gpuctr_totals){ 100, 50, 0, 0, 0, 0, 0, 0 };
	process_free(&w.all, a);
	assert_int_equal(c->n_attached, 1);
	sum = capture_totals(c);
	assert_int_equal(sum.seen, 136);
	assert_int_equal(sum.measured, 51);
	assert_int_equal(sum.filtered, 2);
	assert_int_equal(sum.capturing, 3);
	assert_int_equal(sum.unready, 4);
	assert_int_equal(sum.failed, 5);
	assert_int_equal(sum.dropped, 6);
	assert_int_equal(sum.lost, 7);
	process_free(&w.all, b);
	assert_null(process_free(&w.all, NULL));
	sum = capture_totals(c);
	assert_int_equal(sum.seen, 136);
	assert_int_equal(attach(c, 102)->number, 3);
	process_free(&w.all, list_entry(c->processes.next, struct process, link));
}

/* Whatever a process said last, seen is the sum of the others afterwards. */
FIXTURE_TEST(settling_makes_the_books_balance)
{
	struct capture *c = capture_new(&w.captures);
	uint64_t random = 7;

	for (int round = 0; round < 1000; round++) {
		struct process *p = attach(c, 1);
		struct gpuctr_totals *t = &p->totals, before;

		t->seen = unit_random(&random) % 100;
		t->measured = unit_random(&random) % 50;
		t->filtered = unit_random(&random) % 10;
		t->capturing = unit_random(&random) % 10;
		t->unready = unit_random(&random) % 10;
		t->failed = unit_random(&random) % 10;
		t->dropped = unit_random(&random) % 10;
		before = *t;
		process_settle(p);
		assert_int_equal(t->seen, t->measured + t->filtered + t->capturing + t->unready +
						  t->failed + t->dropped + t->lost);
		assert_true(t->seen >= before.seen);
		assert_int_equal(t->measured, before.measured);
		assert_true(t->lost == 0 || t->seen == before.seen);
		process_free(&w.all, p);
	}
}

/* A process that was killed told its counts a moment before its last records. */
FIXTURE_TEST(records_passed_on_were_measured)
{
	struct process *p = attach(capture_new(&w.captures), 1);

	p->totals = (struct gpuctr_totals){ .seen = 100, .measured = 64, .filtered = 10 };
	p->records = 128;
	process_settle(p);
	assert_int_equal(p->totals.measured, 128);
	assert_int_equal(p->totals.seen, 138);
	assert_int_equal(p->totals.lost, 0);
	process_free(&w.all, p);
}

FIXTURE_TEST(processes_have_a_limit)
{
	struct capture *c = capture_new(&w.captures);

	for (int i = 0; i < CAPTURE_PROCESSES_MAX; i++) {
		assert_non_null(attach(c, i + 1));
	}
	assert_null(attach(c, 1));
	while (!list_is_empty(&c->processes)) {
		process_free(&w.all, list_entry(c->processes.next, struct process, link));
	}
	assert_non_null(attach(c, 1));
	process_free(&w.all, list_entry(c->processes.next, struct process, link));
}

/* --- standby --- */

static struct process *in_standby(size_t n_labels, const char *const *labels)
{
	struct process *p = process_new(&w.all, 4711, 1000, NULL);
	const struct wire_strings list = { n_labels, labels };

	assert_non_null(p);
	assert_int_equal(process_register(&w.all, p, w.account, &list, "/a", 5), 0);
	return p;
}

FIXTURE_TEST(is_found_by_a_number_that_is_not_used_again)
{
	struct process *p[3000];
	uint32_t last = 0;

	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = in_standby(0, NULL);
		assert_true(p[i]->id > last);
		last = p[i]->id;
	}
	assert_int_equal(w.all.n_registered, ARRAY_SIZE(p));
	assert_int_equal(w.account->registered, ARRAY_SIZE(p));
	for (size_t i = 0; i < ARRAY_SIZE(p); i++) {
		assert_ptr_equal(processes_find(&w.all, p[i]->id), p[i]);
	}
	assert_null(processes_find(&w.all, 0));
	assert_null(processes_find(&w.all, last + 1));
	process_free(&w.all, p[7]);
	assert_null(processes_find(&w.all, 8));
	assert_true(in_standby(0, NULL)->id > last);
}

FIXTURE_TEST(labels_are_kept_and_paid_for)
{
	char job[] = "SLURM_JOB_ID=4711", rank[] = "RANK=0", empty[] = "";
	const char *labels[] = { job, rank, empty };
	struct process *p = in_standby(3, labels);
	struct wire_strings list;
	struct arena a;

	memset(job, '#', sizeof(job) - 1);
	arena_init(&a, 4096);
	list = process_labels(&a, p);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.v[0], "SLURM_JOB_ID=4711");
	assert_string_equal(list.v[1], "RANK=0");
	assert_string_equal(list.v[2], "");
	arena_deinit(&a);
	assert_string_equal(p->cgroup, "/a");
	assert_int_equal(w.account->bytes.used,
			 sizeof(job) + sizeof(rank) + sizeof(empty) + sizeof("/a"));
	process_free(&w.all, p);
	assert_int_equal(w.account->bytes.used, 0);
}

FIXTURE_TEST(labels_are_bounded)
{
	char much[PROCESS_LABELS_BYTES_MAX + 1];
	const char *labels[] = { much };
	struct process *p = process_new(&w.all, 1, 1000, NULL);
	const struct wire_strings list = { 1, labels };

	memset(much, 'x', sizeof(much));
	much[PROCESS_LABELS_BYTES_MAX] = '\0';
	assert_int_equal(process_register(&w.all, p, w.account, &list, "", 1), PROCESS_E_LABELS);
	assert_false(p->registered);
	much[PROCESS_LABELS_BYTES_MAX - 1] = '\0';
	w.account->bytes.max = PROCESS_LABELS_BYTES_MAX;
	assert_int_equal(process_register(&w.all, p, w.account, &list, "", 1), -EDQUOT);
	assert_false(p->registered);
	w.account->bytes.max++;
	assert_int_equal(process_register(&w.all, p, w.account, &list, "", 1), 0);
}

FIXTURE_TEST(is_attached_to_one_capture_after_the_other)
{
	struct process *p = in_standby(0, NULL);

	for (int i = 0; i < 3; i++) {
		struct capture *c = capture_new(&w.captures);

		assert_int_equal(process_attach(p, c), 0);
		assert_int_equal(p->number, 0); /* until its turn */
		assert_int_equal(c->n_attached, 1);
		process_begin(p);
		assert_int_equal(p->number, 1);
		assert_int_equal(p->totals.seen + p->records, 0); /* nothing of the one before */
		assert_false(p->said_goodbye);
		p->totals = (struct gpuctr_totals){ .seen = 10, .measured = 10 };
		p->records = 10;
		p->said_goodbye = true;
		process_detach(p);
		process_detach(p);
		assert_null(p->capture);
		assert_int_equal(c->n_attached, 0);
		assert_int_equal(capture_totals(c).measured, 10);
		assert_ptr_equal(processes_find(&w.all, p->id), p);
	}
}

static void put_in_standby(struct account *a, size_t n)
{
	const struct wire_strings none = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct process *p = process_new(&w.all, (pid_t)i + 1, a->uid, NULL);

		assert_non_null(p);
		assert_int_equal(process_register(&w.all, p, a, &none, "", 1), 0);
	}
}

/* As the front does it: until it is refused. */
static unsigned take_all(struct account *a, unsigned max, unsigned total)
{
	while (a->registered < processes_share(&w.all, a, max, total)) {
		put_in_standby(a, 1);
	}
	return a->registered;
}

/* One after the other takes all it can get, and there is always something left for the next. */
FIXTURE_TEST(nobody_takes_all_places)
{
	const unsigned expected[] = { 500, 250, 125, 62, 31, 16, 8 };
	struct account *users[ARRAY_SIZE(expected)];

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		users[i] = account_of(&w.accounts, 2000 + (uid_t)i);
		assert_non_null(users[i]);
		assert_int_equal(take_all(users[i], 4096, 1000), expected[i]);
	}
	assert_int_equal(processes_share(&w.all, w.account, 4096, 1000), 4);
	assert_int_equal(processes_share(&w.all, w.account, 3, 1000), 3);
	assert_int_equal(processes_share(&w.all, w.account, 4096, 500), 0); /* made smaller */
	while (!list_is_empty(&w.all.all)) {
		process_free(&w.all, list_entry(w.all.all.next, struct process, all_link));
	}
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		account_unref(users[i]);
	}
	assert_int_equal(take_all(w.account, 40, 1000), 40);
}
