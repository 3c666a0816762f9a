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

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	control_device_init();
	return unit_run();
}
