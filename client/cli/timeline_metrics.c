/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/timeline_metrics.h"

#include <string.h>

#include "client/cli/child.h"
#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/sampler/stream.h"

/* The sampler takes CUPTI's names. The daemon's plan says which metrics a name stands for (presets,
 * derived metrics, globs, names without their rollup). Only CUPTI says whether they can be
 * sampled. */

struct question {
	struct request request; /* first: request_answer() */
	struct strings *names;
};

/* How long a kernel took is nothing that a sample could say. */
static const char not_sampled[] = "gpu__time_duration.sum";

static bool is_plain(const char *name)
{
	return strchr(name, '.') && !strpbrk(name, "*?[") && strncmp(name, "regex:", 6) != 0;
}

static void on_plan(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
		    void *userdata)
{
	struct question *q = userdata;
	bool good = true;

	for (size_t i = 0; plan && good && i < plan->n_metrics; i++) {
		const char *name = plan->metrics[i];

		good = strcmp(name, not_sampled) == 0 || strings_add(q->names, name, strlen(name));
	}
	request_answer(&q->request, error);
	q->request.status = good ? q->request.status : EXIT_REFUSED;
}

/* False: the reason was reported. */
static bool ask(const struct run_options *o, struct strings *ret)
{
	struct question q = { .names = ret };
	int r;

	if (!request_open(&q.request, o->socket)) {
		return false;
	}
	r = gpuctr_plan(q.request.g, NULL, strings_items(&o->metrics), o->metrics.n, on_plan, &q);
	return request_finish(&q.request, r) == 0;
}

bool timeline_metrics(const struct run_options *o, struct strings *ret)
{
	bool plain = true, good = true;

	for (size_t i = 0; i < o->metrics.n; i++) {
		plain = plain && is_plain(o->metrics.items[i]);
	}
	if (!plain && !ask(o, ret)) {
		return false;
	}
	for (size_t i = 0; plain && good && i < o->metrics.n; i++) {
		good = strings_add(ret, o->metrics.items[i], strlen(o->metrics.items[i]));
	}
	if (ret->n == 0 || ret->n > SAMPLER_METRICS_MAX) {
		say_usage("--metrics: these are %zu names; 1 to %d can be sampled, and how long "
			  "kernels take cannot",
			  ret->n, SAMPLER_METRICS_MAX);
		return false;
	}
	return good;
}
