/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/status_json.h"

#include "client/cli/members.h"

/* Objects are written member by member in the order of gpuctr-status(5). Every member is always
 * there: what is not known or does not apply is null, so that a reader need not ask twice. */

static void number_or_null(struct members *j, const char *name, uint64_t value)
{
	if (value) {
		members_u64(j, name, value);
	} else {
		members_null(j, name);
	}
}

/* --- parts --- */

const char *status_state_name(enum gpuctr_capture_state state)
{
	switch (state) {
	case GPUCTR_CAPTURE_PLANNING:
		return "planning";
	case GPUCTR_CAPTURE_QUEUED:
		return "queued";
	case GPUCTR_CAPTURE_READY:
		return "ready";
	case GPUCTR_CAPTURE_RUNNING:
		return "running";
	case GPUCTR_CAPTURE_ENDING:
		return "ending";
	}
	return "unknown";
}

static const char *restriction_name(enum gpuctr_restricted restricted)
{
	switch (restricted) {
	case GPUCTR_OPEN:
		return "open";
	case GPUCTR_RESTRICTED:
		return "restricted";
	case GPUCTR_RESTRICTION_UNKNOWN:
		break;
	}
	return "unknown";
}

static void trouble(struct members *j, const struct gpuctr_error *e)
{
	if (e->code == GPUCTR_OK) {
		members_null(j, "trouble");
		return;
	}
	members_begin(j, "trouble", '{');
	members_u64(j, "code", (uint64_t)e->code);
	members_text(j, "name", gpuctr_error_name(e->code));
	members_text(j, "message", e->message);
	members_text_or_null(j, "remedy", e->remedy);
	members_end(j, '}');
}

static void gpu(struct members *j, const struct gpuctr_gpu *g)
{
	members_begin(j, NULL, '{');
	members_u64(j, "index", g->index);
	members_text(j, "uuid", g->uuid);
	members_text(j, "name", g->name);
	members_text_or_null(j, "chip", g->chip);
	number_or_null(j, "capture", g->holder);
	members_u64(j, "waiting", g->waiting);
	members_text_or_null(j, "job", g->job);
	members_text_or_null(j, "job_user", g->job_user);
	members_end(j, '}');
}

static void kernels(struct members *j, const struct gpuctr_totals *t)
{
	members_begin(j, "kernels", '{');
#define NUMBER(name) members_u64(j, #name, t->name);
	GPUCTR_TOTALS(NUMBER)
#undef NUMBER
	members_end(j, '}');
}

static void capture(struct members *j, const struct gpuctr_capture_info *c)
{
	members_begin(j, NULL, '{');
	members_u64(j, "capture", c->capture);
	members_text(j, "state", status_state_name(c->state));
	members_u64(j, "uid", c->uid);
	members_text_or_null(j, "user", c->user);
	members_u64(j, "pid", c->pid);
	members_text(j, "program", c->program);
	members_texts(j, "gpus", c->gpus, c->n_gpus);
	members_texts(j, "metrics", c->metrics, c->n_metrics);
	number_or_null(j, "position", c->position);
	members_u64(j, "processes", c->processes);
	members_u64(j, "lease_left_ns", c->lease_left_ns);
	kernels(j, &c->totals);
	members_end(j, '}');
}

static void codes(struct members *j, const char *name, const struct gpuctr_code_count *v, size_t n)
{
	members_begin(j, name, '{');
	for (size_t i = 0; i < n; i++) {
		members_u64(j, v[i].code == GPUCTR_OK ? "asked" : gpuctr_error_name(v[i].code),
			    v[i].count);
	}
	members_end(j, '}');
}

static void waits(struct members *j, const struct gpuctr_counts *c)
{
	members_begin(j, "waits", '[');
	for (size_t i = 0; i < c->n_waits; i++) {
		members_begin(j, NULL, '{');
		number_or_null(j, "up_to_ns", c->waits[i].up_to_ns);
		members_u64(j, "leases", c->waits[i].count);
		members_end(j, '}');
	}
	members_end(j, ']');
}

static void restarts(struct members *j, const struct gpuctr_counts *c)
{
	members_begin(j, "restarts", '{');
	members_u64(j, "front", c->restarts_front);
	members_u64(j, "granter", c->restarts_granter);
	members_u64(j, "gpu", c->restarts_gpu);
	members_u64(j, "planner", c->restarts_planner);
	members_end(j, '}');
}

static void counts(struct members *j, const struct gpuctr_counts *c)
{
	if (!c) {
		members_null(j, "counts");
		return;
	}
	members_begin(j, "counts", '{');
	members_u64(j, "connections", c->connections);
	members_u64(j, "connections_max", c->connections_max);
	members_u64(j, "permissions", c->permissions);
	members_u64(j, "leases", c->leases);
	members_u64(j, "leases_active", c->leases_active);
	members_u64(j, "leases_permit", c->leases_permit);
	codes(j, "lease_ends", c->lease_ends, c->n_lease_ends);
	codes(j, "refusals", c->refusals, c->n_refusals);
	members_u64(j, "waiting", c->waiting);
	members_u64(j, "waiting_max", c->waiting_max);
	members_u64(j, "longest_wait_ns", c->longest_wait_ns);
	members_u64(j, "waited_ns", c->waited_ns);
	waits(j, c);
	members_u64(j, "records", c->records);
	members_u64(j, "record_bytes", c->record_bytes);
	kernels(j, &c->kernels);
	members_u64(j, "processes", c->processes);
	members_u64(j, "registered", c->registered);
	restarts(j, c);
	members_bool(j, "audit_fails", c->audit_fails);
	members_end(j, '}');
}

void status_json(struct buf *b, const struct gpuctr_status *status)
{
	struct members j = { b, false };

	members_begin(&j, NULL, '{');
	members_text(&j, "daemon", status->daemon);
	members_u64(&j, "uptime_ns", status->uptime_ns);
	members_u64(&j, "connections", status->peers);
	members_text_or_null(&j, "driver", status->driver);
	members_text_or_null(&j, "cupti", status->cupti);
	members_text(&j, "restriction", restriction_name(status->restricted));
	trouble(&j, &status->trouble);
	members_begin(&j, "gpus", '[');
	for (size_t i = 0; i < status->n_gpus; i++) {
		gpu(&j, &status->gpus[i]);
	}
	members_end(&j, ']');
	members_begin(&j, "captures", '[');
	for (size_t i = 0; i < status->n_captures; i++) {
		capture(&j, &status->captures[i]);
	}
	members_end(&j, ']');
	counts(&j, status->counts);
	members_end(&j, '}');
	buf_char(b, '\n');
}
