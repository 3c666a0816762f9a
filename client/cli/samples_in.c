/* SPDX-License-Identifier: Apache-2.0 */

/* Lines are read against the form in which they are written, and not as JSON of any form: there are
 * a hundred thousand for each second. */

#include "client/cli/samples_in.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/trace_events.h"
#include "proto/base/clock.h"

enum { PIECE_BYTES = 64 * 1024, LINE_MAX_BYTES = 64 * 1024 };

struct samples_in {
	struct trace_text *text;
	char piece[PIECE_BYTES];
	size_t at, n; /* of the piece */
	struct buf line;
	uint64_t lines;
	bool is_csv, ended;
	bool at_end;  /* of the file */
	bool partial; /* the last line has no end */

	char gpu[SAMPLER_UUID_BYTES];
	uint64_t interval_ns, lost;
	char names[SAMPLER_METRICS_MAX][SAMPLER_NAME_BYTES];
	const char *metrics[SAMPLER_METRICS_MAX];
	size_t n_metrics;
	int64_t end_ns;
	double values[SAMPLER_METRICS_MAX];
};

/* --- lines ----------------------------------------------------------------------------------- */

static int refuse(const struct samples_in *s, struct buf *why, const char *what)
{
	buf_printf(why, "line %llu %s", (unsigned long long)s->lines, what);
	return -EINVAL;
}

static int fill(struct samples_in *s, struct buf *why)
{
	int64_t n = trace_next(s->text, s->piece, sizeof(s->piece));

	if (n == -ENOMEM) {
		return -ENOMEM;
	}
	if (n < 0) {
		buf_text(why, n == -EBADMSG ? "it is compressed, and damaged or not whole"
					    : strerror((int)-n));
		return -EINVAL;
	}
	s->at = 0;
	s->n = (size_t)n;
	s->at_end = n == 0;
	return 0;
}

/* 1: the line is there, without its end; 0: there is no other; or as samples_in_next(). */
static int read_line(struct samples_in *s, struct buf *why)
{
	const char *end = NULL;

	buf_clear(&s->line);
	s->lines++;
	while (!end) {
		int r = s->at < s->n || s->at_end ? 0 : fill(s, why);

		if (r || s->at_end) {
			s->partial = r == 0 && s->line.n > 0;
			return r;
		}
		end = memchr(s->piece + s->at, '\n', s->n - s->at);
		buf_add(&s->line, s->piece + s->at,
			end ? (size_t)(end - s->piece) - s->at : s->n - s->at);
		s->at = end ? (size_t)(end - s->piece) + 1 : s->n;
		if (s->line.n > LINE_MAX_BYTES) {
			return refuse(s, why, "is longer than any that capture --timeline writes");
		}
	}
	if (s->line.n > 0 && s->line.data[s->line.n - 1] == '\r') {
		s->line.n--;
	}
	buf_char(&s->line, '\0');
	return s->line.failed ? -ENOMEM : 1;
}

/* Each takes what it wants from *p, or leaves *p where it was and says false. */
static bool take(const char **p, const char *what)
{
	size_t n = strlen(what);

	if (strncmp(*p, what, n) != 0) {
		return false;
	}
	*p += n;
	return true;
}

static bool take_u64(const char **p, uint64_t most, uint64_t *ret)
{
	const char *at = *p;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (n > (most - (unsigned)(*at - '0')) / 10) {
			return false;
		}
		n = 10 * n + (unsigned)(*at - '0');
	}
	if (at == *p) {
		return false;
	}
	*p = at;
	*ret = n;
	return true;
}

/* A name of a GPU or metric, up to any of these. */
static bool take_name(const char **p, const char *ends, char *ret, size_t max)
{
	size_t n = strcspn(*p, ends);

	if (n == 0 || n >= max || memchr(*p, '\\', n)) {
		return false;
	}
	memcpy(ret, *p, n);
	ret[n] = '\0';
	*p += n;
	return true;
}

static bool take_value(const char **p, double *ret)
{
	char *end;

	if (**p == ',' || **p == '\0' || take(p, "null")) {
		*ret = NAN;
		return true;
	}
	*ret = strtod(*p, &end);
	if (end == *p || !isfinite(*ret)) {
		return false;
	}
	*p = end;
	return true;
}

/* --- the first line -------------------------------------------------------------------------- */

static bool begin_json(struct samples_in *s, const char *p)
{
	uint64_t interval;

	if (!take(&p, "{\"type\":\"timeline\",\"gpu\":\"") ||
	    !take_name(&p, "\"", s->gpu, sizeof(s->gpu)) || !take(&p, "\",\"interval_ns\":") ||
	    !take_u64(&p, INT64_MAX, &interval) || !take(&p, ",\"metrics\":[")) {
		return false;
	}
	s->interval_ns = interval;
	for (; s->n_metrics < SAMPLER_METRICS_MAX; s->n_metrics++) {
		if ((s->n_metrics > 0 && !take(&p, ",")) || !take(&p, "\"") ||
		    !take_name(&p, "\"", s->names[s->n_metrics], SAMPLER_NAME_BYTES) ||
		    !take(&p, "\"")) {
			break;
		}
	}
	return s->n_metrics > 0 && strcmp(p, "]}") == 0;
}

static bool begin_csv(struct samples_in *s, const char *p)
{
	if (!take(&p, "start_ns,end_ns")) {
		return false;
	}
	for (; s->n_metrics < SAMPLER_METRICS_MAX && take(&p, ","); s->n_metrics++) {
		if (!take_name(&p, ",\"", s->names[s->n_metrics], SAMPLER_NAME_BYTES)) {
			return false;
		}
	}
	return s->n_metrics > 0 && *p == '\0';
}

static int begin(struct samples_in *s, struct buf *why)
{
	int r = read_line(s, why);

	if (r < 0) {
		return r;
	}
	if (r == 1) {
		s->is_csv = s->line.data[0] != '{';
	}
	if (r == 0 || !(s->is_csv ? begin_csv : begin_json)(s, s->line.data)) {
		buf_text(why, "it does not begin as what capture --timeline --format jsonl or csv "
			      "writes");
		return -EINVAL;
	}
	for (size_t i = 0; i < s->n_metrics; i++) {
		s->metrics[i] = s->names[i];
	}
	return 0;
}

struct samples_in *samples_in_open(const char *path, struct buf *why)
{
	struct samples_in *s = calloc(1, sizeof(*s));

	if (!s) {
		return NULL;
	}
	s->text = trace_open(path);
	if (!s->text) {
		buf_text(why, errno == ENOMEM ? "" : strerror(errno));
		return samples_in_close(s);
	}
	return begin(s, why) == 0 ? s : samples_in_close(s);
}

struct samples_in *samples_in_close(struct samples_in *s)
{
	if (s) {
		trace_close(s->text);
		buf_deinit(&s->line);
		free(s);
	}
	return NULL;
}

/* --- samples --------------------------------------------------------------------------------- */

static bool take_times(const char **p, const char *between, int64_t *start, int64_t *end)
{
	uint64_t a, b;

	if (!take_u64(p, CLOCK_NS_MOST, &a) || !take(p, between) ||
	    !take_u64(p, CLOCK_NS_MOST, &b) || a >= b) {
		return false;
	}
	*start = (int64_t)a;
	*end = (int64_t)b;
	return true;
}

static bool take_sample(struct samples_in *s, const char *p, struct samples_in_sample *ret)
{
	bool csv = s->is_csv;

	if ((!csv && !take(&p, "{\"type\":\"sample\",\"start_ns\":")) ||
	    !take_times(&p, csv ? "," : ",\"end_ns\":", &ret->start_ns, &ret->end_ns) ||
	    (!csv && !take(&p, ",\"values\":["))) {
		return false;
	}
	for (size_t i = 0; i < s->n_metrics; i++) {
		if (((csv || i > 0) && !take(&p, ",")) || !take_value(&p, &s->values[i])) {
			return false;
		}
	}
	ret->values = s->values;
	return csv ? *p == '\0' : strcmp(p, "]}") == 0;
}

static bool take_lost(struct samples_in *s, const char *p)
{
	uint64_t start, end, n;

	if (!take(&p, "{\"type\":\"lost\",\"start_ns\":") || !take_u64(&p, INT64_MAX, &start) ||
	    !take(&p, ",\"end_ns\":") || !take_u64(&p, INT64_MAX, &end) ||
	    !take(&p, ",\"samples\":") || !take_u64(&p, UINT64_MAX - 9, &n) ||
	    strcmp(p, "}") != 0) {
		return false;
	}
	s->lost = s->lost + n < n ? UINT64_MAX : s->lost + n;
	return true;
}

int samples_in_next(struct samples_in *s, struct samples_in_sample *ret, struct buf *why)
{
	int r;

	while (!s->ended && (r = read_line(s, why)) != 0) {
		const char *line = s->line.data;

		if (r < 0) {
			return r;
		}
		if (take_sample(s, line, ret)) {
			if (ret->start_ns < s->end_ns) {
				return refuse(s, why,
					      "begins before the sample before it has ended");
			}
			s->end_ns = ret->end_ns;
			return 1;
		}
		s->ended = !s->is_csv && take(&line, "{\"type\":\"end\",");
		if (!s->ended && (s->is_csv || !take_lost(s, line))) {
			return refuse(s, why, "is none that capture --timeline writes");
		}
	}
	return 0;
}

/* --- what it says ---------------------------------------------------------------------------- */

const char *samples_in_gpu(const struct samples_in *s)
{
	return s->gpu;
}

uint64_t samples_in_interval_ns(const struct samples_in *s)
{
	return s->interval_ns;
}

size_t samples_in_metrics(const struct samples_in *s, const char *const **ret)
{
	*ret = s->metrics;
	return s->n_metrics;
}

uint64_t samples_in_lost(const struct samples_in *s)
{
	return s->lost;
}

bool samples_in_is_cut(const struct samples_in *s)
{
	return s->partial || (!s->is_csv && !s->ended);
}
