/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/cgroup.h"
#include "client/lib/internal.h"

/* Matches the daemon's answers to requests, by the number that the library gave each request.
 *
 * Patterns are expanded here and not by the daemon, because a user can make them expensive, and
 * should pay in the user's own process. So a plan or capture with patterns begins with a request
 * for the whole catalogue, and its own request then holds names only. */

static struct request *request_new(struct gpuctr *g, enum wire_type answer, void *userdata)
{
	struct request *q = calloc(1, sizeof(*q));

	if (q) {
		q->id = ++g->last_request;
		q->answer = answer;
		q->userdata = userdata;
		list_append(&g->requests, &q->link);
	}
	return q;
}

static void request_free(struct request *q)
{
	list_remove(&q->link);
	expansion_free(q->expansion);
	free(q->chip);
	free(q);
}

void requests_free_all(struct gpuctr *g)
{
	while (!list_is_empty(&g->requests)) {
		request_free(list_entry(g->requests.next, struct request, link));
	}
}

static int request_send(struct gpuctr *g, struct request *q, const struct wire_message *m)
{
	int r = connection_send(g, m);

	if (r != 0) {
		request_free(q);
	}
	return r;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

int gpuctr_list_metrics(struct gpuctr *g, const struct gpuctr_metrics_options *options,
			gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end, void *userdata)
{
	struct wire_message m = { .type = WIRE_METRICS_REQUEST };
	struct gpuctr_metrics_options o;
	struct refusal refusal;
	struct request *q;
	int r = options_copy(g, &o, sizeof(o), options);

	if (r != 0) {
		return r;
	}
	q = request_new(g, WIRE_METRICS_REPLY, userdata);
	if (!q) {
		return -ENOMEM;
	}
	if (expansion_new(o.patterns, o.n_patterns, &q->expansion, &refusal) != 0) {
		request_free(q);
		return connection_refuse(g, &refusal);
	}
	q->on_metric = on_metric;
	q->on_metrics_end = on_end;
	m.metrics_request = (struct wire_metrics_request){
		.request = q->id,
		.chip = or_empty(o.chip),
		.describe = o.describe,
	};
	return request_send(g, q, &m);
}

static int send_plan(struct gpuctr *g, struct request *q, const char *chip,
		     const struct wire_strings *metrics)
{
	const struct wire_message m = {
		.type = WIRE_PLAN_REQUEST,
		.plan_request = { .request = q->id, .chip = or_empty(chip), .metrics = *metrics },
	};

	q->answer = WIRE_PLAN_REPLY;
	return connection_send(g, &m);
}

/* Asks for the catalogue. The caller frees q when it fails. */
static int expand(struct gpuctr *g, struct request *q, const char *chip,
		  const struct wire_strings *metrics)
{
	const struct wire_message m = {
		.type = WIRE_METRICS_REQUEST,
		.metrics_request = { .request = q->id, .chip = or_empty(chip), .describe = true },
	};
	struct refusal refusal;

	if (expansion_new(metrics->v, metrics->n, &q->expansion, &refusal) != 0) {
		return connection_refuse(g, &refusal);
	}
	q->answer = WIRE_METRICS_REPLY;
	return connection_send(g, &m);
}

int requests_expand(struct gpuctr *g, const char *chip, const struct wire_strings *metrics,
		    requests_on_expanded on_expanded, struct gpuctr_capture *c)
{
	struct request *q = request_new(g, WIRE_METRICS_REPLY, NULL);
	int r;

	if (!q) {
		return -ENOMEM;
	}
	q->capture = c;
	q->on_expanded = on_expanded;
	r = expand(g, q, chip, metrics);
	if (r != 0) {
		request_free(q);
	}
	return r;
}

void requests_forget(struct gpuctr *g, const struct gpuctr_capture *c)
{
	list_for_each_safe(l, &g->requests) {
		struct request *q = list_entry(l, struct request, link);

		if (q->capture == c) {
			request_free(q);
		}
	}
}

int gpuctr_plan(struct gpuctr *g, const char *chip, const char *const *metrics, size_t n_metrics,
		gpuctr_on_plan on_plan, void *userdata)
{
	const struct wire_strings wanted = { n_metrics, metrics };
	struct request *q = request_new(g, WIRE_PLAN_REPLY, userdata);
	int r;

	if (!q || !(q->chip = strdup(or_empty(chip)))) {
		r = -ENOMEM;
	} else {
		q->on_plan = on_plan;
		r = expansion_is_needed(&wanted) ? expand(g, q, chip, &wanted)
						 : send_plan(g, q, chip, &wanted);
	}
	if (r != 0 && q) {
		request_free(q);
	}
	return r;
}

int gpuctr_get_status(struct gpuctr *g, gpuctr_on_status on_status, void *userdata)
{
	struct request *q = request_new(g, WIRE_STATUS_REPLY, userdata);
	struct wire_message m = { .type = WIRE_STATUS_REQUEST };

	if (!q) {
		return -ENOMEM;
	}
	q->on_status = on_status;
	m.status_request.request = q->id;
	return request_send(g, q, &m);
}

int gpuctr_begin_job(struct gpuctr *g, const struct gpuctr_job_options *options,
		     gpuctr_on_done on_done, void *userdata)
{
	struct wire_message m = { .type = WIRE_JOB_BEGIN };
	struct gpuctr_job_options o;
	struct request *q;
	int r = options_copy(g, &o, sizeof(o), options);

	if (r != 0) {
		return r;
	}
	q = request_new(g, WIRE_JOB_REPLY, userdata);
	if (!q) {
		return -ENOMEM;
	}
	q->on_done = on_done;
	m.job_begin = (struct wire_job_begin){
		.request = q->id,
		.job = or_empty(o.job),
		.uid = o.uid,
		.gpus = { o.n_gpus, o.gpus },
		.time_ns = o.time_ns,
	};
	return request_send(g, q, &m);
}

int gpuctr_end_job(struct gpuctr *g, const char *job, gpuctr_on_done on_done, void *userdata)
{
	struct request *q = request_new(g, WIRE_JOB_REPLY, userdata);
	struct wire_message m = { .type = WIRE_JOB_END };

	if (!q) {
		return -ENOMEM;
	}
	q->on_done = on_done;
	m.job_end = (struct wire_job_end){ .request = q->id, .job = job };
	return request_send(g, q, &m);
}

static struct wire_message ask_processes(const struct request *q, uint32_t after)
{
	return (struct wire_message){ .type = WIRE_PROCESSES_REQUEST,
				      .processes_request = { q->id, after } };
}

int gpuctr_list_processes(struct gpuctr *g, gpuctr_on_registered_process on_process,
			  gpuctr_on_done on_done, void *userdata)
{
	struct request *q = request_new(g, WIRE_PROCESSES_REPLY, userdata);
	struct wire_message m;

	if (!q) {
		return -ENOMEM;
	}
	q->on_process = on_process;
	q->on_done = on_done;
	m = ask_processes(q, 0);
	return request_send(g, q, &m);
}

/* --- answers --- */

static size_t count_terms(const struct wire_plan *in)
{
	size_t n = 0;

	for (size_t i = 0; i < in->columns.n; i++) {
		n += in->columns.v[i].metric.n;
	}
	return n;
}

int plan_from_wire(struct arena *a, const struct wire_plan *in, struct gpuctr_plan *ret)
{
	struct gpuctr_column *columns = arena_alloc(a, (in->columns.n + 1) * sizeof(*columns));
	struct gpuctr_term *terms = arena_alloc(a, (count_terms(in) + 1) * sizeof(*terms));
	size_t n_terms = 0;

	if (!columns || !terms) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < in->columns.n; i++) {
		const struct wire_column *c = &in->columns.v[i];

		for (size_t k = 0; k < c->metric.n; k++) {
			terms[n_terms++] =
				(struct gpuctr_term){ (unsigned)i, c->metric.v[k], c->weight.v[k] };
		}
		columns[i] = (struct gpuctr_column){ .name = c->name,
						     .unit = c->unit,
						     .group = c->group };
	}
	*ret = (struct gpuctr_plan){
		.chip = in->chip,
		.passes = in->passes,
		.groups = in->groups,
		.columns = columns,
		.n_columns = in->columns.n,
		.metrics = in->metrics.v,
		.n_metrics = in->metrics.n,
		.terms = terms,
		.n_terms = n_terms,
	};
	return 0;
}

static void fail(struct request *q, const struct gpuctr_error *e)
{
	struct request done = *q;

	request_free(q);
	if (done.capture) {
		done.on_expanded(done.capture, NULL, e);
	} else if (done.on_metrics_end) {
		done.on_metrics_end("", e, done.userdata);
	} else if (done.on_plan) {
		done.on_plan(NULL, e, done.userdata);
	} else if (done.on_done) {
		done.on_done(e, done.userdata);
	} else if (done.on_status) {
		done.on_status(NULL, e, done.userdata);
	}
}

static void refuse(struct request *q, const struct refusal *r)
{
	const struct gpuctr_error e = { r->code, r->message, r->remedy };

	fail(q, &e);
}

/* The names are known: sends the request itself. */
static void end_expansion(struct gpuctr *g, struct request *q, const char *chip)
{
	struct wire_strings names;
	struct refusal refusal;
	struct request done;
	int r;

	if (expansion_end_plan(q->expansion, chip, &names, &refusal) != 0) {
		refuse(q, &refusal);
		return;
	}
	if (q->capture) {
		done = *q;
		q->expansion = NULL; /* the expansion owns the names, so it is freed below */
		request_free(q);
		done.on_expanded(done.capture, &names, NULL);
		expansion_free(done.expansion);
		return;
	}
	r = send_plan(g, q, q->chip, &names);
	q->expansion = expansion_free(q->expansion);
	if (r != 0) {
		refusal_set(&refusal, r > 0 ? r : GPUCTR_E_INTERNAL, "Try again.",
			    "the names that the patterns stand for could not be asked about");
		refuse(q, &refusal);
	}
}

static void end_list(struct request *q, const char *chip)
{
	struct request done;
	struct refusal refusal;

	if (expansion_end_list(q->expansion, chip, &refusal) != 0) {
		refuse(q, &refusal);
		return;
	}
	done = *q;
	request_free(q);
	done.on_metrics_end(chip, NULL, done.userdata);
}

static void answer_metrics(struct gpuctr *g, struct request *q, const struct wire_metrics_reply *r)
{
	bool is_list = q->on_metrics_end != NULL;

	for (size_t i = 0; i < r->metrics.n; i++) {
		if (is_list && expansion_lists(q->expansion, r->metrics.v[i].name)) {
			q->on_metric(&r->metrics.v[i], q->userdata);
		} else if (!is_list) {
			expansion_add(q->expansion, &r->metrics.v[i]);
		}
	}
	if (r->last && is_list) {
		end_list(q, r->chip);
	} else if (r->last) {
		end_expansion(g, q, r->chip);
	}
}

static void answer_plan(struct gpuctr *g, struct request *q, const struct wire_plan *in)
{
	struct request done = *q;
	struct gpuctr_plan plan;
	struct gpuctr_error e = { GPUCTR_E_INTERNAL, "out of memory", "" };

	request_free(q);
	if (plan_from_wire(&g->arena, in, &plan) < 0) {
		done.on_plan(NULL, &e, done.userdata);
	} else {
		done.on_plan(&plan, NULL, done.userdata);
	}
}

static void answer_status(struct request *q, const struct wire_status_reply *r)
{
	struct request done = *q;
	struct gpuctr_status s = {
		.daemon = r->daemon,
		.driver = r->driver,
		.cupti = r->cupti,
		.restricted = (enum gpuctr_restricted)r->restricted,
		.trouble = { (int)r->trouble_code, r->trouble, r->trouble_remedy },
		.uptime_ns = r->uptime_ns,
		.peers = r->peers,
		.gpus = r->gpus.v,
		.n_gpus = r->gpus.n,
		.captures = r->captures.v,
		.n_captures = r->captures.n,
		.activity = r->activity.v,
		.n_activity = r->activity.n,
		.counts = r->counts,
	};

	request_free(q);
	done.on_status(&s, NULL, done.userdata);
}

static void answer_done(struct request *q, const struct gpuctr_error *e)
{
	struct request done = *q;

	request_free(q);
	done.on_done(e, done.userdata);
}

static void answer_processes(struct gpuctr *g, struct request *q,
			     const struct wire_processes_reply *r)
{
	const struct wire_message more =
		ask_processes(q, r->processes.n ? r->processes.v[r->processes.n - 1].process : 0);

	for (size_t i = 0; i < r->processes.n; i++) {
		struct gpuctr_registered_process p = r->processes.v[i];
		struct cgroup_names names;

		cgroup_read(p.cgroup, &names);
		p.runtime = names.runtime;
		p.container = names.container;
		p.pod_uid = names.pod_uid;
		p.cgroup_job = names.job;
		p.cgroup_step = names.step;
		q->on_process(&p, q->userdata);
	}
	if (r->last || r->processes.n == 0) {
		answer_done(q, NULL);
	} else if (connection_send(g, &more) != 0) {
		fail(q, &(struct gpuctr_error){ GPUCTR_E_INTERNAL, "out of memory", "" });
	}
}

void requests_fail_all(struct gpuctr *g, const struct gpuctr_error *e)
{
	while (!list_is_empty(&g->requests)) {
		fail(list_entry(g->requests.next, struct request, link), e);
	}
}

/* Refusals and answers begin with the number of the request. */
int requests_handle(struct gpuctr *g, const struct wire_message *m)
{
	list_for_each(l, &g->requests) {
		struct request *q = list_entry(l, struct request, link);

		if (q->id != m->refusal.request ||
		    (m->type != q->answer && m->type != WIRE_REFUSAL)) {
			continue;
		}
		switch (m->type) {
		case WIRE_METRICS_REPLY:
			answer_metrics(g, q, &m->metrics_reply);
			break;
		case WIRE_PLAN_REPLY:
			answer_plan(g, q, &m->plan_reply.plan);
			break;
		case WIRE_STATUS_REPLY:
			answer_status(q, &m->status_reply);
			break;
		case WIRE_PROCESSES_REPLY:
			answer_processes(g, q, &m->processes_reply);
			break;
		case WIRE_JOB_REPLY:
			answer_done(q, NULL);
			break;
		default:
			fail(q, &(struct gpuctr_error){ refusal_code(m->refusal.code),
							m->refusal.message, m->refusal.remedy });
		}
		return 1;
	}
	return 0;
}
