/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/standby.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/utf8.h"
#include "daemon/base/log.h"
#include "daemon/front/admission.h"
#include "daemon/front/attached.h"
#include "daemon/front/fd_reaper.h"
#include "daemon/front/front.h"
#include "daemon/front/proc.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/users.h"
#include "proto/wire/limits.h"

/* Every user who may connect may register: this reveals nothing. The front checks whether the user
 * may measure when a capture names a process.
 *
 * Registered programs have a separate limit, because each rank of a job is one. A registered
 * program costs its connection, struct peer and struct process; its buffers are empty and its
 * groups are freed.
 *
 * A list of processes may be long, and its reader slow. So a client asks for it part by part, in
 * the order of the processes' numbers, and each part is one answer in one turn, so a list does not
 * delay others.
 *
 * A capture attaches to its processes when it is opened, so that no two captures wait for the same
 * process. Processes that have ended or belong to another capture are left out, and the client is
 * notified when the capture begins; if none is left, the capture is refused. The processes hear of
 * the capture when it has its lease, and say goodbye when it ends; the front closes one that does
 * not, and it may register again. Decisions use only pid and uid, both from the kernel. A process
 * may end while another one holds its connection, and its pid may be reused, so the front checks
 * the pid before a capture names the process. */

enum { PART_PROCESSES = 64 }; /* processes in a part of a list; a frame has room for more */

/* Limit for all users together. Leaves descriptors for clients and for those that users send. */
static unsigned total_max(const struct front *f)
{
	size_t room = fd_reaper_room() / 4 * 3;

	return room < f->config.registered_max ? (unsigned)room : f->config.registered_max;
}

static bool may_register(struct peer *p, struct refusal *r)
{
	const struct processes *all = &p->front->processes;
	unsigned max = p->front->config.registered_per_user, total = total_max(p->front);

	if (all->n_registered >= total) {
		refusal_set(r, GPUCTR_E_QUOTA,
			    "Ask for a higher `registered` in gpucountd.conf, and more descriptors "
			    "(LimitNOFILE=).",
			    "the daemon has %u programs in standby, which is as many as it takes",
			    total);
		return false;
	}
	if (all->n_registered >= total / 2 && !admission_is_known(p->front, &p->credentials, r)) {
		refusal_set(r, GPUCTR_E_QUOTA, "Try again later.",
			    "the places in standby that are left are for users who may measure");
		return false;
	}
	if (p->credentials.host_root ||
	    p->account->registered < processes_share(all, p->account, max, total)) {
		return true;
	}
	refusal_set(r, GPUCTR_E_QUOTA,
		    p->account->registered < max
			    ? "End some, or ask for a higher `registered` in gpucountd.conf."
			    : "End some, or ask for a higher `registered-per-user` in "
			      "gpucountd.conf.",
		    "uid %u has %u programs in standby, which is %s", (unsigned)p->credentials.uid,
		    p->account->registered,
		    p->account->registered < max ? "as many as are left for all other users"
						 : "the limit");
	return false;
}

static int enter(struct peer *p, const struct wire_agent_hello *h, struct refusal *r)
{
	struct processes *all = &p->front->processes;
	char cgroup[PROCESS_CGROUP_BYTES_MAX];
	int e = -ENOMEM;

	p->process = process_new(all, p->credentials.pid, p->credentials.uid, p);
	if (p->process) {
		p->process->host_root = p->credentials.host_root;
		p->process->begin = proc_read_begin(p->credentials.pid);
		proc_read_cgroup(p->credentials.pid, cgroup, sizeof(cgroup));
		e = process_register(all, p->process, p->account, &h->claims, cgroup,
				     clock_now_ns());
	}
	if (e == 0) {
		return 0;
	}
	p->process = process_free(all, p->process);
	if (e == PROCESS_E_LABELS) {
		refusal_set(r, GPUCTR_E_QUOTA, "Let it say less of its job.",
			    "what the program says of its job has more than %d bytes",
			    PROCESS_LABELS_BYTES_MAX);
	} else {
		account_refuse(p->account, r);
	}
	return r->code;
}

void standby_register(struct peer *p, const struct wire_agent_hello *h)
{
	struct wire_message m = { .type = WIRE_AGENT_REGISTERED };
	struct refusal r;

	snprintf(p->program, sizeof(p->program), "%s", h->program);
	utf8_repair(p->program);
	if (!may_register(p, &r) || enter(p, h, &r) != 0) {
		peer_turn_away(p, &r);
		return;
	}
	p->role = PEER_AGENT;
	peer_forget_groups(p);
	m.agent_registered = (struct wire_agent_registered){
		.version = PROTO_VERSION,
		.process = p->process->id,
	};
	peer_send(p, &m);
}

/* --- the list --- */

/* Root of a container has the uid of the machine's root, but is another user. */
static bool is_own(const struct process *process, const struct credentials *who)
{
	return process->uid == who->uid && (who->host_root || !process->host_root);
}

/* Only root of the machine, not other operators, may capture programs of root of the machine. */
static bool may_capture(const struct peer *p, const struct process *process)
{
	const struct credentials *who = &p->credentials;

	return is_own(process, who) || (policy_operates(&p->front->config.policy, who) &&
					(who->host_root || !process->host_root));
}

static bool may_see(const struct peer *p, const struct process *process)
{
	return process->registered && (p->credentials.host_root || may_capture(p, process));
}

static struct gpuctr_registered_process describe(const struct peer *p, struct arena *a,
						 const struct process *process)
{
	const struct peer *peer = process->peer;
	const struct wire_strings labels = process_labels(a, process);
	struct gpuctr_registered_process d = {
		.process = process->id,
		.pid = (uint32_t)process->pid,
		.uid = process->uid,
		.program = peer->program,
		.age_ns = clock_now_ns() - process->since_ns,
		.claims = labels.v,
		.n_claims = labels.n,
		.foreign = !is_own(process, &p->credentials),
		.cgroup = process->cgroup,
	};
	char name[64];

	users_name(p->front->users, process->uid, name, sizeof(name));
	d.user = arena_printf(a, "%s", name);
	if (process->capture) {
		d.capture = process->capture->id;
		d.holder = capture_describe_holder(a, process->capture);
	}
	return d;
}

/* The first process after the number id, whose process may have ended meanwhile. */
static const struct list *find_next(const struct processes *all, uint32_t id)
{
	const struct process *before = processes_find(all, id);
	const struct list *at = before ? before->all_link.next : all->all.next;

	while (at != &all->all && list_entry(at, struct process, all_link)->id <= id) {
		at = at->next;
	}
	return at;
}

int handle_processes(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct processes *all = &p->front->processes;
	const struct list *at = find_next(all, m->processes_request.after);
	struct gpuctr_registered_process v[PART_PROCESSES];
	struct wire_message answer = { .type = WIRE_PROCESSES_REPLY };
	size_t n = 0;

	for (; at != &all->all && n < PART_PROCESSES; at = at->next) {
		const struct process *process = list_entry(at, struct process, all_link);

		if (may_see(p, process)) {
			v[n++] = describe(p, &p->front->message, process);
		}
	}
	answer.processes_reply = (struct wire_processes_reply){
		.request = m->processes_request.request,
		.processes = { n, v },
		.last = at == &all->all,
	};
	peer_send(p, &answer);
	return 0;
}

/* --- captures of registered processes --- */

/* True if the number was given to a process that has ended. */
static bool is_gone(const struct processes *all, uint32_t id)
{
	return id != 0 && id <= all->last_id && !processes_find(all, id);
}

static int refuse_unknown(const struct processes *all, uint32_t id, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_BAD_REQUEST,
		    "Ask for the list again; a program registers when it is started in standby.",
		    is_gone(all, id) ? "process %u has ended, or has left standby"
				     : "no process %u is in standby here",
		    (unsigned)id);
	return r->code;
}

/* Why the client's user may not capture p, which belongs to another user. *ret_remedy names a
 * setting only to somebody who can change it. */
static const char *why_foreign(const struct peer *client, const char **ret_remedy)
{
	const struct policy *policy = &client->front->config.policy;
	const struct credentials *who = &client->credentials;

	*ret_remedy = "Name your own processes, or ask its owner.";
	if (!policy->operator_captures) {
		if (who->host_root) {
			*ret_remedy = "Ask its owner, or set `operator-captures = yes` in "
				      "gpucountd.conf and reload the daemon.";
		}
		return "nobody captures other users' programs on this machine";
	}
	if (policy_operates(policy, who)) {
		return "what root runs root alone captures";
	}
	if (policy_names_operator(policy, who)) {
		*ret_remedy = "Ask from outside of the container.";
		return "an operator in a container captures nothing of others";
	}
	*ret_remedy = "Name your own processes, ask its owner, or ask the administrator for a "
		      "group of `operator-groups` in gpucountd.conf.";
	return "you are no operator of this machine";
}

/* Only the log, and clients that see p in the list, get its owner and pid. */
static int refuse_foreign(const struct peer *client, const struct process *p, struct refusal *r)
{
	const char *remedy, *why = why_foreign(client, &remedy);
	char owner[64];

	users_name(client->front->users, p->uid, owner, sizeof(owner));
	if (client->credentials.host_root) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED, remedy,
			    "process %u (pid %d) belongs to %s, and %s", (unsigned)p->id,
			    (int)p->pid, owner, why);
	} else {
		log_notice("uid %u may not capture process %u (pid %d) of %s",
			   (unsigned)client->credentials.uid, (unsigned)p->id, (int)p->pid, owner);
		refusal_set(r, GPUCTR_E_NOT_ALLOWED, remedy, "process %u is none of yours, and %s",
			    (unsigned)p->id, why);
	}
	return r->code;
}

/* The refusal names the holder. Opening a capture never ends another user's capture: an operator
 * asks the holder to end it, or an administrator, who can end captures by the settings. */
static int refuse_captured(const struct peer *client, const struct process *p, struct refusal *r)
{
	bool own = p->capture->uid == client->credentials.uid;
	struct arena a;

	arena_init(&a, 16 * 1024);
	refusal_set(r, GPUCTR_E_GPU_BUSY,
		    own ? "Wait until that has ended, or end it."
			: "Wait until that has ended, or ask its holder to end it; an "
			  "administrator ends it by taking the holder out of gpucountd.conf and "
			  "reloading the daemon.",
		    "process %u (pid %d) is measured by capture %u of %s", (unsigned)p->id,
		    (int)p->pid, (unsigned)p->capture->id, capture_describe_holder(&a, p->capture));
	arena_deinit(&a);
	return r->code;
}

/* Sets *ret to the process if it is in standby and the client's user may name it. */
static int find_named(struct peer *client, uint32_t id, struct process **ret, struct refusal *r)
{
	struct process *p = processes_find(&client->front->processes, id);

	if (!p || !p->registered) {
		return refuse_unknown(&client->front->processes, id, r);
	}
	if (!may_capture(client, p)) {
		return refuse_foreign(client, p, r);
	}
	*ret = p;
	return 0;
}

static int add(struct peer *client, struct capture *c, uint32_t id, struct refusal *r)
{
	struct process *p = NULL;

	if (find_named(client, id, &p, r) != 0) {
		return r->code;
	}
	if (p->capture) { /* left out; standby_begin() reports it */
		return 0;
	}
	if (!list_is_empty(&c->processes) && p->uid != c->target) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Open a capture for each user, with --pid.",
			    "the processes named belong to several users");
		return r->code;
	}
	if (process_attach(p, c) != 0) {
		refusal_set(r, GPUCTR_E_QUOTA, "Measure fewer processes at a time.",
			    "too many processes in this capture");
		return r->code;
	}
	c->target = p->uid;
	return 0;
}

void standby_look_for_ended(struct front *f, const struct wire_u32s *ids)
{
	for (size_t i = 0; i < ids->n; i++) {
		const struct process *p = processes_find(&f->processes, ids->v[i]);

		if (p && p->registered && p->begin != 0 && proc_read_begin(p->pid) != p->begin) {
			peer_close(p->peer);
		}
	}
}

uid_t standby_target(const struct peer *client, const struct wire_u32s *ids)
{
	const struct process *busy = NULL;

	for (size_t i = 0; i < ids->n; i++) {
		const struct process *p = processes_find(&client->front->processes, ids->v[i]);

		if (!p || !p->registered || !may_capture(client, p)) {
			continue;
		}
		if (!p->capture) {
			return p->uid;
		}
		busy = p;
	}
	return busy ? busy->uid : client->credentials.uid;
}

/* None of the named processes is in standby and free. */
static int refuse_all(const struct peer *client, const struct wire_u32s *ids, struct refusal *r)
{
	const struct processes *all = &client->front->processes;

	for (size_t i = 0; i < ids->n; i++) {
		const struct process *p = processes_find(all, ids->v[i]);

		if (p && p->capture) {
			return refuse_captured(client, p, r);
		}
	}
	return refuse_unknown(all, ids->v[0], r);
}

static void let_go(struct capture *c)
{
	list_for_each_safe(l, &c->processes) {
		process_detach(list_entry(l, struct process, link));
	}
}

int standby_choose(struct peer *client, struct capture *c, const struct wire_u32s *ids,
		   struct refusal *r)
{
	const struct processes *all = &client->front->processes;
	int e = 0;

	for (size_t i = 0; i < ids->n && e == 0; i++) {
		e = is_gone(all, ids->v[i]) ? 0 : add(client, c, ids->v[i], r);
	}
	if (e == 0 && ids->n > 0 && list_is_empty(&c->processes)) {
		e = refuse_all(client, ids, r);
	}
	if (e != 0) {
		let_go(c);
	}
	return e;
}

void standby_forget(struct capture *c)
{
	let_go(c);
	c->options.processes.n = 0;
}

uint64_t standby_gpus(const struct capture *c, const struct wire_tenants_reply *t, uint64_t gpus)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < t->gpu.n; i++) {
		if (t->gpu.v[i] >= 64 || (gpus >> t->gpu.v[i] & 1) == 0) {
			continue;
		}
		list_for_each(l, (struct list *)(uintptr_t)&c->processes) {
			if (list_entry(l, struct process, link)->pid == (pid_t)t->pid.v[i]) {
				seen |= UINT64_C(1) << t->gpu.v[i];
			}
		}
	}
	return seen;
}

static void welcome(struct process *p)
{
	struct wire_strings labels;
	struct arena a;

	arena_init(&a, 64 << 10); /* far more than the list of LIMIT_CLAIMS takes */
	labels = process_labels(&a, p);
	attached_welcome(p, "", &labels);
	arena_deinit(&a);
}

/* Notifies the client that a named process is not measured: it has ended since the client listed
 * it, or another capture had it when c was opened (it may be free again by now). */
static void report_left_out(struct front *f, struct capture *c, uint32_t id)
{
	const struct process *p = processes_find(&f->processes, id);
	struct refusal r;

	if (p && p->capture) {
		refuse_captured(c->client, p, &r);
	} else if (p) {
		refusal_set(&r, GPUCTR_E_GPU_BUSY, "Capture it in a moment.",
			    "process %u (pid %d) was measured by another capture", (unsigned)id,
			    (int)p->pid);
	} else {
		refusal_set(&r, GPUCTR_E_AGENT_LOST,
			    "`gpuctr-client status` lists those that are there now.",
			    "process %u has ended, or has left standby", (unsigned)id);
	}
	peer_notify_client(c, (struct wire_notice){ .code = (uint32_t)r.code,
						    .message = r.message,
						    .remedy = r.remedy,
						    .registered = id });
}

static void report_all_left_out(struct front *f, struct capture *c)
{
	const struct wire_u32s *ids = &c->options.processes;

	for (size_t i = 0; c->client && i < ids->n; i++) {
		const struct process *p = processes_find(&f->processes, ids->v[i]);

		if (!p || p->capture != c) {
			report_left_out(f, c, ids->v[i]);
		}
	}
}

void standby_begin(struct front *f, struct capture *c)
{
	report_all_left_out(f, c);
	list_for_each(l, &c->processes) {
		struct process *p = list_entry(l, struct process, link);

		if (p->number == 0) {
			process_begin(p);
			welcome(p);
		}
	}
	if (c->n_processes > 0) {
		capture_events_report(f, c, EVENT_ATTACHED);
	}
}

void standby_on_goodbye(struct peer *p)
{
	struct process *process = p->process;
	struct capture *c = process->capture;

	if (!c || process->number == 0) {
		return;
	}
	attached_report_end(p->front, process);
	process_detach(process);
	capture_events_report(p->front, c, EVENT_PROCESS_GONE);
}
