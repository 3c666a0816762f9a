/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "client/lib/internal.h"
#include "proto/base/utf8.h"
#include "proto/wire/expression.h"
#include "proto/wire/limits.h"
#include "proto/wire/nvtx_expression.h"

/* Checks which launches a capture is to choose. Every fault that can be known is refused here,
 * before the program starts, with the character at which it lies. The agent would refuse it only
 * while the program runs; the daemon does not check it, because only the user pays for it. */

/* The daemon refuses a wrong expression as well; this check also says where the fault is. */
static int check_kernels(struct gpuctr *g, const char *expression)
{
	struct refusal r;
	regex_t regex;
	size_t n;

	if (!expression) {
		return 0;
	}
	if (expression_compile(&regex, expression, &r) == 0) {
		regfree(&regex);
		return 0;
	}
	n = strlen(r.message);
	snprintf(r.message + n, sizeof(r.message) - n, ", at character %zu",
		 expression_wrong_at(expression));
	return connection_fail(g, r.code, r.message, r.remedy);
}

/* The first character that no function's name has; NULL: none. A name that begins with a
 * parenthesis is not a function's: "(CUDA graph)". */
static const char *find_surroundings(const char *name)
{
	const char *scope = strstr(name, "::"),
		   *list = name[0] && name[0] != '(' ? strpbrk(name, "(<") : NULL;

	return !scope || (list && list < scope) ? list : scope;
}

/* Refuses a name that no kernel can have by the chosen base: probably another was meant. */
static int check_name(struct gpuctr *g, const char *name, uint64_t base)
{
	const char *at = base == GPUCTR_KERNEL_NAME_FUNCTION ? find_surroundings(name) : NULL;
	char message[640];

	if (name[0] && !at) {
		return 0;
	}
	at = at ? at : name;
	snprintf(message, sizeof(message),
		 "'%.500s' is not taken as the name of a kernel: %s, at character %zu", name,
		 name[0] ? "a function's name ends before its namespaces, templates and parameters"
			 : "it is missing",
		 utf8_count(name, (size_t)(at - name)) + 1);
	return connection_fail(g, GPUCTR_E_BAD_PATTERN, message,
			       "Give the function's name alone, or -k regex:RE "
			       "with all that is shown of it.");
}

static int check_kernel_names(struct gpuctr *g, const struct gpuctr_capture_options *o)
{
	int r = check_kernels(g, o->kernel_regex);

	if (r == 0 && o->kernel_name && o->kernel_regex) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST,
				    "kernels are chosen by a name and by an expression",
				    "Give one of them.");
	}
	if (r == 0 && o->kernel_name_base > GPUCTR_KERNEL_NAME_MANGLED) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST, "kernels have no such names",
				    "Choose them by function, demangled or mangled name.");
	}
	return r == 0 && o->kernel_name ? check_name(g, o->kernel_name, o->kernel_name_base) : r;
}

static int check_ranges(struct gpuctr *g, const char *const *texts, size_t n, size_t *n_terms)
{
	struct nvtx_expression *e;
	struct refusal r;

	for (size_t i = 0; i < n; i++) {
		if (nvtx_expression_parse(texts[i], &e, &r) != 0) {
			return connection_fail(g, r.code, r.message, r.remedy);
		}
		*n_terms += nvtx_expression_n_terms(e);
		nvtx_expression_free(e);
	}
	return n <= LIMIT_EXPRESSIONS && *n_terms <= NVTX_TERMS_TOTAL_MAX
		       ? 0
		       : connection_fail(g, GPUCTR_E_BAD_REQUEST,
					 "there are too many NVTX expressions",
					 "Join some by a regular expression: regex:^(A|B)$/");
}

static bool is_among(const char *text, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(texts[i], text) == 0) {
			return true;
		}
	}
	return false;
}

/* Refuses a selection that excludes every expression that it includes. */
static int check_contradiction(struct gpuctr *g, const struct gpuctr_capture_options *o)
{
	size_t i = 0;

	while (i < o->n_nvtx_include &&
	       is_among(o->nvtx_include[i], o->nvtx_exclude, o->n_nvtx_exclude)) {
		i++;
	}
	return i == 0 || i < o->n_nvtx_include
		       ? 0
		       : connection_fail(g, GPUCTR_E_BAD_PATTERN,
					 "no launch can be chosen: the NVTX expressions that "
					 "include are those that exclude",
					 "Leave one of them out.");
}

/* Checks a trigger: exactly one range begins a phase. */
static int check_trigger(struct gpuctr *g, const char *text, size_t *n_terms)
{
	size_t before = *n_terms;
	int r = check_ranges(g, &text, 1, n_terms);

	return r != 0 || *n_terms == before + 1
		       ? r
		       : connection_fail(
				 g, GPUCTR_E_BAD_PATTERN,
				 "what begins a capture range or a step is one NVTX range, and "
				 "the expression has several between commas",
				 "Put a backslash before a comma that belongs to a name.");
}

static const char *step_of(const struct gpuctr_capture_options *o)
{
	return o->step && strcmp(o->step, "gpuctr_step") == 0 ? NVTX_STEP_LIBRARY : o->step;
}

static int check_phases(struct gpuctr *g, const struct gpuctr_capture_options *o, size_t *n_terms)
{
	size_t prefix = strlen(NVTX_CAPTURE_RANGE);
	bool by_range =
		o->capture_range && strncmp(o->capture_range, NVTX_CAPTURE_RANGE, prefix) == 0;
	int r = by_range ? check_trigger(g, o->capture_range + prefix, n_terms) : 0;

	if (r == 0 && o->capture_range && !by_range &&
	    strcmp(o->capture_range, NVTX_CAPTURE_PROFILER) != 0) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST, "there is no such capture range",
				    "Use " NVTX_CAPTURE_PROFILER " or " NVTX_CAPTURE_RANGE
				    "EXPRESSION.");
	}
	if (r == 0 && o->stop_on_range_end != 0 && !o->capture_range) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST,
				    "there is no capture range at whose end to stop",
				    "Give the capture range as well.");
	}
	if (r == 0 && o->step && o->active == 0) {
		r = connection_fail(
			g, GPUCTR_E_BAD_REQUEST,
			"it is said what begins a step, and of no step that it is measured",
			"Say how many are active.");
	}
	if (r == 0 && (o->skip_first > UINT32_MAX || o->wait > UINT32_MAX ||
		       o->warmup > UINT32_MAX || o->active > UINT32_MAX)) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST, "the schedule has too many steps",
				    "Use smaller numbers.");
	}
	return r == 0 && o->step && strcmp(o->step, NVTX_STEP_PROFILER) != 0
		       ? check_trigger(g, step_of(o), n_terms)
		       : r;
}

int selection_check(struct gpuctr *g, const struct gpuctr_capture_options *o)
{
	size_t n_terms = 0;
	int r = check_kernel_names(g, o);

	if (r == 0 && o->filter_mode > GPUCTR_FILTER_PER_KERNEL) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST, "launches are not counted so",
				    "Count them all together, by GPU or by kernel.");
	}
	if (r == 0 && o->permit > GPUCTR_PERMIT_BY_INJECTION) {
		r = connection_fail(g, GPUCTR_E_BAD_REQUEST, "no library comes into a program so",
				    "Preload it, or have libcuda load it.");
	}
	r = r != 0 ? r : check_ranges(g, o->nvtx_include, o->n_nvtx_include, &n_terms);
	r = r != 0 ? r : check_ranges(g, o->nvtx_exclude, o->n_nvtx_exclude, &n_terms);
	r = r != 0 ? r : check_contradiction(g, o);
	return r != 0 ? r : check_phases(g, o, &n_terms);
}

struct wire_selection selection_to_wire(const struct gpuctr_capture_options *o)
{
	return (struct wire_selection){
		.kernel_regex = o->kernel_regex,
		.launch_skip = o->launch_skip,
		.launch_count = o->launch_count,
		.raw_images = o->raw_images,
		.nvtx_include = { o->n_nvtx_include, o->nvtx_include },
		.nvtx_exclude = { o->n_nvtx_exclude, o->nvtx_exclude },
		.capture_range = o->capture_range,
		.stop_on_range_end = o->stop_on_range_end != 0,
		.schedule = { o->skip_first, o->wait, o->warmup, o->active, o->repeat },
		.step = step_of(o),
		.kernel_name = o->kernel_name,
		.kernel_name_base = (uint32_t)o->kernel_name_base,
		.launch_every = o->launch_every,
		.filter_mode = (uint32_t)o->filter_mode,
		.whole_graphs = o->whole_graphs != 0,
	};
}
