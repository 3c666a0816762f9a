/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/granter_fixture.h"

/* Leases, drivers that hang, and a front that is not ours any more. */

#define LONG_NS (60 * CLOCK_NS_PER_S) /* nobody here waits until such a lease is over */

/* --- leases --- */

static void leases_do_not_overlap(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, 1, 3, LONG_NS), 0);
	assert_int_equal(open_lease(f, 2, 1, LONG_NS), -EBUSY);
	assert_int_equal(open_lease(f, 2, 2, LONG_NS), -EBUSY);
	assert_int_equal(open_lease(f, 2, UINT64_MAX, LONG_NS), -EBUSY);
	assert_int_equal(open_lease(f, 1, 4, LONG_NS), -EBUSY); /* the same number again */
	assert_int_equal(open_lease(f, 2, 4, LONG_NS), 0);
	assert_int_equal(close_lease(f, 1), 0);
	assert_int_equal(close_lease(f, 1), -ENOENT);
	assert_int_equal(open_lease(f, 3, 1, LONG_NS), 0);
}

static void a_lease_is_for_something_and_for_a_time(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, 0, 1, LONG_NS), -EINVAL);
	assert_int_equal(open_lease(f, 1, 0, LONG_NS), -EINVAL);
	assert_int_equal(open_lease(f, 1, 1, 0), -EINVAL);
	assert_int_equal(open_lease(f, 1, 1, GRANTER_LEASE_MAX_NS + 1), -EINVAL);
	assert_int_equal(open_lease(f, 1, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(open_lease(f, 1, 1, GRANTER_LEASE_MAX_NS), 0);
	assert_int_equal(
		ask(f, (struct granter_request){ .op = GRANTER_EXTEND, .lease = 2, .lease_ns = 1 },
		    -1)
			.error,
		-ENOENT);
	assert_int_equal(
		ask(f, (struct granter_request){ .op = GRANTER_EXTEND, .lease = 1 }, -1).error,
		-EINVAL);
	assert_int_equal(ask(f,
			     (struct granter_request){
				     .op = GRANTER_EXTEND, .lease = 1, .lease_ns = UINT64_MAX },
			     -1)
				 .error,
			 -EINVAL);
	for (uint64_t i = 2; i <= GRANTER_LEASES_MAX; i++) {
		assert_int_equal(open_lease(f, i, UINT64_C(1) << (i - 1), LONG_NS), 0);
	}
}

/* The error of the reply to q, whatever arrives first. */
static int ask_beside_others(struct fixture *f, struct granter_request q, int fd)
{
	struct granter_reply p;

	send_request(f, q, fd);
	do {
		assert_true(receive(f, &p, PATIENCE_MS));
	} while (p.id != f->last_id);
	return p.error;
}

/* A lease as short as can be for which q, the next request, still comes in time. Returns what it
 * was given. */
static uint64_t open_short_lease(struct fixture *f, struct granter_request q, int fd)
{
	static const uint64_t lives_ms[] = { 150, 1000, 5000, 20000 };

	for (size_t i = 0; i < ARRAY_SIZE(lives_ms); i++) {
		uint64_t lives_ns = lives_ms[i] * CLOCK_NS_PER_MS;
		struct granter_request open = open_request(LEASE, 1);

		open.lease_ns = lives_ns;
		if (ask_beside_others(f, open, -1) == 0 && ask_beside_others(f, q, fd) == 0) {
			return lives_ns;
		}
	}
	fail_msg("no lease lives until the next request");
	return 0;
}

static void an_expired_lease_is_revoked_and_told(void **state)
{
	struct fixture *f = *state;
	struct granter_reply p = { 0 };
	uint64_t begin = clock_now_ns(), took, lives_ns;

	lives_ns = open_short_lease(f, good_alloc(), f->device);
	assert_true(receive(f, &p, PATIENCE_MS));
	took = clock_now_ns() - begin;
	assert_int_equal(p.op, GRANTER_EXPIRED);
	assert_int_equal(p.lease, LEASE);
	/* Never early; how soon is r8's to say, on a machine of its own. */
	assert_true(took >= lives_ns);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(ask(f, good_alloc(), f->device).error, -ENOENT);
	assert_int_equal(open_lease(f, LEASE + 1, 1, LONG_NS), 0); /* and the GPU is free */
}

static void a_lease_can_be_extended(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = { .op = GRANTER_EXTEND, .lease = LEASE, .lease_ns = LONG_NS };
	struct granter_reply p;
	uint64_t lives_ns = open_short_lease(f, q, -1);

	assert_false(receive(f, &p, (int)(2 * lives_ns / CLOCK_NS_PER_MS)));
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
}

/* Of which a parent, say, still has the file. */
static void frees_the_objects_of_a_dead_process(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid);
	pid_t user = fork_user(f);

	q.pid = (uint32_t)user;
	assert_int_equal(open_lease(f, LEASE, 1, LONG_NS), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
	expect_fds(f, fds + 2);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	expect_fds(f, fds);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
}

static void frees_everything_when_the_front_goes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, LEASE, 1, LONG_NS), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	assert_int_equal(end_granter(f), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
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

/* The lease on the other GPU is used, renewed, and followed by another, before anything is heard of
 * the one that hangs. */
static void expect_other_gpu_serves(struct fixture *f)
{
	struct granter_request q = good_alloc();
	struct granter_request extend = { .op = GRANTER_EXTEND,
					  .lease = OTHER,
					  .lease_ns = LONG_NS };

	q.lease = OTHER;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(ask(f, extend, -1).error, 0);
	assert_int_equal(close_lease(f, OTHER), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU, LONG_NS), 0);
}

static void open_both(struct fixture *f)
{
	assert_int_equal(open_lease(f, HUNG, HUNG_GPU, LONG_NS), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU, LONG_NS), 0);
}

/* R23 */
static void a_call_that_hangs_ends_its_own_lease_only(void **state)
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
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, LONG_NS), -ETIMEDOUT);
	frees = count_calls(RM_IOCTL_FREE);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_ANSWERS, 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), frees + 2); /* and the late one */
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, LONG_NS), 0);
}

/* The next lease is not open before nothing of the one before is left. */
static void a_free_that_is_slow_keeps_the_next_lease_waiting(void **state)
{
	struct granter_request next = {
		.op = GRANTER_OPEN,
		.lease = HUNG + 2,
		.gpus = HUNG_GPU,
		.lease_ns = LONG_NS,
		.uid = UID,
	};
	struct granter_request q = good_alloc();
	struct fixture *f = *state;
	struct granter_reply p;

	q.lease = HUNG;
	q.parent = HUNG_PARENT;
	open_both(f);
	assert_int_equal(ask(f, q, f->device).error, 0);
	control->hanging_parent = HUNG_PARENT;
	send_request(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = HUNG }, -1);
	send_request(f, next, -1);
	assert_false(receive(f, &p, 200));
	expect_other_gpu_serves(f);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_CLOSE, 0);
	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, GRANTER_OPEN);
	assert_int_equal(p.lease, HUNG + 2);
	assert_int_equal(p.error, 0);
}

/* The free at the end of a process is one like all others. */
static void a_free_for_a_dead_process_may_hang_too(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid);
	pid_t user = fork_user(f);

	open_both(f);
	q.lease = HUNG;
	q.pid = (uint32_t)user;
	q.parent = HUNG_PARENT;
	assert_int_equal(ask(f, q, f->device).error, 0);
	control->hanging_parent = HUNG_PARENT;
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	expect_told(f, GRANTER_HUNG, 0);
	expect_other_gpu_serves(f);
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, LONG_NS), -ETIMEDOUT);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_ANSWERS, 0);
	assert_int_equal(close_lease(f, OTHER), 0);
	expect_fds(f, fds);
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, LONG_NS), 0);
}

/* While a call hangs, nothing is freed or closed for processes that ask under its lease and end: of
 * these there is a limit, below what all leases have together. */
static void what_dead_processes_asked_for_has_a_limit(void **state)
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

static void ends_with_its_front_though_the_driver_hangs(void **state)
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

static void a_malformed_packet_ends_it(void **state)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_PING };
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, LEASE, 1, LONG_NS), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	assert_int_equal(send(f->link, &q, sizeof(q) - 1, 0), sizeof(q) - 1);
	assert_int_not_equal(end_granter(f), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1); /* even then nothing is left behind */
}

static void a_wrong_size_field_ends_it(void **state)
{
	struct granter_request q = { .size = sizeof(q) + 8, .op = GRANTER_PING };
	struct fixture *f = *state;

	assert_int_equal(send(f->link, &q, sizeof(q), 0), sizeof(q));
	assert_int_not_equal(end_granter(f), 0);
	assert_int_equal(control->n, 0);
}

/* Replies that nobody reads fill the socket; the lease ends in time all the same, and the front is
 * served again once it has read. */
static void a_front_that_does_not_read_keeps_no_lease(void **state)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_PING };
	struct fixture *f = *state;
	struct granter_reply p;
	unsigned told = 0;

	open_short_lease(f, good_alloc(), f->device);
	for (int i = 0; i < PATIENCE_MS / 10 && count_calls(RM_IOCTL_FREE) == 0; i++) {
		while (send(f->link, &q, sizeof(q), MSG_DONTWAIT) == (ssize_t)sizeof(q)) {
		}
		poll(NULL, 0, 10);
	}
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	while (receive(f, &p, told ? 200 : PATIENCE_MS)) {
		told += p.op == GRANTER_EXPIRED;
	}
	assert_int_equal(told, 1);
	assert_int_equal(ask_beside_others(f, open_request(LEASE + 1, 1), -1), 0);
}

/* The one that was just sent; the lease is still open. */
static void expect_spoilt(struct fixture *f)
{
	struct granter_request extend = { .op = GRANTER_EXTEND,
					  .lease = LEASE,
					  .lease_ns = LONG_NS };
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, GRANTER_ALLOC);
	assert_int_equal(p.error, -EBADMSG);
	assert_int_equal(ask(f, extend, -1).error, 0);
	assert_int_equal(control->n, 0);
}

static void several_descriptors_spoil_only_their_request(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} c = { .header = { .cmsg_level = SOL_SOCKET,
			    .cmsg_type = SCM_RIGHTS,
			    .cmsg_len = CMSG_LEN(2 * sizeof(int)) } };
	int fds[2] = { f->device, f->device };
	struct iovec iov = { &q, sizeof(q) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};

	q.size = sizeof(q);
	memcpy(CMSG_DATA(&c.header), fds, sizeof(fds));
	assert_int_equal(open_lease(f, LEASE, 1, LONG_NS), 0);
	assert_int_equal(sendmsg(f->link, &m, 0), sizeof(q));
	expect_spoilt(f);
}

/* As when it keeps as many as it may have: the kernel then leaves them out. */
static void a_descriptor_without_room_spoils_only_its_request(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	struct rlimit before, none;

	assert_int_equal(open_lease(f, LEASE, 1, LONG_NS), 0);
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, NULL, &before), 0);
	none = (struct rlimit){ 3, before.rlim_max };
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &none, NULL), 0);
	q.size = sizeof(q);
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), f->device, 0), sizeof(q));
	expect_spoilt(f);
	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &before, NULL), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
}

/* R3, R26: whatever the front says, what reaches the driver is the one act for a lease that is
 * open. */
static void noise_never_becomes_another_act(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 99;

	for (int round = 0; round < 100000; round++) {
		struct granter_request q = good_alloc();
		uint32_t *word =
			(uint32_t *)&q +
			unit_random(&random) % (offsetof(struct granter_request, names) / 4);

		*word = unit_random(&random) % 4 ? (uint32_t)unit_random(&random) % 8
						 : (uint32_t)unit_random(&random);
		q.op = unit_random(&random) % 8;
		q.lease = unit_random(&random) % 4;
		q.gpus = unit_random(&random) % 16;
		q.lease_ns = unit_random(&random) % 2 ? 1000 : CLOCK_NS_PER_S;
		name_gpus(&q);
		q.size = sizeof(q);
		q.id = 1;
		assert_int_equal(fdpass_send(f->link, &q, sizeof(q),
					     unit_random(&random) % 4 ? f->device : -1, 0),
				 sizeof(q));
		for (struct granter_reply p = { 0 }; p.op == 0 || p.op == GRANTER_EXPIRED;) {
			assert_true(receive(f, &p, PATIENCE_MS));
			if (q.op == 0 || q.op == GRANTER_EXPIRED) {
				break;
			}
		}
	}
	for (unsigned i = 0; i < control->n && i < CONTROL_CALLS_MAX; i++) {
		const struct control_call *c = &control->calls[i];

		if (c->request == RM_IOCTL_ALLOC) {
			assert_int_equal(c->alloc.object_class, RM_CLASS_PROFILER_DEVICE);
			assert_int_equal(c->alloc.rights, 0);
			assert_int_equal(c->alloc.flags, 0);
			assert_int_equal(c->alloc.padding, 0);
			assert_int_not_equal(c->parameters.client_target, 0);
			assert_int_not_equal(c->alloc.root, 0);
			assert_int_not_equal(c->alloc.parent, 0);
			assert_int_not_equal(c->alloc.object, 0);
		} else {
			assert_int_equal(c->request, RM_IOCTL_FREE);
		}
	}
	assert_true(control->n > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(leases_do_not_overlap),
		TEST(a_lease_is_for_something_and_for_a_time),
		TEST(an_expired_lease_is_revoked_and_told),
		TEST(a_lease_can_be_extended),
		TEST(frees_the_objects_of_a_dead_process),
		TEST(keeps_nothing_for_a_process_that_ends_meanwhile),
		TEST(frees_everything_when_the_front_goes),
		TEST(a_call_that_hangs_ends_its_own_lease_only),
		TEST(a_free_that_is_slow_keeps_the_next_lease_waiting),
		TEST(leases_that_wait_do_not_overlap_either),
		TEST(a_free_that_hangs_is_told_once),
		TEST(a_free_for_a_dead_process_may_hang_too),
		TEST(what_dead_processes_asked_for_has_a_limit),
		TEST(ends_with_its_front_though_the_driver_hangs),
		TEST(a_malformed_packet_ends_it),
		TEST(a_wrong_size_field_ends_it),
		TEST(a_front_that_does_not_read_keeps_no_lease),
		TEST(several_descriptors_spoil_only_their_request),
		TEST(a_descriptor_without_room_spoils_only_its_request),
		TEST(noise_never_becomes_another_act),
	};

	signal(SIGPIPE, SIG_IGN);
	control_device_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
