/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/describe.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "daemon/front/users.h"
#include "proto/wire/limits.h"

enum {
	INFO_BYTES = 320, /* most bytes of a capture's numbers in a message */
	UUID_BYTES = 64,  /* most bytes of a GPU's UUID with its field header */
	TEXT_HEAD_BYTES = 3,
};

size_t describe_uuids(const struct front *f, uint64_t gpus, const char **v)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_uuids; i++) {
		if ((gpus >> i & 1) != 0) {
			v[n++] = f->uuids[i];
		}
	}
	return n;
}

int describe_machine_trouble(const struct front *f, struct refusal *r)
{
	const struct wire_status_reply *m = &f->machine;

	*r = (struct refusal){ 0 };
	if (m->trouble_code != 0) {
		refusal_set(r, refusal_code(m->trouble_code), m->trouble_remedy, "%s", m->trouble);
	} else if (m->gpus.n == 0) {
		refusal_set(r, GPUCTR_E_NO_GPU,
			    "Check `nvidia-smi` and the daemon's log. A recording needs no GPU: "
			    "add --recorded.",
			    "this machine shows the daemon no GPU");
	} else if (m->restricted == GPUCTR_RESTRICTED && !f->start->has_perfmon) {
		refusal_set(r, GPUCTR_E_GRANT_REFUSED,
			    "Start it by systemd or as root: it keeps that capability and leaves "
			    "root by itself.",
			    "the driver gives counters to administrators alone, and the daemon was "
			    "started without CAP_PERFMON");
	}
	return r->code;
}

int describe_trouble(const struct front *f, struct refusal *r)
{
	if (!rpc_client_is_up(&f->gpu) || !rpc_client_is_up(&f->planner)) {
		refusal_set(r, GPUCTR_E_INTERNAL, "Try again in a moment: it is being restarted.",
			    "the process that knows GPUs, or the one that knows metrics, is not "
			    "running");
	} else if (describe_machine_trouble(f, r) == 0 && f->audit.error != 0) {
		refusal_set(r, GPUCTR_E_AUDIT, "The daemon's log says why.",
			    "the audit log cannot be written, and nothing is granted until it can");
	}
	return r->code;
}

static struct capture *capture_of(const struct reservation *c)
{
	return c ? list_entry((struct reservation *)(uintptr_t)c, struct capture, reservation)
		 : NULL;
}

static struct gpuctr_gpu describe_gpu(struct front *f, struct arena *a, size_t i)
{
	struct gpuctr_gpu g = f->machine.gpus.v[i];
	const struct job *job = jobs_owner(&f->jobs, i);
	uint64_t bit = UINT64_C(1) << i;
	char user[64];

	if (job) {
		users_name(f->users, job->uid, user, sizeof(user));
		g.job = arena_printf(a, "%s", job->name);
		g.job_user = arena_printf(a, "%s", user);
	}

	list_for_each(l, &f->arbiter.holders) {
		struct reservation *c = list_entry(l, struct reservation, link);

		g.holder = (c->gpus & bit) != 0 ? capture_of(c)->id : g.holder;
	}
	list_for_each(l, &f->arbiter.queue) {
		g.waiting += (list_entry(l, struct reservation, link)->gpus & bit) != 0;
	}
	return g;
}

struct wire_gpus describe_gpus(struct front *f, struct arena *a, uint64_t mask)
{
	struct gpuctr_gpu *v = arena_alloc(a, (f->machine.gpus.n + 1) * sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; v && i < f->machine.gpus.n; i++) {
		if ((mask >> i & 1) != 0) {
			v[n++] = describe_gpu(f, a, i);
		}
	}
	return (struct wire_gpus){ n, v };
}

static void list_uuids(const struct front *f, struct arena *a, const struct capture *c,
		       struct gpuctr_capture_info *i)
{
	const char **v = arena_alloc(a, LIMIT_GPUS * sizeof(*v));

	i->gpus = v;
	i->n_gpus = v ? describe_uuids(f, c->reservation.gpus, v) : 0;
}

/* Adds the metrics' names. The names of all captures together take at most half of a frame; the
 * rest of the reply needs the other half. Root of the machine sees all captures, so its reply may
 * reach the limit. */
static void list_metrics(const struct front *f, struct arena *a, const struct capture *c,
			 struct gpuctr_capture_info *i)
{
	size_t all = c->options.permit ? c->options.metrics.n : c->plan.columns.n;
	size_t bytes = INFO_BYTES + strlen(i->user) + strlen(i->program) + i->n_gpus * UUID_BYTES;
	const char **v = arena_alloc(a, (all + 1) * sizeof(*v));

	for (i->metrics = v; v && i->n_metrics < all; i->n_metrics++) {
		const char **name = &v[i->n_metrics];

		*name = c->options.permit ? c->options.metrics.v[i->n_metrics]
					  : c->plan.columns.v[i->n_metrics].name;
		bytes += strlen(*name) + TEXT_HEAD_BYTES;
		if (bytes > LIMIT_FRAME_BYTES / 2 / f->registry.n) {
			*name = arena_printf(
				a, "(%zu names are left out: there are too many captures)",
				all - i->n_metrics);
			i->n_metrics += *name != NULL;
			return;
		}
	}
}

/* Root of a container has the uid of the machine's root, but is another user. */
static bool is_own(const struct capture *c, const struct credentials *viewer)
{
	return viewer->host_root || (c->uid == viewer->uid && !c->host_root);
}

uint64_t describe_lease_left_ns(const struct front *f, const struct capture *c)
{
	uint64_t now = clock_now_ns(), until = broker_lease_until_ns(&f->broker, c);

	return until > now ? until - now : 0;
}

/* Every user may see who holds a GPU, which program it is and for how long, because they wait for
 * the GPU. Only the owner sees the metrics and the progress of a capture: observed often enough,
 * progress shows what the program does. */
static struct gpuctr_capture_info describe_capture(struct front *f, struct arena *a,
						   struct capture *c, bool own)
{
	struct gpuctr_capture_info i = {
		.capture = c->id,
		.uid = c->uid,
		.user = c->user,
		.pid = (uint32_t)c->pid,
		.program = c->options.program,
		.state = capture_reported_state(c),
		.position = arbiter_position(&f->arbiter, &c->reservation),
		.lease_left_ns = describe_lease_left_ns(f, c),
	};

	list_uuids(f, a, c, &i);
	if (own) {
		list_metrics(f, a, c, &i);
		i.totals = capture_totals(c);
		i.processes = c->n_attached;
	}
	return i;
}

struct wire_capture_infos describe_captures(struct front *f, struct arena *a,
					    const struct credentials *viewer)
{
	struct gpuctr_capture_info *v = arena_alloc(a, (f->registry.n + 1) * sizeof(*v));
	size_t n = 0;

	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (v) {
			v[n++] = describe_capture(f, a, c, is_own(c, viewer));
		}
	}
	return (struct wire_capture_infos){ n, v };
}

static void count_captures(struct front *f, struct gpuctr_counts *counts)
{
	uint64_t now_ns = clock_now_ns();

	list_for_each(l, &f->registry.captures) {
		const struct capture *c = list_entry(l, struct capture, link);

		counts->leases_active += c->leased;
		counts->leases_permit += c->leased && c->options.permit;
		counts->processes += c->n_attached;
		if (c->reservation.state == RESERVATION_WAITING && c->queued_ns != 0 &&
		    now_ns - c->queued_ns > counts->longest_wait_ns) {
			counts->longest_wait_ns = now_ns - c->queued_ns;
		}
	}
}

const struct gpuctr_counts *describe_counts(struct front *f, struct arena *a,
					    const struct credentials *viewer)
{
	struct gpuctr_counts *counts = NULL;

	if (viewer->host_root || policy_monitors(&f->config.policy, viewer)) {
		counts = arena_alloc(a, sizeof(*counts));
	}
	if (!counts) {
		return NULL;
	}
	*counts = stats_describe(&f->stats, a);
	count_captures(f, counts);
	counts->permissions = f->n_granted;
	counts->registered = (uint32_t)f->processes.n_registered;
	counts->waiting = f->arbiter.n_waiting;
	counts->restarts_granter = f->restarts[WORKER_GRANTER];
	counts->restarts_gpu = f->restarts[WORKER_GPU];
	counts->restarts_planner = f->restarts[WORKER_PLANNER];
	counts->restarts_front = f->restarts[WORKER_FRONT];
	counts->connections_max = f->config.connections_max;
	counts->waiting_max = f->config.queue_max;
	counts->audit_fails = f->audit.error != 0;
	counts->label_users = f->config.labels.users;
	counts->label_jobs = f->config.labels.jobs;
	return counts;
}

const char *describe_hang(const struct front *f, struct arena *a, uint64_t gpus)
{
	uint64_t hung = gpus & f->granter.hung_gpus, now_ns = clock_now_ns();
	unsigned first = hung ? (unsigned)__builtin_ctzll(hung) : 0;
	char list[4 * LIMIT_GPUS] = "";
	size_t n = 0;
	const char *text;

	for (unsigned i = 0; i < LIMIT_GPUS && n < sizeof(list); i++) {
		if ((hung >> i & 1) != 0) {
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%u", n ? ", " : "", i);
		}
	}
	text = arena_printf(
		a, "the driver has not answered on %s %s for %llu s",
		(hung & (hung - 1)) != 0 ? "one of the GPUs" : "GPU", list,
		(unsigned long long)((now_ns - f->granter.hung_since_ns[first]) / CLOCK_NS_PER_S));
	return text ? text : "the driver does not answer";
}
