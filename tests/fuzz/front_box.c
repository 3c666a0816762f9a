/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/front_box_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/front/front.h"
#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/fd_reaper_box.h"
#include "tests/fuzz/fuzz.h"

/* libuv asks the kernel for events by epoll_wait() or epoll_pwait(), which stand here before
 * libc's. Each call is a turn: what has been queued is sent, what the front has said is read and
 * checked, and if nothing was left to send, the test acts. Then the kernel is asked without
 * waiting. */

#define EXPORT __attribute__((visibility("default")))

struct front_box front_box;
struct front_box_listener front_box_listener;

const uid_t front_box_uids[USERS] = { 0, 1001, 1002, 6666, 0 };

void front_box_listen(const struct front_box_listener *l)
{
	front_box_listener = *l;
}

/* --- instead of daemon/base/log.c --- */

bool log_is_journal(void)
{
	return false;
}

void log_init(const char *process, int max_level)
{
	(void)process;
	(void)max_level;
}

int log_write(int level, const char *format, ...)
{
	(void)level;
	if (strstr(format, "cannot be encoded")) {
		fuzz_fail("the front has made a message beyond the limits");
	}
	return 0;
}

/* The lines of decisions come here. */
int log_always(int level, const char *format, ...)
{
	char line[1024];
	va_list ap;

	(void)level;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	if (front_box_listener.on_decision) {
		front_box_listener.on_decision(line);
	}
	return 0;
}

/* --- peers --- */

static struct box_peer *peer_at(unsigned peer)
{
	return &front_box.peers[peer % FRONT_BOX_PEERS];
}

static void peer_close(struct box_peer *p)
{
	if (p->fd >= 0) {
		fd_reaper_box_close(p->fd);
	}
	buffer_deinit(&p->in);
	buffer_deinit(&p->out);
	*p = (struct box_peer){ .fd = -1, .reading = true };
}

static void connect_as(unsigned peer, unsigned user)
{
	struct box_peer *p = peer_at(peer);

	peer_close(p);
	if (front_box.stopped) {
		return;
	}
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	fuzz_check(p->fd >= 0);
	if (connect(p->fd, (struct sockaddr *)&front_box.address, front_box.address_length) < 0) {
		peer_close(p); /* more wait to be accepted than may */
		return;
	}
	p->user = user;
	front_box.pids[front_box.n_connected % 256] =
		user == CONTAINER_ROOT ? NOBODYS_PID : front_box.pid;
	front_box.users[front_box.n_connected++ % 256] = p->user;
}

void front_box_connect(unsigned peer, unsigned user)
{
	connect_as(peer, user % FRONT_BOX_USERS);
}

void front_box_connect_container(unsigned peer)
{
	connect_as(peer, CONTAINER_ROOT);
}

void front_box_set_pid(pid_t pid)
{
	front_box.pid = pid;
}

uid_t front_box_uid(unsigned user)
{
	return front_box_uids[user % FRONT_BOX_USERS];
}

void front_box_close(unsigned peer, bool half)
{
	struct box_peer *p = peer_at(peer);

	if (half && p->fd >= 0) {
		shutdown(p->fd, SHUT_WR);
	} else {
		peer_close(p);
	}
}

void front_box_say(unsigned peer, const void *data, size_t n)
{
	struct box_peer *p = peer_at(peer);

	if (p->fd >= 0) {
		fuzz_check(buffer_append(&p->out, data, n) == 0);
	}
}

void front_box_say_message(unsigned peer, const struct wire_message *m)
{
	struct box_peer *p = peer_at(peer);

	if (p->fd >= 0) {
		fuzz_check(wire_encode(&front_box.scratch, &p->out, m) == 0);
		arena_reset(&front_box.scratch);
	}
}

void front_box_set_chunk(unsigned peer, size_t bytes)
{
	peer_at(peer)->chunk = bytes;
}

void front_box_attach(unsigned peer, unsigned n)
{
	peer_at(peer)->n_attached = n < 250 ? n % 4 : FDPASS_MAX;
}

void front_box_set_reading(unsigned peer, bool reading)
{
	peer_at(peer)->reading = reading;
}

struct front_box_heard front_box_heard(unsigned peer)
{
	return peer_at(peer)->heard;
}

size_t front_box_unsent(unsigned peer)
{
	return buffer_length(&peer_at(peer)->out);
}

const char *front_box_token(unsigned capture)
{
	return front_box.tokens[capture % TOKENS];
}

void front_box_attach_other_files(bool other)
{
	front_box.other_files = other;
}

static ssize_t send_attached(struct box_peer *p, const void *data, size_t n)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	} c = { .header = { .cmsg_level = SOL_SOCKET,
			    .cmsg_type = SCM_RIGHTS,
			    .cmsg_len = CMSG_LEN(p->n_attached * sizeof(int)) } };
	struct iovec iov = { (void *)(uintptr_t)data, n };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &c,
			    .msg_controllen = CMSG_SPACE(p->n_attached * sizeof(int)) };

	const int fd = fd_reaper_box_attachment();

	for (unsigned i = 0; i < p->n_attached; i++) {
		memcpy(CMSG_DATA(&c.header) + i * sizeof(int), &fd, sizeof(int));
	}
	p->n_attached = 0;
	return sendmsg(p->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* True when something went out. */
static bool peer_send_chunk(struct box_peer *p)
{
	size_t n = buffer_length(&p->out);
	const void *data = p->out.data + p->out.start;
	ssize_t sent;

	if (p->fd < 0 || n == 0) {
		return false;
	}
	if (p->chunk != 0 && p->chunk < n) {
		n = p->chunk > n / 64 ? p->chunk
				      : n / 64; /* a megabyte byte by byte takes too long */
	}
	sent = p->n_attached ? send_attached(p, data, n)
			     : send(p->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0) {
		if (errno != EAGAIN) {
			buffer_consume(&p->out, buffer_length(&p->out)); /* nobody hears it */
		}
		return false;
	}
	buffer_consume(&p->out, (size_t)sent);
	return true;
}

void front_box_leave(unsigned peer)
{
	struct box_peer *p = peer_at(peer);

	while (peer_send_chunk(p)) {
	}
	peer_close(p);
}

/* --- what peers hear --- */

static void hear_token(const char *token)
{
	snprintf(front_box.tokens[front_box.n_tokens++ % TOKENS], sizeof(front_box.tokens[0]), "%s",
		 token);
}

/* Who is not allowed may register where operators capture others' programs. */
static bool is_for_strangers(const struct wire_message *m)
{
	return (m->type == WIRE_REFUSAL && m->refusal.code != 0) ||
	       m->type == WIRE_AGENT_REGISTERED ||
	       (m->type == WIRE_PERMISSION_REPLY && m->permission_reply.code != 0 &&
		m->permission_reply.status == RM_STATUS_INSUFFICIENT_PERMISSIONS);
}

static void hear_message(struct box_peer *p, const struct wire_message *m)
{
	if (p->user == FRONT_BOX_MALLORY && !is_for_strangers(m)) {
		fuzz_fail("a stranger is told %s", wire_type_to_string(m->type));
	}
	switch (m->type) {
	case WIRE_OPENED:
		p->heard.capture = m->opened.capture;
		break;
	case WIRE_READY:
		hear_token(m->ready.token);
		break;
	case WIRE_AGENT_WELCOME:
		p->heard.capture = m->agent_welcome.capture;
		p->heard.process = m->agent_welcome.process;
		break;
	case WIRE_JOB_REPLY:
		fuzz_check(p->user == FRONT_BOX_ROOT);
		break;
	default:
		break;
	}
}

/* What was forwarded without being opened may be anything, but whole frames of known types. */
static void hear_frames(struct box_peer *p)
{
	struct frame f;
	int r;

	while ((r = frame_parse(p->in.data + p->in.start, buffer_length(&p->in), &f)) == 0) {
		struct wire_message m;

		arena_reset(&front_box.arena);
		r = wire_decode(&front_box.arena, f.type, f.payload, f.size, &m);
		if (r != 0) {
			fuzz_fail("the front says a %s that cannot be decoded",
				  wire_type_to_string(f.type));
		}
		hear_message(p, &m);
		if (front_box_listener.on_message) {
			front_box_listener.on_message((unsigned)(p - front_box.peers), &f);
		}
		buffer_consume(&p->in, FRAME_HEADER_BYTES + f.size);
	}
	fuzz_check(r == FRAME_E_MORE);
}

bool front_box_is_readable(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(front_box.readable); i++) {
		if (front_box.readable[i].fd == fd) {
			return (front_box.readable[i].revents & POLLIN) != 0;
		}
	}
	return true; /* opened in this turn */
}

/* With one call for all, since most of them have said nothing. */
static void find_readable(void)
{
	size_t n = 0;

	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		front_box.readable[n++] = (struct pollfd){ front_box.peers[i].fd, POLLIN, 0 };
	}
	front_box.readable[n++] = (struct pollfd){ front_box.granter.fd, POLLIN, 0 };
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		front_box.readable[n++] = (struct pollfd){ front_box.asked[i].fd, POLLIN, 0 };
	}
	front_box.readable[n++] = (struct pollfd){ front_box.control, POLLIN, 0 };
	poll(front_box.readable, n, 0);
}

/* How many bytes came; 0: the other end is closed. -EAGAIN: none. */
ssize_t front_box_receive(int fd, struct buffer *b)
{
	ssize_t n;

	if (!front_box_is_readable(fd)) {
		return -EAGAIN;
	}
	fuzz_check(buffer_reserve(b, 64 * 1024) == 0);
	n = recv(fd, b->data + b->end, b->size - b->end, MSG_DONTWAIT);
	if (n > 0) {
		b->end += (size_t)n;
	}
	return n < 0 ? -EAGAIN : n;
}

static bool peer_read(struct box_peer *p)
{
	ssize_t n = p->fd >= 0 && p->reading ? front_box_receive(p->fd, &p->in) : -EAGAIN;

	p->heard.closed = p->heard.closed || n == 0;
	if (n > 0) {
		hear_frames(p);
	}
	return n > 0;
}

/* --- turns --- */

/* At the end everybody reads, and time passes, until the loop has nothing left. */
static void end_turn(void)
{
	if (!front_box.stopped) {
		front_box_stop();
	}
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		front_box.peers[i].reading = true;
	}
	front_box.granter.prompt = true;
	fd_reaper_box_hold(false);
	while (front_box.granter.n_requests > 0) {
		front_box_granter_answer(0, 0);
	}
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		front_box.asked[i].prompt = true;
		while (front_box.asked[i].n_requests > 0) {
			front_box_gpu_answer((enum front_box_asked)i, FRONT_BOX_GOOD);
		}
	}
	front_box_pass(100);
	if (++front_box.turns_since_stop > STOP_TURNS) {
		fuzz_fail("the front does not stop");
	}
}

static void turn(void)
{
	bool busy = false;

	find_readable();
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		busy = peer_send_chunk(&front_box.peers[i]) || busy;
		busy = peer_read(&front_box.peers[i]) || busy;
	}
	while (front_box_granter_receive()) {
		busy = true;
	}
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		while (front_box_gpu_receive((enum front_box_asked)i)) {
			busy = true;
		}
	}
	if (front_box_is_readable(front_box.control)) {
		front_box_read_control();
	}
	fd_reaper_box_turn();
	if (busy) {
		return;
	}
	front_box.n_acts++;
	front_box_check_given_up();
	if (!front_box.acts_over && !front_box.act(front_box.userdata)) {
		front_box.acts_over = true;
	}
	if (front_box.acts_over) {
		end_turn();
	}
}

/* --- instead of libc --- */

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
		       const sigset_t *mask)
{
	int n;

	if (!front_box.active) {
		return (int)syscall(SYS_epoll_pwait, epoll, events, max, timeout_ms, mask, 8);
	}
	do {
		turn();
		n = (int)syscall(SYS_epoll_pwait, epoll, events, max, 0, NULL, 8);
	} while (n == 0 && timeout_ms < 0); /* who waits for ever may not come back without */
	return n;
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout_ms)
{
	return epoll_pwait(epoll, events, max, timeout_ms, NULL);
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
	if (front_box.active && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
		*t = (struct timespec){ (time_t)(front_box.now_ns / CLOCK_NS_PER_S),
					(long)(front_box.now_ns % CLOCK_NS_PER_S) };
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, t);
}

/* Connections are accepted in the order in which they were made. */
EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	struct ucred *u = value;

	if (front_box.active && level == SOL_SOCKET && name == SO_PEERCRED) {
		unsigned i = front_box.n_accepted++ % 256;

		*u = (struct ucred){ .pid = front_box.pids[i] ? front_box.pids[i] : getpid(),
				     .uid = front_box_uids[front_box.users[i]],
				     .gid = 50000 };
		return 0;
	}
	if (front_box.active && level == SOL_SOCKET && name == SO_PEERGROUPS) {
		bool is_first = !value;

		*size = front_box.groups_fail ? sizeof(gid_t) : 0;
		errno = EIO;
		return front_box.groups_fail == (is_first ? 1 : 2) ? -1 : 0;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
}

/* What a box's peer attaches stands for the control device. */
EXPORT int statx(int folder, const char *path, int flags, unsigned mask, struct statx *st)
{
	int r = (int)syscall(SYS_statx, folder, path, flags, mask, st);

	if (r == 0 && path[0] == '\0' && !front_box.other_files &&
	    fd_reaper_box_is_attachment(folder)) {
		st->stx_mode = S_IFCHR;
		st->stx_rdev_major = RM_DEVICE_MAJOR;
		st->stx_rdev_minor = RM_DEVICE_MINOR_CONTROL;
	}
	return r;
}

/* Tokens are the same in every run. */
EXPORT ssize_t getrandom(void *data, size_t n, unsigned flags)
{
	if (!front_box.active) {
		return syscall(SYS_getrandom, data, n, flags);
	}
	for (size_t i = 0; i < n; i++) {
		front_box.random = front_box.random * 6364136223846793005u + 1442695040888963407u;
		((uint8_t *)data)[i] = (uint8_t)(front_box.random >> 56);
	}
	return (ssize_t)n;
}

/* --- the box --- */

/* The lowest number that is free: higher afterwards when something was left open. */
static int lowest_fd(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void open_listener(void)
{
	front_box.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	front_box.address.sun_family = AF_UNIX;
	front_box.address_length = sizeof(front_box.address);
	/* A name of the kernel's choice. */
	fuzz_check(bind(front_box.listener, (struct sockaddr *)&front_box.address,
			sizeof(sa_family_t)) == 0);
	fuzz_check(getsockname(front_box.listener, (struct sockaddr *)&front_box.address,
			       &front_box.address_length) == 0);
	fuzz_check(listen(front_box.listener, 64) == 0);
}

static void configure(void)
{
	struct config *c = &front_box.config;

	*c = (struct config){
		.lease_max_ns = 3600 * CLOCK_NS_PER_S,
		.queue_max = 3,
		.connections_max = FRONT_BOX_PEERS - 1,
		.connections_per_user = FRONT_BOX_PEERS - 2,
		.captures_per_user = 4,
	};
	c->captures_per_minute = c->permissions_per_minute = CONFIG_RATE_MAX;
	c->questions_per_minute = CONFIG_RATE_MAX;
	c->policy.allow.uids[c->policy.allow.n_uids++] = front_box_uids[FRONT_BOX_ANN];
	c->policy.allow.uids[c->policy.allow.n_uids++] = front_box_uids[FRONT_BOX_BOB];
}

static void box_init(front_box_act act, void *userdata)
{
	memset(&front_box, 0, sizeof(front_box));
	front_box.act = act;
	front_box.userdata = userdata;
	front_box.now_ns = 1000 * CLOCK_NS_PER_S;
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		front_box.peers[i] = (struct box_peer){ .fd = -1, .reading = true };
	}
	front_box.granter = (struct box_process){ .fd = -1, .prompt = true };
	front_box.asked[FRONT_BOX_GPU] = front_box.asked[FRONT_BOX_PLANNER] = front_box.granter;
	arena_init(&front_box.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&front_box.scratch, 4 * LIMIT_UNPACKED_BYTES);
	configure();
	open_listener();
	fd_reaper_box_begin();
}

static void box_deinit(void)
{
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		peer_close(&front_box.peers[i]);
	}
	front_box_process_end(&front_box.granter);
	front_box_process_end(&front_box.asked[FRONT_BOX_GPU]);
	front_box_process_end(&front_box.asked[FRONT_BOX_PLANNER]);
	fd_reaper_box_close(front_box.listener);
	fd_reaper_box_close(front_box.control);
	fd_reaper_box_end();
	arena_deinit(&front_box.arena);
	arena_deinit(&front_box.scratch);
}

void front_box_run(front_box_act act, void *userdata)
{
	static struct front_start start;
	int fds = lowest_fd(), control[2], status;

	box_init(act, userdata);
	fuzz_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0);
	front_box.control = control[0];
	start = (struct front_start){
		.config = front_box.config,
		.listeners = { front_box.listener },
		.n_listeners = 1,
		.control = control[1],
		.links = { front_box_process_begin(&front_box.granter, SOCK_SEQPACKET),
			   front_box_process_begin(&front_box.asked[FRONT_BOX_GPU], SOCK_STREAM),
			   front_box_process_begin(&front_box.asked[FRONT_BOX_PLANNER],
						   SOCK_STREAM) },
		.audit = -1,
	};
	front_box.active = true;
	status = front_run(&start);
	front_box.active = false;
	fuzz_check(status == 0); /* else a handle is left in the loop */
	fd_reaper_box_close(control[1]);
	box_deinit();
	fuzz_check(lowest_fd() == fds);
}
