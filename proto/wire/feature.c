/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/feature.h"

#include "proto/base/clean.h"
#include "proto/wire/limits.h"

static bool is_given(const char *text)
{
	return text && text[0] != '\0';
}

uint32_t feature_needs(const struct wire_selection *s, bool captured)
{
	bool ranges = s->nvtx_include.n + s->nvtx_exclude.n > 0 || is_given(s->capture_range) ||
		      s->stop_on_range_end;
	bool filters = s->kernel_name_base != 0 || is_given(s->kernel_name) ||
		       s->launch_every > 0 || s->filter_mode != 0 || s->nvtx_process_scope ||
		       s->record_limit > 0;
	bool steps = s->schedule.active > 0 || is_given(s->step);

	return (ranges ? PROTO_FEATURE_RANGES : 0u) | (steps ? PROTO_FEATURE_STEPS : 0u) |
	       (filters ? PROTO_FEATURE_FILTERS : 0u) |
	       (s->budget_ppm > 0 ? PROTO_FEATURE_BUDGET : 0u) |
	       (captured ? PROTO_FEATURE_STANDBY : 0u);
}

uint32_t feature_needs_plan(const struct wire_plan *p)
{
	return p->groups > 1 ? PROTO_FEATURE_PASSES : 0u;
}

const char *feature_describe(uint32_t features)
{
	static const struct {
		uint32_t feature;
		const char *text;
	} known[] = {
		{ PROTO_FEATURE_STANDBY, "programs in standby" },
		{ PROTO_FEATURE_RANGES, "NVTX expressions and capture ranges" },
		{ PROTO_FEATURE_STEPS, "schedules and steps" },
		{ PROTO_FEATURE_BUDGET, "budgets" },
		{ PROTO_FEATURE_FILTERS,
		  "names in other forms, modes of counting, limits of records" },
		{ PROTO_FEATURE_PASSES, "metrics of several passes in turns" },
		{ PROTO_FEATURE_PERMIT, "permits for a program's own profiler" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if ((features & known[i].feature) != 0) {
			return known[i].text;
		}
	}
	return "what is asked for";
}
