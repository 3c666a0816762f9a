/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/launch_filter.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/say.h"
#include "proto/base/buf.h"
#include "proto/base/clean.h"

/* The names of the options are those of ncu, nsys and torch.profiler. libgpuctr parses the
 * expressions, and refuses wrong ones before anything starts. */

static const char regex_prefix[] = "regex:";

static bool take_kernel(struct launch_filter *s, const char *value, bool by_function)
{
	bool is_regex = strncmp(value, regex_prefix, sizeof(regex_prefix) - 1) == 0;

	value += is_regex ? sizeof(regex_prefix) - 1 : 0;
	if (is_regex && value[0] == '\0') {
		say_usage("--kernel%s: the expression is missing, at character %zu",
			  by_function ? "-name" : "", sizeof(regex_prefix));
		return false;
	}
	if (s->chosen.kernel_regex || s->chosen.kernel_name) {
		say_usage("kernels are chosen once: by one --kernel or --kernel-name");
		return false;
	}
	if (is_regex || !by_function) {
		s->chosen.kernel_regex = value;
	} else {
		s->chosen.kernel_name = value;
	}
	s->by_function = by_function;
	return true;
}

bool launch_filter_take_regex(void *s, const char *value)
{
	return take_kernel(s, value, false);
}

bool launch_filter_take_name(void *s, const char *value)
{
	return take_kernel(s, value, true);
}

/* Finds the index of value among the values that --name can have. */
static bool take_word(const char *name, const char *value, const char *const *names, size_t n,
		      uint64_t *ret)
{
	CLEAN_BUF struct buf list = { 0 };

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(names[i], value) == 0) {
			*ret = i;
			return true;
		}
		buf_printf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", names[i]);
	}
	say_usage("--%s: '%s' is none of %s", name, value, buf_string(&list));
	return false;
}

bool launch_filter_take_base(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	static const char *const names[] = {
		[GPUCTR_KERNEL_NAME_DEMANGLED] = "demangled",
		[GPUCTR_KERNEL_NAME_FUNCTION] = "function",
		[GPUCTR_KERNEL_NAME_MANGLED] = "mangled",
	};

	s->has_base = true;
	return take_word("kernel-name-base", value, names, ARRAY_SIZE(names),
			 &s->chosen.kernel_name_base);
}

bool launch_filter_take_mode(void *userdata, const char *value)
{
	struct launch_filter *s = userdata;
	static const char *const names[] = {
		[GPUCTR_FILTER_GLOBAL] = "global",
		[GPUCTR_FILTER_PER_GPU] = "per-gpu",
		[GPUCTR_FILTER_PER_KERNEL] = "per-kernel",
	};

	return take_word("filter-mode", value, names, ARRAY_SIZE(names), &s->chosen.filter_mode);
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

/* One part of a schedule, n characters long. */
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

	s->chosen.repeat = 1;
	return (options_parse_u64(value, &s->chosen.active) && s->chosen.active > 0) ||
	       options_refuse("steps", value, "a number above 0");
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

bool launch_filter_is_used(const struct launch_filter *s)
{
	return s->chosen.kernel_regex || s->chosen.kernel_name || s->has_base ||
	       s->chosen.launch_skip > 0 || s->chosen.launch_every > 0 ||
	       s->chosen.launch_count > 0 || s->chosen.filter_mode != GPUCTR_FILTER_GLOBAL ||
	       s->nvtx_include.n > 0 || s->nvtx_exclude.n > 0 || s->chosen.capture_range ||
	       s->stop_on_range_end || s->chosen.step || s->chosen.active > 0;
}

bool launch_filter_is_bounded(const struct launch_filter *s)
{
	return s->chosen.launch_every > 1 || s->chosen.launch_count > 0 || s->chosen.active > 0 ||
	       s->stop_on_range_end;
}

bool launch_filter_check(const struct launch_filter *s)
{
	if (s->has_base && !s->chosen.kernel_regex && !s->chosen.kernel_name) {
		say_usage("--kernel-name-base: of which name? Add --kernel-name");
		return false;
	}
	if (s->chosen.filter_mode != GPUCTR_FILTER_GLOBAL && s->chosen.launch_skip == 0 &&
	    s->chosen.launch_every == 0 && s->chosen.launch_count == 0) {
		say_usage("--filter-mode: what is counted so? Add --launch-skip, --launch-every or "
			  "--launch-count");
		return false;
	}
	if (s->chosen.step && s->chosen.active == 0) {
		say_usage("--step: how many of these steps? Add --steps N or --schedule");
		return false;
	}
	if (s->stop_on_range_end && !s->chosen.capture_range) {
		say_usage("--stop-on-range-end: of which range? Add --capture-range "
			  "cudaProfilerApi or nvtx:EXPR");
		return false;
	}
	return true;
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
	if (!s->has_base) {
		o.kernel_name_base =
			s->by_function ? GPUCTR_KERNEL_NAME_FUNCTION : GPUCTR_KERNEL_NAME_DEMANGLED;
	}
	o.nvtx_include = strings_items(&s->nvtx_include);
	o.n_nvtx_include = s->nvtx_include.n;
	o.nvtx_exclude = strings_items(&s->nvtx_exclude);
	o.n_nvtx_exclude = s->nvtx_exclude.n;
	o.stop_on_range_end = s->stop_on_range_end;
	return o;
}
