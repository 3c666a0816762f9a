/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "proto/nvidia/catalogue.h"
#include "daemon/gpu/plan.h"
#include "daemon/gpu/service.h"
#include "proto/wire/limits.h"

/* The planner creates the catalogue of a chip at the first request for it and keeps it; each takes
 * about 2 MiB. The front names the machine's chip; on a machine without GPUs the chip is that of
 * the bundled recording. */

struct planner {
	struct service service;
	struct catalogue catalogues[64];
	size_t n_catalogues;
};

/* A plan that takes longer is refused, because other users wait behind it. */
enum { PLAN_TIME_MS = 2000 };

static struct planner *planner_of(struct service *s)
{
	return list_entry(s, struct planner, service);
}

/* NULL with r filled. */
static struct catalogue *find_catalogue(struct planner *p, const char *chip, struct refusal *r)
{
	struct catalogue *c = &p->catalogues[p->n_catalogues];

	if (p->service.no_vendor.code != 0) {
		*r = p->service.no_vendor;
		return NULL;
	}
	chip = catalogue_find_chip(&p->service.vendor, chip[0] ? chip : CATALOGUE_DEFAULT_CHIP, r);
	for (size_t i = 0; chip && i < p->n_catalogues; i++) {
		if (strcmp(p->catalogues[i].host.chip, chip) == 0) {
			return &p->catalogues[i];
		}
	}
	if (chip && p->n_catalogues == ARRAY_SIZE(p->catalogues)) {
		refusal_set(r, GPUCTR_E_INTERNAL, "", "CUPTI knows too many chips");
		return NULL;
	}
	if (!chip || catalogue_init(c, &p->service.vendor, chip, r) != 0) {
		return NULL;
	}
	p->n_catalogues++;
	return c;
}

/* --- metrics --- */

struct listing {
	struct service *s;
	struct catalogue *c;
	uint32_t request;
	struct gpuctr_metric metrics[LIMIT_METRICS_PER_FRAME];
	size_t n, bytes;
};

static int listing_flush(struct listing *l, bool last)
{
	struct wire_message m = {
		.type = WIRE_METRICS_REPLY,
		.metrics_reply = { l->request, l->c->host.chip, { l->n, l->metrics }, last },
	};
	int r = service_reply(l->s, &m);

	l->n = l->bytes = 0;
	arena_reset(&l->s->answer);
	return r;
}

/* Sends the collected metrics when the next one might not fit. Called before a metric is built,
 * because sending resets the answer's arena. */
static int listing_make_room(struct listing *l)
{
	bool full = l->n == ARRAY_SIZE(l->metrics) || l->bytes > LIMIT_FRAME_BYTES / 2;

	return full ? listing_flush(l, false) : 0;
}

static void listing_add(struct listing *l, const struct gpuctr_metric *metric)
{
	l->bytes += 512 + (metric->description ? strlen(metric->description) : 0);
	for (size_t i = 0; i < metric->n_submetrics; i++) {
		l->bytes += strlen(metric->submetrics[i]) + 8;
	}
	l->metrics[l->n++] = *metric;
}

/* Copies the names into the answer, because the catalogue's pointers are valid only during the
 * call. */
static void copy_submetrics(struct listing *l, struct gpuctr_metric *m)
{
	size_t n = m->n_submetrics > LIMIT_SUBMETRICS ? LIMIT_SUBMETRICS : m->n_submetrics;
	const char **copy = arena_alloc(&l->s->answer, n * sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = arena_printf(&l->s->answer, "%s", m->submetrics[i]);
		n = copy[i] ? n : i;
	}
	m->submetrics = copy;
	m->n_submetrics = copy ? n : 0;
}

static int list_metric(const struct gpuctr_metric *metric, void *userdata)
{
	struct listing *l = userdata;
	struct gpuctr_metric m = *metric;
	int r = listing_make_room(l);

	if (r == 0) {
		copy_submetrics(l, &m);
		m.description =
			m.description ? arena_printf(&l->s->answer, "%s", m.description) : NULL;
		listing_add(l, &m);
	}
	return r;
}

static int handle_metrics(struct service *s, const struct wire_message *m)
{
	const struct wire_metrics_request *q = &m->metrics_request;
	struct refusal refusal = { 0 };
	CLEAN_FREE struct listing *l = calloc(1, sizeof(*l));
	struct catalogue *c = l ? find_catalogue(planner_of(s), q->chip, &refusal) : NULL;
	int r;

	if (!c) {
		return l ? service_refuse(s, q->request, &refusal) : -ENOMEM;
	}
	*l = (struct listing){ .s = s, .c = c, .request = q->request };
	r = catalogue_list(c, q->describe, list_metric, l);
	return r < 0 ? r : listing_flush(l, true);
}

/* --- plans --- */

static const char *other_chips(void *userdata, struct arena *a, const char *metric)
{
	VENDOR_PARAMS(Profiler_Host_GetSupportedChips, all);
	struct planner *p = userdata;
	const char *text = "";
	unsigned found = 0;

	p->service.vendor.cuptiProfilerHostGetSupportedChips(&all);
	for (size_t i = 0; i < all.numChips && found < 4 && text; i++) {
		struct refusal unused;
		struct catalogue *c = find_catalogue(p, all.ppChipNames[i], &unused);

		if (c && catalogue_has(c, metric)) {
			text = arena_printf(a, "%s%s%s", text, found ? ", " : "",
					    all.ppChipNames[i]);
			found++;
		}
	}
	return text ? text : "";
}

static int handle_plan(struct service *s, const struct wire_message *m)
{
	struct wire_message answer = { .type = WIRE_PLAN_REPLY,
				       .plan_reply = { .request = m->plan_request.request } };
	struct refusal refusal = { 0 };
	struct catalogue *c = find_catalogue(planner_of(s), m->plan_request.chip, &refusal);

	if (!c || plan_make(c, &s->answer, &m->plan_request.metrics, other_chips, planner_of(s),
			    clock_now_ns() + PLAN_TIME_MS * CLOCK_NS_PER_MS,
			    &answer.plan_reply.plan, &refusal) != 0) {
		return service_refuse(s, m->plan_request.request, &refusal);
	}
	return service_reply(s, &answer);
}

/* --- start --- */

/* Answers only as a sign of life: the gpu process reports the GPUs. */
static int handle_status(struct service *s, const struct wire_message *m)
{
	const struct wire_message answer = {
		.type = WIRE_STATUS_REPLY,
		.status_reply = { .request = m->status_request.request },
	};

	return service_reply(s, &answer);
}

static const struct service_handler handlers[] = {
	{ WIRE_METRICS_REQUEST, handle_metrics },
	{ WIRE_PLAN_REQUEST, handle_plan },
	{ WIRE_STATUS_REQUEST, handle_status },
};

int planner_run(int link)
{
	CLEAN_FREE struct planner *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		return 1;
	}
	service_init(&p->service, link, handlers, ARRAY_SIZE(handlers));
	r = service_run(&p->service);
	for (size_t i = 0; i < p->n_catalogues; i++) {
		catalogue_deinit(&p->catalogues[i]);
	}
	service_deinit(&p->service);
	return r;
}
