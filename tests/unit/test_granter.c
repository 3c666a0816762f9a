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

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	control_device_init();
	return unit_run();
}
