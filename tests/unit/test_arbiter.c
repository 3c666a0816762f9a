/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/arbiter.h"

TEST(holds_at_once_when_free)
{
	struct arbiter a;
	struct reservation c;

	arbiter_init(&a, 4);
	reservation_init(&c, 1, 0);
	assert_int_equal(arbiter_request(&a, &c, true), 0);
	assert_int_equal(c.state, RESERVATION_HOLDING);
	assert_int_equal(arbiter_position(&a, &c), 0);
	assert_null(arbiter_blocker(&a, &c));
	arbiter_release(&a, &c);
	assert_int_equal(c.state, RESERVATION_IDLE);
	assert_int_equal(a.held, 0);
	arbiter_release(&a, &c); /* an idle reservation is left alone */
	assert_null(arbiter_next(&a));
}

TEST(no_wait_and_a_full_queue_are_refused)
{
	struct arbiter a;
	struct reservation c[4];

	arbiter_init(&a, 2);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		reservation_init(&c[i], 1, (uid_t)i);
	}
	assert_int_equal(arbiter_request(&a, &c[0], true), 0);
	assert_int_equal(arbiter_request(&a, &c[1], false), ARBITER_E_BUSY);
	assert_int_equal(c[1].state, RESERVATION_IDLE);
	assert_int_equal(arbiter_request(&a, &c[1], true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &c[2], true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &c[3], true), ARBITER_E_FULL);
	assert_int_equal(c[3].state, RESERVATION_IDLE);
	arbiter_release(&a, &c[1]); /* leaving the queue makes room in it */
	assert_int_equal(arbiter_request(&a, &c[3], true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_position(&a, &c[2]), 1);
	assert_int_equal(arbiter_position(&a, &c[3]), 2);
}

/* Several GPUs come all at once or not at all, so two reservations cannot hold what the other
 * needs. */
TEST(several_gpus_come_together)
{
	struct arbiter a;
	struct reservation one, both, two;

	arbiter_init(&a, 4);
	reservation_init(&one, 1, 1);
	reservation_init(&both, 3, 2);
	reservation_init(&two, 2, 3);
	assert_int_equal(arbiter_request(&a, &one, true), 0);
	assert_int_equal(arbiter_request(&a, &both, true), ARBITER_E_QUEUED);
	assert_int_equal(a.held, 1);
	/* GPU 1 is free, but the one before in the queue needs it: it must not be overtaken. */
	assert_int_equal(arbiter_request(&a, &two, false), ARBITER_E_BUSY);
	assert_int_equal(arbiter_request(&a, &two, true), ARBITER_E_QUEUED);
	assert_ptr_equal(arbiter_blocker(&a, &two), &both);
	assert_int_equal(arbiter_position(&a, &two), 2);
	assert_null(arbiter_next(&a));
	arbiter_release(&a, &one);
	assert_ptr_equal(arbiter_next(&a), &both);
	assert_int_equal(a.held, 3);
	arbiter_release(&a, &both);
	assert_ptr_equal(arbiter_next(&a), &two);
}

/* Who wants other GPUs is no one to wait for, wherever it stands in the queue. */
TEST(those_before_it_are_those_who_want_its_gpus)
{
	struct arbiter a;
	struct reservation held, others, first, second, both;

	arbiter_init(&a, 4);
	reservation_init(&held, 3, 1);
	reservation_init(&others, 2, 2);
	reservation_init(&first, 1, 3);
	reservation_init(&second, 1, 4);
	reservation_init(&both, 3, 5);
	assert_int_equal(arbiter_request(&a, &held, true), 0);
	assert_int_equal(arbiter_request(&a, &others, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &first, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &second, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &both, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_position(&a, &others), 1);
	assert_int_equal(arbiter_position(&a, &first), 1);
	assert_int_equal(arbiter_position(&a, &second), 2);
	assert_int_equal(arbiter_position(&a, &both), 4);
}

/* --- turns of users --- */

enum { ANN = 1, BOB = 2, CAROL = 3, EACH = 8 };

static void request_all(struct arbiter *a, struct reservation *c, size_t n, uint64_t gpus,
			uid_t user)
{
	for (size_t i = 0; i < n; i++) {
		reservation_init(&c[i], gpus, user);
		arbiter_request(a, &c[i], true);
	}
}

static void expect_next(struct arbiter *a, struct reservation *holds, struct reservation *next)
{
	arbiter_release(a, holds);
	assert_ptr_equal(arbiter_next(a), next);
}

TEST(behind_eight_of_one_user_another_is_next)
{
	struct reservation anns[EACH], bob, carol;
	struct arbiter a;

	arbiter_init(&a, 32);
	request_all(&a, anns, EACH, 1, ANN);
	reservation_init(&bob, 1, BOB);
	reservation_init(&carol, 1, CAROL);
	assert_ptr_equal(arbiter_blocker(&a, &bob), &anns[0]);
	assert_int_equal(arbiter_request(&a, &bob, false), ARBITER_E_BUSY);
	assert_int_equal(arbiter_request(&a, &bob, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_request(&a, &carol, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_position(&a, &bob), 1);
	assert_int_equal(arbiter_position(&a, &carol), 2);
	assert_int_equal(arbiter_position(&a, &anns[1]), 3);
	assert_int_equal(arbiter_position(&a, &anns[EACH - 1]), EACH + 1);
	arbiter_release(&a, &anns[0]); /* nobody has had a turn since */
	assert_null(arbiter_blocker(&a, &bob));
	assert_ptr_equal(arbiter_blocker(&a, &carol), &bob);
	assert_ptr_equal(arbiter_blocker(&a, &anns[1]), &bob);
	assert_ptr_equal(arbiter_next(&a), &bob);
	expect_next(&a, &bob, &carol);
	for (size_t i = 1; i < EACH; i++) {
		expect_next(&a, i > 1 ? &anns[i - 1] : &carol, &anns[i]);
	}
}

/* Bob comes back whenever he has been served, and is one of two all the same. */
TEST(who_comes_back_gets_every_other_turn)
{
	struct reservation anns[EACH], bob;
	struct arbiter a;

	arbiter_init(&a, 32);
	request_all(&a, anns, EACH, 1, ANN);
	for (size_t i = 0; i + 1 < EACH; i++) {
		reservation_init(&bob, 1, BOB);
		assert_int_equal(arbiter_request(&a, &bob, true), ARBITER_E_QUEUED);
		expect_next(&a, &anns[i], &bob);
		expect_next(&a, &bob, &anns[i + 1]);
	}
}

/* On another GPU it takes nothing from anybody. */
TEST(claims_on_other_gpus_are_no_turns)
{
	struct reservation elsewhere[2], bob, ann, bobs_second;
	struct arbiter a;

	arbiter_init(&a, 32);
	request_all(&a, elsewhere, 2, 2, ANN);
	reservation_init(&bob, 1, BOB);
	assert_int_equal(arbiter_request(&a, &bob, true), 0);
	reservation_init(&bobs_second, 1, BOB);
	assert_int_equal(arbiter_request(&a, &bobs_second, true), ARBITER_E_QUEUED);
	reservation_init(&ann, 1, ANN);
	assert_int_equal(arbiter_request(&a, &ann, true), ARBITER_E_QUEUED);
	assert_int_equal(arbiter_position(&a, &ann), 1); /* her first there */
	assert_int_equal(arbiter_position(&a, &elsewhere[1]), 1);
}

/* Where everybody may measure there are as many users as somebody likes, each with its first
 * reservation.
 */
TEST(nobody_is_overtaken_for_ever)
{
	struct reservation anns[2], other;
	struct arbiter a;
	unsigned n = 0;

	arbiter_init(&a, 32);
	request_all(&a, anns, 2, 1, ANN);
	for (uid_t user = 100; user < 200; user++) {
		reservation_init(&other, 1, user);
		assert_int_equal(arbiter_request(&a, &other, true), ARBITER_E_QUEUED);
		n += arbiter_position(&a, &other) == 1;
		arbiter_release(&a, &other);
	}
	assert_int_equal(n, ARBITER_OVERTAKEN_MAX);
	assert_int_equal(arbiter_position(&a, &anns[1]), 1);
}

/* GPU 1 is free, and who waits for both keeps it: it is Ann's first there. */
TEST(a_free_gpu_is_kept_for_who_waits_for_two)
{
	struct reservation anns[3], bob;
	struct arbiter a;

	arbiter_init(&a, 32);
	request_all(&a, anns, 1, 1, ANN);
	request_all(&a, &anns[1], 2, 3, ANN);
	reservation_init(&bob, 2, BOB);
	assert_int_equal(arbiter_request(&a, &bob, true), ARBITER_E_QUEUED);
	assert_ptr_equal(arbiter_blocker(&a, &bob), &anns[1]);
	assert_int_equal(arbiter_position(&a, &bob), 2); /* before her second */
	assert_null(arbiter_next(&a));
	expect_next(&a, &anns[0], &anns[1]);
	expect_next(&a, &anns[1], &bob);
}

/* --- many users --- */

enum { RACERS = 8, ROUNDS = 100000 };

struct race {
	struct arbiter arbiter;
	struct reservation reservations[RACERS];
	uint64_t asked[RACERS]; /* when it began to wait */
};

static void expect_one_holder_a_gpu(const struct race *r)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < RACERS; i++) {
		if (r->reservations[i].state == RESERVATION_HOLDING) {
			assert_int_equal(seen & r->reservations[i].gpus, 0);
			seen |= r->reservations[i].gpus;
		}
	}
	assert_int_equal(seen, r->arbiter.held);
}

/* Three users, of whom one has six reservations: whoever is served had waited, of the own
 * reservations on its GPUs, the longest. */
TEST(a_user_with_six_claims_races_two_others)
{
	unsigned holds[3] = { 0 };
	struct race r = { 0 };
	uint64_t random = 7;

	arbiter_init(&r.arbiter, RACERS);
	for (size_t i = 0; i < RACERS; i++) {
		reservation_init(&r.reservations[i], 1, i < 6 ? 0 : (uid_t)i - 5);
	}
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		size_t i = unit_random(&random) % RACERS;
		struct reservation *c = &r.reservations[i], *next;

		if (c->state == RESERVATION_IDLE) {
			r.asked[i] = round;
			holds[c->user] += arbiter_request(&r.arbiter, c, true) == 0;
		} else if (c->state == RESERVATION_HOLDING) {
			arbiter_release(&r.arbiter, c);
			next = arbiter_next(&r.arbiter);
			holds[next ? next->user : 0] += next != NULL;
			for (size_t k = 0; next && k < RACERS; k++) {
				assert_false(r.reservations[k].user == next->user &&
					     r.reservations[k].state == RESERVATION_WAITING &&
					     r.asked[k] < r.asked[next - r.reservations]);
			}
		}
		expect_one_holder_a_gpu(&r);
	}
	/* By captures she would have six of eight turns. */
	assert_true(holds[1] > holds[0] / 2 && holds[2] > holds[0] / 2);
	assert_true(holds[0] > (holds[1] + holds[2]) / 3);
}
