/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"

/* Questions and their answers, matched by the number the library gave the question. */

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
	free(q->chip);
	free(q);
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
	int r = options_copy(g, &o, sizeof(o), options);
	struct request *q = r == 0 ? request_new(g, WIRE_METRICS_REPLY, userdata) : NULL;

	if (!q) {
		return r != 0 ? r : -ENOMEM;
	}
	q->on_metric = on_metric;
	q->on_metrics_end = on_end;
	m.metrics_request = (struct wire_metrics_request){
		q->id,
		or_empty(o.chip),
		{ o.n_patterns, o.patterns },
		o.describe,
	};
	return request_send(g, q, &m);
}

int gpuctr_plan(struct gpuctr *g, const char *chip, const char *const *metrics, size_t n_metrics,
		gpuctr_on_plan on_plan, void *userdata)
{
	struct request *q = request_new(g, WIRE_PLAN_REPLY, userdata);
	struct wire_message m = { .type = WIRE_PLAN_REQUEST };

	if (!q) {
		return -ENOMEM;
	}
	q->on_plan = on_plan;
	m.plan_request =
		(struct wire_plan_request){ q->id, or_empty(chip), { n_metrics, metrics } };
	return request_send(g, q, &m);
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
		q->id, or_empty(o.job), o.uid, { o.n_gpus, o.gpus }, o.time_ns,
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
	m.job_end = (struct wire_job_end){ q->id, job };
	return request_send(g, q, &m);
}

/* --- answers --- */

int plan_from_wire(struct arena *a, const struct wire_plan *in, struct gpuctr_plan *ret)
{
	struct gpuctr_column *columns = arena_alloc(a, (in->columns.n + 1) * sizeof(*columns));

	if (!columns) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < in->columns.n; i++) {
		const struct wire_column *c = &in->columns.v[i];

		columns[i] = (struct gpuctr_column){ c->name, c->unit, c->group };
	}
	*ret = (struct gpuctr_plan){
		in->chip,      in->passes,    in->groups,    columns,
		in->columns.n, in->metrics.v, in->metrics.n,
	};
	return 0;
}

struct gpuctr_gpu *gpus_from_wire(struct arena *a, const struct wire_gpus *in)
{
	struct gpuctr_gpu *v = arena_alloc(a, (in->n + 1) * sizeof(*v));

	for (size_t i = 0; v && i < in->n; i++) {
		const struct wire_gpu *g = &in->v[i];

		v[i] = (struct gpuctr_gpu){ g->index,  g->uuid,	   g->name, g->chip,
					    g->holder, g->waiting, g->job,  g->job_user };
	}
	return v;
}

struct gpuctr_totals totals_from_wire(const struct wire_totals *in)
{
	return (struct gpuctr_totals){
		in->seen,    in->measured, in->filtered, in->capturing,
		in->unready, in->failed,   in->dropped,	 in->lost,
	};
}

static void answer_metrics(struct gpuctr *g, struct request *q, const struct wire_metrics_reply *r)
{
	const char *chip = r->chip;

	(void)g;
	for (size_t i = 0; i < r->metrics.n; i++) {
		const struct wire_metric *w = &r->metrics.v[i];
		struct gpuctr_metric m = {
			w->name,	 (enum gpuctr_metric_kind)w->kind,
			w->unit,	 w->hardware_unit,
			w->description,	 w->submetrics.v,
			w->submetrics.n,
		};

		q->on_metric(&m, q->userdata);
	}
	if (r->last) {
		struct request done = *q;

		q->chip = NULL;
		request_free(q);
		done.on_metrics_end(chip, NULL, done.userdata);
		free(done.chip);
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

static struct gpuctr_capture_info *infos_from_wire(struct arena *a,
						   const struct wire_capture_infos *in)
{
	struct gpuctr_capture_info *v = arena_alloc(a, (in->n + 1) * sizeof(*v));

	for (size_t i = 0; v && i < in->n; i++) {
		const struct wire_capture_info *w = &in->v[i];

		v[i] = (struct gpuctr_capture_info){
			.capture = w->capture,
			.uid = w->uid,
			.user = w->user,
			.pid = w->pid,
			.program = w->program,
			.state = (enum gpuctr_capture_state)w->state,
			.gpus = w->gpus.v,
			.n_gpus = w->gpus.n,
			.metrics = w->metrics.v,
			.n_metrics = w->metrics.n,
			.position = w->position,
			.totals = totals_from_wire(&w->totals),
			.lease_left_ns = w->lease_left_ns,
			.processes = w->processes,
		};
	}
	return v;
}

static void answer_status(struct gpuctr *g, struct request *q, const struct wire_status_reply *r)
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
		.gpus = gpus_from_wire(&g->arena, &r->gpus),
		.n_gpus = r->gpus.n,
		.captures = infos_from_wire(&g->arena, &r->captures),
		.n_captures = r->captures.n,
	};
	struct gpuctr_error e = { GPUCTR_E_INTERNAL, "out of memory", "" };

	request_free(q);
	if (s.gpus && s.captures) {
		done.on_status(&s, NULL, done.userdata);
	} else {
		done.on_status(NULL, &e, done.userdata);
	}
}

static void answer_done(struct request *q, const struct gpuctr_error *e)
{
	struct request done = *q;

	request_free(q);
	done.on_done(e, done.userdata);
}

static void fail(struct request *q, const struct gpuctr_error *e)
{
	struct request done = *q;

	q->chip = NULL;
	request_free(q);
	switch (done.answer) {
	case WIRE_METRICS_REPLY:
		done.on_metrics_end("", e, done.userdata);
		break;
	case WIRE_PLAN_REPLY:
		done.on_plan(NULL, e, done.userdata);
		break;
	case WIRE_JOB_REPLY:
		done.on_done(e, done.userdata);
		break;
	default:
		done.on_status(NULL, e, done.userdata);
		break;
	}
	free(done.chip);
}

void requests_fail_all(struct gpuctr *g, const struct gpuctr_error *e)
{
	while (!list_is_empty(&g->requests)) {
		fail(list_entry(g->requests.next, struct request, link), e);
	}
}

static uint32_t answered_request(const struct wire_message *m)
{
	switch (m->type) {
	case WIRE_REFUSAL:
		return m->refusal.request;
	case WIRE_METRICS_REPLY:
		return m->metrics_reply.request;
	case WIRE_PLAN_REPLY:
		return m->plan_reply.request;
	case WIRE_STATUS_REPLY:
		return m->status_reply.request;
	case WIRE_JOB_REPLY:
		return m->job_reply.request;
	default:
		return 0;
	}
}

int requests_handle(struct gpuctr *g, const struct wire_message *m)
{
	uint32_t id = answered_request(m);
	struct gpuctr_error e;

	if (id == 0) {
		return 0;
	}
	list_for_each(l, &g->requests) {
		struct request *q = list_entry(l, struct request, link);

		if (q->id != id) {
			continue;
		}
		if (m->type == WIRE_REFUSAL) {
			e = (struct gpuctr_error){ refusal_code(m->refusal.code),
						   m->refusal.message, m->refusal.remedy };
			fail(q, &e);
		} else if (m->type == WIRE_METRICS_REPLY && q->answer == m->type) {
			answer_metrics(g, q, &m->metrics_reply);
		} else if (m->type == WIRE_PLAN_REPLY && q->answer == m->type) {
			answer_plan(g, q, &m->plan_reply.plan);
		} else if (m->type == WIRE_STATUS_REPLY && q->answer == m->type) {
			answer_status(g, q, &m->status_reply);
		} else if (m->type == WIRE_JOB_REPLY && q->answer == m->type) {
			answer_done(q, NULL);
		}
		return 1;
	}
	return 0;
}
