/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/granter_fixture.h"

/* The granter in a process of its own, as in the daemon, with a driver that notes every call. The
 * tests are the front: a good one, and one that was taken over. */

/* Of the first such call. */
static uint32_t freed_object(void)
{
	for (unsigned i = 0; i < control->n; i++) {
		if (control->calls[i].request == RM_IOCTL_FREE) {
			return control->calls[i].free.object;
		}
	}
	return 0;
}

/* --- grants --- */

FIXTURE_TEST(grants_under_a_lease_and_frees_at_its_end)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	p = ask(f, good_alloc(), f->device);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.status, RM_STATUS_OK);
	assert_int_equal(p.lease, LEASE);
	assert_int_equal(control->n, 1);
	assert_int_equal(control->calls[0].alloc.root, 0xc1d00001);
	assert_int_equal(control->calls[0].alloc.parent, 0x5c000002);
	assert_int_equal(control->calls[0].alloc.object, 0x5c000003);
	assert_int_equal(control->calls[0].parameters.client_target, 0xc1d00002);
	assert_int_equal(control->calls[0].parameters.context_target, 0x5c000004);
	expect_fds(f, fds + 2); /* the file, and who owns it */
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(control->n, 2);
	assert_int_equal(control->calls[1].request, RM_IOCTL_FREE);
	assert_int_equal(control->calls[1].free.root, 0xc1d00001);
	assert_int_equal(control->calls[1].free.object, 0x5c000003);
	expect_fds(f, fds);
}

FIXTURE_TEST(the_whole_device_needs_a_lease_for_it)
{
	struct fixture *f = *state;
	struct granter_request open = {
		.op = GRANTER_OPEN,
		.lease = LEASE,
		.gpus = 1,
		.uid = UID,
		.device = 2,
	};
	struct granter_request q = good_alloc();

	assert_int_equal(ask(f, open, -1).error, -EINVAL);
	open.device = 1;
	assert_int_equal(ask(f, open, -1).error, 0);
	q.client_target = q.context_target = 0;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(control->calls[0].parameters.client_target, 0);
	q.context_target = 0x5c000004; /* whose? */
	assert_int_equal(ask(f, q, f->device).error, -EPERM);
	q.context_target = 0;
	q.uid = UID + 1;
	assert_int_equal(ask(f, q, f->device).error, -ENOENT);
	assert_int_equal(control->n, 1);
}

/* The numbers do not say which GPU is meant, the driver does. */
FIXTURE_TEST(an_object_is_of_a_gpu_of_the_lease)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	control->distinct = true;
	assert_int_equal(open_lease(f, LEASE, 1 << 1 | 1 << 3), 0);
	for (unsigned i = 0; i < 5; i++) {
		control->gpu = i;
		assert_int_equal(ask(f, good_alloc(), f->device).error,
				 i == 1 || i == 3 ? 0 : -EXDEV);
	}
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 2);
	control->gpu = 1;
	control->unknown_parent = good_alloc().parent;
	p = ask(f, good_alloc(), f->device);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.status, RM_STATUS_OBJECT_NOT_FOUND);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 2);
	assert_int_equal(close_lease(f, LEASE), 0);
	expect_fds(f, fds);
}

/* The program makes a subdevice of another GPU under that number in between. */
FIXTURE_TEST(a_subdevice_that_changes_gets_nothing)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	control->moves_after = 1;
	assert_int_equal(ask(f, good_alloc(), f->device).error, -EXDEV);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 1);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(freed_object(), good_alloc().object);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
}

/* Else it could not be freed at the end of the lease. */
FIXTURE_TEST(an_object_has_the_number_that_was_asked_for)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	control->made_object = 0xcaf00001;
	assert_int_equal(ask(f, good_alloc(), f->device).error, -EPROTO);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 1);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(freed_object(), 0xcaf00001);
	expect_fds(f, fds);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
}

/* A front that names no GPU, or none that there is. */
FIXTURE_TEST(a_lease_without_names_gives_nothing)
{
	struct fixture *f = *state;
	struct granter_request q = open_request(LEASE, 1);
	struct granter_reply p;

	q.size = sizeof(q);
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), -1, 0), sizeof(q));
	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.error, 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, -EXDEV);
	control->zeros = true;
	assert_int_equal(ask(f, good_alloc(), f->device).error, -EXDEV);
	assert_int_equal(control->n, 0);
}

FIXTURE_TEST(passes_on_the_drivers_refusal_and_keeps_nothing)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	control->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
	assert_int_equal(open_lease(f, LEASE, 1), 0);
	p = ask(f, good_alloc(), f->device);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.status, RM_STATUS_INSUFFICIENT_PERMISSIONS);
	expect_fds(f, fds);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 0);
}

/* Each request is wrong in one way; none of them may reach the driver. */
FIXTURE_TEST(refuses_what_is_not_the_one_act)
{
	struct fixture *f = *state;
	struct granter_request q;

	assert_int_equal(ask(f, good_alloc(), f->device).error, -ENOENT); /* no lease */
	assert_int_equal(open_lease(f, LEASE, 1), 0);
	for (uint32_t class = 0; class <= 0xffff; class += class == 0xb2cb ? 2 : 1) {
		q = good_alloc();
		q.object_class = class;
		assert_int_equal(ask(f, q, f->device).error, -EPERM);
	}
	for (int bit = 16; bit < 32; bit++) {
		q = good_alloc();
		q.object_class |= UINT32_C(1) << bit;
		assert_int_equal(ask(f, q, f->device).error, -EPERM);
	}
	q = good_alloc();
	q.client_target = 0; /* the whole device */
	assert_int_equal(ask(f, q, f->device).error, -EPERM);
	q = good_alloc();
	q.root = 0; /* a number that the driver would make up */
	assert_int_equal(ask(f, q, f->device).error, -EINVAL);
	q = good_alloc();
	q.parent = 0;
	assert_int_equal(ask(f, q, f->device).error, -EINVAL);
	q = good_alloc();
	q.object = 0;
	assert_int_equal(ask(f, q, f->device).error, -EINVAL);
	q = good_alloc();
	q.client_target = control->foreign_client = 0xc1d00007; /* somebody else's context */
	assert_int_equal(ask(f, q, f->device).error, -EPERM);
	q = good_alloc();
	q.uid = UID + 1;
	assert_int_equal(ask(f, q, f->device).error, -ENOENT);
	q = good_alloc();
	q.lease = LEASE + 1;
	assert_int_equal(ask(f, q, f->device).error, -ENOENT);
	q = good_alloc();
	q.pid = 0x3fffffff; /* no such process */
	assert_int_equal(ask(f, q, f->device).error, -ESRCH);
	assert_int_equal(control->n, 0);
}

FIXTURE_TEST(refuses_every_other_descriptor)
{
	struct fixture *f = *state;
	char path[64];
	int others[5], pair[2];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->device);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	others[0] = open("/dev/null", O_RDWR);
	others[1] = open("/proc/self/status", O_RDONLY);
	others[2] = memfd_create("other", 0);
	others[3] = open(path, O_PATH);
	others[4] = pair[0];
	assert_int_equal(open_lease(f, LEASE, 1), 0);
	assert_int_equal(ask(f, good_alloc(), -1).error, -EBADF);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_int_equal(ask(f, good_alloc(), others[i]).error, -EBADF);
		close(others[i]);
	}
	close(pair[1]);
	assert_int_equal(control->n, 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0); /* and goes on */
}

FIXTURE_TEST(a_descriptor_only_with_an_alloc)
{
	struct fixture *f = *state;
	static const uint32_t ops[] = { GRANTER_OPEN, GRANTER_CLOSE, GRANTER_PING };
	unsigned fds = count_fds_of(f->pid);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct granter_request q = { .op = ops[i], .lease = LEASE, .gpus = 1, .uid = UID };

		assert_int_equal(ask(f, q, f->device).error, -EINVAL);
	}
	expect_fds(f, fds);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_HUNG }, -1).error,
			 -EOPNOTSUPP);
	assert_int_equal(ask(f, (struct granter_request){ .op = 99 }, -1).error, -EOPNOTSUPP);
}

FIXTURE_TEST(objects_of_a_lease_have_a_limit)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();

	assert_int_equal(open_lease(f, LEASE, 1), 0);
	for (uint32_t i = 0; i < GRANTER_OBJECTS_PER_LEASE_MAX; i++) {
		q.object = 0x5d000000 + i;
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
	/* One more costs the oldest. */
	assert_int_equal(count_calls(RM_IOCTL_FREE), 0);
	q.object = 0x5e000000;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(freed_object(), 0x5d000000);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), GRANTER_OBJECTS_PER_LEASE_MAX + 1);
	assert_int_equal(open_lease(f, LEASE, 1), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
}

/* There are so many of all leases together. Then the largest lease gives its oldest, and no lease
 * gets more than its share of them. */
FIXTURE_TEST(objects_of_all_leases_have_a_limit)
{
	enum {
		FIRST = 0x5d000000,
		LEASES = GRANTER_OBJECTS_MAX / GRANTER_OBJECTS_PER_LEASE_MAX,
		SHARE = GRANTER_OBJECTS_MAX / (LEASES + 1),
		MORE = 2 * SHARE,
	};
	struct fixture *f = *state;
	struct granter_request q = good_alloc();

	make_room_for_objects(f);
	for (uint64_t i = 0; i <= LEASES; i++) {
		assert_int_equal(open_lease(f, LEASE + i, UINT64_C(1) << i), 0);
	}
	for (uint32_t i = 0; i < GRANTER_OBJECTS_MAX + MORE; i++) {
		q.lease = i < GRANTER_OBJECTS_MAX ? LEASE + i / GRANTER_OBJECTS_PER_LEASE_MAX
						  : LEASE + LEASES;
		q.object = FIRST + i;
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
	for (int i = 0; i < PATIENCE_MS && count_calls(RM_IOCTL_FREE) < MORE; i++) {
		poll(NULL, 0, 1);
	}
	assert_int_equal(count_calls(RM_IOCTL_FREE), MORE); /* one for each more */
	for (uint32_t i = 0; i <= LEASES; i++) {
		unsigned most = i < LEASES ? GRANTER_OBJECTS_PER_LEASE_MAX - SHARE : MORE - SHARE;
		uint32_t first = FIRST + i * GRANTER_OBJECTS_PER_LEASE_MAX;

		assert_in_range(count_freed(first,
					    i < LEASES ? GRANTER_OBJECTS_PER_LEASE_MAX : MORE),
				most - 1, most);
		assert_int_equal(count_freed(first, most - 1), most - 1); /* the oldest */
	}
	for (uint32_t i = 0; i <= LEASES; i++) {
		assert_int_equal(close_lease(f, LEASE + i), 0);
	}
	assert_int_equal(count_calls(RM_IOCTL_FREE), count_calls(RM_IOCTL_ALLOC));
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	control_device_init();
	return unit_run();
}
