/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/selecting.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/say.h"
#include "proto/base/clean.h"

/* Names are those of ncu, nsys and torch.profiler. What an expression means is libgpuctr's to say,
 * which refuses what is none before anything starts. */

bool selecting_takes(int id)
{
	return id >= OPTION_NVTX_INCLUDE && id < OPTION_SELECTING_END;
}

static bool take_expression(struct strings *list, const char *value)
{
	if (!strings_add(list, value, strlen(value))) {
		say_usage("out of memory");
		return false;
	}
	return true;
}

static bool take_from_start(struct selecting *s, const char *value)
{
	bool off = strcmp(value, "off") == 0 || strcmp(value, "no") == 0;

	if (!off && strcmp(value, "on") != 0 && strcmp(value, "yes") != 0) {
		say_usage("--profile-from-start: '%s' is neither on nor off", value);
		return false;
	}
	s->capture_range = off ? "cudaProfilerApi" : s->capture_range;
	return true;
}

/* One part of a schedule, n characters long. */
static bool take_part(struct selecting *s, const char *part, size_t n)
{
	const struct {
		const char *name;
		uint64_t *number;
	} parts[] = {
		{ "skip_first", &s->skip_first }, { "wait", &s->wait },
		{ "warmup", &s->warmup },	  { "active", &s->active },
		{ "repeat", &s->repeat },
	};
	size_t name = strcspn(part, "=,");
	char number[24];

	for (size_t i = 0; name + 1 < n && part[name] == '=' && i < ARRAY_SIZE(parts); i++) {
		if (strlen(parts[i].name) == name && strncmp(parts[i].name, part, name) == 0) {
			snprintf(number, sizeof(number), "%.*s", (int)(n - name - 1),
				 part + name + 1);
			return n - name <= sizeof(number) &&
			       options_parse_u64(number, parts[i].number);
		}
	}
	return false;
}

static bool take_schedule(struct selecting *s, const char *value)
{
	for (const char *part = value;; part++) {
		size_t n = strcspn(part, ",");

		if (!take_part(s, part, n)) {
			say_usage("--schedule: '%.*s' is none of skip_first=N, wait=N, warmup=N, "
				  "active=N and repeat=N",
				  (int)n, part);
			return false;
		}
		part += n;
		if (*part == '\0') {
			break;
		}
	}
	if (s->active == 0) {
		say_usage("--schedule: active=N is missing: how many steps are measured");
		return false;
	}
	return true;
}

static bool take_steps(struct selecting *s, const char *value)
{
	if (!options_parse_u64(value, &s->active) || s->active == 0) {
		say_usage("--steps: '%s' is no number above 0", value);
		return false;
	}
	s->repeat = 1;
	return true;
}

bool selecting_take(struct selecting *s, int id, const char *value)
{
	switch (id) {
	case OPTION_NVTX_INCLUDE:
		return take_expression(&s->nvtx_include, value);
	case OPTION_NVTX_EXCLUDE:
		return take_expression(&s->nvtx_exclude, value);
	case OPTION_PROFILE_FROM_START:
		return take_from_start(s, value);
	case OPTION_CAPTURE_RANGE:
		s->capture_range = value;
		return true;
	case OPTION_STOP_ON_RANGE_END:
		s->stop_on_range_end = 1;
		return true;
	case OPTION_SCHEDULE:
		return take_schedule(s, value);
	case OPTION_STEPS:
		return take_steps(s, value);
	default:
		s->step = value;
		return true;
	}
}

bool selecting_check(const struct selecting *s)
{
	if ((s->active > 0) != (s->step != NULL)) {
		say_usage("--schedule or --steps says how many steps, and --step EXPR what begins "
			  "one; "
			  "give both");
		return false;
	}
	if (s->stop_on_range_end && !s->capture_range) {
		say_usage("--stop-on-range-end: of which range? Add --capture-range "
			  "cudaProfilerApi or nvtx:EXPR");
		return false;
	}
	return true;
}

void selecting_deinit(struct selecting *s)
{
	strings_deinit(&s->nvtx_include);
	strings_deinit(&s->nvtx_exclude);
}

void selecting_fill(const struct selecting *s, struct gpuctr_capture_options *o)
{
	o->nvtx_include = strings_items(&s->nvtx_include);
	o->n_nvtx_include = s->nvtx_include.n;
	o->nvtx_exclude = strings_items(&s->nvtx_exclude);
	o->n_nvtx_exclude = s->nvtx_exclude.n;
	o->capture_range = s->capture_range;
	o->stop_on_range_end = s->stop_on_range_end;
	o->skip_first = s->skip_first;
	o->wait = s->wait;
	o->warmup = s->warmup;
	o->active = s->active;
	o->repeat = s->repeat;
	o->step = s->step;
}
