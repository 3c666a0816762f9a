/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/granter_box.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clean.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/granter/rm.h"
#include "tests/fuzz/fuzz.h"

/* Two halves. The kernel: functions of libc that stand before libc's own in the executable; those
 * on descriptors of the box are answered here, all others by the kernel itself. The model: what a
 * granter has promised (R26), written once more from its head comment: leases with an owner, a set
 * of GPUs and an end, and objects that belong to a lease, a file and a process.
 *
 * The model foresees the reply to every packet. An ioctl is only looked at when it comes: whatever
 * made it, it must be the one that the packet being handled allows. */

#define EXPORT __attribute__((visibility("default")))

enum {
	FIRST_FD = 1 << 20,
	LINK = FIRST_FD,
	FDS_MAX = 2 * GRANTER_OBJECTS_MAX + 64,
	REPLIES_MAX = 96, /* that the socket takes before it is full; Linux: about 270 */
};

struct box_fd {
	enum { FD_FREE, FD_FILE, FD_PIDFD } kind;
	enum box_file file;
	uint32_t pid;	     /* of a pidfd; of a file: who uses its object */
	unsigned generation; /* of that process */

	/* of a file: the object that the driver has made on it and not freed */
	bool allocated;
	uint64_t lease;
	uint32_t root, parent, object;
};

struct model_lease {
	uint64_t id, gpus, expires_ns;
	uint32_t uid;
	unsigned objects;
	bool device; /* objects without a target client */
	bool told;   /* that it has expired */
};

static struct box {
	bool active;
	box_next next;
	void *userdata;
	uint64_t now_ns;
	uint32_t tick_ns;
	unsigned idle_polls; /* without waiting, and in vain */
	struct box_figures figures;

	int lowest_fd; /* that may be free */
	unsigned n_fds;
	unsigned generations[BOX_PIDS];

	struct box_step step;
	uint64_t step_due_ns;
	bool step_waits; /* for its time to come */
	bool has_packet, at_end, ended;
	bool reading;
	unsigned unread;

	/* the packet being handled */
	bool handling;
	struct granter_request request;
	int request_fd;
	int expected_error; /* unless the driver is asked and refuses */
	bool looked;	    /* at the clock, since the packet came */
	bool driver_asked;
	int driver_error;
	uint32_t driver_status;

	struct model_lease leases[GRANTER_LEASES_MAX];
	unsigned n_leases, n_objects;
	bool malformed; /* the granter must end */
} box;

static struct box_fd fds[FDS_MAX]; /* all free between runs */

static struct box_fd *fd_find(int fd)
{
	return box.active && fd > FIRST_FD && fd < FIRST_FD + FDS_MAX ? &fds[fd - FIRST_FD] : NULL;
}

static int fd_new(struct box_fd content)
{
	for (int i = box.lowest_fd; i < FDS_MAX; i++) {
		if (fds[i].kind == FD_FREE) {
			fds[i] = content;
			box.lowest_fd = i + 1;
			box.n_fds++;
			return FIRST_FD + i;
		}
	}
	fuzz_fail("the granter keeps %d descriptors", FDS_MAX);
}

/* --- the model --- */

static struct model_lease *model_find(uint64_t id)
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].id == id) {
			return &box.leases[i];
		}
	}
	return NULL;
}

static void model_remove(struct model_lease *l)
{
	fuzz_check(l->objects == 0);
	*l = box.leases[--box.n_leases];
}

static bool length_is_good(uint64_t ns)
{
	return ns > 0 && ns <= UINT64_C(3600) * 1000000000;
}

static int model_open(const struct granter_request *q)
{
	if (q->lease == 0 || q->gpus == 0 || !length_is_good(q->lease_ns) || q->device > 1) {
		return -EINVAL;
	}
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].id == q->lease || (box.leases[i].gpus & q->gpus) != 0) {
			return -EBUSY;
		}
	}
	return box.n_leases == GRANTER_LEASES_MAX ? -ENOSPC : 0;
}

/* Was the client made on the file that comes with the packet? The others are other programs'. */
static bool box_client_is_own(uint32_t client)
{
	return client % 8 != 7;
}

static bool pid_is_there(uint32_t pid)
{
	return pid > 0 && pid < BOX_PIDS;
}

/* What a packet that asks for an object must fulfil before the driver hears of it. */
static int model_alloc(const struct granter_request *q, enum box_file file)
{
	const struct model_lease *l = model_find(q->lease);

	if (!l || l->uid != q->uid) {
		return -ENOENT;
	}
	if (box.now_ns >= l->expires_ns) {
		return -ETIME;
	}
	if (q->object_class != 0xb2cc || (q->client_target == 0 && !l->device)) {
		return -EPERM;
	}
	if (file != BOX_CONTROL_DEVICE) {
		return -EBADF;
	}
	if (q->client_target != 0 && !box_client_is_own(q->client_target)) {
		return -EPERM;
	}
	/* Never reached with 64 leases of 64 GPUs: four of them could fill all places. */
	if (box.n_objects >= GRANTER_OBJECTS_MAX && l->objects < GRANTER_OBJECTS_PER_LEASE_MAX) {
		return -ENOSPC;
	}
	if (!pid_is_there(q->pid)) {
		return q->pid == 0 || q->pid > INT32_MAX ? -EINVAL : -ESRCH;
	}
	return 0;
}

static int model_foresee(const struct granter_request *q, enum box_file file)
{
	if (q->op != GRANTER_ALLOC && file != BOX_NO_FILE) {
		return -EINVAL;
	}
	switch (q->op) {
	case GRANTER_OPEN:
		return model_open(q);
	case GRANTER_EXTEND:
		if (!model_find(q->lease)) {
			return -ENOENT;
		}
		return length_is_good(q->lease_ns) ? 0 : -EINVAL;
	case GRANTER_CLOSE:
		return model_find(q->lease) ? 0 : -ENOENT;
	case GRANTER_ALLOC:
		return model_alloc(q, file);
	case GRANTER_PING:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* The packet was handled as foreseen. */
static void model_apply(const struct granter_request *q)
{
	struct model_lease *l = model_find(q->lease);

	switch (q->op) {
	case GRANTER_OPEN:
		box.leases[box.n_leases++] = (struct model_lease){
			.id = q->lease,
			.gpus = q->gpus,
			.expires_ns = box.now_ns + q->lease_ns,
			.uid = q->uid,
			.device = q->device == 1,
		};
		box.figures.opened++;
		break;
	case GRANTER_EXTEND:
		l->expires_ns = box.now_ns + q->lease_ns;
		break;
	case GRANTER_CLOSE:
		model_remove(l);
		break;
	default:
		break;
	}
}

static void model_forget_object(struct box_fd *f)
{
	struct model_lease *l = model_find(f->lease);

	f->allocated = false;
	box.n_objects--;
	fuzz_check(l && l->objects > 0);
	l->objects--;
}

/* --- what the granter says --- */

static void check_expired(const struct granter_reply *p)
{
	struct model_lease *l = model_find(p->lease);

	fuzz_check(l && box.now_ns >= l->expires_ns);
	model_remove(l); /* with all its objects freed */
	box.figures.expired++;
}

static void check_reply(const struct granter_reply *p)
{
	const struct granter_request *q = &box.request;
	int expected = box.expected_error;

	fuzz_check(p->size == sizeof(*p));
	if (p->op == GRANTER_EXPIRED && !box.handling) {
		check_expired(p);
		return;
	}
	fuzz_check(box.handling);
	box.handling = false;
	box.figures.replies++;
	if (q->op == GRANTER_ALLOC && expected == 0 && !box.driver_asked &&
	    box.now_ns >= model_find(q->lease)->expires_ns) {
		expected = -ETIME; /* it ended while the packet was looked at */
		fuzz_check(p->error == expected);
		return;
	}
	fuzz_check(p->op == q->op && p->id == q->id && p->lease == q->lease);
	if (q->op == GRANTER_ALLOC && expected == 0) {
		fuzz_check(box.driver_asked);
		expected = box.driver_error;
		fuzz_check(p->status == (expected == 0 ? box.driver_status : 0));
	} else {
		fuzz_check(!box.driver_asked && p->status == 0);
	}
	if (p->error != expected) {
		fuzz_fail("op %u: the answer is %d, not %d", q->op, p->error, expected);
	}
	if (p->error == 0) {
		model_apply(q);
	}
}

/* --- what reaches the driver --- */

/* Nothing of the packet but five numbers: R3. */
static void check_alloc_arguments(const struct rm_alloc *a)
{
	const struct granter_request *q = &box.request;
	const struct rm_profiler_parameters *p =
		(const struct rm_profiler_parameters *)(uintptr_t)a->parameters;
	const uint8_t *bytes = (const uint8_t *)q;

	fuzz_check(a->root == q->root && a->parent == q->parent && a->object == q->object);
	fuzz_check(a->object_class == 0xb2cc);
	fuzz_check(a->rights == 0 && a->parameters_size == 0 && a->flags == 0 && a->status == 0 &&
		   a->padding == 0);
	fuzz_check(p && p->client_target == q->client_target &&
		   p->context_target == q->context_target);
	fuzz_check(p->client_target != 0 ? box_client_is_own(p->client_target)
					 : model_find(q->lease)->device);
	for (size_t i = 0; i + sizeof(uint64_t) <= sizeof(*q); i++) {
		fuzz_check(memcmp(bytes + i, &a->parameters, sizeof(uint64_t)) != 0);
	}
	/* The box's own memory is what a front could know of. */
	fuzz_check((uintptr_t)p < (uintptr_t)&box || (uintptr_t)p >= (uintptr_t)(&box + 1));
}

static int drive_alloc(struct box_fd *f, struct rm_alloc *a)
{
	struct model_lease *l = model_find(box.request.lease);

	fuzz_check(box.handling && box.request.op == GRANTER_ALLOC && !box.driver_asked);
	fuzz_check(box.expected_error == 0);
	fuzz_check(f && f == fd_find(box.request_fd) && f->file == BOX_CONTROL_DEVICE);
	fuzz_check(l && l->uid == box.request.uid && box.now_ns < l->expires_ns && box.looked);
	check_alloc_arguments(a);
	box.figures.allocs++;
	box.driver_asked = true;
	box.driver_error = -box.step.driver_errno;
	box.driver_status = box.step.driver_status;
	if (box.step.driver_errno != 0) {
		errno = box.step.driver_errno;
		return -1;
	}
	a->status = box.step.driver_status;
	if (a->status == RM_STATUS_OK) {
		f->allocated = true;
		f->lease = box.request.lease;
		f->pid = box.request.pid;
		f->generation = box.generations[f->pid];
		f->root = a->root;
		f->parent = a->parent;
		f->object = a->object;
		l->objects++;
		box.n_objects++;
		fuzz_check(l->objects <= GRANTER_OBJECTS_PER_LEASE_MAX);
		fuzz_check(box.n_objects <= GRANTER_OBJECTS_MAX);
		box.figures.grants++;
	}
	return 0;
}

/* Nobody loses an object but at the end of its lease, or to another one of the same lease when
 * there are too many. */
static void check_end_of_object(const struct box_fd *f)
{
	const struct model_lease *l = model_find(f->lease);

	fuzz_check(l);
	if (!box.handling) {
		fuzz_check(box.now_ns >= l->expires_ns || box.malformed || box.ended || box.at_end);
	} else if (box.request.op == GRANTER_ALLOC) {
		fuzz_check(l->id == box.request.lease);
		fuzz_check(l->objects == GRANTER_OBJECTS_PER_LEASE_MAX);
	} else {
		fuzz_check(box.request.op == GRANTER_CLOSE && l->id == box.request.lease);
	}
}

/* Object 0 is nobody's: who asks to free it learns whether the file has the client. */
static int drive_question(const struct box_fd *f, struct rm_free *p)
{
	const struct granter_request *q = &box.request;

	fuzz_check(box.handling && q->op == GRANTER_ALLOC && !box.driver_asked);
	fuzz_check(f && f == fd_find(box.request_fd) && f->file == BOX_CONTROL_DEVICE);
	fuzz_check(p->root == q->client_target && p->parent == p->root && p->status == 0);
	p->status = box_client_is_own(p->root) ? RM_STATUS_OK : 0x23;
	return 0;
}

static int drive_free(struct box_fd *f, struct rm_free *p)
{
	if (box.handling && box.request.op == GRANTER_ALLOC && p->object == 0 && f &&
	    !f->allocated) {
		return drive_question(f, p);
	}
	fuzz_check(f && f->kind == FD_FILE && f->allocated);
	fuzz_check(p->root == f->root && p->parent == f->parent && p->object == f->object);
	fuzz_check(p->status == 0);
	check_end_of_object(f);
	model_forget_object(f);
	box.figures.frees++;
	if (box.step.driver_errno != 0) {
		errno = box.step.driver_errno;
		return -1;
	}
	p->status = box.step.driver_status;
	return 0;
}

/* --- the front's half of the link --- */

static bool is_malformed(const struct box_step *s)
{
	uint32_t size = 0;

	memcpy(&size, s->bytes, sizeof(size));
	return s->n_bytes != sizeof(struct granter_request) ||
	       size != sizeof(struct granter_request) || s->n_files > 1;
}

static void take_step(void)
{
	memset(&box.step, 0, sizeof(box.step));
	box.next(&box.step, box.userdata);
	box.step_due_ns = box.now_ns + box.step.after_ns;
	box.step_waits = true;
}

static void begin_packet(void)
{
	box.has_packet = true;
	box.figures.packets++;
}

/* The step's time has come. */
static void act(void)
{
	box.step_waits = false;
	box.tick_ns = box.step.tick_ns;
	switch (box.step.kind) {
	case BOX_PACKET:
		begin_packet();
		break;
	case BOX_EXIT:
		box.generations[box.step.pid % BOX_PIDS]++;
		break;
	case BOX_STOP_READING:
		box.reading = false;
		break;
	case BOX_READ:
		box.reading = true;
		box.unread = 0;
		break;
	case BOX_WAIT:
		break;
	case BOX_END:
		box.at_end = true;
		break;
	}
}

static bool has_exited(const struct box_fd *f)
{
	return box.generations[f->pid] != f->generation;
}

/* A socket says that it can be written to while at most a quarter of its buffer is in use. */
static short link_events(short wanted)
{
	bool readable = box.has_packet || box.at_end;
	bool writable = box.unread * 4 <= REPLIES_MAX;

	return (short)((readable ? wanted & POLLIN : 0) | (writable ? wanted & POLLOUT : 0) |
		       (box.at_end ? POLLHUP : 0));
}

static int look(struct pollfd *p, nfds_t n)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++) {
		const struct box_fd *f = fd_find(p[i].fd);

		p[i].revents = p[i].fd == LINK ? link_events(p[i].events)
			       : f && f->kind == FD_PIDFD && has_exited(f) ? POLLIN
									   : 0;
		ready += p[i].revents != 0;
	}
	return ready;
}

static uint64_t earliest_end(void)
{
	uint64_t earliest = UINT64_MAX;

	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].expires_ns < earliest) {
			earliest = box.leases[i].expires_ns;
		}
	}
	return earliest;
}

/* Waits as the kernel does: until something is ready or the time is over. A granter must not sleep
 * through the end of a lease, whatever its front does. */
static int box_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	uint64_t by =
		timeout_ms < 0 ? UINT64_MAX : box.now_ns + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
	int ready;

	fuzz_check(!box.handling);
	if (timeout_ms == 0) {
		ready = look(p, n);
		box.idle_polls = ready ? 0 : box.idle_polls + 1;
		if (box.idle_polls > 1000) {
			fuzz_fail("the granter spins, with %u leases", box.n_leases);
		}
		return ready;
	}
	fuzz_check(earliest_end() == UINT64_MAX || earliest_end() + 2 * CLOCK_NS_PER_MS >= by);
	while ((ready = look(p, n)) == 0) {
		if (!box.step_waits) {
			/* A packet that nobody takes, because replies are not read: the front
			 * reads in the end, or closes. */
			if (box.has_packet && !box.reading && by == UINT64_MAX) {
				box.reading = true;
				box.unread = 0;
				continue;
			}
			if (box.has_packet) {
				box.now_ns = by;
				return 0;
			}
			take_step();
		}
		if (box.step_due_ns > by) {
			box.now_ns = by;
			return 0;
		}
		box.now_ns = box.step_due_ns > box.now_ns ? box.step_due_ns : box.now_ns;
		act();
	}
	return ready;
}

static void put_files(struct msghdr *m, const struct box_step *s)
{
	struct cmsghdr *c = m->msg_control;
	size_t room = (m->msg_controllen - CMSG_LEN(0)) / sizeof(int);
	size_t n = s->n_files < room ? s->n_files : room;

	box.request_fd = -1;
	m->msg_controllen = 0;
	if (n == 0) {
		return;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++) {
		int fd = fd_new((struct box_fd){ .kind = FD_FILE, .file = s->file });

		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
		box.request_fd = fd;
	}
	m->msg_controllen = CMSG_SPACE(n * sizeof(int));
	m->msg_flags |= n < s->n_files ? MSG_CTRUNC : 0;
}

static ssize_t box_receive(struct msghdr *m)
{
	const struct box_step *s = &box.step;
	size_t n = s->n_bytes < m->msg_iov->iov_len ? s->n_bytes : m->msg_iov->iov_len;

	m->msg_flags = 0;
	if (!box.has_packet) {
		fuzz_check(box.at_end); /* else it would sleep here, and no lease would end */
		m->msg_controllen = 0;
		box.ended = true;
		return 0;
	}
	box.has_packet = false;
	memcpy(m->msg_iov->iov_base, s->bytes, n);
	m->msg_flags |= s->n_bytes > n ? MSG_TRUNC : 0;
	put_files(m, s);
	box.ended = n == 0 && s->n_files <= 1; /* an empty packet looks like the end */
	box.malformed = !box.ended && is_malformed(s);
	if (!box.malformed && !box.ended) {
		memcpy(&box.request, s->bytes, sizeof(box.request));
		box.handling = true;
		box.driver_asked = box.looked = false;
		box.expected_error =
			model_foresee(&box.request, s->n_files > 0 ? s->file : BOX_NO_FILE);
	}
	return (ssize_t)n;
}

static ssize_t box_send(const void *data, size_t n, int flags)
{
	struct granter_reply p;

	fuzz_check(n == sizeof(p) && !box.malformed);
	if (box.at_end) {
		errno = EPIPE;
		return -1;
	}
	if (box.unread >= REPLIES_MAX) {
		if ((flags & MSG_DONTWAIT) == 0) {
			fuzz_fail("the granter sleeps in send() while %u leases run", box.n_leases);
		}
		errno = EAGAIN;
		return -1;
	}
	memcpy(&p, data, sizeof(p));
	check_reply(&p);
	box.unread += !box.reading;
	return (ssize_t)n;
}

static int box_close(struct box_fd *f)
{
	fuzz_check(f->kind != FD_FREE);
	/* Without a free first: only when nobody is left to use the object. */
	if (f->allocated) {
		fuzz_check(has_exited(f));
		model_forget_object(f);
	}
	f->kind = FD_FREE;
	box.n_fds--;
	if (f - fds < box.lowest_fd) {
		box.lowest_fd = (int)(f - fds);
	}
	return 0;
}

static int box_pidfd_open(uint32_t pid)
{
	if (!pid_is_there(pid)) {
		errno = pid == 0 || pid > INT32_MAX ? EINVAL : ESRCH;
		return -1;
	}
	return fd_new((struct box_fd){
		.kind = FD_PIDFD, .pid = pid, .generation = box.generations[pid] });
}

static int box_fstat(const struct box_fd *f, struct stat *st)
{
	static const mode_t modes[BOX_FILES] = {
		[BOX_CONTROL_DEVICE] = S_IFCHR, [BOX_CONTROL_PATH] = S_IFCHR,
		[BOX_OTHER_DEVICE] = S_IFCHR,	[BOX_REGULAR] = S_IFREG,
		[BOX_SOCKET] = S_IFSOCK,
	};
	bool control = f->file == BOX_CONTROL_DEVICE || f->file == BOX_CONTROL_PATH;

	if (f->kind != FD_FILE || f->file == BOX_CLOSED) {
		errno = EBADF;
		return -1;
	}
	*st = (struct stat){
		.st_mode = modes[f->file] | 0666,
		/* A regular file with the numbers of the control device is none. */
		.st_rdev = control || f->file == BOX_REGULAR ? makedev(195, 255) : makedev(1, 3),
	};
	return 0;
}

/* --- instead of libc --- */

/* glibc's header says that poll() only writes to its array, and here it is read. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

EXPORT int poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	if (box.active && n > 0 && p[0].fd == LINK) {
		return box_poll(p, n, timeout_ms);
	}
	return (int)syscall(SYS_poll, p, n, timeout_ms);
}

/* What poll() becomes where the compiler knows the size of the array. */
EXPORT int __poll_chk(struct pollfd *p, nfds_t n, int timeout_ms, size_t size);

EXPORT int __poll_chk(struct pollfd *p, nfds_t n, int timeout_ms, size_t size)
{
	fuzz_check(n <= size / sizeof(*p));
	return poll(p, n, timeout_ms);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (box.active && fd == LINK) {
		return box_receive(m);
	}
	return syscall(SYS_recvmsg, fd, m, flags);
}

EXPORT ssize_t send(int fd, const void *data, size_t n, int flags)
{
	if (box.active && fd == LINK) {
		return box_send(data, n, flags);
	}
	return syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *p;

	va_start(ap, request);
	p = va_arg(ap, void *);
	va_end(ap);
	if (!box.active) {
		return (int)syscall(SYS_ioctl, fd, request, p);
	}
	if (request == RM_IOCTL_ALLOC) {
		return drive_alloc(fd_find(fd), p);
	}
	fuzz_check(request == RM_IOCTL_FREE);
	return drive_free(fd_find(fd), p);
}

EXPORT int fstat(int fd, struct stat *st)
{
	const struct box_fd *f = fd_find(fd);

	return f ? box_fstat(f, st) : (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
}

EXPORT int fcntl(int fd, int command, ...)
{
	const struct box_fd *f = fd_find(fd);
	va_list ap;
	long argument;

	va_start(ap, command);
	argument = va_arg(ap, long);
	va_end(ap);
	if (!f) {
		return (int)syscall(SYS_fcntl, fd, command, argument);
	}
	fuzz_check(command == F_GETFL);
	if (f->kind != FD_FILE || f->file == BOX_CLOSED) {
		errno = EBADF;
		return -1;
	}
	return O_RDWR | (f->file == BOX_CONTROL_PATH ? O_PATH : 0);
}

EXPORT int close(int fd)
{
	struct box_fd *f = fd_find(fd);

	return f ? box_close(f) : (int)syscall(SYS_close, fd);
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
	if (box.active && id == CLOCK_MONOTONIC) {
		box.now_ns += box.tick_ns;
		box.looked = true;
		*t = (struct timespec){ (time_t)(box.now_ns / CLOCK_NS_PER_S),
					(long)(box.now_ns % CLOCK_NS_PER_S) };
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, t);
}

/* With as many arguments as there can be: which of them were given only the kernel knows. */
__attribute__((no_sanitize_address)) EXPORT long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
		a[i] = va_arg(ap, long);
	}
	va_end(ap);
	if (box.active && number == SYS_pidfd_open) {
		return box_pidfd_open((uint32_t)a[0]);
	}
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- the box --- */

struct box_figures box_run(box_next next, void *userdata)
{
	int status;

	memset(&box, 0, sizeof(box));
	box.next = next;
	box.userdata = userdata;
	box.now_ns = CLOCK_NS_PER_S;
	box.lowest_fd = 1;
	box.reading = true;
	box.active = true;
	log_init("granter", LOG_EMERG); /* what it says of malformed packets is not wanted here */
	status = granter_run(LINK);
	box.active = false;
	fuzz_check(box.malformed || box.ended || box.at_end);
	fuzz_check((status == 0) == !box.malformed);
	fuzz_check(box.n_fds == 0 && box.n_objects == 0); /* nothing is left behind */
	return box.figures;
}

void box_packet(struct box_step *step, const struct granter_request *q, enum box_file file)
{
	step->kind = BOX_PACKET;
	memcpy(step->bytes, q, sizeof(*q));
	step->n_bytes = sizeof(*q);
	step->file = file;
	step->n_files = file == BOX_NO_FILE ? 0 : 1;
}
