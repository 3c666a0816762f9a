/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/front.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/front/decision.h"
#include "daemon/front/describe.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/peer.h"
#include "daemon/front/requests.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/users.h"
#include "proto/wire/limits.h"

/* Start, stop and periodic work. The tick runs only while a capture or a question is open or a
 * connection has a deadline. So an idle daemon wakes up only for its sign of life to the
 * supervisor. A tick ends leases: their objects must be gone 100 ms after a lease's end. */

enum { FRONT_TICK_MS = 50, FRONT_ALIVE_MS = 5000, FRONT_STOP_MS = 2000, FRONT_LINGER_MS = 100 };

/* Puts the user's name, now known, into the captures that the user has opened before. */
static void take_name(struct front *f, const struct control_user *user)
{
	char name[sizeof(user->name)];

	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, user->name);
	users_learn(f->users, clock_now_ns(), user->uid, name);
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->uid == user->uid) {
			users_name(f->users, c->uid, c->user, sizeof(c->user));
		}
		if (c->target == user->uid && c->owner[0] != '\0') {
			users_name(f->users, c->target, c->owner, sizeof(c->owner));
		}
	}
	users_ask(f->users, f->control);
}

static void on_tick(uv_timer_t *t)
{
	struct front *f = t->data;
	uint64_t now = clock_now_ns();
	bool deadlines;

	rpc_client_tick(&f->gpu, now);
	rpc_client_tick(&f->planner, now);
	granter_link_tick(&f->granter, now);
	tenancy_tick(f, now);
	capture_events_on_tick(f);
	users_ask(f->users, f->control);
	deadlines = peers_tick(f, now);
	if (!deadlines && list_is_empty(&f->registry.captures) && list_is_empty(&f->gpu.pending) &&
	    list_is_empty(&f->planner.pending) && granter_link_is_idle(&f->granter)) {
		uv_timer_stop(t);
	}
}

/* --- the end --- */

static void on_handle(uv_handle_t *h, void *unused)
{
	if (!uv_is_closing(h)) {
		uv_close(h, NULL);
	}
}

/* Closes everything except the peers' handles; each peer closes its own and frees itself. */
static void stop_now(struct front *f)
{
	/* Closing one peer may close others: the agents of its capture. */
	while (!list_is_empty(&f->peers)) {
		peer_close(list_entry(f->peers.next, struct peer, link));
	}
	granter_link_detach(&f->granter);
	rpc_client_deinit(&f->gpu);
	rpc_client_deinit(&f->planner);
	uv_walk(&f->loop, on_handle, NULL);
	uv_stop(&f->loop); /* uv_run() would wait for the reaper's threads that hang */
}

/* Peers that were just let in may not have sent their requests yet, so for FRONT_LINGER_MS
 * connections stay open and requests are answered. */
static void on_stop_poll(uv_timer_t *t)
{
	struct front *f = t->data;
	uint64_t stopping_ns = clock_now_ns() - f->stopping_since_ns;
	bool waiting =
		!list_is_empty(&f->registry.captures) ||
		(!list_is_empty(&f->peers) && stopping_ns < FRONT_LINGER_MS * CLOCK_NS_PER_MS);

	list_for_each(l, &f->peers) {
		waiting = waiting || peer_backlog(list_entry(l, struct peer, link)) > 0;
	}
	if (!waiting || stopping_ns > FRONT_STOP_MS * CLOCK_NS_PER_MS) {
		stop_now(f);
	}
}

static void begin_stop(struct front *f, int code, const char *message, const char *remedy)
{
	if (f->stopping) {
		return;
	}
	f->stopping = true;
	f->stopping_since_ns = clock_now_ns();
	for (size_t i = 0; i < f->n_listeners; i++) {
		listener_close(&f->listeners[i]);
	}
	capture_events_end_all(f, code, message, remedy);
	uv_timer_start(&f->alive, on_stop_poll, 0, 20);
}

/* --- the machine --- */

/* False: the gpu process has not answered. If the driver shows no GPU, the UUIDs that masks refer
 * to stay. */
static bool take_machine(struct front *f, const struct wire_message *m)
{
	struct wire_message copy;
	struct arena a;

	if (!m || m->type != WIRE_STATUS_REPLY) {
		return false;
	}
	if (scheduler_on_machine(f, &m->status_reply.gpus)) {
		begin_stop(f, GPUCTR_E_REVOKED, "the machine's GPUs have changed", "Run it again.");
		return true;
	}
	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (wire_copy(&a, m, &copy) < 0) {
		arena_deinit(&a);
		return false;
	}
	arena_deinit(&f->reported);
	f->reported = a;
	f->machine = copy.status_reply;
	for (size_t i = 0; i < f->machine.gpus.n; i++) {
		snprintf(f->uuids[i], sizeof(f->uuids[i]), "%s", f->machine.gpus.v[i].uuid);
	}
	f->n_uuids = f->machine.gpus.n > 0 ? f->machine.gpus.n : f->n_uuids;
	return true;
}

/* Connections wait in the socket's queue until the gpu process has listed the GPUs. Otherwise the
 * connection that starts the daemon would be refused because the machine has no GPU. */
static void start_listening(struct front *f)
{
	int r = 0;

	if (f->n_listeners > 0 || f->stopping) {
		return;
	}
	for (; r == 0 && f->n_listeners < f->start->n_listeners; f->n_listeners++) {
		r = listener_open(&f->listeners[f->n_listeners], f,
				  f->start->listeners[f->n_listeners]);
	}
	if (r < 0) {
		log_error("cannot listen: %s", strerror(-r));
	}
	control_send(f->control, CONTROL_READY);
}

static void on_machine(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	bool told = take_machine(f, m);
	struct refusal trouble;

	if (f->stopping) {
		return;
	}
	if (!told) {
		log_warning("the gpu process did not tell what the machine has");
		start_listening(f);
		return;
	}
	log_info("%zu GPUs, driver %s, CUPTI %s", f->machine.gpus.n,
		 f->machine.driver[0] ? f->machine.driver : "none",
		 f->machine.cupti[0] ? f->machine.cupti : "none");
	if (describe_machine_trouble(f, &trouble) != 0) {
		log_warning("nothing can be measured: %s. %s", trouble.message, trouble.remedy);
	}
	start_listening(f);
}

static void ask_machine(struct front *f)
{
	struct wire_message q = { .type = WIRE_STATUS_REQUEST };

	if (rpc_client_request(&f->gpu, NULL, &q, on_machine, f, 0) < 0) {
		on_machine(f, f, 0, NULL);
	}
}

/* --- signs of life --- */

static void on_alive_answer(struct front *f, void *owner, uint32_t request,
			    const struct wire_message *m)
{
	if (owner == &f->gpu && !take_machine(f, m)) {
		f->machine.activity.n = 0;
	}
}

static void ping_link(struct rpc_client *l)
{
	struct wire_message status = { .type = WIRE_STATUS_REQUEST };

	if (list_is_empty(&l->pending)) {
		rpc_client_request(l, NULL, &status, on_alive_answer, l, 0);
	}
}

/* Asks the other processes for a sign of life. One that does not answer within its link's time
 * limit is reported to the supervisor, which kills and replaces it, as when it leaves a user's
 * request unanswered. */
static void on_alive(uv_timer_t *t)
{
	struct front *f = t->data;

	control_send(f->control, CONTROL_ALIVE);
	scheduler_tick(f, clock_now_ns());
	users_ask(f->users, f->control);
	granter_link_ping(&f->granter);
	ping_link(&f->gpu);
	ping_link(&f->planner);
	malloc_trim(0); /* returns the memory of users' queues to the system */
}

/* --- the supervisor --- */

static void take_link(struct front *f, enum worker_id worker, int fd)
{
	if (worker == WORKER_GRANTER) {
		granter_link_attach(&f->granter, fd);
	} else if (worker == WORKER_PLANNER) {
		rpc_client_attach(&f->planner, fd);
	} else {
		rpc_client_attach(&f->gpu, fd);
		ask_machine(f);
		capture_events_on_gpu_back(f);
	}
}

static void on_control(uv_poll_t *h, int status, int events)
{
	struct front *f = h->data;
	struct control_message m;
	int fd = -1, r = status < 0 ? -EPIPE : control_receive(f->control, &m, &fd);

	if (r == 0) {
		return;
	}
	if (r < 0) {
		log_error("the supervisor is gone");
		stop_now(f);
		return;
	}
	switch (m.op) {
	case CONTROL_NEW:
		take_link(f, m.worker, fd);
		break;
	case CONTROL_RELOAD:
		audit_set_file(&f->audit, m.config.audit_file[0] != '\0', fd);
		f->config = m.config;
		f->arbiter.max_waiting = m.config.queue_max;
		capture_events_on_reload(f);
		requests_on_reload(f);
		control_send(f->control, CONTROL_RELOADED);
		break;
	case CONTROL_RESTARTS:
		memcpy(f->restarts, m.restarts, sizeof(f->restarts));
		break;
	case CONTROL_NAME:
		take_name(f, &m.user);
		break;
	case CONTROL_STOP:
		begin_stop(f, GPUCTR_E_STOPPING, "the daemon is going down",
			   "Run it again once it is back.");
		break;
	default:
		break;
	}
}

/* --- start --- */

static const struct front_hooks hooks = {
	.on_run = peers_on_run,
	.on_frame = dispatch_frame,
	.hold_back = agent_hold_back,
	.on_client_drained = capture_events_on_client_drained,
	.on_peer_closed = dispatch_closed,
	.carry_out = effects_carry_out,
};

static int front_init(struct front *f, const struct front_start *start)
{
	int r;

	*f = (struct front){
		.hooks = &hooks,
		.start = start,
		.config = start->config,
		.jobs = start->jobs,
		.audit = { .journal = log_is_journal(),
			   .wants_file = start->config.audit_file[0] != '\0',
			   .fd = start->audit },
		.control = start->control,
		.started_ns = clock_now_ns(),
		.machine = { .daemon = "",
			     .driver = "",
			     .cupti = "",
			     .trouble = "",
			     .trouble_remedy = "",
			     .restricted = 2 },
	};
	r = uv_loop_init(&f->loop);
	if (r < 0) {
		return r;
	}
	memcpy(f->restarts, start->restarts, sizeof(f->restarts));
	list_init(&f->peers);
	list_init(&f->running);
	accounts_init(&f->accounts);
	registry_init(&f->registry);
	processes_init(&f->processes);
	arbiter_init(&f->arbiter, f->config.queue_max);
	broker_init(&f->broker, &f->registry, &f->arbiter);
	arena_init(&f->scratch, 4 * LIMIT_UNPACKED_BYTES);
	arena_init(&f->message, LIMIT_UNPACKED_BYTES);
	f->users = users_new();
	f->received = malloc(FRONT_READ_BYTES);
	if (!f->users || !f->received) {
		return -ENOMEM;
	}
	f->tick.data = f->alive.data = f->control_poll.data = f->run.data = f;
	uv_idle_init(&f->loop, &f->run);
	uv_timer_init(&f->loop, &f->tick);
	/* Stores the callback and period that front_arm_tick() uses in uv_timer_again(). */
	uv_timer_start(&f->tick, on_tick, FRONT_TICK_MS, FRONT_TICK_MS);
	uv_timer_stop(&f->tick);
	uv_timer_init(&f->loop, &f->alive);
	rpc_client_init(&f->gpu, f, "gpu", WORKER_GPU);
	rpc_client_init(&f->planner, f, "planner", WORKER_PLANNER);
	granter_link_init(&f->granter, f);
	r = descriptors_init(f);
	r = r < 0 ? r : uv_poll_init(&f->loop, &f->control_poll, f->control);
	return r < 0 ? r : uv_poll_start(&f->control_poll, UV_READABLE, on_control);
}

static int front_attach(struct front *f, const struct front_start *start)
{
	int r = granter_link_attach(&f->granter, start->links[WORKER_GRANTER]);

	if (r == 0) {
		r = rpc_client_attach(&f->gpu, start->links[WORKER_GPU]);
	}
	if (r == 0) {
		r = rpc_client_attach(&f->planner, start->links[WORKER_PLANNER]);
	}
	if (r < 0) {
		return r;
	}
	decision_to_start(f);
	ask_machine(f);
	return uv_timer_start(&f->alive, on_alive, FRONT_ALIVE_MS, FRONT_ALIVE_MS);
}

int front_run(const struct front_start *start)
{
	static struct front f;
	int r = front_init(&f, start);

	if (r == 0) {
		r = front_attach(&f, start);
	}
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
		return 1;
	}
	uv_run(&f.loop, UV_RUN_DEFAULT);
	audit_deinit(&f.audit);
	f.users = users_free(f.users);
	accounts_deinit(&f.accounts);
	broker_deinit(&f.broker);
	arena_deinit(&f.scratch);
	arena_deinit(&f.message);
	arena_deinit(&f.reported);
	free(f.received);
	if (fd_reaper_count() > 0) {
		_exit(0); /* at exit() libuv waits for its threads, which users can make hang */
	}
	return uv_loop_close(&f.loop) == 0 ? 0 : 1;
}
