/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/metrics.h"

#include <stdio.h>
#include <string.h>

#include "client/sampler/stream.h"

/* The hardware's buffer holds the counters of one pass. Which metrics fit together CUPTI's schedule
 * tells alone, so they are tried one after the other: a few ms in all. */

/* 0: no such configuration. */
static size_t passes_of(struct host *h, const char *const *metrics, size_t n)
{
	struct host_metrics set = { metrics, n };
	struct host_config config = { 0 };
	struct refusal r;
	size_t passes = host_config_new(h, &set, 1, &config, &r) == 0 ? config.passes : 0;

	host_config_deinit(&config);
	return passes;
}

static void add_name(char *list, size_t size, const char *name)
{
	size_t n = strlen(list);

	snprintf(list + n, size - n, "%s%s", n > 0 ? ", " : "", name);
}

static int refuse_unknown(struct host *h, const char *const *metrics, size_t n, struct refusal *r)
{
	char unknown[300] = "";

	for (size_t i = 0; i < n; i++) {
		if (passes_of(h, &metrics[i], 1) == 0) {
			add_name(unknown, sizeof(unknown), metrics[i]);
		}
	}
	refusal_set(r, SAMPLER_METRICS,
		    "`gpuctr-client metrics` lists names; SASS metrics and those of single kernels "
		    "cannot be sampled.",
		    "CUPTI cannot sample %s on %s", unknown[0] ? unknown : "these metrics together",
		    h->chip);
	return r->code;
}

/* Names what does not fit beside the metrics before it. */
static int refuse_passes(struct host *h, const char *const *metrics, size_t n, size_t passes,
			 struct refusal *r)
{
	const char *fit[SAMPLER_METRICS_MAX];
	char more[300] = "";
	size_t n_fit = 0;

	for (size_t i = 0; i < n; i++) {
		fit[n_fit] = metrics[i];
		if (passes_of(h, fit, n_fit + 1) == 1) {
			n_fit++;
		} else {
			add_name(more, sizeof(more), metrics[i]);
		}
	}
	refusal_set(r, SAMPLER_PASSES, "Leave them out, or sample them apart.",
		    "sampling has one pass, and these metrics need %zu: %s do%s not fit beside the "
		    "others",
		    passes, more, strchr(more, ',') ? "" : "es");
	return r->code;
}

int metrics_configure(struct host *h, const char *const *metrics, size_t n, struct host_config *ret,
		      struct refusal *r)
{
	struct host_metrics set = { metrics, n };

	if (host_config_new(h, &set, 1, ret, r) != 0) {
		return refuse_unknown(h, metrics, n, r);
	}
	return ret->passes > 1 ? refuse_passes(h, metrics, n, ret->passes, r) : 0;
}
