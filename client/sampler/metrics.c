/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/metrics.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clean.h"

/* The hardware's buffer holds the counters of one pass. Only CUPTI's schedule shows which metrics
 * fit into one pass, so metrics are tried one after the other, 1 ms each.
 *
 * A sample of metrics of SMs has a value for each SM and takes far longer to decode, so it needs a
 * longer interval. Where sets take turns and the user gave no interval, these metrics have sets of
 * their own, so that the others keep their short interval. */

/* Number of passes; 0: CUPTI makes no such configuration. */
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

/* Names the metrics that do not fit beside those before them. */
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

static bool is_of_sms(const char *name)
{
	static const char *const units[] = { "sm__", "smsp__", "l1tex__", "tpc__" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strncmp(name, units[i], strlen(units[i])) == 0) {
			return true;
		}
	}
	return false;
}

static bool fits(struct host *h, struct metrics_set *set, const char *name, bool apart)
{
	if (set->n == METRICS_IN_SET_MAX || (apart && is_of_sms(set->v[0]) != is_of_sms(name))) {
		return false;
	}
	set->v[set->n] = name;
	return passes_of(h, set->v, set->n + 1) == 1;
}

static int refuse_alone(struct host *h, const char *name, struct refusal *r)
{
	size_t passes = passes_of(h, &name, 1);

	refusal_set(r, passes == 0 ? SAMPLER_METRICS : SAMPLER_PASSES,
		    "Ask for what it is made of, or leave it out.",
		    "%s needs %zu passes by itself, and sampling has one", name, passes);
	return r->code;
}

/* Adds a metric to the first set into which it fits, or to a new one. */
static int add_to_set(struct host *h, const char *name, bool apart, struct metrics_set *sets,
		      size_t *n, size_t *ret, struct refusal *r)
{
	for (*ret = 0; *ret < *n; ++*ret) {
		if (fits(h, &sets[*ret], name, apart)) {
			sets[*ret].n++;
			return 0;
		}
	}
	if (passes_of(h, &name, 1) != 1) {
		return refuse_alone(h, name, r);
	}
	if (*n == SAMPLER_SETS_MAX) {
		refusal_set(r, SAMPLER_PASSES, "Ask for fewer metrics.",
			    "these metrics need more than %d sets of one pass", SAMPLER_SETS_MAX);
		return r->code;
	}
	sets[*n] = (struct metrics_set){ .v = { name }, .n = 1 };
	++*n;
	return 0;
}

int metrics_split(struct host *h, const char *const *metrics, size_t n, bool apart,
		  struct metrics_set *sets, size_t *ret_n, uint8_t *numbers, struct refusal *r)
{
	int code = 0;

	*ret_n = 0;
	for (size_t i = 0; code == 0 && i < n; i++) {
		size_t at;

		code = add_to_set(h, metrics[i], apart, sets, ret_n, &at, r);
		numbers[i] = (uint8_t)at;
	}
	if (code == SAMPLER_METRICS) {
		return refuse_unknown(h, metrics, n, r);
	}
	for (size_t i = 0; code == 0 && i < *ret_n; i++) {
		code = metrics_configure(h, sets[i].v, sets[i].n, &sets[i].config, r);
	}
	return code;
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
