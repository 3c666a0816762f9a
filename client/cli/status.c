/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/status.h"

#include <math.h>

#include "client/cli/range_text.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/json.h"

/* Objects are written member by member in the order of gpuctr-status(5). Every member is always
 * there, and null if it is unknown or does not apply, so that readers need not test for members. */

static void number_or_null(struct json *j, const char *name, uint64_t value)
{
	if (value) {
		json_u64(j, name, value);
	} else {
		json_null(j, name);
	}
}

/* --- JSON, for programs --------------------------------------------------------------------- */

/* "planning", "queued", ... */
static const char *state_name(enum gpuctr_capture_state state)
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
	if (e->code == GPUCTR_OK) {
		json_null(j, "trouble");
		return;
	}
	json_begin(j, "trouble", '{');
	json_u64(j, "code", (uint64_t)e->code);
	json_text(j, "name", gpuctr_error_name(e->code));
	json_text(j, "message", e->message);
	json_text_or_null(j, "remedy", e->remedy);
	json_end(j, '}');
}

/* NULL: not known; *ret_unknown is the reason. */
static const struct gpuctr_activity *find_activity(const struct gpuctr_status *status,
						   const struct gpuctr_gpu *g,
						   const char **ret_unknown)
{
	const struct gpuctr_activity *found = NULL;

	*ret_unknown = "the gpu process does not answer";
	for (size_t i = 0; i < status->n_activity; i++) {
		if (status->activity[i].gpu == g->index) {
			*ret_unknown = status->activity[i].unknown;
			found = **ret_unknown ? NULL : &status->activity[i];
		}
	}
	return found;
}

static void activity(struct json *j, const struct gpuctr_status *status, const struct gpuctr_gpu *g)
{
	const char *unknown;
	const struct gpuctr_activity *a = find_activity(status, g, &unknown);

	json_text_or_null(j, "activity_unknown", unknown);
	if (!a) {
		json_null(j, "activity");
		return;
	}
	json_begin(j, "activity", '{');
	json_u64(j, "over_ns", a->over_ns);
	json_double(j, "sm_pct", a->sm_pct);
	json_double(j, "tensor_pct", a->tensor_pct);
	json_double(j, "dram_pct", a->dram_pct);
	json_double(j, "pcie_out_bytes_per_s", a->pcie_sent);
	json_double(j, "pcie_in_bytes_per_s", a->pcie_received);
	json_double(j, "nvlink_out_bytes_per_s", a->nvlink_sent);
	json_double(j, "nvlink_in_bytes_per_s", a->nvlink_received);
	json_end(j, '}');
}

static void gpu(struct json *j, const struct gpuctr_status *status, const struct gpuctr_gpu *g)
{
	json_begin(j, NULL, '{');
	json_u64(j, "index", g->index);
	json_text(j, "uuid", g->uuid);
	json_text(j, "name", g->name);
	json_text_or_null(j, "chip", g->chip);
	number_or_null(j, "capture", g->holder);
	json_u64(j, "waiting", g->waiting);
	json_text_or_null(j, "job", g->job);
	json_text_or_null(j, "job_user", g->job_user);
	activity(j, status, g);
	json_end(j, '}');
}

static void kernels(struct json *j, const struct gpuctr_totals *t)
{
	json_begin(j, "kernels", '{');
	json_totals(j, t);
	json_end(j, '}');
}

static void capture(struct json *j, const struct gpuctr_capture_info *c)
{
	json_begin(j, NULL, '{');
	json_u64(j, "capture", c->capture);
	json_text(j, "state", state_name(c->state));
	json_u64(j, "uid", c->uid);
	json_text_or_null(j, "user", c->user);
	json_u64(j, "pid", c->pid);
	json_text(j, "program", c->program);
	json_texts(j, "gpus", c->gpus, c->n_gpus);
	json_texts(j, "metrics", c->metrics, c->n_metrics);
	number_or_null(j, "position", c->position);
	json_u64(j, "processes", c->processes);
	number_or_null(j, "lease_left_ns", c->lease_left_ns);
	kernels(j, &c->totals);
	json_end(j, '}');
}

static void codes(struct json *j, const char *name, const struct gpuctr_code_count *v, size_t n)
{
	json_begin(j, name, '{');
	for (size_t i = 0; i < n; i++) {
		json_u64(j, v[i].code == GPUCTR_OK ? "asked" : gpuctr_error_name(v[i].code),
			 v[i].count);
	}
	json_end(j, '}');
}

static void waits(struct json *j, const struct gpuctr_counts *c)
{
	json_begin(j, "waits", '[');
	for (size_t i = 0; i < c->n_waits; i++) {
		json_begin(j, NULL, '{');
		number_or_null(j, "up_to_ns", c->waits[i].up_to_ns);
		json_u64(j, "leases", c->waits[i].count);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void restarts(struct json *j, const struct gpuctr_counts *c)
{
	json_begin(j, "restarts", '{');
	json_u64(j, "front", c->restarts_front);
	json_u64(j, "granter", c->restarts_granter);
	json_u64(j, "gpu", c->restarts_gpu);
	json_u64(j, "planner", c->restarts_planner);
	json_end(j, '}');
}

static void counts(struct json *j, const struct gpuctr_counts *c)
{
	if (!c) {
		json_null(j, "counts");
		return;
	}
	json_begin(j, "counts", '{');
	json_u64(j, "connections", c->connections);
	json_u64(j, "connections_max", c->connections_max);
	json_u64(j, "permissions", c->permissions);
	json_u64(j, "leases", c->leases);
	json_u64(j, "leases_active", c->leases_active);
	json_u64(j, "leases_permit", c->leases_permit);
	codes(j, "lease_ends", c->lease_ends, c->n_lease_ends);
	codes(j, "refusals", c->refusals, c->n_refusals);
	json_u64(j, "waiting", c->waiting);
	json_u64(j, "waiting_max", c->waiting_max);
	json_u64(j, "longest_wait_ns", c->longest_wait_ns);
	json_u64(j, "waited_ns", c->waited_ns);
	waits(j, c);
	json_u64(j, "records", c->records);
	json_u64(j, "record_bytes", c->record_bytes);
	kernels(j, &c->kernels);
	json_u64(j, "processes", c->processes);
	json_u64(j, "registered", c->registered);
	restarts(j, c);
	json_bool(j, "audit_fails", c->audit_fails);
	json_end(j, '}');
}

void status_json(struct buf *b, const struct gpuctr_status *status, const struct buf *processes)
{
	struct json j = { b, false };

	json_begin(&j, NULL, '{');
	json_text(&j, "daemon", status->daemon);
	json_u64(&j, "uptime_ns", status->uptime_ns);
	json_u64(&j, "connections", status->peers);
	json_text_or_null(&j, "driver", status->driver);
	json_text_or_null(&j, "cupti", status->cupti);
	json_text(&j, "restriction", restriction_name(status->restricted));
	trouble(&j, &status->trouble);
	json_begin(&j, "gpus", '[');
	for (size_t i = 0; i < status->n_gpus; i++) {
		gpu(&j, status, &status->gpus[i]);
	}
	json_end(&j, ']');
	json_begin(&j, "captures", '[');
	for (size_t i = 0; i < status->n_captures; i++) {
		capture(&j, &status->captures[i]);
	}
	json_end(&j, ']');
	json_begin(&j, "processes", '[');
	json_add(&j, processes);
	json_end(&j, ']');
	counts(&j, status->counts);
	json_end(&j, '}');
	buf_char(b, '\n');
}

/* --- for people ------------------------------------------------------------------------------ */

static void add_daemon(struct buf *b, const struct gpuctr_status *status)
{
	static const char *const restricted[] = { "open to every user",
						  "restricted to administrators", "unknown" };
	unsigned which = status->restricted <= GPUCTR_RESTRICTION_UNKNOWN
				 ? status->restricted
				 : GPUCTR_RESTRICTION_UNKNOWN;

	text_printf(b, "gpucountd %s, up ", status->daemon);
	text_duration(b, status->uptime_ns);
	buf_printf(b, ", %u connection%s\n", status->peers, status->peers == 1 ? "" : "s");
	text_printf(b, "driver %s, CUPTI %s, counters without this daemon: %s\n",
		    *status->driver ? status->driver : "none",
		    *status->cupti ? status->cupti : "not found", restricted[which]);
	if (status->trouble.code != GPUCTR_OK) {
		text_printf(b, "nothing can be measured[%s]: %s\n",
			    gpuctr_error_name(status->trouble.code), status->trouble.message);
		if (*status->trouble.remedy) {
			text_printf(b, "  remedy: %s\n", status->trouble.remedy);
		}
	}
}

/* Appends nothing if NVML has not reported the figure. */
static void add_percent(struct buf *b, const char *name, double percent)
{
	if (isfinite(percent)) {
		buf_printf(b, "%s %.1f %%, ", name, percent);
	}
}

static void add_link(struct buf *b, const char *name, double sent, double received)
{
	if (isfinite(sent) && isfinite(received)) {
		buf_printf(b, "%s ", name);
		text_scaled(b, sent, "byte/second");
		buf_text(b, " out, ");
		text_scaled(b, received, "byte/second");
		buf_text(b, " in, ");
	}
}

static void add_activity(struct buf *b, const struct gpuctr_status *status,
			 const struct gpuctr_gpu *gpu)
{
	const char *unknown;
	const struct gpuctr_activity *a = find_activity(status, gpu, &unknown);

	if (!a) {
		text_printf(b, "     activity is not known: %s\n", unknown);
		return;
	}
	buf_text(b, "     ");
	add_percent(b, "SMs", a->sm_pct);
	add_percent(b, "tensor cores", a->tensor_pct);
	add_percent(b, "memory", a->dram_pct);
	add_link(b, "PCIe", a->pcie_sent, a->pcie_received);
	add_link(b, "NVLink", a->nvlink_sent, a->nvlink_received);
	buf_printf(b, "in the last %.1f s\n", (double)a->over_ns / 1e9);
}

static void add_gpu(struct buf *b, const struct gpuctr_gpu *gpu, bool in_trouble)
{
	text_printf(b, "  %u  %s (%s)  %s", gpu->index, gpu->name, gpu->chip, gpu->uuid);
	if (gpu->holder) {
		buf_printf(b, "  held by capture %u", gpu->holder);
	} else {
		buf_text(b, in_trouble ? "  not measurable" : "  free");
	}
	if (gpu->waiting) {
		buf_printf(b, ", %u waiting", gpu->waiting);
	}
	if (*gpu->job) {
		text_printf(b, ", of job %s of %s", gpu->job, gpu->job_user);
	}
	buf_char(b, '\n');
}

static void add_capture(struct buf *b, const struct gpuctr_capture_info *info)
{
	text_printf(b, "  %u  %s  %s (%s, pid %u)", info->capture, state_name(info->state),
		    info->user && *info->user ? info->user : TEXT_UNKNOWN, info->program,
		    info->pid);
	if (info->position) {
		buf_printf(b, "  number %u in the queue", info->position);
	}
	if (info->processes) {
		buf_printf(b, "  %u process%s", info->processes, info->processes == 1 ? "" : "es");
	}
	if (info->totals.seen) {
		buf_printf(b, "  %s of %s kernels measured", TEXT_COUNT(info->totals.measured),
			   TEXT_COUNT(info->totals.seen));
	}
	if (info->lease_left_ns) {
		buf_text(b, "  lease ");
		text_duration(b, info->lease_left_ns);
	}
	buf_char(b, '\n');
	for (size_t i = 0; i < info->n_metrics; i++) {
		text_printf(b, "%s%s", i == 0 ? "     " : ", ", info->metrics[i]);
	}
	if (info->n_metrics) {
		buf_char(b, '\n');
	}
}

static uint64_t sum(const struct gpuctr_code_count *v, size_t n)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		total += v[i].count;
	}
	return total;
}

/* The counts that show whether the daemon works well; --json has the others. */
static void add_counts(struct buf *b, const struct gpuctr_counts *c)
{
	uint64_t restarts =
		c->restarts_front + c->restarts_granter + c->restarts_gpu + c->restarts_planner;

	buf_printf(b,
		   "\nsince then: leases %s, refusals %s, records %s, kernels dropped or lost %s, "
		   "workers replaced %s\n",
		   TEXT_COUNT(c->leases), TEXT_COUNT(sum(c->refusals, c->n_refusals)),
		   TEXT_COUNT(c->records), TEXT_COUNT(c->kernels.dropped + c->kernels.lost),
		   TEXT_COUNT(restarts));
}

void status_text(struct buf *b, const struct gpuctr_status *status, bool styled)
{
	add_daemon(b, status);
	buf_char(b, '\n');
	terminal_bold(b, styled, status->n_gpus ? "GPUs" : "no GPUs");
	buf_char(b, '\n');
	for (size_t i = 0; i < status->n_gpus; i++) {
		add_gpu(b, &status->gpus[i], status->trouble.code != GPUCTR_OK);
		add_activity(b, status, &status->gpus[i]);
	}
	buf_char(b, '\n');
	terminal_bold(b, styled, status->n_captures ? "captures" : "no captures");
	buf_char(b, '\n');
	for (size_t i = 0; i < status->n_captures; i++) {
		add_capture(b, &status->captures[i]);
	}
	if (status->counts) {
		add_counts(b, status->counts);
	}
}
