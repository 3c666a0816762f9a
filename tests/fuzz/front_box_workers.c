/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/front_box_state.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/config/control.h"
#include "proto/base/clock.h"
#include "proto/base/fdpass.h"
#include "proto/nvidia/rm.h"
#include "tests/fuzz/fd_reaper_box.h"
#include "tests/fuzz/fuzz.h"

/* The box's other half: granter, gpu process, planner and supervisor, as the front meets them. */

/* --- the granter --- */

static struct box_lease *lease_find(uint64_t id)
{
	for (unsigned i = 0; i < front_box.n_leases; i++) {
		if (front_box.leases[i].id == id) {
			return &front_box.leases[i];
		}
	}
	return NULL;
}

static void lease_remove(struct box_lease *l)
{
	*l = front_box.leases[--front_box.n_leases];
}

static void check_open(const struct granter_request *q)
{
	fuzz_check(q->lease != 0 && q->gpus != 0);
	fuzz_check((q->gpus >> FRONT_BOX_GPUS) == 0 && q->uid != front_box_uids[FRONT_BOX_MALLORY]);
	for (unsigned i = 0; i < front_box.n_leases; i++) {
		fuzz_check(front_box.leases[i].id != q->lease);
		fuzz_check((front_box.leases[i].gpus & q->gpus) == 0);
	}
}

static int apply(const struct granter_request *q)
{
	struct box_lease *l = lease_find(q->lease);

	switch (q->op) {
	case GRANTER_OPEN:
		check_open(q);
		front_box.leases[front_box.n_leases++] =
			(struct box_lease){ q->lease, q->gpus, q->uid };
		return 0;
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
	if (front_box.granter.fd >= 0) {
		send(front_box.granter.fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
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

	if (front_box.granter.n_requests == 0) {
		return;
	}
	q = take_request(&front_box.granter);
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
	front_box.granter.prompt = prompt;
}

void front_box_granter_hang(uint64_t gpus)
{
	struct granter_reply reply = { .size = sizeof(reply), .op = GRANTER_HUNG, .gpus = gpus };

	for (unsigned i = front_box.n_leases; i > 0; i--) {
		if ((front_box.leases[i - 1].gpus & gpus) != 0) {
			lease_remove(&front_box.leases[i - 1]);
		}
	}
	granter_send(&reply, sizeof(reply));
}

void front_box_granter_say(const void *data, size_t n)
{
	granter_send(data, n);
}

bool front_box_granter_receive(void)
{
	struct granter_request q;
	int fd = -1;
	ssize_t n;

	if (front_box.granter.fd < 0 || front_box.granter.n_requests == REQUESTS ||
	    !front_box_is_readable(front_box.granter.fd)) {
		return false;
	}
	n = fdpass_receive(front_box.granter.fd, &q, sizeof(q), &fd, MSG_DONTWAIT);
	if (n <= 0) {
		return false;
	}
	fuzz_check(n == (ssize_t)sizeof(q) && q.size == sizeof(q));
	fuzz_check((q.op == GRANTER_ALLOC) == (fd >= 0));
	if (fd >= 0) {
		fd_reaper_box_close(fd);
	}
	if (front_box_listener.on_granter_request) {
		front_box_listener.on_granter_request(&q);
	}
	front_box.granter.requests[front_box.granter.n_requests++].granter = q;
	if (front_box.granter.prompt) {
		front_box_granter_answer(0, 0);
	}
	return true;
}

/* --- the gpu process and the planner --- */

static void gpu_send_bytes(enum front_box_asked which, const void *data, size_t n)
{
	if (front_box.asked[which].fd >= 0) {
		send(front_box.asked[which].fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

static void gpu_send(enum front_box_asked which, struct wire_message *m)
{
	struct buffer b = { 0 };

	fuzz_check(wire_encode(&front_box.scratch, &b, m) == 0);
	arena_reset(&front_box.scratch);
	gpu_send_bytes(which, b.data + b.start, buffer_length(&b));
	buffer_deinit(&b);
}

void front_box_gpu_say(enum front_box_asked which, const void *data, size_t n)
{
	front_box.asked[which].noisy = true;
	gpu_send_bytes(which, data, n);
}

static void answer_refusal(enum front_box_asked which, uint32_t id)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = { id, GPUCTR_E_METRIC_UNKNOWN, "no such metric", "look again" },
	};

	gpu_send(which, &m);
}

static void answer_metrics(enum front_box_asked which, uint32_t id, bool last)
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

	gpu_send(which, &m);
}

static void answer_plan(enum front_box_asked which, uint32_t id, uint32_t passes)
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

	gpu_send(which, &m);
}

static void answer_long_names(uint32_t id)
{
	static const char *const metrics[] = { "dram__bytes.sum" };
	static const uint32_t first[] = { 0 };
	static const double one[] = { 1 };
	static char names[LIMIT_METRICS][LIMIT_NAME_BYTES];
	struct wire_column columns[LIMIT_METRICS];
	struct wire_message m = {
		.type = WIRE_PLAN_REPLY,
		.plan_reply = { id, { "GH100", { 1, metrics }, { LIMIT_METRICS, columns }, 1, 1 } },
	};

	for (unsigned i = 0; i < LIMIT_METRICS; i++) {
		snprintf(names[i], sizeof(names[i]), "m%0*u", LIMIT_NAME_BYTES - 2, i);
		columns[i] = (struct wire_column){ names[i], "byte", { 1, first }, { 1, one }, 0 };
	}
	gpu_send(FRONT_BOX_PLANNER, &m);
}

static void answer_status(enum front_box_asked which, uint32_t id)
{
	const bool swapped = front_box.swapped;
	const struct gpuctr_gpu gpus[FRONT_BOX_GPUS] = {
		{ 0, swapped ? FRONT_BOX_UUID_1 : FRONT_BOX_UUID_0, "H200", "GH100", 0, 0 },
		{ 1, swapped ? FRONT_BOX_UUID_0 : FRONT_BOX_UUID_1, "H200", "GH100", 0, 0 },
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

static void say_tenants(enum front_box_asked which, uint32_t id, bool known, const uint32_t *gpu,
			const uint32_t *pid, size_t n)
{
	struct wire_message m = {
		.type = WIRE_TENANTS_REPLY,
		.tenants_reply = { id, known, { n, gpu }, { n, pid } },
	};

	gpu_send(which, &m);
}

static void answer_tenants(uint32_t id, bool known, bool foreign)
{
	/* The first is there, and root's or whose the test is; the second has gone. */
	const uint32_t foreign_gpu[] = { 1, 0 }, foreign_pid[] = { 1, (uint32_t)NOBODYS_PID };
	uint32_t gpu[FRONT_BOX_GPUS], pid[FRONT_BOX_GPUS];
	size_t n = 0;

	if (foreign) {
		say_tenants(FRONT_BOX_GPU, id, known, foreign_gpu, foreign_pid,
			    ARRAY_SIZE(foreign_gpu));
		return;
	}
	for (uint32_t i = 0; i < FRONT_BOX_GPUS; i++) {
		if (front_box.tenants[i] != 0) {
			gpu[n] = i;
			pid[n++] = front_box.tenants[i];
		}
	}
	say_tenants(FRONT_BOX_GPU, id, known, gpu, pid, n);
}

void front_box_set_tenant(unsigned gpu, uint32_t pid)
{
	front_box.tenants[gpu % FRONT_BOX_GPUS] = pid;
}

void front_box_gpu_answer(enum front_box_asked which, enum front_box_answer answer)
{
	struct box_process *p = &front_box.asked[which];
	struct box_request q;

	if (p->n_requests == 0) {
		return;
	}
	if (answer == FRONT_BOX_MORE_METRICS && p->requests[0].type == WIRE_METRICS_REQUEST) {
		answer_metrics(which, p->requests[0].id, false);
		return;
	}
	q = take_request(p);
	if (answer == FRONT_BOX_REFUSAL) {
		answer_refusal(which, q.id);
		return;
	}
	switch (q.type) {
	case WIRE_METRICS_REQUEST:
		answer_metrics(which, q.id, true);
		break;
	case WIRE_PLAN_REQUEST:
		if (answer == FRONT_BOX_LONG_NAMES) {
			answer_long_names(q.id);
		} else {
			answer_plan(which, q.id, answer == FRONT_BOX_PASSES ? 2 : 1);
		}
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

const enum wire_type front_box_gpu_types[9] = {
	WIRE_STATUS_REQUEST, WIRE_TENANTS_REQUEST, WIRE_METRICS_REQUEST,
	WIRE_PLAN_REQUEST,   WIRE_STATUS_REPLY,	   WIRE_TENANTS_REPLY,
	WIRE_METRICS_REPLY,  WIRE_PLAN_REPLY,	   WIRE_REFUSAL,
};

enum { ACTS_TO_GIVE_UP = 4 };

static bool answers(enum wire_type type, enum wire_type asked)
{
	return type == WIRE_REFUSAL ||
	       (type == WIRE_STATUS_REPLY && asked == WIRE_STATUS_REQUEST) ||
	       (type == WIRE_TENANTS_REPLY && asked == WIRE_TENANTS_REQUEST) ||
	       (type == WIRE_METRICS_REPLY && asked == WIRE_METRICS_REQUEST) ||
	       (type == WIRE_PLAN_REPLY && asked == WIRE_PLAN_REQUEST);
}

/* The number is where texts of another type would be. */
static void say_question(enum front_box_asked which, enum wire_type type, uint32_t id)
{
	struct wire_message m = { .type = type };

	if (type == WIRE_TENANTS_REQUEST) {
		m.tenants_request = (struct wire_tenants_request){ id, 16 };
	} else if (type == WIRE_METRICS_REQUEST) {
		m.metrics_request = (struct wire_metrics_request){ .request = id, .chip = "GH100" };
	} else if (type == WIRE_PLAN_REQUEST) {
		m.plan_request = (struct wire_plan_request){ .request = id, .chip = "GH100" };
	} else {
		m.status_request.request = id;
	}
	gpu_send(which, &m);
}

void front_box_gpu_answer_as(enum front_box_asked which, enum wire_type type)
{
	struct box_process *p = &front_box.asked[which];
	struct box_request q;

	if (p->fd < 0 || p->n_requests == 0) {
		return;
	}
	q = take_request(p);
	if (!answers(type, q.type) && p->given_up_by == 0 && !p->noisy) {
		p->given_up_by = front_box.n_acts + ACTS_TO_GIVE_UP;
	}
	switch (type) {
	case WIRE_REFUSAL:
		answer_refusal(which, q.id);
		break;
	case WIRE_STATUS_REPLY:
		answer_status(which, q.id);
		break;
	case WIRE_TENANTS_REPLY:
		say_tenants(which, q.id, true, NULL, NULL, 0);
		break;
	case WIRE_METRICS_REPLY:
		answer_metrics(which, q.id, true);
		break;
	case WIRE_PLAN_REPLY:
		answer_plan(which, q.id, 1);
		break;
	default:
		say_question(which, type, q.id);
		break;
	}
}

void front_box_check_given_up(void)
{
	for (unsigned i = 0; i < FRONT_BOX_ASKED; i++) {
		const struct box_process *p = &front_box.asked[i];
		struct pollfd end = { p->fd, POLLIN, 0 };

		if (p->given_up_by != 0 && front_box.n_acts >= p->given_up_by && p->fd >= 0) {
			fuzz_check(poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0);
		}
	}
}

void front_box_gpu_set_prompt(enum front_box_asked which, bool prompt)
{
	front_box.asked[which].prompt = prompt;
}

/* Each is asked for what it knows alone. The first member of all these is their number. */
static uint32_t request_id(enum front_box_asked which, const struct wire_message *m)
{
	bool of_planner = m->type == WIRE_METRICS_REQUEST || m->type == WIRE_PLAN_REQUEST;

	fuzz_check(m->type == WIRE_STATUS_REQUEST || of_planner || m->type == WIRE_TENANTS_REQUEST);
	fuzz_check(m->type == WIRE_STATUS_REQUEST || of_planner == (which == FRONT_BOX_PLANNER));
	return m->status_request.request;
}

bool front_box_gpu_receive(enum front_box_asked which)
{
	struct box_process *p = &front_box.asked[which];
	struct wire_message m;
	int r;

	if (p->fd < 0 || p->n_requests == REQUESTS) {
		return false;
	}
	r = wire_next(&p->in, &front_box.arena, &m);
	if (r == FRAME_E_MORE) {
		return front_box_receive(p->fd, &p->in) > 0;
	}
	fuzz_check(r == 0);
	p->requests[p->n_requests++] =
		(struct box_request){ .type = m.type, .id = request_id(which, &m) };
	if (m.type == WIRE_TENANTS_REQUEST && front_box_listener.on_look) {
		front_box_listener.on_look();
	}
	if (p->prompt || m.type == WIRE_STATUS_REQUEST) {
		while (p->n_requests > 0) {
			front_box_gpu_answer(which, FRONT_BOX_GOOD);
		}
	}
	return true;
}

/* --- the supervisor --- */

void front_box_process_end(struct box_process *p)
{
	if (p->fd >= 0) {
		fd_reaper_box_close(p->fd);
	}
	p->fd = -1;
	p->n_requests = p->given_up_by = 0;
	p->noisy = false;
	buffer_deinit(&p->in);
}

/* The other end of a fresh link, which is the front's. */
int front_box_process_begin(struct box_process *p, int type)
{
	int pair[2];

	fuzz_check(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
	front_box_process_end(p);
	p->fd = pair[0];
	return pair[1];
}

static void replace(struct box_process *p, int type, enum worker_id worker, bool dies_first)
{
	int fd;

	if (dies_first) {
		front_box_process_end(p);
		return;
	}
	fd = front_box_process_begin(p, type);
	control_send_worker(front_box.control, CONTROL_NEW, worker, fd);
	fd_reaper_box_close(fd);
}

void front_box_granter_replace(bool dies_first)
{
	front_box.n_leases = 0;
	replace(&front_box.granter, SOCK_SEQPACKET, WORKER_GRANTER, dies_first);
}

void front_box_gpu_replace(enum front_box_asked which, bool dies_first)
{
	replace(&front_box.asked[which], SOCK_STREAM,
		which == FRONT_BOX_PLANNER ? WORKER_PLANNER : WORKER_GPU, dies_first);
}

void front_box_fail_groups(unsigned nth)
{
	front_box.groups_fail = nth;
}

void front_box_swap_gpus(void)
{
	front_box.swapped = !front_box.swapped;
}

void front_box_hold_closes(bool hold)
{
	fd_reaper_box_hold(hold);
}

void front_box_pass(uint64_t ms)
{
	front_box.now_ns += ms * CLOCK_NS_PER_MS;
}

void front_box_reload(bool shared, unsigned limit)
{
	front_box.config.shared = shared;
	front_box.config.queue_max = front_box.config.captures_per_user =
		front_box.config.connections_per_user = 1 + limit % 32;
	front_box_reload_settings();
}

struct config *front_box_settings(void)
{
	return &front_box.config;
}

static void send_settings(int audit)
{
	const struct control_message m = { .op = CONTROL_RELOAD, .config = front_box.config };

	control_send_message(front_box.control, &m, audit);
}

void front_box_reload_settings(void)
{
	send_settings(-1);
}

void front_box_set_audit_file(int fd)
{
	snprintf(front_box.config.audit_file, sizeof(front_box.config.audit_file), "/the/test's");
	send_settings(fd);
}

void front_box_name_user(unsigned user, const char *name)
{
	struct control_message m = { .op = CONTROL_NAME, .user.uid = front_box_uid(user) };

	snprintf(m.user.name, sizeof(m.user.name), "%s", name);
	control_send_message(front_box.control, &m, -1);
}

void front_box_stop(void)
{
	front_box.stopped = true;
	control_send(front_box.control, CONTROL_STOP);
}

void front_box_read_control(void)
{
	struct control_message m;
	int fd;

	while (control_receive(front_box.control, &m, &fd) > 0) {
		fuzz_check(fd < 0);
	}
}
