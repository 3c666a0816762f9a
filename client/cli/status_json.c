/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/status_json.h"

#include "client/cli/text.h"

/* Objects are written member by member in the order of gpuctr-status(5). Every member is always
 * there: what is not known or does not apply is null, so that a reader need not ask twice. */

struct json {
	struct buf *b;
	bool has_members; /* of the object or list that is open now */
};

static void next(struct json *j)
{
	if (j->has_members) {
		buf_char(j->b, ',');
	}
	j->has_members = true;
}

static void key(struct json *j, const char *name)
{
	next(j);
	text_json(j->b, name);
	buf_char(j->b, ':');
}

static void begin(struct json *j, char bracket)
{
	buf_char(j->b, bracket);
	j->has_members = false;
}

static void end(struct json *j, char bracket)
{
	buf_char(j->b, bracket);
	j->has_members = true;
}

static void number(struct json *j, const char *name, uint64_t value)
{
	key(j, name);
	buf_u64(j->b, value);
}

static void number_or_null(struct json *j, const char *name, uint64_t value)
{
	key(j, name);
	if (value) {
		buf_u64(j->b, value);
	} else {
		buf_text(j->b, "null");
	}
}

static void text(struct json *j, const char *name, const char *value)
{
	key(j, name);
	text_json(j->b, value);
}

static void text_or_null(struct json *j, const char *name, const char *value)
{
	key(j, name);
	if (value && *value) {
		text_json(j->b, value);
	} else {
		buf_text(j->b, "null");
	}
}

static void truth(struct json *j, const char *name, bool value)
{
	key(j, name);
	buf_text(j->b, value ? "true" : "false");
}

static void texts(struct json *j, const char *name, const char *const *v, size_t n)
{
	key(j, name);
	begin(j, '[');
	for (size_t i = 0; i < n; i++) {
		next(j);
		text_json(j->b, v[i]);
	}
	end(j, ']');
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

static void trouble(struct json *j, const struct gpuctr_error *e)
{
	key(j, "trouble");
	if (e->code == GPUCTR_OK) {
		buf_text(j->b, "null");
		return;
	}
	begin(j, '{');
	number(j, "code", (uint64_t)e->code);
	text(j, "name", gpuctr_error_name(e->code));
	text(j, "message", e->message);
	text_or_null(j, "remedy", e->remedy);
	end(j, '}');
}

static void gpu(struct json *j, const struct gpuctr_gpu *g)
{
	next(j);
	begin(j, '{');
	number(j, "index", g->index);
	text(j, "uuid", g->uuid);
	text(j, "name", g->name);
	text_or_null(j, "chip", g->chip);
	number_or_null(j, "capture", g->holder);
	number(j, "waiting", g->waiting);
	text_or_null(j, "job", g->job);
	text_or_null(j, "job_user", g->job_user);
	end(j, '}');
}

static void kernels(struct json *j, const struct gpuctr_totals *t)
{
	key(j, "kernels");
	begin(j, '{');
#define NUMBER(name) number(j, #name, t->name);
	GPUCTR_TOTALS(NUMBER)
#undef NUMBER
	end(j, '}');
}

static void capture(struct json *j, const struct gpuctr_capture_info *c)
{
	next(j);
	begin(j, '{');
	number(j, "capture", c->capture);
	text(j, "state", status_state_name(c->state));
	number(j, "uid", c->uid);
	text_or_null(j, "user", c->user);
	number(j, "pid", c->pid);
	text(j, "program", c->program);
	texts(j, "gpus", c->gpus, c->n_gpus);
	texts(j, "metrics", c->metrics, c->n_metrics);
	number_or_null(j, "position", c->position);
	number(j, "processes", c->processes);
	number(j, "lease_left_ns", c->lease_left_ns);
	kernels(j, &c->totals);
	end(j, '}');
}

static void codes(struct json *j, const char *name, const struct gpuctr_code_count *v, size_t n)
{
	key(j, name);
	begin(j, '{');
	for (size_t i = 0; i < n; i++) {
		number(j, v[i].code == GPUCTR_OK ? "asked" : gpuctr_error_name(v[i].code),
		       v[i].count);
	}
	end(j, '}');
}

static void waits(struct json *j, const struct gpuctr_counts *c)
{
	key(j, "waits");
	begin(j, '[');
	for (size_t i = 0; i < c->n_waits; i++) {
		next(j);
		begin(j, '{');
		number_or_null(j, "up_to_ns", c->waits[i].up_to_ns);
		number(j, "leases", c->waits[i].count);
		end(j, '}');
	}
	end(j, ']');
}

static void restarts(struct json *j, const struct gpuctr_counts *c)
{
	key(j, "restarts");
	begin(j, '{');
	number(j, "front", c->restarts_front);
	number(j, "granter", c->restarts_granter);
	number(j, "gpu", c->restarts_gpu);
	number(j, "planner", c->restarts_planner);
	end(j, '}');
}

static void counts(struct json *j, const struct gpuctr_counts *c)
{
	key(j, "counts");
	if (!c) {
		buf_text(j->b, "null");
		return;
	}
	begin(j, '{');
	number(j, "connections", c->connections);
	number(j, "connections_max", c->connections_max);
	number(j, "permissions", c->permissions);
	number(j, "leases", c->leases);
	number(j, "leases_active", c->leases_active);
	number(j, "leases_permit", c->leases_permit);
	codes(j, "lease_ends", c->lease_ends, c->n_lease_ends);
	codes(j, "refusals", c->refusals, c->n_refusals);
	number(j, "waiting", c->waiting);
	number(j, "waiting_max", c->waiting_max);
	number(j, "longest_wait_ns", c->longest_wait_ns);
	number(j, "waited_ns", c->waited_ns);
	waits(j, c);
	number(j, "records", c->records);
	number(j, "record_bytes", c->record_bytes);
	kernels(j, &c->kernels);
	number(j, "processes", c->processes);
	number(j, "registered", c->registered);
	restarts(j, c);
	truth(j, "audit_fails", c->audit_fails);
	end(j, '}');
}

void status_json(struct buf *b, const struct gpuctr_status *status)
{
	struct json j = { b, false };

	begin(&j, '{');
	text(&j, "daemon", status->daemon);
	number(&j, "uptime_ns", status->uptime_ns);
	number(&j, "connections", status->peers);
	text_or_null(&j, "driver", status->driver);
	text_or_null(&j, "cupti", status->cupti);
	text(&j, "restriction", restriction_name(status->restricted));
	trouble(&j, &status->trouble);
	key(&j, "gpus");
	begin(&j, '[');
	for (size_t i = 0; i < status->n_gpus; i++) {
		gpu(&j, &status->gpus[i]);
	}
	end(&j, ']');
	key(&j, "captures");
	begin(&j, '[');
	for (size_t i = 0; i < status->n_captures; i++) {
		capture(&j, &status->captures[i]);
	}
	end(&j, ']');
	counts(&j, status->counts);
	end(&j, '}');
	buf_char(b, '\n');
}
