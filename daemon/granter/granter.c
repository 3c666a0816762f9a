/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/granter.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/clean.h"
#include "daemon/base/clock.h"
#include "daemon/base/closer.h"
#include "daemon/base/fdpass.h"
#include "daemon/base/log.h"
#include "daemon/granter/rm.h"

/* The one process that performs the privileged act. It believes the front nothing that it can check
 * itself: a lease covers GPUs no other lease covers, belongs to one uid, ends by this process's own
 * clock, and only allocations of one class reach the driver, for a client of the caller's own file,
 * or for the whole device if the lease was opened for that.
 *
 * For every object that was allocated a duplicate of the caller's descriptor is kept, because only
 * the file an RM client was made on can free the object again. A kept descriptor also keeps a dead
 * process's GPU memory, so each one is paired with a pidfd and dropped when that process is gone.
 * When the front goes away every object is freed: no lease outlives the one who answers for it. A
 * front that does not read its replies is not listened to until it does: to sleep in a send would
 * be to sleep through the end of a lease. */

struct lease {
	uint64_t id; /* 0: free slot */
	uint64_t gpus;
	uint64_t expires_ns;
	uint32_t uid;
	bool device; /* may have objects without a target client */
	unsigned n_objects;
};

struct object {
	uint64_t lease; /* 0: free slot */
	uint32_t root, parent, object;
	uint64_t age; /* the smallest is the oldest */
	int fd, pidfd;
};

struct granter {
	int link;
	bool crowded; /* the front has many replies to read first */
	uint64_t last_age;
	struct lease leases[GRANTER_LEASES_MAX];
	struct object objects[GRANTER_OBJECTS_MAX];
	struct pollfd polls[1 + GRANTER_OBJECTS_MAX];
	unsigned polled[1 + GRANTER_OBJECTS_MAX]; /* object of each entry of polls */
};

static struct lease *lease_find(struct granter *g, uint64_t id)
{
	for (size_t i = 0; id != 0 && i < ARRAY_SIZE(g->leases); i++) {
		if (g->leases[i].id == id) {
			return &g->leases[i];
		}
	}
	return NULL;
}

static void object_drop(struct granter *g, struct object *o)
{
	struct lease *l = lease_find(g, o->lease);

	if (l) {
		l->n_objects--;
	}
	closer_close(o->fd);
	if (o->pidfd >= 0) {
		close(o->pidfd);
	}
	*o = (struct object){ .fd = -1, .pidfd = -1 };
}

/* CUPTI may have freed the object itself: "not found" is then the driver's answer and fine. */
static void object_revoke(struct granter *g, struct object *o)
{
	uint32_t status = 0;
	int r = rm_free_object(o->fd, o->root, o->parent, o->object, &status);

	if (r < 0 || (status != RM_STATUS_OK && status != RM_STATUS_OBJECT_NOT_FOUND)) {
		log_debug("free of object 0x%x: %s, status 0x%x", o->object, strerror(-r), status);
	}
	object_drop(g, o);
}

static void lease_close(struct granter *g, struct lease *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(g->objects) && l->n_objects > 0; i++) {
		if (g->objects[i].lease == l->id) {
			object_revoke(g, &g->objects[i]);
		}
	}
	*l = (struct lease){ 0 };
}

static int handle_open(struct granter *g, const struct granter_request *q)
{
	struct lease *slot = NULL;

	if (q->lease == 0 || q->lease_ns == 0 || q->lease_ns > GRANTER_LEASE_MAX_NS ||
	    q->gpus == 0 || q->device > 1) {
		return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(g->leases); i++) {
		if (g->leases[i].id == 0) {
			slot = slot ? slot : &g->leases[i];
		} else if (g->leases[i].id == q->lease || (g->leases[i].gpus & q->gpus) != 0) {
			return -EBUSY;
		}
	}
	if (!slot) {
		return -ENOSPC;
	}
	*slot = (struct lease){
		.id = q->lease,
		.gpus = q->gpus,
		.expires_ns = clock_now_ns() + q->lease_ns,
		.uid = q->uid,
		.device = q->device == 1,
	};
	return 0;
}

static int handle_extend(struct granter *g, const struct granter_request *q)
{
	struct lease *l = lease_find(g, q->lease);

	if (!l) {
		return -ENOENT;
	}
	if (q->lease_ns == 0 || q->lease_ns > GRANTER_LEASE_MAX_NS) {
		return -EINVAL;
	}
	l->expires_ns = clock_now_ns() + q->lease_ns;
	return 0;
}

static int handle_close(struct granter *g, const struct granter_request *q)
{
	struct lease *l = lease_find(g, q->lease);

	if (!l) {
		return -ENOENT;
	}
	lease_close(g, l);
	return 0;
}

static int validate_alloc(const struct lease *l, const struct granter_request *q, int fd)
{
	if (!l || l->uid != q->uid) {
		return -ENOENT;
	}
	if (clock_now_ns() >= l->expires_ns) {
		return -ETIME;
	}
	if (q->object_class != RM_CLASS_PROFILER_DEVICE || (q->client_target == 0 && !l->device)) {
		return -EPERM;
	}
	if (fd < 0 || !rm_is_control_device(fd)) {
		return -EBADF;
	}
	/* CUPTI targets another client of its process than the one that asks. */
	if (q->client_target != 0 && !rm_file_has_client(fd, q->client_target)) {
		return -EPERM;
	}
	return 0;
}

/* CUPTI frees most of its objects itself, which nobody sees here: when a lease has as many as it
 * may, the oldest is freed once more. A program that hoards objects loses them in turn. */
static void make_room(struct granter *g, const struct lease *l)
{
	struct object *oldest = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(g->objects); i++) {
		struct object *o = &g->objects[i];

		if (o->lease == l->id && (!oldest || o->age < oldest->age)) {
			oldest = o;
		}
	}
	if (oldest && l->n_objects >= GRANTER_OBJECTS_PER_LEASE_MAX) {
		object_revoke(g, oldest);
	}
}

static int handle_alloc(struct granter *g, const struct granter_request *q, int *fd,
			uint32_t *ret_status)
{
	struct rm_profiler_parameters parameters = { q->client_target, q->context_target };
	struct lease *l = lease_find(g, q->lease);
	struct object *slot = NULL;
	CLEAN_FD int pidfd = -1;
	int r = validate_alloc(l, q, *fd);

	if (r < 0) {
		return r;
	}
	make_room(g, l);
	for (size_t i = 0; i < ARRAY_SIZE(g->objects) && !slot; i++) {
		slot = g->objects[i].lease == 0 ? &g->objects[i] : NULL;
	}
	if (!slot) {
		return -ENOSPC;
	}
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)q->pid, 0);
	if (pidfd < 0) {
		return -errno;
	}
	r = rm_alloc_profiler(*fd, q->root, q->parent, q->object, &parameters, ret_status);
	if (r < 0 || *ret_status != RM_STATUS_OK) {
		return r;
	}
	*slot = (struct object){
		q->lease,      q->root,	     q->parent,	     q->object,
		++g->last_age, TAKE_FD(*fd), TAKE_FD(pidfd),
	};
	l->n_objects++;
	return 0;
}

static int handle_request(struct granter *g, const struct granter_request *q, int *fd,
			  uint32_t *ret_status)
{
	if (q->op != GRANTER_ALLOC && *fd >= 0) {
		return -EINVAL;
	}
	switch (q->op) {
	case GRANTER_OPEN:
		return handle_open(g, q);
	case GRANTER_EXTEND:
		return handle_extend(g, q);
	case GRANTER_CLOSE:
		return handle_close(g, q);
	case GRANTER_ALLOC:
		return handle_alloc(g, q, fd, ret_status);
	case GRANTER_PING:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* There is room: nothing is read from the front while less than three quarters of the socket's
 * buffer are free (see has_room()), and that holds a word about every lease. */
static int send_reply(int link, const struct granter_reply *p)
{
	ssize_t n;

	do {
		n = send(link, p, sizeof(*p), MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Anything malformed is fatal: the front is ours, so a malformed packet means it no longer is. */
static int serve_one(struct granter *g)
{
	struct granter_request q;
	CLEAN_FD int fd = -1;
	struct granter_reply p = { .size = sizeof(p) };
	ssize_t n = fdpass_receive(g->link, &q, sizeof(q), &fd, 0);

	if (n <= 0) {
		return n < 0 ? (int)n : -EPIPE;
	}
	if (n != (ssize_t)sizeof(q) || q.size != sizeof(q)) {
		return -EPROTO;
	}
	p.op = q.op;
	p.id = q.id;
	p.lease = q.lease;
	p.error = handle_request(g, &q, &fd, &p.status);
	closer_close(TAKE_FD(fd));
	return send_reply(g->link, &p);
}

static int expire_leases(struct granter *g)
{
	uint64_t now = clock_now_ns();

	for (size_t i = 0; i < ARRAY_SIZE(g->leases); i++) {
		struct lease *l = &g->leases[i];
		struct granter_reply p = { .size = sizeof(p),
					   .op = GRANTER_EXPIRED,
					   .lease = l->id };
		int r;

		if (l->id == 0 || now < l->expires_ns) {
			continue;
		}
		lease_close(g, l);
		r = send_reply(g->link, &p);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

static int next_timeout_ms(const struct granter *g)
{
	uint64_t now = clock_now_ns(), next = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(g->leases); i++) {
		if (g->leases[i].id != 0 && g->leases[i].expires_ns < next) {
			next = g->leases[i].expires_ns;
		}
	}
	if (next == UINT64_MAX) {
		return -1;
	}
	return next <= now ? 0 : (int)((next - now) / CLOCK_NS_PER_MS) + 1;
}

static nfds_t fill_polls(struct granter *g)
{
	nfds_t n = 0;

	g->polls[n++] = (struct pollfd){ g->link, g->crowded ? POLLOUT : POLLIN, 0 };
	for (size_t i = 0; i < ARRAY_SIZE(g->objects); i++) {
		if (g->objects[i].lease != 0) {
			g->polled[n] = (unsigned)i;
			g->polls[n++] = (struct pollfd){ g->objects[i].pidfd, POLLIN, 0 };
		}
	}
	return n;
}

/* Linux lets a Unix socket be written to while at most a quarter of its buffer is in use. */
static bool has_room(int link)
{
	struct pollfd p = { link, POLLOUT, 0 };

	return poll(&p, 1, 0) != 0;
}

static int run_once(struct granter *g)
{
	nfds_t n = fill_polls(g);
	int r = poll(g->polls, n, next_timeout_ms(g));

	if (r < 0) {
		return errno == EINTR ? 0 : -errno;
	}
	for (nfds_t i = 1; i < n; i++) {
		if (g->polls[i].revents != 0) {
			object_drop(g, &g->objects[g->polled[i]]);
		}
	}
	r = expire_leases(g);
	if (r == 0 && g->polls[0].revents != 0) {
		g->crowded = !has_room(g->link);
		r = g->crowded ? 0 : serve_one(g);
	}
	return r;
}

int granter_run(int link)
{
	static struct granter g;
	int r;

	g.link = link;
	g.crowded = false;
	do {
		r = run_once(&g);
	} while (r == 0);
	for (size_t i = 0; i < ARRAY_SIZE(g.leases); i++) {
		if (g.leases[i].id != 0) {
			lease_close(&g, &g.leases[i]);
		}
	}
	if (r != -EPIPE && r != -ECONNRESET) {
		log_error("stopped: %s", strerror(-r));
		return 1;
	}
	return 0;
}
