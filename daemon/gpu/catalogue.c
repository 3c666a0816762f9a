/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gpu/catalogue.h"

#include <ctype.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clean.h"

/* CUPTI lists base names ("dram__bytes_read"); a full name appends a submetric (".sum",
 * ".avg.pct_of_peak_sustained_elapsed"). There are about 150,000 full names for a chip, so they are
 * never stored: a full name is split at its first dot behind the base, and the submetrics of that
 * one base are asked for. Some base names contain dots themselves
 * ("CTC.TriageCompute.ctc__rx_bytes"). */

static int compare_bases(const void *a, const void *b)
{
	return strcmp(((const struct catalogue_base *)a)->name,
		      ((const struct catalogue_base *)b)->name);
}

static int add_kind(struct catalogue *c, CUpti_MetricType type, enum wire_metric_kind kind)
{
	CUpti_Profiler_Host_GetBaseMetrics_Params p = {
		.structSize = CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.metricType = type,
	};
	struct catalogue_base *bases;

	if (c->host.v->cuptiProfilerHostGetBaseMetrics(&p) != CUPTI_SUCCESS) {
		return 0; /* a chip without metrics of this type */
	}
	bases = realloc(c->bases, (c->n_bases + p.numMetrics + 1) * sizeof(*bases));
	if (!bases) {
		return GPUCTR_E_INTERNAL;
	}
	c->bases = bases;
	for (size_t i = 0; i < p.numMetrics; i++) {
		char *name = strdup(p.ppMetricNames[i]);

		if (!name) {
			return GPUCTR_E_INTERNAL;
		}
		c->bases[c->n_bases++] = (struct catalogue_base){ name, kind };
	}
	return 0;
}

int catalogue_init(struct catalogue *c, const struct vendor_host *v, const char *chip,
		   struct refusal *r)
{
	int code;

	*c = (struct catalogue){ 0 };
	code = host_init(&c->host, v, chip, r);
	if (code != 0) {
		return code;
	}
	code = add_kind(c, CUPTI_METRIC_TYPE_COUNTER, WIRE_METRIC_COUNTER);
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_RATIO, WIRE_METRIC_RATIO);
	}
	if (code == 0) {
		code = add_kind(c, CUPTI_METRIC_TYPE_THROUGHPUT, WIRE_METRIC_THROUGHPUT);
	}
	if (code != 0) {
		refusal_set(r, code, "", "out of memory for the metrics of %s", chip);
		catalogue_deinit(c);
		return code;
	}
	qsort(c->bases, c->n_bases, sizeof(*c->bases), compare_bases);
	return 0;
}

void catalogue_deinit(struct catalogue *c)
{
	for (size_t i = 0; i < c->n_bases; i++) {
		free((char *)(uintptr_t)c->bases[i].name);
	}
	free(c->bases);
	host_deinit(&c->host);
	*c = (struct catalogue){ 0 };
}

const struct catalogue_base *catalogue_find_base(const struct catalogue *c, const char *name,
						 size_t length)
{
	size_t low = 0, high = c->n_bases;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strncmp(c->bases[middle].name, name, length);

		if (order == 0 && c->bases[middle].name[length] != '\0') {
			order = 1;
		}
		if (order == 0) {
			return &c->bases[middle];
		}
		if (order < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return NULL;
}

static CUpti_MetricType vendor_kind(enum wire_metric_kind kind)
{
	return kind == WIRE_METRIC_RATIO	? CUPTI_METRIC_TYPE_RATIO
	       : kind == WIRE_METRIC_THROUGHPUT ? CUPTI_METRIC_TYPE_THROUGHPUT
						: CUPTI_METRIC_TYPE_COUNTER;
}

size_t catalogue_submetrics(const struct catalogue *c, const struct catalogue_base *base,
			    const char ***ret)
{
	CUpti_Profiler_Host_GetSubMetrics_Params p = {
		.structSize = CUpti_Profiler_Host_GetSubMetrics_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.metricType = vendor_kind(base->kind),
		.pMetricName = base->name,
	};

	if (c->host.v->cuptiProfilerHostGetSubMetrics(&p) != CUPTI_SUCCESS) {
		return 0;
	}
	*ret = p.ppSubMetrics;
	return p.numOfSubmetrics;
}

bool catalogue_has(const struct catalogue *c, const char *full)
{
	for (const char *dot = strchr(full, '.'); dot; dot = strchr(dot + 1, '.')) {
		const struct catalogue_base *base =
			catalogue_find_base(c, full, (size_t)(dot - full));
		const char **submetrics = NULL;
		size_t n = base ? catalogue_submetrics(c, base, &submetrics) : 0;

		for (size_t i = 0; i < n; i++) {
			if (strcmp(submetrics[i], dot) == 0) {
				return true;
			}
		}
	}
	return false;
}

bool catalogue_describe(const struct catalogue *c, const char *name, const char **ret_unit,
			const char **ret_hardware_unit, const char **ret_description)
{
	CUpti_Profiler_Host_GetMetricProperties_Params p = {
		.structSize = CUpti_Profiler_Host_GetMetricProperties_Params_STRUCT_SIZE,
		.pHostObject = c->host.object,
		.pMetricName = name,
	};

	if (c->host.v->cuptiProfilerHostGetMetricProperties(&p) != CUPTI_SUCCESS) {
		return false;
	}
	*ret_unit = p.pDimUnit ? p.pDimUnit : "";
	*ret_hardware_unit = p.pHwUnit ? p.pHwUnit : "";
	*ret_description = p.pDescription ? p.pDescription : "";
	return true;
}

/* --- patterns --- */

enum { PATTERN_REGEX_MAX = 256 };

struct pattern {
	enum { PATTERN_LITERAL, PATTERN_GLOB, PATTERN_REGEX } kind;
	char *text;
	regex_t regex;
};

/* These take glibc's regcomp() or regexec() a time and memory without bound: repetition by number,
 * which nests, and back-references. One process answers all users. */
static bool is_costly(const char *regex)
{
	if (strlen(regex) > PATTERN_REGEX_MAX || strchr(regex, '{')) {
		return true;
	}
	for (const char *s = regex; *s; s++) {
		if (*s == '\\' && s[1] != '\0' && isdigit((unsigned char)*++s)) {
			return true;
		}
	}
	return false;
}

static int refuse_regex(const char *text, const char *why, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_BAD_PATTERN,
		    "Write a POSIX extended regular expression of at most 256 bytes, without {n,m} "
		    "and back-references.",
		    "'%.300s' is not taken as a regular expression: %s", text, why);
	return r->code;
}

static int compile_regex(struct pattern *p, const char *regex, const char *text, struct refusal *r)
{
	char why[128];
	int e;

	if (is_costly(regex)) {
		return refuse_regex(text, "it could take too long", r);
	}
	e = regcomp(&p->regex, regex, REG_EXTENDED | REG_NOSUB);
	if (e != 0) {
		regerror(e, &p->regex, why, sizeof(why));
		return refuse_regex(text, why, r);
	}
	p->kind = PATTERN_REGEX;
	return 0;
}

int pattern_new(const char *text, struct pattern **ret, struct refusal *r)
{
	static const char prefix[] = "regex:";
	struct pattern *p = calloc(1, sizeof(*p));

	if (!p || !(p->text = strdup(text))) {
		free(p);
		refusal_set(r, GPUCTR_E_INTERNAL, "", "out of memory");
		return r->code;
	}
	if (strncmp(text, prefix, sizeof(prefix) - 1) == 0) {
		if (compile_regex(p, text + sizeof(prefix) - 1, text, r) != 0) {
			free(p->text);
			free(p);
			return r->code;
		}
	} else if (strpbrk(text, "*?[")) {
		p->kind = PATTERN_GLOB;
	}
	*ret = p;
	return 0;
}

struct pattern *pattern_free(struct pattern *p)
{
	if (p) {
		if (p->kind == PATTERN_REGEX) {
			regfree(&p->regex);
		}
		free(p->text);
		free(p);
	}
	return NULL;
}

bool pattern_is_literal(const struct pattern *p)
{
	return p->kind == PATTERN_LITERAL;
}

bool pattern_matches(const struct pattern *p, const char *name)
{
	switch (p->kind) {
	case PATTERN_REGEX:
		return regexec(&p->regex, name, 0, NULL, 0) == 0;
	case PATTERN_GLOB:
		return fnmatch(p->text, name, 0) == 0;
	default:
		return strcmp(p->text, name) == 0;
	}
}

/* --- near matches --- */

/* Scores, the smaller the nearer: a slip costs NEAR_SLIP; a name that contains what was typed costs
 * a slip and a half and then by what it has more. Nine slips are not near any more. */
enum { NEAR_MAX = 3, NEAR_NAME_BYTES = 128, NEAR_SLIP = 16, NEAR_LIMIT = 9 * NEAR_SLIP };

/* Levenshtein distance, given up (and returned as limit) once it cannot be below limit. */
static unsigned distance(const char *a, const char *b, unsigned limit)
{
	unsigned row[NEAR_NAME_BYTES + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > NEAR_NAME_BYTES || m > NEAR_NAME_BYTES || (n > m ? n - m : m - n) >= limit) {
		return limit;
	}
	for (unsigned j = 0; j <= m; j++) {
		row[j] = j;
	}
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0], best;

		row[0] = best = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned d = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			d = d < row[j] + 1 ? d : row[j] + 1;
			row[j] = d < row[j - 1] + 1 ? d : row[j - 1] + 1;
			best = best < row[j] ? best : row[j];
		}
		if (best >= limit) {
			return limit;
		}
	}
	return row[m] < limit ? row[m] : limit;
}

struct near_match {
	const char *name;
	unsigned score;
};

static void near_offer(struct near_match *found, const char *wrong, const char *name)
{
	unsigned limit = found[NEAR_MAX - 1].score;
	unsigned score = NEAR_SLIP * distance(wrong, name, limit / NEAR_SLIP + 1);
	size_t i = NEAR_MAX - 1;

	if (strlen(wrong) > 3 && strstr(name, wrong)) {
		unsigned contains =
			NEAR_SLIP + NEAR_SLIP / 2 + (unsigned)(strlen(name) - strlen(wrong));

		score = contains < score ? contains : score;
	}
	if (score >= limit) {
		return;
	}
	for (; i > 0 && found[i - 1].score > score; i--) {
		found[i] = found[i - 1];
	}
	found[i] = (struct near_match){ name, score };
}

const char *catalogue_near(const struct catalogue *c, struct arena *a, const char *wrong)
{
	const char *dot = strchr(wrong, '.');
	char *stem = arena_printf(a, "%.*s", (int)(dot ? dot - wrong : NEAR_NAME_BYTES), wrong);
	const char *suffix = dot ? dot : ".sum", *text = "";
	struct near_match found[NEAR_MAX] = { { NULL, NEAR_LIMIT },
					      { NULL, NEAR_LIMIT },
					      { NULL, NEAR_LIMIT } };

	for (size_t i = 0; stem && i < c->n_bases; i++) {
		near_offer(found, stem, c->bases[i].name);
	}
	for (const struct catalogue_named *n = catalogue_named_at(0); stem && n && n->name; n++) {
		near_offer(found, stem, n->name);
	}
	for (size_t i = 0; i < NEAR_MAX && found[i].name && text; i++) {
		const char *end = i == 0				  ? ""
				  : i + 1 < NEAR_MAX && found[i + 1].name ? ", "
									  : " or ";
		bool named = catalogue_find_named(found[i].name) != NULL;
		char *full = arena_printf(a, "%s%s", found[i].name, named ? "" : suffix);

		if (full && !named && !catalogue_has(c, full)) {
			full = arena_printf(a, "%s", found[i].name);
		}
		text = full ? arena_printf(a, "%s%s%s", text, end, full) : text;
	}
	return text ? text : "";
}
