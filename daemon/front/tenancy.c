/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/front.h"

#include <errno.h>
#include <string.h>

#include "proto/base/clock.h"
#include "daemon/front/permits.h"
#include "daemon/front/proc.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/users.h"

/* The gpu process asks NVML for the pids of the processes that compute; the front reads their uids
 * from /proc. A pid that /proc does not know is skipped: the process has ended, or lives in another
 * pid namespace, and in either case there is no user here to protect or to blame. While leases are
 * held, the front asks about their GPUs four times a second, one question at a time, so a lease
 * ends within half a second of another user's first context. */

enum { TENANCY_PERIOD_MS = 250, TENANCY_BLIND_S = 3 };

static void refuse_unknown(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_GPU_SHARED,
		    "The administrator may set `sharing = shared` where users trust each other.",
		    "the driver does not tell who runs on the GPU, and leases are exclusive");
}

/* CUDA gives a MIG part of a GPU its own name ("NVIDIA H200 MIG 1g.18gb") and UUID, which neither
 * NVML nor the driver's objects use for the GPU. So the front cannot find out who else runs on the
 * GPU, or for which part a program asks. */
static bool is_part(const struct front *f, const struct capture *c, struct refusal *r)
{
	for (size_t i = 0; i < f->machine.gpus.n; i++) {
		const char *name = f->machine.gpus.v[i].name;

		if ((c->reservation.gpus >> i & 1) != 0 && strstr(name, " MIG ")) {
			refusal_set(
				r, GPUCTR_E_GPU_SHARED,
				"The administrator may switch MIG off (nvidia-smi -mig 0); "
				"`--mode trace` tells when kernels run, without counters.",
				"GPU %zu is divided by MIG (%s): who else runs on it is not known",
				i, name);
			return true;
		}
	}
	return false;
}

/* The GPUs of c on which the front must look for other users. GPUs of a job of c's user need no
 * look, unless c may count whole GPUs: other users may still run on a job's GPUs (shards, processes
 * that an earlier job left behind), and such counters show their work. */
static uint64_t unanswered_gpus(const struct front *f, const struct capture *c)
{
	uint64_t answered = permits_device(f, c, NULL) ? 0 : jobs_gpus_of(&f->jobs, c->target);

	return c->reservation.gpus & ~answered;
}

/* Does another user than c's compute on one of c's GPUs? */
static bool find_foreign(const struct front *f, const struct wire_tenants_reply *t,
			 const struct capture *c, struct refusal *r)
{
	uint64_t gpus = unanswered_gpus(f, c);

	for (size_t i = 0; i < t->gpu.n; i++) {
		char name[64];
		uid_t uid = 0;
		int e;

		if (t->gpu.v[i] >= 64 || (gpus >> t->gpu.v[i] & 1) == 0) {
			continue;
		}
		e = proc_read_uid((pid_t)t->pid.v[i], &uid);
		if (e == -ENOENT || (e == 0 && uid == c->target)) {
			continue;
		}
		if (e < 0) {
			refusal_set(r, GPUCTR_E_GPU_SHARED, "Try again later.",
				    "it cannot be told who runs on GPU %u: %s", t->gpu.v[i],
				    strerror(-e));
			return true;
		}
		users_name(f->users, uid, name, sizeof(name));
		refusal_set(r, GPUCTR_E_GPU_SHARED,
			    "Wait until it has ended, or take a GPU of your own with --devices.",
			    "%s (pid %u) runs on GPU %u, whose counters would show what it does",
			    name, t->pid.v[i], t->gpu.v[i]);
		return true;
	}
	return false;
}

static bool may_not(const struct front *f, const struct wire_message *m, const struct capture *c,
		    struct refusal *r)
{
	if (!m || m->type != WIRE_TENANTS_REPLY || !m->tenants_reply.known ||
	    !proc_shows_others()) {
		refuse_unknown(r);
		return true;
	}
	return find_foreign(f, &m->tenants_reply, c, r);
}

static void on_checked(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	struct capture *c = registry_find(&f->registry, request);
	struct refusal r;

	if (!m && !rpc_client_is_up(&f->gpu)) {
		return; /* the front asks the next gpu process */
	}
	if (c && may_not(f, m, c, &r)) {
		capture_events_report_why(f, c, EVENT_ACCOMPANIED, r.code, r.message, r.remedy);
	} else if (c) {
		capture_events_report(f, c, EVENT_ALONE);
	}
}

void tenancy_check(struct front *f, struct capture *c)
{
	struct wire_message q = { .type = WIRE_TENANTS_REQUEST,
				  .tenants_request = { 0, unanswered_gpus(f, c) } };
	struct refusal r;

	c->known_ns = clock_now_ns();
	if (is_part(f, c, &r)) {
		capture_events_report_why(f, c, EVENT_ACCOMPANIED, r.code, r.message, r.remedy);
	} else if (f->config.shared || unanswered_gpus(f, c) == 0) {
		capture_events_report(f, c, EVENT_ALONE);
	} else if (rpc_client_is_up(&f->gpu) &&
		   rpc_client_request(&f->gpu, NULL, &q, on_checked, NULL, c->id) < 0) {
		refuse_unknown(&r);
		capture_events_report_why(f, c, EVENT_ACCOMPANIED, r.code, r.message, r.remedy);
	}
}

/* The leased GPUs on which the front must look for other users. */
static uint64_t watched_gpus(const struct front *f)
{
	uint64_t gpus = 0;

	list_for_each(l, (struct list *)(uintptr_t)&f->arbiter.holders) {
		const struct reservation *reservation = list_entry(l, struct reservation, link);

		gpus |= unanswered_gpus(f, list_entry(reservation, struct capture, reservation));
	}
	return f->config.shared ? 0 : gpus;
}

/* If there is no list of processes now, the next gpu process may soon deliver one. end_blind()
 * decides when that takes too long. */
static void on_looked(struct front *f, void *owner, uint32_t request, const struct wire_message *m)
{
	f->looking = false;
	if (!m || m->type != WIRE_TENANTS_REPLY || !m->tenants_reply.known) {
		return;
	}
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);
		struct refusal r;

		c->known_ns = clock_now_ns();
		if (c->leased && find_foreign(f, &m->tenants_reply, c, &r)) {
			capture_events_note(f, c, EVENT_FOREIGN, r.code, r.message, r.remedy);
		}
	}
	f->hooks->carry_out(f);
}

/* Ends leases when the front has had no list of processes for too long: another user could compute
 * unseen, and no user may be able to blind the daemon. The time counts from the check before the
 * lease, and only while the front must look. */
static void end_blind(struct front *f, uint64_t now_ns)
{
	bool stood_still = now_ns - f->last_tick_ns > CLOCK_NS_PER_S;
	struct refusal r;

	f->last_tick_ns = now_ns;
	refuse_unknown(&r);
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (stood_still || !c->leased || f->config.shared || unanswered_gpus(f, c) == 0) {
			c->known_ns = now_ns;
		} else if (now_ns >= c->known_ns + TENANCY_BLIND_S * CLOCK_NS_PER_S) {
			capture_events_note(f, c, EVENT_FOREIGN, r.code, r.message, r.remedy);
		}
	}
	f->hooks->carry_out(f);
}

void tenancy_tick(struct front *f, uint64_t now_ns)
{
	struct wire_message q = { .type = WIRE_TENANTS_REQUEST,
				  .tenants_request = { 0, watched_gpus(f) } };

	end_blind(f, now_ns);
	if (q.tenants_request.gpus != 0 && !f->looking && now_ns >= f->next_look_ns) {
		f->next_look_ns = now_ns + TENANCY_PERIOD_MS * CLOCK_NS_PER_MS;
		f->looking = rpc_client_request(&f->gpu, NULL, &q, on_looked, NULL, 0) == 0;
	}
}
