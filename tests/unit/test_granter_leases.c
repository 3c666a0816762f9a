/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/granter_fixture.h"

/* Leases, drivers that hang, and a front that is not ours any more. */

/* --- leases --- */

/* A lease of the GPUs whose bits are set, each of which is the one that follows it by so many. */
static int open_shifted(struct fixture *f, uint64_t lease, uint64_t gpus, unsigned by)
{
	struct granter_request q = open_request(lease, gpus);
	struct granter_reply p;

	for (unsigned i = 0; i + by < GRANTER_GPUS_MAX; i++) {
		q.names[i] = control_device_gpu(i + by);
	}
	q.size = sizeof(q);
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), -1, 0), sizeof(q));
	assert_true(receive(f, &p, PATIENCE_MS));
	return p.error;
}

/* The front says what bits mean, and the driver knows a GPU by its name: whatever the bits, a GPU
 * has one lease. A name that is no name is nobody's. */
FIXTURE_TEST(a_gpu_has_one_lease_whatever_its_bit)
{
	struct fixture *f = *state;

	assert_int_equal(open_shifted(f, 1, 1 << 5 | 1 << 6, 0), 0);
	assert_int_equal(open_shifted(f, 2, 1 << 4, 1), -EBUSY);	  /* GPU 5 */
	assert_int_equal(open_shifted(f, 2, 1 << 1 | 1 << 4, 2), -EBUSY); /* 3 and 6 */
	assert_int_equal(open_shifted(f, 2, 1 << 5, 2),
			 -EBUSY);			    /* the bit of another is that too */
	assert_int_equal(open_shifted(f, 2, 1 << 4, 3), 0); /* 7 */
	assert_int_equal(close_lease(f, 1), 0);
	assert_int_equal(open_shifted(f, 1, 1 << 1, 4), 0);		/* 5 */
	assert_int_equal(open_shifted(f, 3, UINT64_C(1) << 62, 60), 0); /* without a name */
	assert_int_equal(open_shifted(f, 4, UINT64_C(1) << 63, 60), 0);
}

/* --- a driver that hangs --- */

static void expect_told(struct fixture *f, enum granter_op op, int error)
{
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, 2 * PATIENCE_MS));
	assert_int_equal(p.op, op);
	assert_int_equal(p.error, error);
	assert_int_equal(p.lease, HUNG);
}

/* The lease on the other GPU is used and followed by another, before anything is heard of
 * the one that hangs. */
static void expect_other_gpu_serves(struct fixture *f)
{
	struct granter_request q = good_alloc();

	q.lease = OTHER;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(close_lease(f, OTHER), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU), 0);
}

static void open_both(struct fixture *f)
{
	assert_int_equal(open_lease(f, HUNG, HUNG_GPU), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU), 0);
}

/* R23 */
FIXTURE_TEST(a_call_that_hangs_ends_its_own_lease_only)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	struct granter_reply p;
	uint64_t begin = clock_now_ns(), took;
	unsigned frees;

	q.lease = HUNG;
	open_both(f);
	assert_int_equal(ask(f, q, f->device).error, 0);
	q.parent = control->hanging_parent = HUNG_PARENT;
	send_request(f, q, f->device);
	assert_false(receive(f, &p, 200));
	expect_other_gpu_serves(f);
	expect_told(f, GRANTER_HUNG, 0);
	took = clock_now_ns() - begin;
	assert_true(took >= GRANTER_HUNG_NS);
	expect_told(f, GRANTER_ALLOC, -ETIMEDOUT);
	expect_other_gpu_serves(f);
	assert_int_equal(ask(f, q, f->device).error, -ENOENT);
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU), -ETIMEDOUT);
	frees = count_calls(RM_IOCTL_FREE);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_ANSWERS, 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), frees + 2); /* and the late one */
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU), 0);
}

/* While a call hangs, nothing is freed or closed for processes that ask under its lease and end: of
 * these there is a limit, below what all leases have together. */
FIXTURE_TEST(what_dead_processes_asked_for_has_a_limit)
{
	enum { ROUNDS = 20, EACH = 128 };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid), dead = 0, refused = 0;

	make_room_for_objects(f);
	open_both(f);
	q.lease = HUNG;
	q.parent = control->hanging_parent = HUNG_PARENT;
	send_request(f, q, f->device);
	for (int round = 0; round < ROUNDS; round++) {
		struct granter_reply p = { 0 };
		pid_t user = fork_user(f);

		q.pid = (uint32_t)user;
		for (int i = 0; i < EACH; i++) {
			send_request(f, q, f->device);
		}
		assert_int_equal(kill(user, SIGKILL), 0);
		waitpid(user, NULL, 0);
		for (int i = 0; i < EACH; i++) {
			assert_true(receive(f, &p, PATIENCE_MS));
			assert_int_equal(p.op, GRANTER_ALLOC);
			dead += p.error == -ESRCH;
			refused += p.error == -ENOSPC;
		}
	}
	assert_int_equal(dead + refused, ROUNDS * EACH);
	expect_other_gpu_serves(f);
	assert_true(refused > 0);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_ALLOC, 0);
	assert_int_equal(close_lease(f, HUNG), 0);
	assert_int_equal(close_lease(f, OTHER), 0);
	expect_fds(f, fds);
}

/* The order in which the driver was told to free a lease's objects, numbered from first. */
static void expect_freed_from_the_newest(uint32_t first, unsigned n)
{
	unsigned next = n;

	for (unsigned i = 0; i < control->n; i++) {
		const struct control_call *c = &control->calls[i];

		if (c->request == RM_IOCTL_FREE && c->free.object - first < n) {
			assert_int_equal(c->free.object - first, --next);
		}
	}
	assert_int_equal(next, 0);
}

/* Most of the older ones CUPTI has freed itself; who kills a granter that takes its time is to find
 * that what counts is gone. So it is for each of two leases, closed or without their front. */
FIXTURE_TEST(what_counts_is_freed_first)
{
	enum { FIRST = 0x5d000000, N = 40 };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();

	open_both(f);
	for (uint32_t i = 0; i < 2 * N; i++) {
		q.lease = i < N ? HUNG : OTHER;
		q.object = FIRST + i;
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
	assert_int_equal(close_lease(f, HUNG), 0);
	assert_int_equal(end_granter(f), 0);
	expect_freed_from_the_newest(FIRST, N);
	expect_freed_from_the_newest(FIRST + N, N);
}

/* What a process that has ended had is freed after that, though it came later. */
FIXTURE_TEST(what_nobody_wants_is_freed_last)
{
	enum { HELD = 0x5d000000, UNWANTED };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	pid_t user = fork_user(f);

	open_both(f);
	q.lease = HUNG;
	q.object = HELD;
	assert_int_equal(ask(f, q, f->device).error, 0);
	q.object = UNWANTED;
	q.pid = (uint32_t)user;
	assert_int_equal(ask(f, q, f->device).error, 0);
	q.parent = control->hanging_parent = HUNG_PARENT; /* keeps the thread */
	send_request(f, q, f->device);
	while (atomic_load(&control->n_hanging) == 0) {
		usleep(500);
	}
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	expect_answer(f, GRANTER_ALLOC, HUNG, -ESRCH);
	send_request(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = HUNG }, -1);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
	control->hanging_parent = 0;
	expect_answer(f, GRANTER_CLOSE, HUNG, 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 3);
	assert_int_equal(control->calls[control->n - 3].free.object, HELD);
}

/* Twice as many as a lease has places for, three times over: made for processes that end, refused
 * by the driver, and never asked of it. Each gives its place back. */
FIXTURE_TEST(objects_that_go_give_their_places_back)
{
	enum { EACH = 2 * GRANTER_OBJECTS_PER_LEASE_MAX / 8, PROCESSES = 16 };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid);

	make_room_for_objects(f);
	open_both(f);
	q.lease = HUNG;
	for (int process = 0; process < PROCESSES; process++) {
		pid_t user = fork_user(f);

		q.pid = (uint32_t)user;
		for (int i = 0; i < EACH; i++) {
			control->status = i % 2 == 0 ? RM_STATUS_OK : 0x1b;
			q.object++;
			assert_int_equal(ask(f, q, f->device).error, 0);
			control->unknown_parent = q.parent;
			assert_int_not_equal(ask(f, q, f->device).status, 0);
			control->unknown_parent = 0;
		}
		control->status = RM_STATUS_OK;
		kill(user, SIGKILL);
		waitpid(user, NULL, 0);
		expect_fds(f, fds);
	}
	q.pid = (uint32_t)getpid();
	for (int i = 0; i < GRANTER_OBJECTS_PER_LEASE_MAX; i++) {
		q.object++;
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
}

FIXTURE_TEST(ends_with_its_front_though_the_driver_hangs)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();

	open_both(f);
	q.lease = HUNG;
	q.parent = control->hanging_parent = HUNG_PARENT;
	send_request(f, q, f->device);
	q = good_alloc();
	q.lease = OTHER;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(end_granter(f), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1); /* what could be */
}

/* --- a front that is not ours any more --- */

/* Replies that nobody reads fill the socket. Such a front is not read from, and loses its leases as
 * one that says nothing. */
FIXTURE_TEST(a_front_that_does_not_read_keeps_no_lease)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_PING };
	struct fixture *f = *state;
	uint64_t begin;

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	begin = clock_now_ns();
	for (int i = 0; i < PATIENCE_MS / 10 && count_calls(RM_IOCTL_FREE) == 0; i++) {
		while (send(f->link, &q, sizeof(q), MSG_DONTWAIT) == (ssize_t)sizeof(q)) {
		}
		poll(NULL, 0, 10);
	}
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_true(clock_now_ns() - begin >= GRANTER_SILENCES * GRANTER_SILENCE_NS);
	assert_int_not_equal(end_granter(f), 0);
}

/* The one that was just sent; the lease is still open. */
static void expect_spoilt(struct fixture *f)
{
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, GRANTER_ALLOC);
	assert_int_equal(p.error, -EBADMSG);
	assert_int_equal(open_lease(f, LEASE, 1), -EBUSY);
	assert_int_equal(control->n, 0);
}

/* As when it keeps as many as it may have: the kernel then leaves them out. */
FIXTURE_TEST(a_descriptor_without_room_spoils_only_its_request)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	struct rlimit before, none;

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, NULL, &before), 0);
	none = (struct rlimit){ 3, before.rlim_max };
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &none, NULL), 0);
	q.size = sizeof(q);
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), f->device, 0), sizeof(q));
	expect_spoilt(f);
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	control_device_init();
	return unit_run();
}
