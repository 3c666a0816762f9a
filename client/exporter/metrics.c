/* SPDX-License-Identifier: Apache-2.0 */
#include "client/exporter/metrics.h"

#include <stdio.h>
#include <string.h>

/* Writes two syntaxes of one text. In OpenMetrics the family of a counter has its name without
 * "_total", one of type info without "_info"; a unit has a line of its own, and the end is marked.
 * A family is announced once, with all of its samples below it. */

#define PREFIX "gpucountd_"

struct writer {
	struct buf *b;
	enum metrics_syntax syntax;
	const char *name; /* the name, without the prefix, of the family that is being written */
	const char *suffix;
};

struct label {
	const char *name, *value;
};

enum { NS_PER_S = 1000000000 };

const char *metrics_content_type(enum metrics_syntax syntax)
{
	return syntax == METRICS_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

enum metrics_syntax metrics_choose(const char *accept)
{
	bool plain_only = accept && strstr(accept, "text/plain") &&
			  !strstr(accept, "application/openmetrics-text");

	return plain_only ? METRICS_PLAIN : METRICS_OPENMETRICS;
}

/* --- lines --- */

static void meta(struct writer *w, const char *keyword, const char *text)
{
	buf_printf(w->b, "# %s " PREFIX "%s%s %s\n", keyword, w->name,
		   w->syntax == METRICS_PLAIN ? w->suffix : "", text);
}

/* suffix is what the family's samples have behind its name, such as "_total". unit may be NULL. */
static void family(struct writer *w, const char *name, const char *suffix, const char *type,
		   const char *unit, const char *help)
{
	w->name = name;
	w->suffix = suffix;
	meta(w, "HELP", help);
	meta(w, "TYPE", w->syntax == METRICS_PLAIN && strcmp(type, "info") == 0 ? "gauge" : type);
	if (unit && w->syntax == METRICS_OPENMETRICS) {
		meta(w, "UNIT", unit);
	}
}

static void gauge(struct writer *w, const char *name, const char *unit, const char *help)
{
	family(w, name, "", "gauge", unit, help);
}

static void counter(struct writer *w, const char *name, const char *unit, const char *help)
{
	family(w, name, "_total", "counter", unit, help);
}

static void info(struct writer *w, const char *name, const char *help)
{
	family(w, name, "_info", "info", NULL, help);
}

static void label_value(struct buf *b, const char *value)
{
	for (; *value; value++) {
		if (*value == '\n') {
			buf_text(b, "\\n");
			continue;
		}
		if (*value == '"' || *value == '\\') {
			buf_char(b, '\\');
		}
		buf_char(b, *value);
	}
}

/* Writes the line of a sample up to its value. more is what follows the family's suffix. */
static void sample(struct writer *w, const char *suffix, const struct label *labels, size_t n)
{
	buf_printf(w->b, PREFIX "%s%s", w->name, suffix);
	for (size_t i = 0; i < n; i++) {
		buf_text(w->b, i == 0 ? "{" : ",");
		buf_text(w->b, labels[i].name);
		buf_text(w->b, "=\"");
		label_value(w->b, labels[i].value);
		buf_char(w->b, '"');
	}
	buf_text(w->b, n > 0 ? "} " : " ");
}

static void value(struct writer *w, const struct label *labels, size_t n, uint64_t number)
{
	sample(w, w->suffix, labels, n);
	buf_u64(w->b, number);
	buf_char(w->b, '\n');
}

static void plain(struct writer *w, uint64_t number)
{
	value(w, NULL, 0, number);
}

static void gauge_of(struct writer *w, const char *name, const char *help, uint64_t number)
{
	gauge(w, name, NULL, help);
	plain(w, number);
}

static void counter_of(struct writer *w, const char *name, const char *help, uint64_t number)
{
	counter(w, name, NULL, help);
	plain(w, number);
}

static void one_label(struct writer *w, const char *name, const char *text, uint64_t number)
{
	const struct label label = { name, text };

	value(w, &label, 1, number);
}

static void seconds(struct writer *w, const char *suffix, uint64_t ns)
{
	sample(w, suffix, NULL, 0);
	buf_printf(w->b, "%llu.%09llu\n", (unsigned long long)(ns / NS_PER_S),
		   (unsigned long long)(ns % NS_PER_S));
}

static void finish(struct writer *w)
{
	if (w->syntax == METRICS_OPENMETRICS) {
		buf_text(w->b, "# EOF\n");
	}
}

/* --- the daemon --- */

static void add_up(struct writer *w, bool up)
{
	gauge_of(w, "up", "Whether the daemon answered when it was asked for this.", up);
}

static void add_failure_reason(struct writer *w, const char *reason)
{
	gauge(w, "unanswered", NULL, "Why there is no answer, by the name of the error.");
	one_label(w, "reason", reason, 1);
}

/* One series, which is there only while there is a trouble. */
static void add_trouble(struct writer *w, const struct gpuctr_error *trouble)
{
	gauge_of(w, "measurable", "Whether anything can be measured on this machine now.",
		 trouble->code == GPUCTR_OK);
	if (trouble->code != GPUCTR_OK) {
		gauge(w, "trouble", NULL, "Why nothing can be measured, by the error's name.");
		one_label(w, "reason", gpuctr_error_name(trouble->code), 1);
	}
}

static void add_daemon(struct writer *w, const struct gpuctr_status *s, uint64_t began_ns)
{
	const struct label labels[] = {
		{ "version", s->daemon },
		{ "driver", s->driver },
		{ "cupti", s->cupti },
	};

	info(w, "build", "Versions of the daemon, of NVIDIA's driver and of CUPTI.");
	value(w, labels, 3, 1);
	gauge(w, "start_time_seconds", "seconds",
	      "When the counts below began, in seconds since 1970.");
	seconds(w, "", began_ns);
	gauge_of(w, "connections", "Connections that are open now.", s->peers);
}

/* --- GPUs and captures --- */

struct gpu_labels {
	char index[16];
	struct label v[4];
};

static const struct label *gpu_labels(struct gpu_labels *l, const struct gpuctr_gpu *g)
{
	snprintf(l->index, sizeof(l->index), "%u", g->index);
	l->v[0] = (struct label){ "gpu", l->index };
	l->v[1] = (struct label){ "uuid", g->uuid };
	return l->v;
}

static void add_gpus(struct writer *w, const struct gpuctr_status *s)
{
	struct gpu_labels l;

	info(w, "gpu", "A GPU of this machine.");
	for (size_t i = 0; i < s->n_gpus; i++) {
		gpu_labels(&l, &s->gpus[i]);
		l.v[2] = (struct label){ "name", s->gpus[i].name };
		l.v[3] = (struct label){ "chip", s->gpus[i].chip };
		value(w, l.v, 4, 1);
	}
	gauge(w, "gpu_leased", NULL, "Whether a capture holds the GPU's counters now.");
	for (size_t i = 0; i < s->n_gpus; i++) {
		value(w, gpu_labels(&l, &s->gpus[i]), 2, s->gpus[i].holder != 0);
	}
	gauge(w, "gpu_waiting", NULL, "Captures that wait for the GPU's counters.");
	for (size_t i = 0; i < s->n_gpus; i++) {
		value(w, gpu_labels(&l, &s->gpus[i]), 2, s->gpus[i].waiting);
	}
}

static const char *holder_of(const struct gpuctr_status *s, const struct gpuctr_gpu *g)
{
	for (size_t i = 0; i < s->n_captures; i++) {
		if (g->holder != 0 && s->captures[i].capture == g->holder) {
			return s->captures[i].user;
		}
	}
	return NULL;
}

static void add_holders(struct writer *w, const struct gpuctr_status *s)
{
	struct gpu_labels l;

	info(w, "gpu_holder", "Who holds a GPU's counters now.");
	for (size_t i = 0; i < s->n_gpus; i++) {
		const char *user = holder_of(s, &s->gpus[i]);

		if (user) {
			gpu_labels(&l, &s->gpus[i]);
			l.v[2] = (struct label){ "user", user };
			value(w, l.v, 3, 1);
		}
	}
}

static void add_jobs(struct writer *w, const struct gpuctr_status *s)
{
	struct gpu_labels l;

	info(w, "gpu_job", "The job that a GPU belongs to, as the scheduler stated it.");
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (*s->gpus[i].job) {
			gpu_labels(&l, &s->gpus[i]);
			l.v[2] = (struct label){ "job", s->gpus[i].job };
			l.v[3] = (struct label){ "user", s->gpus[i].job_user };
			value(w, l.v, s->counts->label_users ? 4 : 3, 1);
		}
	}
}

/* Names of users and jobs, where the daemon's settings let metrics carry them. */
static void add_names(struct writer *w, const struct gpuctr_status *s)
{
	if (s->counts && s->counts->label_users) {
		add_holders(w, s);
	}
	if (s->counts && s->counts->label_jobs) {
		add_jobs(w, s);
	}
}

static void add_captures(struct writer *w, const struct gpuctr_status *s)
{
	static const char *const states[] = { "planning", "queued", "ready", "running", "ending" };
	uint64_t n[sizeof(states) / sizeof(states[0])] = { 0 };

	for (size_t i = 0; i < s->n_captures; i++) {
		if ((size_t)s->captures[i].state < sizeof(n) / sizeof(n[0])) {
			n[s->captures[i].state]++;
		}
	}
	gauge(w, "captures", NULL, "Captures that are open now, by what they do.");
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		one_label(w, "state", states[i], n[i]);
	}
}

/* --- counts --- */

static void add_codes(struct writer *w, const char *label, const struct gpuctr_code_count *v,
		      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		one_label(w, label, v[i].code == GPUCTR_OK ? "asked" : gpuctr_error_name(v[i].code),
			  v[i].count);
	}
}

static void add_leases(struct writer *w, const struct gpuctr_counts *c)
{
	counter_of(w, "connections_accepted", "Connections that were taken.", c->connections);
	gauge_of(w, "connections_limit", "Connections that are taken at a time, at most.",
		 c->connections_max);
	counter_of(w, "leases", "Leases of counters that were granted.", c->leases);
	gauge_of(w, "leases_active", "Leases that last now.", c->leases_active);
	gauge_of(w, "leases_permit", "Of these, permits: a profiler of the user's measures.",
		 c->leases_permit);
	counter(w, "lease_ends", NULL, "Leases that ended, by the cause; asked: by their client.");
	add_codes(w, "cause", c->lease_ends, c->n_lease_ends);
	counter(w, "refusals", NULL, "Requests that were refused, by the name of the error.");
	add_codes(w, "reason", c->refusals, c->n_refusals);
	counter_of(w, "permissions", "Profiler objects that the driver allowed.", c->permissions);
}

/* Bounds are whole tenths of a second. The label of a bound is a float in its shortest form. */
static void bucket(struct writer *w, uint64_t up_to_ns, uint64_t count)
{
	char text[32] = "+Inf";
	struct label le = { "le", text };

	if (up_to_ns != 0) {
		snprintf(text, sizeof(text), "%llu.%llu", (unsigned long long)(up_to_ns / NS_PER_S),
			 (unsigned long long)(up_to_ns % NS_PER_S / (NS_PER_S / 10)));
	}
	sample(w, "_bucket", &le, 1);
	buf_u64(w->b, count);
	buf_char(w->b, '\n');
}

/* A bucket of a histogram also counts what the buckets before it count. */
static void add_waits(struct writer *w, const struct gpuctr_counts *c)
{
	uint64_t n = 0;

	family(w, "lease_wait_seconds", "", "histogram", "seconds",
	       "How long captures that got a lease had waited for it.");
	for (size_t i = 0; i < c->n_waits; i++) {
		n += c->waits[i].count;
		bucket(w, c->waits[i].up_to_ns, n);
	}
	sample(w, "_count", NULL, 0);
	buf_u64(w->b, n);
	buf_char(w->b, '\n');
	seconds(w, "_sum", c->waited_ns);
}

static void add_queue(struct writer *w, const struct gpuctr_counts *c)
{
	add_waits(w, c);
	gauge_of(w, "queue_length", "Captures that wait for a GPU's counters now.", c->waiting);
	gauge_of(w, "queue_limit", "Captures that may wait, at most.", c->waiting_max);
	gauge(w, "queue_oldest_seconds", "seconds", "How long the first of them has waited.");
	seconds(w, "", c->longest_wait_ns);
}

static void add_kernels(struct writer *w, const struct gpuctr_totals *t)
{
	counter(w, "kernels", NULL, "Kernels by what became of them, as measured programs tell.");
#define FATE(name) one_label(w, "fate", #name, t->name);
	GPUCTR_FATES(FATE)
#undef FATE
}

static void add_records(struct writer *w, const struct gpuctr_counts *c)
{
	counter_of(w, "records", "Records that were passed on to clients.", c->records);
	counter(w, "record_bytes", "bytes", "The bytes that these records came in.");
	plain(w, c->record_bytes);
	add_kernels(w, &c->kernels);
	gauge_of(w, "processes", "Processes that take part in captures now.", c->processes);
	gauge_of(w, "processes_registered", "Processes that wait to be captured.", c->registered);
}

static void add_workers(struct writer *w, const struct gpuctr_counts *c)
{
	counter(w, "worker_restarts", NULL,
		"Processes of the daemon that ended and were replaced.");
	one_label(w, "worker", "front", c->restarts_front);
	one_label(w, "worker", "granter", c->restarts_granter);
	one_label(w, "worker", "gpu", c->restarts_gpu);
	one_label(w, "worker", "planner", c->restarts_planner);
	gauge_of(w, "audit_failing", "Whether nothing is granted because the audit log fails.",
		 c->audit_fails);
}

void metrics_add_status(struct buf *b, enum metrics_syntax syntax,
			const struct gpuctr_status *status, uint64_t began_ns)
{
	struct writer w = { b, syntax, "", "" };

	add_up(&w, true);
	add_daemon(&w, status, began_ns);
	add_trouble(&w, &status->trouble);
	add_gpus(&w, status);
	add_names(&w, status);
	add_captures(&w, status);
	gauge_of(&w, "counts_visible",
		 "Whether the daemon tells this exporter its counts (monitor-users).",
		 status->counts != NULL);
	if (status->counts) {
		add_leases(&w, status->counts);
		add_queue(&w, status->counts);
		add_records(&w, status->counts);
		add_workers(&w, status->counts);
	}
	finish(&w);
}

void metrics_add_failure(struct buf *b, enum metrics_syntax syntax,
			 const struct gpuctr_error *error)
{
	struct writer w = { b, syntax, "", "" };

	add_up(&w, false);
	add_failure_reason(&w, gpuctr_error_name(error->code));
	finish(&w);
}
