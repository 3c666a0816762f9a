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
#include <time.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "proto/nvidia/rm.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/granter_model.h"

/* The kernel: functions of libc that stand before libc's own in the executable; those on
 * descriptors of the box are answered here, all others by the kernel itself. And the granter's
 * threads, without threads: a call is done when it is given. The loop hears of it before the next
 * packet comes, or, if the driver hangs, when it answers again. */

#define EXPORT __attribute__((visibility("default")))

struct box box;
struct box_fd fds[FDS_MAX];

struct box_fd *fd_find(int fd)
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

/* --- the front's half of the link --- */

static bool is_malformed(const struct box_step *s)
{
	uint32_t size = 0;

	memcpy(&size, s->bytes, sizeof(size));
	return s->n_bytes != sizeof(struct granter_request) ||
	       size != sizeof(struct granter_request);
}

static void take_step(void)
{
	size_t n = box.step.n_bytes > sizeof(struct granter_request)
			   ? box.step.n_bytes
			   : sizeof(struct granter_request);

	/* Of its bytes those that the last step can have written: they are most of it. */
	memset(box.step.bytes, 0, n);
	memset(&box.step, 0, offsetof(struct box_step, bytes));
	memset(&box.step.n_bytes, 0, sizeof(box.step) - offsetof(struct box_step, n_bytes));
	box.next(&box.step, box.userdata);
	box.step_due_ns = box.now_ns + box.step.after_ns;
	box.step_waits = true;
}

static void begin_packet(void)
{
	box.has_packet = true;
	box.figures.packets++;
}

static void set_thread(unsigned thread, bool busy, bool hangs)
{
	struct box_thread *h = &box.threads[thread];

	box.n_hanging += (unsigned)hangs - (unsigned)h->hangs;
	box.n_stuck += (unsigned)(busy && hangs) - (unsigned)(h->busy && h->hangs);
	h->busy = busy;
	h->hangs = hangs;
}

static void set_hangs(unsigned thread, bool hangs)
{
	set_thread(thread, box.threads[thread].busy, hangs);
}

static void answer_everywhere(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		set_hangs(i, false);
	}
}

static bool threads_are_done(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		if (box.threads[i].busy && !box.threads[i].hangs) {
			return true;
		}
	}
	return false;
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
		box.any_exited = true;
		break;
	case BOX_STOP_READING:
		box.reading = box.n_hanging > 0;
		break;
	case BOX_READ:
		box.reading = true;
		box.unread = 0;
		break;
	case BOX_WAIT:
	case BOX_PAUSE:
		break;
	case BOX_HANG:
		/* What a front that does not read is told later, the model could not place. */
		set_hangs(box.step.pid % THREADS, box.reading);
		break;
	case BOX_ANSWER:
		set_hangs(box.step.pid % THREADS, false);
		break;
	case BOX_END:
		box.at_end = true;
		answer_everywhere();
		break;
	}
}

bool has_exited(const struct box_fd *f)
{
	return box.generations[f->pid] != f->generation;
}

/* A socket says that it can be written to while at most a quarter of its buffer is in use. */
static short link_events(short wanted)
{
	bool readable = (box.has_packet || box.at_end) && !threads_are_done();
	bool writable = box.unread * 4 <= REPLIES_MAX;

	return (short)((readable ? wanted & POLLIN : 0) | (writable ? wanted & POLLOUT : 0) |
		       (box.at_end ? POLLHUP : 0));
}

static int look(struct pollfd *p, nfds_t n)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++) {
		const struct box_fd *f = box.any_exited ? fd_find(p[i].fd) : NULL;

		p[i].revents = p[i].fd == LINK		 ? link_events(p[i].events)
			       : p[i].fd == THREADS_DONE ? threads_are_done() * POLLIN
			       : f && f->kind == FD_PIDFD && has_exited(f) ? POLLIN
									   : 0;
		ready += p[i].revents != 0;
	}
	return ready;
}

/* Nobody can say anything in a pause, so it is no more silence than a period. */
static void pause_machine(void)
{
	uint64_t ns = box.step.after_ns;

	box.now_ns += ns;
	box.heard_ns += ns - (ns < GRANTER_SILENCE_NS ? ns : GRANTER_SILENCE_NS);
	box.looked_ns += GRANTER_SILENCE_NS;
	box.step_due_ns = box.now_ns;
}

/* The granter has left the front, which it may do when that has been silent for long enough. */
static void be_left(void)
{
	if (!box.at_end && !box.ended && !box.malformed) {
		fuzz_check(model_is_silent());
		box.at_end = box.figures.silent = true;
	}
	answer_everywhere();
}

/* Waits as the kernel does: until something is ready or the time is over. A granter must not sleep
 * through what it has to do, whatever its front does. */
static int box_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	uint64_t by =
		timeout_ms < 0 ? UINT64_MAX : box.now_ns + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
	int ready;

	if (p[0].fd != LINK) {
		be_left();
	}
	fuzz_check(!model_is_overdue());
	if (timeout_ms == 0) {
		ready = look(p, n);
		box.idle_polls = ready ? 0 : box.idle_polls + 1;
		if (box.idle_polls > 1000) {
			fuzz_fail("the granter spins, with %u leases", box.n_leases);
		}
		return ready;
	}
	fuzz_check(threads_are_done() || model_next_ns() == UINT64_MAX ||
		   model_next_ns() + 2 * CLOCK_NS_PER_MS >= by);
	while ((ready = look(p, n)) == 0) {
		if (!box.step_waits) {
			/* A packet that nobody takes, because replies are not read: the front
			 * reads in the end, or not. */
			if (box.has_packet && !box.reading &&
			    (by == UINT64_MAX || !box.step.starves)) {
				box.now_ns += CLOCK_NS_PER_S;
				box.reading = true;
				box.unread = 0;
				continue;
			}
			if (box.has_packet) {
				box.now_ns = by;
				return 0;
			}
			take_step();
			if (box.step.kind == BOX_PAUSE) {
				pause_machine();
			}
		}
		if (box.step_due_ns > by) {
			box.now_ns = box.now_ns > by ? box.now_ns : by;
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

	box.current.fd = -1;
	m->msg_controllen = 0;
	if (n == 0) {
		return;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++) {
		int fd = fd_new((struct box_fd){
			.kind = FD_FILE, .file = s->file, .asked_lease = box.current.q.lease });

		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
		box.current.fd = fd;
	}
	m->msg_controllen = CMSG_SPACE(n * sizeof(int));
	m->msg_flags |= n < s->n_files ? MSG_CTRUNC : 0;
}

static ssize_t box_receive(struct msghdr *m, int flags)
{
	const struct box_step *s = &box.step;
	size_t n = s->n_bytes < m->msg_iov->iov_len ? s->n_bytes : m->msg_iov->iov_len;

	m->msg_flags = 0;
	if (!box.has_packet && !box.at_end) {
		fuzz_check((flags & MSG_DONTWAIT) != 0); /* else it would sleep here */
		errno = EAGAIN;
		return -1;
	}
	if (!box.has_packet) {
		m->msg_controllen = 0;
		box.ended = true;
		return 0;
	}
	box.has_packet = false;
	if (box.handling) {
		model_set_aside();
	}
	memcpy(&box.current.q, s->bytes, sizeof(box.current.q));
	box.current.q.id = ++box.last_id; /* so that replies can be told apart */
	memcpy(m->msg_iov->iov_base, &box.current.q, n);
	m->msg_flags |= s->n_bytes > n ? MSG_TRUNC : 0;
	put_files(m, s);
	box.ended = n == 0 && s->n_files <= 1; /* an empty packet looks like the end */
	box.malformed = !box.ended && is_malformed(s);
	if (!box.malformed && !box.ended) {
		box.heard_ns = box.now_ns;
		box.looked_ns = 0;
		model_begin(s->n_files > 0 ? s->file : BOX_NO_FILE, s->n_files);
	} else {
		answer_everywhere();
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
	model_check_reply(&p);
	box.unread += !box.reading;
	return (ssize_t)n;
}

static int box_close(struct box_fd *f)
{
	fuzz_check(f->kind != FD_FREE);
	fuzz_check(!f->allocated); /* the file may be another process's too, which would use it */
	model_forget_file(f);
	f->kind = FD_FREE;
	box.n_fds--;
	if (f - fds < box.lowest_fd) {
		box.lowest_fd = (int)(f - fds);
	}
	return 0;
}

bool box_has_process(uint32_t pid)
{
	return pid > 0 && pid < BOX_PIDS;
}

static int box_pidfd_open(uint32_t pid)
{
	if (!box_has_process(pid)) {
		errno = pid == 0 || pid > INT32_MAX ? EINVAL : ESRCH;
		return -1;
	}
	for (unsigned i = 0, left = box.n_fds; left > 0; i++) { /* a process is watched once */
		left -= fds[i].kind != FD_FREE;
		fuzz_check(fds[i].kind != FD_PIDFD || fds[i].pid != pid || has_exited(&fds[i]));
	}
	return fd_new((struct box_fd){
		.kind = FD_PIDFD, .pid = pid, .generation = box.generations[pid] });
}

static int box_statx(const struct box_fd *f, struct statx *st)
{
	static const mode_t modes[BOX_FILES] = {
		[BOX_CONTROL_DEVICE] = S_IFCHR, [BOX_CONTROL_PATH] = S_IFCHR,
		[BOX_OTHER_DEVICE] = S_IFCHR,	[BOX_REGULAR] = S_IFREG,
		[BOX_SOCKET] = S_IFSOCK,
	};
	bool control = f->file == BOX_CONTROL_DEVICE || f->file == BOX_CONTROL_PATH;
	/* Other devices have one number of the two: /dev/nvidia0, say. */
	bool of_a_gpu = box.figures.packets % 2 == 0;

	if (f->kind != FD_FILE || f->file == BOX_CLOSED) {
		errno = EBADF;
		return -1;
	}
	/* A regular file with the numbers of the control device is none. */
	control = control || f->file == BOX_REGULAR;
	*st = (struct statx){
		.stx_mode = modes[f->file] | 0666,
		.stx_rdev_major = control || of_a_gpu ? RM_DEVICE_MAJOR : 1,
		.stx_rdev_minor = control || !of_a_gpu ? RM_DEVICE_MINOR_CONTROL : 0,
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
	if (box.active && n > 0 && (p[0].fd == LINK || (n > 1 && p[1].fd == THREADS_DONE))) {
		return box_poll(p, n, timeout_ms);
	}
	if (n == 1 && fd_find(p[0].fd)) {
		fuzz_check(timeout_ms == 0);
		return look(p, n);
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
		return box_receive(m, flags);
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
		return model_drive_alloc(fd_find(fd), p);
	}
	if (request == RM_IOCTL_CONTROL) {
		return model_drive_control(fd_find(fd), p);
	}
	fuzz_check(request == RM_IOCTL_FREE);
	return model_drive_free(fd_find(fd), p);
}

EXPORT int statx(int fd, const char *path, int flags, unsigned mask, struct statx *st)
{
	const struct box_fd *f = fd_find(fd);

	/* To wait for a file system is to wait for a user. */
	fuzz_check(!f || (flags & AT_STATX_DONT_SYNC) != 0);
	return f ? box_statx(f, st) : (int)syscall(SYS_statx, fd, path, flags, mask, st);
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
		box.looked_ns += box.tick_ns;
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

/* --- instead of the granter's threads --- */

int threads_start(void)
{
	return 0;
}

int threads_fd(void)
{
	return THREADS_DONE;
}

void threads_acknowledge(void)
{
}

void thread_give(unsigned thread, const struct call *call)
{
	struct box_thread *h = &box.threads[thread];
	const struct box_fd *f = fd_find(call->fd);

	fuzz_check(thread < THREADS && !h->busy && f && f->kind == FD_FILE);
	set_thread(thread, true, h->hangs);
	h->call = *call;
	h->lease = f->allocated ? f->lease : f->asked_lease;
	h->since_ns = box.now_ns;
	call_do(&h->call);
}

bool thread_take(unsigned thread, struct call *ret)
{
	struct box_thread *h = &box.threads[thread];

	if (!h->busy || h->hangs) {
		return false;
	}
	set_thread(thread, false, false);
	*ret = h->call;
	return true;
}

/* --- the box --- */

struct box_figures box_run(box_next next, void *userdata)
{
	bool hangs;
	int status;

	memset(&box, 0, sizeof(box));
	box.next = next;
	box.userdata = userdata;
	box.now_ns = box.heard_ns = CLOCK_NS_PER_S;
	box.lowest_fd = 1;
	box.reading = true;
	box.active = true;
	log_init("granter", LOG_EMERG); /* what it says of malformed packets is not wanted here */
	status = granter_run(LINK);
	box.active = false;
	hangs = box.n_stuck > 0;
	be_left();
	fuzz_check((status == 0) == (!box.malformed && !box.figures.silent));
	/* Nothing is left behind, except where the driver hangs. */
	fuzz_check(hangs || (box.n_fds == 0 && box.n_objects == 0));
	memset(fds, 0, sizeof(fds));
	return box.figures;
}

void box_packet(struct box_step *step, const struct granter_request *q, enum box_file file)
{
	struct granter_request named = *q;

	for (unsigned i = 0; q->op == GRANTER_OPEN && i < GRANTER_GPUS_MAX; i++) {
		named.names[i] = box_gpu(i);
	}
	step->kind = BOX_PACKET;
	memcpy(step->bytes, &named, sizeof(named));
	step->n_bytes = sizeof(named);
	step->file = file;
	step->n_files = file == BOX_NO_FILE ? 0 : 1;
}
