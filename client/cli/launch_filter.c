/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/launch_filter.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/foreign.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

/* libgpuctr parses the expressions, and refuses wrong ones before anything starts. */

static const char regex_prefix[] = "regex:";

/* NAME must equal the function's name. regex:EXPR is searched in the name with its types, as tables
 * show it. */
bool launch_filter_take_kernel(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	bool is_regex = strncmp(value, regex_prefix, sizeof(regex_prefix) - 1) == 0;

	if (is_regex && value[sizeof(regex_prefix) - 1] == '\0') {
		say_usage("--kernel: the expression is missing, at character %zu",
			  sizeof(regex_prefix));
		return false;
	}
	if (s->chosen.kernel_regex || s->chosen.kernel_name) {
		say_usage("--kernel: kernels are chosen once; regex:A|B chooses several");
		return false;
	}
	s->chosen.kernel_regex = is_regex ? value + sizeof(regex_prefix) - 1 : NULL;
	s->chosen.kernel_name = is_regex ? NULL : value;
	s->chosen.kernel_name_base =
		is_regex ? GPUCTR_KERNEL_NAME_DEMANGLED : GPUCTR_KERNEL_NAME_FUNCTION;
	return true;
}

/* ncu has a flag --nvtx without a value, so the next option would be taken for the value. */
bool launch_filter_take_nvtx(void *expressions, const char *value)
{
	if (value[0] == '-') {
		say_usage("--nvtx %s: NVTX is always on, and --nvtx EXPR chooses ranges: leave "
			  "ncu's flag --nvtx out",
			  value);
		return false;
	}
	return strings_add(expressions, value, strlen(value));
}

/* -s and -c of nsys mean something else: how to sample the CPU, and a range. */
bool launch_filter_take_skip(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	static const char *const of_nsys[] = { "none", "cpu", "process-tree", "system-wide" };

	for (size_t i = 0; i < ARRAY_SIZE(of_nsys); i++) {
		if (strcmp(value, of_nsys[i]) == 0) {
			say_usage("-s %s is of nsys: %s", value, foreign_find("--sample")->answer);
			return false;
		}
	}
	return options_take_u64("skip", value, &s->chosen.launch_skip);
}

bool launch_filter_take_count(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;

	if (strcmp(value, "cudaProfilerApi") == 0) {
		s->chosen.capture_range = value;
		return true;
	}
	if (strcmp(value, "nvtx") == 0) {
		say_usage("-c nvtx is of nsys: --within nvtx:NAME names the range, too");
		return false;
	}
	return options_take_u64("count", value, &s->chosen.launch_count);
}

bool launch_filter_take_per(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	static const struct {
		const char *ours, *ncu; /* ours; ncu's --filter-mode */
		uint64_t mode;
	} names[] = {
		{ "kernel", "per-kernel", GPUCTR_FILTER_PER_KERNEL },
		{ "gpu", "per-gpu", GPUCTR_FILTER_PER_GPU },
		{ "process", "global", GPUCTR_FILTER_GLOBAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i].ours) == 0 || strcmp(value, names[i].ncu) == 0) {
			s->chosen.filter_mode = names[i].mode;
			return true;
		}
	}
	return options_refuse("per", value, "kernel or gpu");
}

bool launch_filter_take_from_start(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	bool off = strcmp(value, "off") == 0 || strcmp(value, "no") == 0;

	if (!off && strcmp(value, "on") != 0 && strcmp(value, "yes") != 0) {
		say_usage("--profile-from-start: '%s' is neither on nor off", value);
		return false;
	}
	s->chosen.capture_range = off ? "cudaProfilerApi" : s->chosen.capture_range;
	return true;
}

/* nsys's option, of which only stop and repeat have a meaning here. */
bool launch_filter_take_range_end(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	bool stops = strcmp(value, "stop") == 0;

	s->chosen.stop_on_range_end = stops;
	return stops || strcmp(value, "repeat") == 0 ||
	       options_refuse("capture-range-end", value,
			      "stop or repeat: programs run on, and repeat is the default");
}

/* Takes one part of a schedule, n characters long. */
static bool take_part(struct launch_filter *s, const char *part, size_t n)
{
	const struct {
		const char *name;
		uint64_t *number;
	} parts[] = {
		{ "skip_first", &s->chosen.skip_first }, { "wait", &s->chosen.wait },
		{ "warmup", &s->chosen.warmup },	 { "active", &s->chosen.active },
		{ "repeat", &s->chosen.repeat },
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

bool launch_filter_take_schedule(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	s->chosen.active = UINT64_MAX;
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
	if (s->chosen.active == UINT64_MAX) {
		say_usage("--schedule: active=N is missing: how many steps are measured");
	} else if (s->chosen.active == 0) {
		say_usage("--schedule: active=0 measures no step; it wants a number from 1 on");
	}
	return s->chosen.active != UINT64_MAX && s->chosen.active != 0;
}

bool launch_filter_take_steps(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	const char *plus = strchr(value, '+');
	char skip[24] = "0";

	s->chosen.repeat = 1;
	if (plus) {
		snprintf(skip, sizeof(skip), "%.*s", (int)(plus - value), value);
	}
	return (options_parse_u64(skip, &s->chosen.skip_first) &&
		options_parse_u64(plus ? plus + 1 : value, &s->chosen.active) &&
		s->chosen.active > 0) ||
	       options_refuse("steps", value, "a number above 0, or SKIP+N");
}

bool launch_filter_take_wait(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	bool good = options_parse_time(value, &s->chosen.timeout_ns);

	s->chosen.no_wait = good && s->chosen.timeout_ns == 0;
	return good || options_refuse("wait", value, "a time up to a year, such as 30s, 5min or 0");
}

bool launch_filter_measure_steps(struct launch_filter *s, uint64_t n)
{
	if (s->chosen.active > 0 || s->chosen.capture_range) {
		return false;
	}
	s->chosen.active = n;
	s->chosen.repeat = 1;
	return true;
}

bool launch_filter_is_bounded(const struct launch_filter *s)
{
	return s->chosen.launch_every > 1 || s->chosen.launch_count > 0 || s->chosen.active > 0 ||
	       s->chosen.stop_on_range_end;
}

void launch_filter_deinit(struct launch_filter *s)
{
	strings_deinit(&s->nvtx_include);
	strings_deinit(&s->nvtx_exclude);
}

struct gpuctr_capture_options launch_filter_capture(const struct launch_filter *s)
{
	struct gpuctr_capture_options o = s->chosen;

	o.size = sizeof(o);
	o.nvtx_include = strings_items(&s->nvtx_include);
	o.n_nvtx_include = s->nvtx_include.n;
	o.nvtx_exclude = strings_items(&s->nvtx_exclude);
	o.n_nvtx_exclude = s->nvtx_exclude.n;
	return o;
}
