/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What test_granter.c and test_granter_leases.c share. */

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

enum { UID = 1234, LEASE = 7, PATIENCE_MS = 60000 };

struct fixture {
	int link;
	pid_t pid;
	int device;
	uint64_t last_id;
};

static inline int ping(struct fixture *f)
{
	struct granter_request q = { .size = sizeof(q), .op = GRANTER_PING };
	struct granter_reply p;

	return send(f->link, &q, sizeof(q), 0) == (ssize_t)sizeof(q) &&
			       recv(f->link, &p, sizeof(p), 0) == (ssize_t)sizeof(p)
		       ? 0
		       : -1;
}

static inline int setup(void **state)
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
static inline int end_granter(struct fixture *f)
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

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	end_granter(f);
	close(f->device);
	return 0;
}

static inline bool receive(struct fixture *f, struct granter_reply *p, int timeout_ms)
{
	struct pollfd fd = { f->link, POLLIN, 0 };

	return poll(&fd, 1, timeout_ms) == 1 &&
	       recv(f->link, p, sizeof(*p), 0) == (ssize_t)sizeof(*p);
}

/* By their numbers where the test looks at that, else all by one name. */
static inline void name_gpus(struct granter_request *q)
{
	for (unsigned i = 0; i < GRANTER_GPUS_MAX; i++) {
		q->names[i] = control_device_gpu(control->distinct ? i : 0);
	}
}

/* The reply to q; anything else that arrives first fails the test. */
static inline struct granter_reply ask(struct fixture *f, struct granter_request q, int fd)
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

static inline int open_lease(struct fixture *f, uint64_t lease, uint64_t gpus, uint64_t lease_ns)
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

static inline void send_request(struct fixture *f, struct granter_request q, int fd)
{
	name_gpus(&q);
	q.size = sizeof(q);
	q.id = ++f->last_id;
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), fd, 0), sizeof(q));
}

static inline struct granter_request open_request(uint64_t lease, uint64_t gpus)
{
	return (struct granter_request){ .op = GRANTER_OPEN,
					 .lease = lease,
					 .gpus = gpus,
					 .lease_ns = 60 * CLOCK_NS_PER_S,
					 .uid = UID };
}

static inline int close_lease(struct fixture *f, uint64_t lease)
{
	return ask(f, (struct granter_request){ .op = GRANTER_CLOSE, .lease = lease }, -1).error;
}

static inline struct granter_request good_alloc(void)
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

static inline unsigned count_calls(unsigned long request)
{
	unsigned n = 0;

	for (unsigned i = 0; i < control->n; i++) {
		n += control->calls[i].request == request;
	}
	return n;
}

static inline unsigned count_fds_of(pid_t pid)
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
static inline void expect_fds(struct fixture *f, unsigned n)
{
	for (int i = 0; i < 100 && count_fds_of(f->pid) != n; i++) {
		poll(NULL, 0, 10);
	}
	assert_int_equal(count_fds_of(f->pid), n);
}

/* Each object costs two descriptors. */
static inline void make_room_for_objects(struct fixture *f)
{
	struct rlimit room = { 4 * GRANTER_OBJECTS_MAX, 4 * GRANTER_OBJECTS_MAX };
	struct rlimit before;

	assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, NULL, &before), 0);
	room.rlim_max = before.rlim_max > room.rlim_cur ? before.rlim_max : room.rlim_cur;
	if (prlimit(f->pid, RLIMIT_NOFILE, &room, NULL) < 0) {
		skip();
	}
}

/* Of the objects from first on, n. */
static inline unsigned count_freed(uint32_t first, uint32_t n)
{
	unsigned freed = 0;

	for (unsigned i = 0; i < control->n && i < CONTROL_CALLS_MAX; i++) {
		const struct control_call *c = &control->calls[i];

		freed += c->request == RM_IOCTL_FREE && c->free.object - first < n;
	}
	return freed;
}

/* There are so many of all leases together. Then the largest lease gives its oldest, and no lease
 * gets more than its share of them. */
static inline void objects_of_all_leases_have_a_limit(void **state)
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
		assert_int_equal(open_lease(f, LEASE + i, UINT64_C(1) << i, 3600 * CLOCK_NS_PER_S),
				 0);
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

/* A kept descriptor would keep a dead process's GPU memory. */
/* A process that waits to be killed. */
static inline pid_t fork_user(const struct fixture *f)
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

/* The driver is asked for an object when its process ends: what it then allocates is freed. Another
 * one waits behind it: for that the driver is never asked. */
static inline void keeps_nothing_for_a_process_that_ends_meanwhile(void **state)
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
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fdpass_send(f->link, &q, sizeof(q), f->device, 0), sizeof(q));
		q.object++;
	}
	expect_fds(f, fds + 3);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(receive(f, &p, PATIENCE_MS));
		assert_int_equal(p.op, GRANTER_ALLOC);
		assert_int_equal(p.error, -ESRCH);
	}
	control->hanging_parent = 0;
	expect_fds(f, fds);
	assert_int_equal(count_calls(RM_IOCTL_ALLOC), 1);
	assert_int_equal(count_calls(RM_IOCTL_FREE), 1);
	assert_int_equal(ask(f, (struct granter_request){ .op = GRANTER_PING }, -1).error, 0);
}

enum { HUNG_GPU = 1, OTHER_GPU = 2, HUNG = 1, OTHER = 2, HUNG_PARENT = 0x5c0000ff };

static inline void expect_answer(struct fixture *f, enum granter_op op, uint64_t lease, int error)
{
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, op);
	assert_int_equal(p.lease, lease);
	assert_int_equal(p.error, error);
}

/* Two leases wait for the GPUs of one that is ending. Whatever the front says, what one of them is
 * to have no third one gets, nor does it get their numbers. One of them is given up. */
static inline void leases_that_wait_do_not_overlap_either(void **state)
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
static inline void a_free_that_hangs_is_told_once(void **state)
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
