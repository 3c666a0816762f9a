/* SPDX-License-Identifier: Apache-2.0 */
#include "client/exporter/metrics.h"

#include <inttypes.h>
#include <math.h>

#include "proto/base/utf8.h"

/* A family is announced once, with all of its samples below it. OpenMetrics leaves "_total" out of
 * the family's name, has a line for a unit, and marks the end. */

struct writer {
	struct buf *b;
	bool open;
};

#define PREFIX "gpucountd_"
#define SAMPLE(w, format, ...) buf_printf((w)->b, PREFIX format "\n", __VA_ARGS__)
/* A family with n samples; the arguments of their format name the number of a sample as i. */
#define FAMILY(w, type, name, help, n, format, ...)              \
	do {                                                     \
		family(w, type, name, help);                     \
		for (size_t i = 0; i < (n); i++) {               \
			SAMPLE(w, name "{" format, __VA_ARGS__); \
		}                                                \
	} while (0)
#define GPU "gpu=\"%u\",uuid=\"%s\""
#define OF(g) (g).index, (g).uuid
#define SAFE(text) make_safe((char[256]){ "" }, 256, text)

/* Makes a label's text safe: any user may choose a job's name, which terminals and pages show. */
static const char *make_safe(char *room, size_t size, const char *text)
{
	for (char *to = room; *text && to < room + size - 2; *to++ = *text++) {
		if (*text == '"' || *text == '\\') {
			*to++ = '\\';
		}
	}
	utf8_replace_unsafe(room);
	return room;
}

static void family(struct writer *w, const char *type, const char *name, const char *help)
{
	const char *total = w->open ? strstr(name, "_total") : NULL;
	int n = total ? (int)(total - name) : (int)strlen(name);
	const char *unit = strstr(name, "_seconds") ? "seconds" : "bytes";

	buf_printf(w->b, "# HELP " PREFIX "%.*s %s\n", n, name, help);
	buf_printf(w->b, "# TYPE " PREFIX "%.*s %s\n", n, name, type);
	if (w->open && strstr(name, unit)) {
		buf_printf(w->b, "# UNIT " PREFIX "%.*s %s\n", n, name, unit);
	}
}

static void one(struct writer *w, const char *name, double value, const char *help)
{
	family(w, strstr(name, "_total") ? "counter" : "gauge", name, help);
	SAMPLE(w, "%s %.16g", name, value);
}

/* Writes the labels of a GPU. If the daemon's settings allow names in metrics, they include the
 * user who holds its counters and the job to which it belongs. False: there is no such GPU. */
static bool label(struct buf *b, const struct gpuctr_status *s, unsigned index)
{
	bool users = s->counts && s->counts->label_users, jobs = s->counts && s->counts->label_jobs;
	const struct gpuctr_gpu *g = s->gpus, *end = g + s->n_gpus;

	while (g < end && g->index != index) {
		g++;
	}
	buf_clear(b);
	if (g == end) {
		return false;
	}
	buf_printf(b, GPU, OF(*g));
	for (size_t i = 0; users && i < s->n_captures; i++) {
		if (g->holder == s->captures[i].capture && s->captures[i].user) {
			buf_printf(b, ",holder=\"%s\"", SAFE(s->captures[i].user));
		}
	}
	if (jobs && *g->job) {
		buf_printf(b, ",job=\"%s%s%s\"", SAFE(g->job), users ? "\",user=\"" : "",
			   SAFE(users ? g->job_user : ""));
	}
	return true;
}

static void add_activity(struct writer *w, const struct gpuctr_status *s)
{
#define OFFSET(member) offsetof(struct gpuctr_activity, member)
	static const struct {
		const char *family, *help, *label; /* family NULL: that of the entry before */
		size_t offset;
		double unit;
	} all[] = {
		{ "gpu_activity_ratio", "What a GPU does of what it could.", "of=\"sm\"",
		  OFFSET(sm_pct), 100 },
		{ NULL, NULL, "of=\"tensor\"", OFFSET(tensor_pct), 100 },
		{ NULL, NULL, "of=\"memory\"", OFFSET(dram_pct), 100 },
		{ "gpu_link_byte_rate", "What a GPU's links carry.", "link=\"pcie\",way=\"out\"",
		  OFFSET(pcie_sent), 1 },
		{ NULL, NULL, "link=\"pcie\",way=\"in\"", OFFSET(pcie_received), 1 },
		{ NULL, NULL, "link=\"nvlink\",way=\"out\"", OFFSET(nvlink_sent), 1 },
		{ NULL, NULL, "link=\"nvlink\",way=\"in\"", OFFSET(nvlink_received), 1 },
	};
	CLEAN_BUF struct buf labels = { 0 };
	const char *name = "";

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].family) {
			name = all[i].family;
			family(w, "gauge", name, all[i].help);
		}
		for (size_t k = 0; k < s->n_activity; k++) {
			const struct gpuctr_activity *a = &s->activity[k];
			double value = *(const double *)((const char *)a + all[i].offset);

			if (!*a->unknown && isfinite(value) && label(&labels, s, a->gpu)) {
				SAMPLE(w, "%s{%s,%s} %.16g", name, buf_string(&labels),
				       all[i].label, value / all[i].unit);
			}
		}
	}
}

/* Writes names of users and jobs, if the daemon's settings allow them in metrics. */
static void add_names(struct writer *w, const struct gpuctr_status *s, bool users, bool jobs)
{
	const struct gpuctr_gpu *end = s->gpus + s->n_gpus, *g;

	family(w, "gauge", "gpu_holder_info", "Who holds a GPU's counters now.");
	for (size_t i = 0; users && i < s->n_captures; i++) {
		for (g = s->gpus; g < end; g++) {
			if (g->holder == s->captures[i].capture && s->captures[i].user) {
				SAMPLE(w, "gpu_holder_info{" GPU ",user=\"%s\"} 1", OF(*g),
				       SAFE(s->captures[i].user));
			}
		}
	}
	family(w, "gauge", "gpu_job_info", "The job that a GPU belongs to, as a scheduler says.");
	for (g = s->gpus; jobs && g < end; g++) {
		if (*g->job) {
			SAMPLE(w, "gpu_job_info{" GPU ",job=\"%s%s%s\"} 1", OF(*g), SAFE(g->job),
			       users ? "\",user=\"" : "", SAFE(users ? g->job_user : ""));
		}
	}
}

static void add_waits(struct writer *w, const struct gpuctr_counts *c)
{
	uint64_t n = 0;

	family(w, "histogram", "lease_wait_seconds", "How long captures waited for their lease.");
	for (size_t i = 0; i < c->n_waits; i++) {
		n += c->waits[i].count; /* a bucket's count includes the buckets before it */
		if (c->waits[i].up_to_ns != 0) {
			SAMPLE(w, "lease_wait_seconds_bucket{le=\"%.1f\"} %" PRIu64,
			       (double)c->waits[i].up_to_ns / 1e9, n);
		}
	}
	SAMPLE(w, "lease_wait_seconds_bucket{le=\"+Inf\"} %" PRIu64, n);
	SAMPLE(w, "lease_wait_seconds_count %" PRIu64, n);
	SAMPLE(w, "lease_wait_seconds_sum %.9f", (double)c->waited_ns / 1e9);
}

static void add_counts(struct writer *w, const struct gpuctr_counts *c)
{
	one(w, "connections_accepted_total", c->connections, "Connections that were taken.");
	one(w, "connections_limit", c->connections_max, "Connections that may be open.");
	one(w, "leases_total", c->leases, "Leases of counters that were granted.");
	one(w, "leases_active", c->leases_active, "Leases that last now.");
	one(w, "leases_permit", c->leases_permit, "Of these, permits for other profilers.");
	FAMILY(w, "counter", "lease_ends_total", "Leases that ended; asked: by their client.",
	       c->n_lease_ends, "cause=\"%s\"} %" PRIu64,
	       c->lease_ends[i].code ? gpuctr_error_name(c->lease_ends[i].code) : "asked",
	       c->lease_ends[i].count);
	FAMILY(w, "counter", "refusals_total", "Requests that were refused, by the error's name.",
	       c->n_refusals, "reason=\"%s\"} %" PRIu64, gpuctr_error_name(c->refusals[i].code),
	       c->refusals[i].count);
	one(w, "permissions_total", c->permissions, "Profiler objects that the driver allowed.");
	add_waits(w, c);
	one(w, "queue_length", c->waiting, "Captures that wait for a GPU's counters now.");
	one(w, "queue_limit", c->waiting_max, "Captures that may wait.");
	one(w, "queue_oldest_seconds", c->longest_wait_ns / 1e9, "How long the first has waited.");
	one(w, "records_total", c->records, "Records that were passed on to clients.");
	one(w, "record_bytes_total", c->record_bytes, "The bytes that these records came in.");
	family(w, "counter", "kernels_total", "Kernels by what became of them, as programs tell.");
#define FATE(name) SAMPLE(w, "kernels_total{fate=\"" #name "\"} %" PRIu64, c->kernels.name);
	GPUCTR_FATES(FATE)
#undef FATE
	one(w, "processes", c->processes, "Processes that take part in captures now.");
	one(w, "processes_registered", c->registered, "Processes that wait to be captured.");
	family(w, "counter", "worker_restarts_total", "Processes of the daemon, replaced.");
	SAMPLE(w, "worker_restarts_total{worker=\"front\"} %" PRIu64, c->restarts_front);
	SAMPLE(w, "worker_restarts_total{worker=\"granter\"} %" PRIu64, c->restarts_granter);
	SAMPLE(w, "worker_restarts_total{worker=\"gpu\"} %" PRIu64, c->restarts_gpu);
	SAMPLE(w, "worker_restarts_total{worker=\"planner\"} %" PRIu64, c->restarts_planner);
	one(w, "audit_failing", c->audit_fails, "Whether a failing audit log stops all grants.");
}

static void add_status(struct writer *w, const struct gpuctr_status *s, uint64_t began_ns)
{
	static const char *const states[] = { "planning", "queued", "ready", "running", "ending" };
	const struct gpuctr_gpu *g = s->gpus;
	unsigned n[GPUCTR_CAPTURE_ENDING + 1] = { 0 };

	FAMILY(w, "gauge", "build_info", "Versions of the daemon, NVIDIA's driver and CUPTI.", 1,
	       "version=\"%s\",driver=\"%s\",cupti=\"%s\"} 1", s->daemon, s->driver, s->cupti);
	one(w, "start_time_seconds", began_ns / 1e9, "When counts began, since 1970.");
	one(w, "connections", s->peers, "Connections that are open now.");
	one(w, "measurable", s->trouble.code == 0, "Whether anything can be measured here now.");
	FAMILY(w, "gauge", "trouble", "Why nothing can be measured, by the error's name.",
	       s->trouble.code != 0, "reason=\"%s\"} 1", gpuctr_error_name(s->trouble.code));
	FAMILY(w, "gauge", "gpu_info", "A GPU of this machine.", s->n_gpus,
	       GPU ",name=\"%s\",chip=\"%s\"} 1", OF(g[i]), SAFE(g[i].name), g[i].chip);
	FAMILY(w, "gauge", "gpu_leased", "Whether a capture holds the GPU's counters now.",
	       s->n_gpus, GPU "} %d", OF(g[i]), g[i].holder != 0);
	FAMILY(w, "gauge", "gpu_waiting", "Captures that wait for the GPU's counters.", s->n_gpus,
	       GPU "} %u", OF(g[i]), g[i].waiting);
	for (size_t i = 0; i < s->n_captures; i++) {
		n[s->captures[i].state]++;
	}
	FAMILY(w, "gauge", "captures", "Captures that are open now, by what they do.",
	       GPUCTR_CAPTURE_ENDING + 1, "state=\"%s\"} %u", states[i], n[i]);
	add_activity(w, s);
	one(w, "counts_visible", s->counts != NULL, "Whether the daemon tells its counts here.");
	if (s->counts) {
		add_names(w, s, s->counts->label_users, s->counts->label_jobs);
		add_counts(w, s->counts);
	}
}

void metrics_write(struct buf *b, bool open, const struct gpuctr_status *s, uint64_t began_ns,
		   int error)
{
	struct writer w = { b, open };

	one(&w, "up", s != NULL, "Whether the daemon answered when it was asked for this.");
	if (s) {
		add_status(&w, s, began_ns);
	} else {
		FAMILY(&w, "gauge", "unanswered", "Why there is no answer, by the error's name.", 1,
		       "reason=\"%s\"} 1", gpuctr_error_name(error));
	}
	buf_text(b, open ? "# EOF\n" : "");
}
