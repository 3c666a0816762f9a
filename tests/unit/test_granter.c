/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/granter/granter.h"
#include "daemon/granter/thread.h"
#include "tests/unit/control_device.h"

/* The granter in a process of its own, as in the daemon, with a driver that notes every call. The
 * tests are the front: a good one, and one that was taken over. */

enum { UID = 1234, LEASE = 7, PATIENCE_MS = 60000 };

struct fixture {
	int link;
	pid_t pid;
	int device;
	uint64_t last_id;
};

static int ping(struct fixture *f)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_PING };
	struct granter_reply p;

	return send(f->link, &q, sizeof(q), 0) == (ssize_t)sizeof(q) &&
			       recv(f->link, &p, sizeof(p), 0) == (ssize_t)sizeof(p)
		       ? 0
		       : -1;
}

static int setup(void **state)
{
	static struct fixture f;
	int pair[2];

	memset(control, 0, sizeof(*control));
	f.last_id = 0;
	f.device = control_device_open();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -1;
	}
	f.pid = fork();
	if (f.pid == 0) {
		close(pair[0]);
		close(f.device);
		log_init("granter", LOG_EMERG);
		_exit(threads_start() == 0 ? granter_run(pair[1]) : 99);
	}
	close(pair[1]);
	f.link = pair[0];
	*state = &f;
	return ping(&f); /* it has closed what it inherited */
}

/* The end of the link is the end of the granter; 0: as it should. */
static int end_granter(struct fixture *f)
{
	int status = -1;

	if (f->link >= 0) {
		close(f->link);
		f->link = -1;
	}
	if (f->pid > 0) {
		waitpid(f->pid, &status, 0);
		f->pid = 0;
	}
	return status;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	end_granter(f);
	close(f->device);
	return 0;
}

static bool receive(struct fixture *f, struct granter_reply *p, int timeout_ms)
{
	struct pollfd fd = { f->link, POLLIN, 0 };

	return poll(&fd, 1, timeout_ms) == 1 &&
	       recv(f->link, p, sizeof(*p), 0) == (ssize_t)sizeof(*p);
}

/* By their numbers where the test looks at that, else all by one name. */
static void name_gpus(struct granter_request *q)
{
	for (unsigned i = 0; i < GRANTER_GPUS_MAX; i++) {
		q->names[i] = control_device_gpu(control->distinct ? i : 0);
	}
}

/* The reply to q; anything else that arrives first fails the test. */
static struct granter_reply ask(struct fixture *f, struct granter_request q, int fd)
{
	struct granter_reply p = { 0 };

	name_gpus(&q);
	q.size = sizeof(q);
	q.id = ++f->last_id;
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), fd, 0), sizeof(q));
	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.size, sizeof(p));
	assert_int_equal(p.op, q.op);
	assert_int_equal(p.id, q.id);
	return p;
}

static int open_lease(struct fixture *f, uint64_t lease, uint64_t gpus, uint64_t lease_ns)
{
	const struct granter_request q = {
		.op = GRANTER_OPEN,
		.lease = lease,
		.gpus = gpus,
		.lease_ns = lease_ns,
		.uid = UID,
	};

	return ask(f, q, -1).error;
}

static void send_request(struct fixture *f, struct granter_request q, int fd)
{
	name_gpus(&q);
	q.size = sizeof(q);
	q.id = ++f->last_id;
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), fd, 0), sizeof(q));
}

static struct granter_request open_request(uint64_t lease, uint64_t gpus)
{
	return (struct granter_request){ .op = GRANTER_OPEN,
					 .lease = lease,
					 .gpus = gpus,
					 .lease_ns = 60 * CLOCK_NS_PER_S,
					 .uid = UID };
}

static int close_lease(struct fixture *f, uint64_t lease)
{
	return ask(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = lease }, -1).error;
}

static struct granter_request good_alloc(void)
{
	return (struct granter_request){
		.op = GRANTER_ALLOC,
		.lease = LEASE,
		.uid = UID,
		.pid = (uint32_t)getpid(),
		.root = 0xc1d00001,
		.parent = 0x5c000002,
		.object = 0x5c000003,
		.object_class = RM_CLASS_PROFILER_DEVICE,
		.client_target = 0xc1d00002, /* CUPTI names another client of its process */
		.context_target = 0x5c000004,
	};
}

static unsigned count_calls(unsigned long request)
{
	unsigned n = 0;

	for (unsigned i = 0; i < control->n; i++) {
		n += control->calls[i].request == request;
	}
	return n;
}

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

static unsigned count_fds_of(pid_t pid)
{
	char path[64];
	DIR *d;
	unsigned n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && readdir(d)) {
		n++;
	}
	if (d) {
		closedir(d);
	}
	return n;
}

/* Soon: a descriptor is closed after the reply. */
static void expect_fds(struct fixture *f, unsigned n)
{
	for (int i = 0; i < 100 && count_fds_of(f->pid) != n; i++) {
		poll(NULL, 0, 10);
	}
	assert_int_equal(count_fds_of(f->pid), n);
}

/* --- grants --- */

static void grants_under_a_lease_and_frees_at_its_end(void **state)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
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

static void the_whole_device_needs_a_lease_for_it(void **state)
{
	struct fixture *f = *state;
	struct granter_request open = {
		.op = GRANTER_OPEN,
		.lease = LEASE,
		.lease_ns = CLOCK_NS_PER_S,
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
static void an_object_is_of_a_gpu_of_the_lease(void **state)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	control->distinct = true;
	assert_int_equal(open_lease(f, LEASE, 1 << 1 | 1 << 3, CLOCK_NS_PER_S), 0);
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
static void a_subdevice_that_changes_gets_nothing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
	control->moves_after = 1;
	assert_int_equal(ask(f, good_alloc(), f->device).error, -EXDEV);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 1);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(freed_object(), good_alloc().object);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
}

/* A front that names no GPU, or none that there is. */
static void a_lease_without_names_gives_nothing(void **state)
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

static void passes_on_the_drivers_refusal_and_keeps_nothing(void **state)
{
	struct fixture *f = *state;
	unsigned fds = count_fds_of(f->pid);
	struct granter_reply p;

	control->status = RM_STATUS_INSUFFICIENT_PERMISSIONS;
	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
	p = ask(f, good_alloc(), f->device);
	assert_int_equal(p.error, 0);
	assert_int_equal(p.status, RM_STATUS_INSUFFICIENT_PERMISSIONS);
	expect_fds(f, fds);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 0);
}

/* Each request is wrong in one way; none of them may reach the driver. */
static void refuses_what_is_not_the_one_act(void **state)
{
	struct fixture *f = *state;
	struct granter_request q;

	assert_int_equal(ask(f, good_alloc(), f->device).error, -ENOENT); /* no lease */
	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
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
	q.root = 0;
	assert_int_equal(ask(f, q, f->device).error, -EPERM);
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

static void refuses_every_other_descriptor(void **state)
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
	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
	assert_int_equal(ask(f, good_alloc(), -1).error, -EBADF);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		assert_int_equal(ask(f, good_alloc(), others[i]).error, -EBADF);
		close(others[i]);
	}
	close(pair[1]);
	assert_int_equal(control->n, 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0); /* and goes on */
}

static void a_descriptor_only_with_an_alloc(void **state)
{
	struct fixture *f = *state;
	static const uint32_t ops[] = { GRANTER_OPEN, GRANTER_EXTEND, GRANTER_CLOSE, GRANTER_PING };
	unsigned fds = count_fds_of(f->pid);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct granter_request q = {
			.op = ops[i], .lease = LEASE, .gpus = 1, .lease_ns = 1000, .uid = UID
		};

		assert_int_equal(ask(f, q, f->device).error, -EINVAL);
	}
	expect_fds(f, fds);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_EXPIRED }, -1).error,
			 -EOPNOTSUPP);
	assert_int_equal(ask(f, (struct granter_request){ .op = 99 }, -1).error, -EOPNOTSUPP);
}

static void objects_of_a_lease_have_a_limit(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();

	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
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
	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
}

/* Each object costs two descriptors, so there are so many of all leases together: then the next one
 * is refused, until a lease has ended. */
static void objects_of_all_leases_have_a_limit(void **state)
{
	enum { LEASES = GRANTER_OBJECTS_MAX / GRANTER_OBJECTS_PER_LEASE_MAX };
	struct rlimit room = { 4 * GRANTER_OBJECTS_MAX, 4 * GRANTER_OBJECTS_MAX };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	struct rlimit before;

	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, NULL, &before), 0);
	room.rlim_max = before.rlim_max > room.rlim_cur ? before.rlim_max : room.rlim_cur;
	if (prlimit(f->pid, RLIMIT_NOFILE, &room, NULL) < 0) {
		skip();
	}
	for (uint64_t i = 0; i <= LEASES; i++) {
		assert_int_equal(open_lease(f, LEASE + i, UINT64_C(1) << i, 3600 * CLOCK_NS_PER_S),
				 0);
	}
	for (uint32_t i = 0; i < GRANTER_OBJECTS_MAX; i++) {
		q.lease = LEASE + i / GRANTER_OBJECTS_PER_LEASE_MAX;
		q.object = 0x5d000000 + i;
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
	q.lease = LEASE + LEASES;
	assert_int_equal(ask(f, q, f->device).error, -ENOSPC);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), GRANTER_OBJECTS_MAX);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
}

/* --- leases --- */

static void leases_do_not_overlap(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, 1, 3, CLOCK_NS_PER_S), 0);
	assert_int_equal(open_lease(f, 2, 1, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, 2, 2, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, 2, UINT64_MAX, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, 1, 4, CLOCK_NS_PER_S), -EBUSY); /* the same number again */
	assert_int_equal(open_lease(f, 2, 4, CLOCK_NS_PER_S), 0);
	assert_int_equal(close_lease(f, 1), 0);
	assert_int_equal(close_lease(f, 1), -ENOENT);
	assert_int_equal(open_lease(f, 3, 1, CLOCK_NS_PER_S), 0);
}

static void a_lease_is_for_something_and_for_a_time(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, 0, 1, CLOCK_NS_PER_S), -EINVAL);
	assert_int_equal(open_lease(f, 1, 0, CLOCK_NS_PER_S), -EINVAL);
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
		assert_int_equal(open_lease(f, i, UINT64_C(1) << (i - 1), CLOCK_NS_PER_S), 0);
	}
}

static void an_expired_lease_is_revoked_and_told(void **state)
{
	struct fixture *f = *state;
	struct granter_reply p = { 0 };
	uint64_t begin = clock_now_ns(), took;

	assert_int_equal(open_lease(f, LEASE, 1, 150 * CLOCK_NS_PER_MS), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	assert_true(receive(f, &p, PATIENCE_MS));
	took = clock_now_ns() - begin;
	assert_int_equal(p.op, GRANTER_EXPIRED);
	assert_int_equal(p.lease, LEASE);
	/* Never early; how soon is r8's to say, on a machine of its own. */
	assert_true(took >= 150 * CLOCK_NS_PER_MS);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(ask(f, good_alloc(), f->device).error, -ENOENT);
	assert_int_equal(open_lease(f, LEASE + 1, 1, CLOCK_NS_PER_S), 0); /* and the GPU is free */
}

static void a_lease_can_be_extended(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = { .op = GRANTER_EXTEND,
				     .lease = LEASE,
				     .lease_ns = 60 * CLOCK_NS_PER_S };
	struct granter_reply p;

	assert_int_equal(open_lease(f, LEASE, 1, 200 * CLOCK_NS_PER_MS), 0);
	assert_int_equal(ask(f, q, -1).error, 0);
	assert_false(receive(f, &p, 400));
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
}

/* A kept descriptor would keep a dead process's GPU memory. */
/* A process that waits to be killed. */
static pid_t fork_user(const struct fixture *f)
{
	pid_t user = fork();

	if (user == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(f->link);
		pause();
		_exit(0);
	}
	return user;
}

static void forgets_the_objects_of_a_dead_process(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid);
	pid_t user = fork_user(f);

	q.pid = (uint32_t)user;
	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
	expect_fds(f, fds + 2);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	expect_fds(f, fds);
	assert_int_equal(close_lease(f, LEASE), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 0);
}

/* The driver is asked for an object when its process ends: what it then allocates is not kept. */
static void keeps_nothing_for_a_process_that_ends_meanwhile(void **state)
{
	enum { PARENT = 0x5c0000ff };
	struct granter_reply p = { 0 };
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	unsigned fds = count_fds_of(f->pid);
	pid_t user = fork_user(f);

	q.size = sizeof(q);
	q.pid = (uint32_t)user;
	q.parent = control->hanging_parent = PARENT;
	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), f->device, 0), sizeof(q));
	expect_fds(f, fds + 2);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, GRANTER_ALLOC);
	assert_int_equal(p.error, -ESRCH);
	control->hanging_parent = 0;
	expect_fds(f, fds);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
}

static void frees_everything_when_the_front_goes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	assert_int_equal(end_granter(f), 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
}

/* --- a driver that hangs --- */

enum { HUNG_GPU = 1, OTHER_GPU = 2, HUNG = 1, OTHER = 2, HUNG_PARENT = 0x5c0000ff };

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
					  .lease_ns = 60 * CLOCK_NS_PER_S };

	q.lease = OTHER;
	assert_int_equal(ask(f, q, f->device).error, 0);
	assert_int_equal(ask(f, extend, -1).error, 0);
	assert_int_equal(close_lease(f, OTHER), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU, 60 * CLOCK_NS_PER_S), 0);
}

static void open_both(struct fixture *f)
{
	assert_int_equal(open_lease(f, HUNG, HUNG_GPU, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(open_lease(f, OTHER, OTHER_GPU, 60 * CLOCK_NS_PER_S), 0);
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
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, CLOCK_NS_PER_S), -ETIMEDOUT);
	frees = count_calls(RM_IOCTL_FREE);
	control->hanging_parent = 0;
	expect_told(f, GRANTER_ANSWERS, 0);
	assert_int_equal(count_calls(RM_IOCTL_FREE), frees + 2); /* and the late one */
	assert_int_equal(open_lease(f, HUNG + 2, HUNG_GPU, CLOCK_NS_PER_S), 0);
}

/* The next lease is not open before nothing of the one before is left. */
static void a_free_that_is_slow_keeps_the_next_lease_waiting(void **state)
{
	struct granter_request next = {
		.op = GRANTER_OPEN,
		.lease = HUNG + 2,
		.gpus = HUNG_GPU,
		.lease_ns = CLOCK_NS_PER_S,
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

static void expect_answer(struct fixture *f, enum granter_op op, uint64_t lease, int error)
{
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, op);
	assert_int_equal(p.lease, lease);
	assert_int_equal(p.error, error);
}

/* Two leases wait for the GPUs of one that is ending. Whatever the front says, what one of them is
 * to have no third one gets, nor does it get their numbers. One of them is given up. */
static void leases_that_wait_do_not_overlap_either(void **state)
{
	enum { FIRST = 2, SECOND = 3, THIRD = 4 };
	struct granter_request q = good_alloc();
	struct fixture *f = *state;

	q.lease = HUNG;
	q.parent = HUNG_PARENT;
	assert_int_equal(open_lease(f, HUNG, 3, 60 * CLOCK_NS_PER_S), 0);
	assert_int_equal(ask(f, q, f->device).error, 0);
	control->hanging_parent = HUNG_PARENT;
	send_request(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = HUNG }, -1);
	send_request(f, open_request(FIRST, 1), -1);
	send_request(f, open_request(SECOND, 2), -1);
	assert_int_equal(open_lease(f, THIRD, 1, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, THIRD, 2, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, FIRST, 4, CLOCK_NS_PER_S), -EBUSY);
	assert_int_equal(open_lease(f, HUNG, 4, CLOCK_NS_PER_S), -EBUSY);
	q.lease = FIRST; /* it is not open yet */
	assert_int_equal(ask(f, q, f->device).error, -ENOENT);
	send_request(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = SECOND }, -1);
	expect_answer(f, GRANTER_OPEN, SECOND, -ECANCELED);
	expect_answer(f, GRANTER_CLOSE, SECOND, 0);
	send_request(f, open_request(THIRD, 2), -1);
	control->hanging_parent = 0;
	expect_answer(f, GRANTER_CLOSE, HUNG, 0);
	expect_answer(f, GRANTER_OPEN, FIRST, 0);
	expect_answer(f, GRANTER_OPEN, THIRD, 0);
	assert_int_equal(open_lease(f, SECOND, 3, CLOCK_NS_PER_S), -EBUSY);
}

/* Of a lease that is closed, and of one whose time is over, a hang is told once, and once that the
 * driver answers. */
static void a_free_that_hangs_is_told_once(void **state)
{
	enum { LEASES = 2 }; /* the first is closed */
	unsigned told[LEASES][GRANTER_ANSWERS + 1] = { { 0 } };
	struct granter_request q = good_alloc();
	struct fixture *f = *state;
	struct granter_reply p;

	q.parent = HUNG_PARENT;
	for (q.lease = 1; q.lease <= LEASES; q.lease++) {
		assert_int_equal(open_lease(f, q.lease, q.lease,
					    q.lease == 1 ? 60 * CLOCK_NS_PER_S : CLOCK_NS_PER_S),
				 0);
		assert_int_equal(ask(f, q, f->device).error, 0);
	}
	control->hanging_parent = HUNG_PARENT;
	send_request(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = 1 }, -1);
	for (unsigned n = 0; n < LEASES + 1 + LEASES; n++) {
		assert_true(receive(f, &p, PATIENCE_MS));
		assert_in_range(p.lease, 1, LEASES);
		assert_in_range(p.op, 0, GRANTER_ANSWERS);
		told[p.lease - 1][p.op]++;
		if (n == LEASES) { /* both hang, and the close is answered */
			control->hanging_parent = 0;
		}
	}
	for (unsigned i = 0; i < LEASES; i++) {
		assert_int_equal(told[i][GRANTER_HUNG], 1);
		assert_int_equal(told[i][GRANTER_ANSWERS], 1);
		assert_int_equal(told[i][GRANTER_CLOSE], i == 0);
	}
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
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

	assert_int_equal(open_lease(f, LEASE, 1, 60 * CLOCK_NS_PER_S), 0);
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

	assert_int_equal(open_lease(f, LEASE, 1, 300 * CLOCK_NS_PER_MS), 0);
	assert_int_equal(ask(f, good_alloc(), f->device).error, 0);
	for (int i = 0; i < 50; i++) {
		while (send(f->link, &q, sizeof(q), MSG_DONTWAIT) == (ssize_t)sizeof(q)) {
		}
		poll(NULL, 0, 10);
	}
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	while (receive(f, &p, 200)) {
		told += p.op == GRANTER_EXPIRED;
	}
	assert_int_equal(told, 1);
	assert_int_equal(open_lease(f, LEASE + 1, 1, CLOCK_NS_PER_S), 0);
}

/* The one that was just sent; the lease is still open. */
static void expect_spoilt(struct fixture *f)
{
	struct granter_request extend = { .op = GRANTER_EXTEND,
					  .lease = LEASE,
					  .lease_ns = CLOCK_NS_PER_S };
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
	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
	assert_int_equal(sendmsg(f->link, &m, 0), sizeof(q));
	expect_spoilt(f);
}

/* As when it keeps as many as it may have: the kernel then leaves them out. */
static void a_descriptor_without_room_spoils_only_its_request(void **state)
{
	struct fixture *f = *state;
	struct granter_request q = good_alloc();
	struct rlimit before, none;

	assert_int_equal(open_lease(f, LEASE, 1, CLOCK_NS_PER_S), 0);
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
		} else {
			assert_int_equal(c->request, RM_IOCTL_FREE);
		}
	}
	assert_true(control->n > 100);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(grants_under_a_lease_and_frees_at_its_end),
		TEST(the_whole_device_needs_a_lease_for_it),
		TEST(an_object_is_of_a_gpu_of_the_lease),
		TEST(a_subdevice_that_changes_gets_nothing),
		TEST(a_lease_without_names_gives_nothing),
		TEST(passes_on_the_drivers_refusal_and_keeps_nothing),
		TEST(refuses_what_is_not_the_one_act),
		TEST(refuses_every_other_descriptor),
		TEST(a_descriptor_only_with_an_alloc),
		TEST(objects_of_a_lease_have_a_limit),
		TEST(objects_of_all_leases_have_a_limit),
		TEST(leases_do_not_overlap),
		TEST(a_lease_is_for_something_and_for_a_time),
		TEST(an_expired_lease_is_revoked_and_told),
		TEST(a_lease_can_be_extended),
		TEST(forgets_the_objects_of_a_dead_process),
		TEST(keeps_nothing_for_a_process_that_ends_meanwhile),
		TEST(frees_everything_when_the_front_goes),
		TEST(a_call_that_hangs_ends_its_own_lease_only),
		TEST(a_free_that_is_slow_keeps_the_next_lease_waiting),
		TEST(leases_that_wait_do_not_overlap_either),
		TEST(a_free_that_hangs_is_told_once),
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
