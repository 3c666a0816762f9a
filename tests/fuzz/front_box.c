/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/front_box.h"

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
#include "tests/fuzz/closers_box.h"
#include "tests/fuzz/fuzz.h"

/* libuv asks the kernel for events by epoll_wait() or epoll_pwait(), which stand here before
 * libc's. Each call is a turn: what has been queued is sent, what the front has said is read and
 * checked, and if nothing was left to send, the test acts. Then the kernel is asked without
 * waiting. */

static struct front_box_listener listener;

#define EXPORT __attribute__((visibility("default")))

enum {
	TOKENS = 8,
	REQUESTS = 64,
	STOP_TURNS = 4000,
	CONTAINER_ROOT = FRONT_BOX_USERS,
	TRUDY,
	USERS,
};

static const uid_t uids[USERS] = { 0, 1001, 1002, 6666, 0, 7777 };
static const pid_t nobodys_pid = 0x7ffffff0; /* beyond the largest that the kernel gives */

struct box_peer {
	int fd; /* -1: not connected */
	unsigned user;
	struct buffer out, in;
	size_t chunk;
	unsigned n_attached;
	bool reading;
	struct front_box_heard heard;
};

/* A request to one of the processes that waits for its answer. */
struct box_request {
	struct granter_request granter;
	enum wire_type type;
	uint32_t id;
};

struct box_lease {
	uint64_t id, gpus;
	uint32_t uid;
};

struct box_process {
	int fd; /* the box's end; -1: there is none */
	bool prompt;
	struct buffer in;
	struct box_request requests[REQUESTS];
	size_t n_requests;
};

static struct {
	bool active;
	front_box_act act;
	void *userdata;
	bool acts_over, stopped;
	unsigned turns_since_stop;
	uint64_t now_ns;
	uint64_t random;

	struct box_peer peers[FRONT_BOX_PEERS];
	unsigned users[256]; /* of connections that are not accepted yet, in their order */
	pid_t pids[256], pid;
	unsigned n_connected, n_accepted;
	char tokens[TOKENS][LIMIT_TOKEN_BYTES + 1];
	unsigned n_tokens;
	struct box_lease leases[GRANTER_LEASES_MAX];
	unsigned n_leases;

	int listener, control;
	struct pollfd readable[FRONT_BOX_PEERS + FRONT_BOX_ASKED + 2];
	struct sockaddr_un address;
	socklen_t address_length;
	struct box_process granter, asked[FRONT_BOX_ASKED];
	uint32_t tenants[FRONT_BOX_GPUS]; /* pids */
	struct config config;
	struct arena arena, scratch;
} box;

void front_box_listen(const struct front_box_listener *l)
{
	listener = *l;
}

/* --- instead of daemon/base/log.c --- */

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
	if (listener.on_decision) {
		listener.on_decision(line);
	}
	return 0;
}

/* --- peers --- */

static struct box_peer *peer_at(unsigned peer)
{
	return &box.peers[peer % FRONT_BOX_PEERS];
}

static void peer_close(struct box_peer *p)
{
	if (p->fd >= 0) {
		closers_box_close(p->fd);
	}
	buffer_deinit(&p->in);
	buffer_deinit(&p->out);
	*p = (struct box_peer){ .fd = -1, .reading = true };
}

static void connect_as(unsigned peer, unsigned user)
{
	struct box_peer *p = peer_at(peer);

	peer_close(p);
	if (box.stopped) {
		return;
	}
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	fuzz_check(p->fd >= 0);
	if (connect(p->fd, (struct sockaddr *)&box.address, box.address_length) < 0) {
		peer_close(p); /* more wait to be accepted than may */
		return;
	}
	p->user = user;
	box.pids[box.n_connected % 256] = user == CONTAINER_ROOT ? nobodys_pid : box.pid;
	box.users[box.n_connected++ % 256] = p->user;
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
	box.pid = pid;
}

void front_box_connect_trudy(unsigned peer)
{
	connect_as(peer, TRUDY);
}

uid_t front_box_uid(unsigned user)
{
	return uids[user % FRONT_BOX_USERS];
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
		fuzz_check(wire_encode(&box.scratch, &p->out, m) == 0);
		arena_reset(&box.scratch);
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

const char *front_box_token(unsigned capture)
{
	return box.tokens[capture % TOKENS];
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

	const int fd = closers_box_attachment();

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

/* --- what peers hear --- */

static void hear_token(const char *token)
{
	snprintf(box.tokens[box.n_tokens++ % TOKENS], sizeof(box.tokens[0]), "%s", token);
}

static void hear_message(struct box_peer *p, const struct wire_message *m)
{
	bool is_public = m->type == WIRE_METRICS_REPLY || m->type == WIRE_PLAN_REPLY ||
			 m->type == WIRE_AGENT_REGISTERED ||
			 (m->type == WIRE_WELCOME && m->welcome.catalogue);

	if ((p->user == FRONT_BOX_MALLORY || p->user == TRUDY) && !is_public &&
	    m->type != WIRE_REFUSAL && m->type != WIRE_PERMISSION_REPLY) {
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
	case WIRE_PERMISSION_REPLY:
		fuzz_check(m->permission_reply.status != 0 || p->user != FRONT_BOX_MALLORY);
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

		arena_reset(&box.arena);
		r = wire_decode(&box.arena, f.type, f.payload, f.size, &m);
		if (r != 0) {
			fuzz_fail("the front says a %s that cannot be decoded",
				  wire_type_to_string(f.type));
		}
		hear_message(p, &m);
		if (listener.on_message) {
			listener.on_message((unsigned)(p - box.peers), &f);
		}
		buffer_consume(&p->in, FRAME_HEADER_BYTES + f.size);
	}
	fuzz_check(r == FRAME_E_MORE);
}

static bool is_readable(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(box.readable); i++) {
		if (box.readable[i].fd == fd) {
			return (box.readable[i].revents & POLLIN) != 0;
		}
	}
	return true; /* opened in this turn */
}

/* With one call for all, since most of them have said nothing. */
static void find_readable(void)
{
	size_t n = 0;

	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		box.readable[n++] = (struct pollfd){ box.peers[i].fd, POLLIN, 0 };
	}
	box.readable[n++] = (struct pollfd){ box.granter.fd, POLLIN, 0 };
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		box.readable[n++] = (struct pollfd){ box.asked[i].fd, POLLIN, 0 };
	}
	box.readable[n++] = (struct pollfd){ box.control, POLLIN, 0 };
	poll(box.readable, n, 0);
}

/* How many bytes came; 0: the other end is closed. -EAGAIN: none. */
static ssize_t receive_into(int fd, struct buffer *b)
{
	ssize_t n;

	if (!is_readable(fd)) {
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
	ssize_t n = p->fd >= 0 && p->reading ? receive_into(p->fd, &p->in) : -EAGAIN;

	p->heard.closed = p->heard.closed || n == 0;
	if (n > 0) {
		hear_frames(p);
	}
	return n > 0;
}

/* --- the granter --- */

static struct box_lease *lease_find(uint64_t id)
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].id == id) {
			return &box.leases[i];
		}
	}
	return NULL;
}

static void lease_remove(struct box_lease *l)
{
	*l = box.leases[--box.n_leases];
}

static void check_open(const struct granter_request *q)
{
	fuzz_check(q->lease != 0 && q->gpus != 0 && q->lease_ns != 0);
	fuzz_check(q->lease_ns <= GRANTER_LEASE_MAX_NS);
	fuzz_check((q->gpus >> FRONT_BOX_GPUS) == 0 && q->uid != uids[FRONT_BOX_MALLORY]);
	for (unsigned i = 0; i < box.n_leases; i++) {
		fuzz_check(box.leases[i].id != q->lease);
		fuzz_check((box.leases[i].gpus & q->gpus) == 0);
	}
}

static int apply(const struct granter_request *q)
{
	struct box_lease *l = lease_find(q->lease);

	switch (q->op) {
	case GRANTER_OPEN:
		check_open(q);
		box.leases[box.n_leases++] = (struct box_lease){ q->lease, q->gpus, q->uid };
		return 0;
	case GRANTER_EXTEND:
		fuzz_check(q->lease_ns != 0 && q->lease_ns <= GRANTER_LEASE_MAX_NS);
		return l ? 0 : -ENOENT;
	case GRANTER_CLOSE:
		if (l) {
			lease_remove(l);
		}
		return l ? 0 : -ENOENT;
	case GRANTER_ALLOC:
		/* Of a capture that has just ended, perhaps, but never of another user's. */
		fuzz_check(!l || l->uid == q->uid);
		return l ? 0 : -ENOENT;
	case GRANTER_PING:
		return 0;
	default:
		fuzz_fail("the front asks the granter for op %u", q->op);
	}
}

static void granter_send(const void *data, size_t n)
{
	if (box.granter.fd >= 0) {
		send(box.granter.fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static struct box_request take_request(struct box_process *p)
{
	struct box_request q = p->requests[0];

	p->n_requests--;
	memmove(p->requests, p->requests + 1, p->n_requests * sizeof(q));
	return q;
}

void front_box_granter_answer(int error, uint32_t status)
{
	struct granter_reply reply = { .size = sizeof(reply) };
	struct box_request q;

	if (box.granter.n_requests == 0) {
		return;
	}
	q = take_request(&box.granter);
	reply.op = q.granter.op;
	reply.id = q.granter.id;
	reply.lease = q.granter.lease;
	/* A close always works: the model of leases counts on it. */
	reply.error = error != 0 && q.granter.op != GRANTER_CLOSE ? error : apply(&q.granter);
	reply.status = q.granter.op == GRANTER_ALLOC ? status : 0;
	granter_send(&reply, sizeof(reply));
}

void front_box_granter_set_prompt(bool prompt)
{
	box.granter.prompt = prompt;
}

void front_box_granter_expire(unsigned lease)
{
	struct granter_reply reply = { .size = sizeof(reply), .op = GRANTER_EXPIRED };

	if (box.n_leases > 0) {
		struct box_lease *l = &box.leases[lease % box.n_leases];

		reply.lease = l->id;
		lease_remove(l);
		granter_send(&reply, sizeof(reply));
	}
}

void front_box_granter_hang(uint64_t gpus)
{
	struct granter_reply reply = { .size = sizeof(reply), .op = GRANTER_HUNG, .gpus = gpus };

	for (unsigned i = box.n_leases; i > 0; i--) {
		if ((box.leases[i - 1].gpus & gpus) != 0) {
			lease_remove(&box.leases[i - 1]);
		}
	}
	granter_send(&reply, sizeof(reply));
}

void front_box_granter_say(const void *data, size_t n)
{
	granter_send(data, n);
}

static bool granter_receive(void)
{
	struct granter_request q;
	int fd = -1;
	ssize_t n;

	if (box.granter.fd < 0 || box.granter.n_requests == REQUESTS ||
	    !is_readable(box.granter.fd)) {
		return false;
	}
	n = fdpass_receive(box.granter.fd, &q, sizeof(q), &fd, MSG_DONTWAIT);
	if (n <= 0) {
		return false;
	}
	fuzz_check(n == (ssize_t)sizeof(q) && q.size == sizeof(q));
	fuzz_check((q.op == GRANTER_ALLOC) == (fd >= 0));
	if (fd >= 0) {
		closers_box_close(fd);
	}
	if (listener.on_granter_request) {
		listener.on_granter_request(&q);
	}
	box.granter.requests[box.granter.n_requests++].granter = q;
	if (box.granter.prompt) {
		front_box_granter_answer(0, 0);
	}
	return true;
}

/* --- the gpu process and the planner --- */

static void gpu_send(enum front_box_asked which, struct wire_message *m)
{
	struct buffer b = { 0 };

	fuzz_check(wire_encode(&box.scratch, &b, m) == 0);
	arena_reset(&box.scratch);
	front_box_gpu_say(which, b.data + b.start, buffer_length(&b));
	buffer_deinit(&b);
}

void front_box_gpu_say(enum front_box_asked which, const void *data, size_t n)
{
	if (box.asked[which].fd >= 0) {
		send(box.asked[which].fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void answer_refusal(enum front_box_asked which, uint32_t id)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { id, GPUCTR_E_METRIC_UNKNOWN, "no such metric", "look again" },
	};

	gpu_send(which, &m);
}

static void answer_metrics(uint32_t id, bool last)
{
	static const struct gpuctr_metric metric = { .name = "dram__bytes",
						     .kind = GPUCTR_METRIC_COUNTER,
						     .unit = "byte",
						     .hardware_unit = "dram",
						     .description = "bytes" };
	struct wire_message m = {
		.type = WIRE_METRICS_REPLY,
		.metrics_reply = { id, "GH100", { 1, &metric }, last },
	};

	gpu_send(FRONT_BOX_PLANNER, &m);
}

static void answer_plan(uint32_t id, uint32_t passes)
{
	static const char *const metrics[] = { "dram__bytes.sum", "gpu__time_duration.sum" };
	static const uint32_t first[] = { 0 }, second[] = { 1 };
	static const double one[] = { 1 };
	static const struct wire_column columns[] = {
		{ "dram__bytes.sum", "byte", { 1, first }, { 1, one }, 0 },
		{ "gpu__time_duration.sum", "ns", { 1, second }, { 1, one }, 1 },
	};
	struct wire_message m = {
		.type = WIRE_PLAN_REPLY,
		.plan_reply = { id, { "GH100", { 2, metrics }, { 2, columns }, passes, passes } },
	};

	gpu_send(FRONT_BOX_PLANNER, &m);
}

static void answer_status(enum front_box_asked which, uint32_t id)
{
	static const struct gpuctr_gpu gpus[FRONT_BOX_GPUS] = {
		{ 0, FRONT_BOX_UUID_0, "H200", "GH100", 0, 0 },
		{ 1, FRONT_BOX_UUID_1, "H200", "GH100", 0, 0 },
	};
	struct wire_message m = {
		.type = WIRE_STATUS_REPLY,
		.status_reply = { .request = id,
				  .driver = "580",
				  .cupti = "13",
				  .gpus = { FRONT_BOX_GPUS, gpus } },
	};

	gpu_send(which, &m);
}

static void say_tenants(uint32_t id, bool known, const uint32_t *gpu, const uint32_t *pid, size_t n)
{
	struct wire_message m = {
		.type = WIRE_TENANTS_REPLY,
		.tenants_reply = { id, known, { n, gpu }, { n, pid } },
	};

	gpu_send(FRONT_BOX_GPU, &m);
}

static void answer_tenants(uint32_t id, bool known, bool foreign)
{
	/* The first is there, and root's or whose the test is; the second has gone. */
	const uint32_t foreign_gpu[] = { 1, 0 }, foreign_pid[] = { 1, (uint32_t)nobodys_pid };
	uint32_t gpu[FRONT_BOX_GPUS], pid[FRONT_BOX_GPUS];
	size_t n = 0;

	if (foreign) {
		say_tenants(id, known, foreign_gpu, foreign_pid, ARRAY_SIZE(foreign_gpu));
		return;
	}
	for (uint32_t i = 0; i < FRONT_BOX_GPUS; i++) {
		if (box.tenants[i] != 0) {
			gpu[n] = i;
			pid[n++] = box.tenants[i];
		}
	}
	say_tenants(id, known, gpu, pid, n);
}

void front_box_set_tenant(unsigned gpu, uint32_t pid)
{
	box.tenants[gpu % FRONT_BOX_GPUS] = pid;
}

void front_box_gpu_answer(enum front_box_asked which, enum front_box_answer answer)
{
	struct box_process *p = &box.asked[which];
	struct box_request q;

	if (p->n_requests == 0) {
		return;
	}
	if (answer == FRONT_BOX_MORE_METRICS && p->requests[0].type == WIRE_METRICS_REQUEST) {
		answer_metrics(p->requests[0].id, false);
		return;
	}
	q = take_request(p);
	if (answer == FRONT_BOX_REFUSAL) {
		answer_refusal(which, q.id);
		return;
	}
	switch (q.type) {
	case WIRE_METRICS_REQUEST:
		answer_metrics(q.id, true);
		break;
	case WIRE_PLAN_REQUEST:
		answer_plan(q.id, answer == FRONT_BOX_PASSES ? 2 : 1);
		break;
	case WIRE_TENANTS_REQUEST:
		answer_tenants(q.id, answer != FRONT_BOX_UNKNOWN_TENANTS,
			       answer == FRONT_BOX_FOREIGN_TENANT);
		break;
	default:
		answer_status(which, q.id);
		break;
	}
}

void front_box_gpu_set_prompt(enum front_box_asked which, bool prompt)
{
	box.asked[which].prompt = prompt;
}

/* Each is asked for what it knows alone. The first member of all these is their number. */
static uint32_t request_id(enum front_box_asked which, const struct wire_message *m)
{
	bool of_planner = m->type == WIRE_METRICS_REQUEST || m->type == WIRE_PLAN_REQUEST;

	fuzz_check(m->type == WIRE_STATUS_REQUEST || of_planner || m->type == WIRE_TENANTS_REQUEST);
	fuzz_check(m->type == WIRE_STATUS_REQUEST || of_planner == (which == FRONT_BOX_PLANNER));
	return m->status_request.request;
}

static bool gpu_receive(enum front_box_asked which)
{
	struct box_process *p = &box.asked[which];
	struct wire_message m;
	struct frame f;

	if (p->fd < 0 || p->n_requests == REQUESTS) {
		return false;
	}
	if (frame_parse(p->in.data + p->in.start, buffer_length(&p->in), &f) != 0) {
		return receive_into(p->fd, &p->in) > 0;
	}
	arena_reset(&box.arena);
	fuzz_check(wire_decode(&box.arena, f.type, f.payload, f.size, &m) == 0);
	buffer_consume(&p->in, FRAME_HEADER_BYTES + f.size);
	p->requests[p->n_requests++] =
		(struct box_request){ .type = m.type, .id = request_id(which, &m) };
	if (p->prompt || m.type == WIRE_STATUS_REQUEST) {
		while (p->n_requests > 0) {
			front_box_gpu_answer(which, FRONT_BOX_GOOD);
		}
	}
	return true;
}

/* --- the supervisor --- */

static void process_end(struct box_process *p)
{
	if (p->fd >= 0) {
		closers_box_close(p->fd);
	}
	p->fd = -1;
	p->n_requests = 0;
	buffer_deinit(&p->in);
}

/* The other end of a fresh link, which is the front's. */
static int box_process_begin(struct box_process *p, int type)
{
	int pair[2];

	fuzz_check(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
	process_end(p);
	p->fd = pair[0];
	return pair[1];
}

static void replace(struct box_process *p, int type, enum control_op op, bool dies_first)
{
	int fd;

	if (dies_first) {
		process_end(p);
		return;
	}
	fd = box_process_begin(p, type);
	control_send(box.control, op, fd);
	closers_box_close(fd);
}

void front_box_granter_replace(bool dies_first)
{
	box.n_leases = 0;
	replace(&box.granter, SOCK_SEQPACKET, CONTROL_NEW_GRANTER, dies_first);
}

void front_box_gpu_replace(enum front_box_asked which, bool dies_first)
{
	replace(&box.asked[which], SOCK_STREAM,
		which == FRONT_BOX_PLANNER ? CONTROL_NEW_PLANNER : CONTROL_NEW_GPU, dies_first);
}

void front_box_hold_closes(bool hold)
{
	closers_box_hold(hold);
}

void front_box_pass(uint64_t ms)
{
	box.now_ns += ms * CLOCK_NS_PER_MS;
}

void front_box_reload(bool shared, unsigned limit)
{
	box.config.shared = shared;
	box.config.queue_max = box.config.captures_per_user = box.config.connections_per_user =
		1 + limit % 32;
	front_box_reload_settings();
}

struct config *front_box_settings(void)
{
	return &box.config;
}

void front_box_reload_settings(void)
{
	control_send_reload(box.control, &box.config, -1);
}

void front_box_stop(void)
{
	box.stopped = true;
	control_send(box.control, CONTROL_STOP, -1);
}

static void read_control(void)
{
	struct control_message m;
	int fd;

	while (control_receive(box.control, &m, &fd) > 0) {
		fuzz_check(fd < 0);
	}
}

/* --- turns --- */

/* At the end everybody reads, and time passes, until the loop has nothing left. */
static void end_turn(void)
{
	if (!box.stopped) {
		front_box_stop();
	}
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		box.peers[i].reading = true;
	}
	box.granter.prompt = true;
	closers_box_hold(false);
	while (box.granter.n_requests > 0) {
		front_box_granter_answer(0, 0);
	}
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		box.asked[i].prompt = true;
		while (box.asked[i].n_requests > 0) {
			front_box_gpu_answer((enum front_box_asked)i, FRONT_BOX_GOOD);
		}
	}
	front_box_pass(100);
	if (++box.turns_since_stop > STOP_TURNS) {
		fuzz_fail("the front does not stop");
	}
}

static void turn(void)
{
	bool busy = false;

	find_readable();
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		busy = peer_send_chunk(&box.peers[i]) || busy;
		busy = peer_read(&box.peers[i]) || busy;
	}
	while (granter_receive()) {
		busy = true;
	}
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		while (gpu_receive((enum front_box_asked)i)) {
			busy = true;
		}
	}
	if (is_readable(box.control)) {
		read_control();
	}
	closers_box_turn();
	if (busy) {
		return;
	}
	if (!box.acts_over && !box.act(box.userdata)) {
		box.acts_over = true;
	}
	if (box.acts_over) {
		end_turn();
	}
}

/* --- instead of libc --- */

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout_ms,
		       const sigset_t *mask)
{
	int n;

	if (!box.active) {
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
	if (box.active && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
		*t = (struct timespec){ (time_t)(box.now_ns / CLOCK_NS_PER_S),
					(long)(box.now_ns % CLOCK_NS_PER_S) };
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, t);
}

/* Connections are accepted in the order in which they were made. */
EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	struct ucred *u = value;

	if (box.active && level == SOL_SOCKET && name == SO_PEERCRED) {
		unsigned i = box.n_accepted++ % 256;

		*u = (struct ucred){ .pid = box.pids[i] ? box.pids[i] : getpid(),
				     .uid = uids[box.users[i]],
				     .gid = 50000 };
		return 0;
	}
	if (box.active && level == SOL_SOCKET && name == SO_PEERGROUPS) {
		*size = 0;
		return 0;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
}

/* What a box's peer attaches stands for the control device. */
EXPORT int statx(int folder, const char *path, int flags, unsigned mask, struct statx *st)
{
	int r = (int)syscall(SYS_statx, folder, path, flags, mask, st);

	if (r == 0 && path[0] == '\0' && closers_box_is_attachment(folder)) {
		st->stx_mode = S_IFCHR;
		st->stx_rdev_major = RM_DEVICE_MAJOR;
		st->stx_rdev_minor = RM_DEVICE_MINOR_CONTROL;
	}
	return r;
}

/* Tokens are the same in every run. */
EXPORT ssize_t getrandom(void *data, size_t n, unsigned flags)
{
	if (!box.active) {
		return syscall(SYS_getrandom, data, n, flags);
	}
	for (size_t i = 0; i < n; i++) {
		box.random = box.random * 6364136223846793005u + 1442695040888963407u;
		((uint8_t *)data)[i] = (uint8_t)(box.random >> 56);
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
	box.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	box.address.sun_family = AF_UNIX;
	box.address_length = sizeof(box.address);
	/* A name of the kernel's choice. */
	fuzz_check(bind(box.listener, (struct sockaddr *)&box.address, sizeof(sa_family_t)) == 0);
	fuzz_check(getsockname(box.listener, (struct sockaddr *)&box.address,
			       &box.address_length) == 0);
	fuzz_check(listen(box.listener, 64) == 0);
}

static void configure(void)
{
	struct config *c = &box.config;

	*c = (struct config){
		.lease_ns = 600 * CLOCK_NS_PER_S,
		.lease_max_ns = 3600 * CLOCK_NS_PER_S,
		.queue_max = 3,
		.connections_max = FRONT_BOX_PEERS - 1,
		.connections_per_user = FRONT_BOX_PEERS - 2,
		.captures_per_user = 4,
	};
	c->captures_per_minute = c->permissions_per_minute = CONFIG_RATE_MAX;
	c->questions_per_minute = CONFIG_RATE_MAX;
	c->policy.allow.uids[c->policy.allow.n_uids++] = uids[FRONT_BOX_ANN];
	c->policy.allow.uids[c->policy.allow.n_uids++] = uids[FRONT_BOX_BOB];
}

static void box_init(front_box_act act, void *userdata)
{
	memset(&box, 0, sizeof(box));
	box.act = act;
	box.userdata = userdata;
	box.now_ns = 1000 * CLOCK_NS_PER_S;
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		box.peers[i] = (struct box_peer){ .fd = -1, .reading = true };
	}
	box.granter = (struct box_process){ .fd = -1, .prompt = true };
	box.asked[FRONT_BOX_GPU] = box.asked[FRONT_BOX_PLANNER] = box.granter;
	arena_init(&box.arena, LIMIT_UNPACKED_BYTES);
	arena_init(&box.scratch, 4 * LIMIT_UNPACKED_BYTES);
	configure();
	open_listener();
	closers_box_begin();
}

static void box_deinit(void)
{
	for (unsigned i = 0; i < FRONT_BOX_PEERS; i++) {
		peer_close(&box.peers[i]);
	}
	process_end(&box.granter);
	process_end(&box.asked[FRONT_BOX_GPU]);
	process_end(&box.asked[FRONT_BOX_PLANNER]);
	closers_box_close(box.listener);
	closers_box_close(box.control);
	closers_box_end();
	arena_deinit(&box.arena);
	arena_deinit(&box.scratch);
}

void front_box_run(front_box_act act, void *userdata)
{
	static const struct jobs no_jobs;
	static const struct control_restarts no_restarts;
	int fds = lowest_fd(), control[2], granter, gpu, planner, status;

	box_init(act, userdata);
	fuzz_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0);
	box.control = control[0];
	granter = box_process_begin(&box.granter, SOCK_SEQPACKET);
	gpu = box_process_begin(&box.asked[FRONT_BOX_GPU], SOCK_STREAM);
	planner = box_process_begin(&box.asked[FRONT_BOX_PLANNER], SOCK_STREAM);
	box.active = true;
	status = front_run(&(struct front_start){
		.config = &box.config,
		.jobs = &no_jobs,
		.restarts = &no_restarts,
		.listeners = &box.listener,
		.n_listeners = 1,
		.control = control[1],
		.granter = granter,
		.gpu = gpu,
		.planner = planner,
		.audit = -1,
	});
	box.active = false;
	fuzz_check(status == 0); /* else a handle is left in the loop */
	closers_box_close(control[1]);
	box_deinit();
	fuzz_check(lowest_fd() == fds);
}
