/* SPDX-License-Identifier: Apache-2.0 */

/* Lists metrics on a machine without a daemon: CUPTI's host library needs neither a GPU nor a
 * privilege, so this process can do what the daemon's planner does. */

#include <string.h>

#include "client/lib/expand.h"
#include "client/lib/internal.h"
#include "proto/nvidia/catalogue.h"

struct listing {
	struct expansion *expansion;
	gpuctr_on_metric on_metric;
	void *userdata;
};

static int list_metric(const struct gpuctr_metric *w, void *userdata)
{
	struct listing *l = userdata;

	if (expansion_lists(l->expansion, w->name)) {
		l->on_metric(w, l->userdata);
	}
	return 0;
}

/* 0, or a positive code with r filled. */
static int list(const struct gpuctr_metrics_options *o, struct listing *l, const char **ret_chip,
		struct refusal *r)
{
	struct vendor_host vendor = { 0 }; /* stays loaded: CUPTI cannot be unloaded */
	const char *chip = o->chip && *o->chip ? o->chip : CATALOGUE_DEFAULT_CHIP;
	struct catalogue c;

	if (expansion_new(o->patterns, o->n_patterns, &l->expansion, r) != 0 ||
	    vendor_open_host(&vendor, r) != 0) {
		return r->code;
	}
	chip = catalogue_find_chip(&vendor, chip, r);
	if (!chip || catalogue_init(&c, &vendor, chip, r) != 0) {
		return r->code;
	}
	catalogue_list(&c, o->describe, list_metric, l);
	catalogue_deinit(&c);
	*ret_chip = chip;
	return expansion_end_list(l->expansion, chip, r);
}

int gpuctr_list_metrics_here(const struct gpuctr_metrics_options *options,
			     gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end,
			     void *userdata)
{
	struct listing l = { .on_metric = on_metric, .userdata = userdata };
	struct gpuctr_metrics_options o;
	struct refusal refusal = { 0 };
	struct gpuctr g = { .fd = -1 }; /* only stores the error */
	const char *chip = "";
	int r = options_copy(&g, &o, sizeof(o), options);

	if (r == 0 && list(&o, &l, &chip, &refusal) != 0) {
		r = connection_refuse(&g, &refusal);
	}
	on_end(r == 0 ? chip : "", r == 0 ? NULL : gpuctr_last_error(&g), userdata);
	expansion_free(l.expansion);
	return 0;
}
