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
	struct granter_request
		opened[GRANTER_LEASES_MAX + 1]; /* the last leases asked for, by id */
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
	memset(f.opened, 0, sizeof(f.opened));
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

/* GPUs are named by their numbers. Unless the test looks at that, what is asked for is of the first
 * GPU of its lease: the number of its client says so to the driver. */
static inline void name_gpus(struct fixture *f, struct granter_request *q)
{
	struct granter_request *opened = &f->opened[q->lease % ARRAY_SIZE(f->opened)];

	for (unsigned i = 0; i < GRANTER_GPUS_MAX; i++) {
		q->names[i] = control_device_gpu(i);
	}
	if (q->op == GRANTER_OPEN) {
		*opened = *q;
	} else if (q->op == GRANTER_ALLOC && !control->distinct && opened->gpus != 0) {
		q->root |= control_device_root_of((unsigned)__builtin_ctzll(opened->gpus));
	}
}

/* The reply to q; anything else that arrives first fails the test. */
static inline struct granter_reply ask(struct fixture *f, struct granter_request q, int fd)
{
	struct granter_reply p = { 0 };

	name_gpus(f, &q);
	q.size = sizeof(q);
	q.id = ++f->last_id;
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), fd, 0), sizeof(q));
	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.size, sizeof(p));
	assert_int_equal(p.op, q.op);
	assert_int_equal(p.id, q.id);
	return p;
}

static inline int open_lease(struct fixture *f, uint64_t lease, uint64_t gpus)
{
	const struct granter_request q = {
		.op = GRANTER_OPEN,
		.lease = lease,
		.gpus = gpus,
		.uid = UID,
	};

	return ask(f, q, -1).error;
}

static inline void send_request(struct fixture *f, struct granter_request q, int fd)
{
	name_gpus(f, &q);
	q.size = sizeof(q);
	q.id = ++f->last_id;
	assert_int_equal(fdpass_send(f->link, &q, sizeof(q), fd, 0), sizeof(q));
}

static inline struct granter_request open_request(uint64_t lease, uint64_t gpus)
{
	return (struct granter_request){
		.op = GRANTER_OPEN, .lease = lease, .gpus = gpus, .uid = UID
	};
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

enum { HUNG_GPU = 1, OTHER_GPU = 2, HUNG = 1, OTHER = 2, HUNG_PARENT = 0x5c0000ff };

static inline void expect_answer(struct fixture *f, enum granter_op op, uint64_t lease, int error)
{
	struct granter_reply p = { 0 };

	assert_true(receive(f, &p, PATIENCE_MS));
	assert_int_equal(p.op, op);
	assert_int_equal(p.lease, lease);
	assert_int_equal(p.error, error);
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)
