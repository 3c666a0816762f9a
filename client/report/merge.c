/* SPDX-License-Identifier: Apache-2.0 */

/* The exporter that puts a capture's counters into a trace of another run of the same program. The
 * i-th launch of a kernel name in the trace gets the counters of the i-th launch of this name in
 * the capture. The runs share only names and order; correlation ids and times differ.
 *
 * The exporter reads the trace twice, in pieces. When the export begins it looks for kernels,
 * launches and operators; at the end it copies the trace byte by byte and inserts the counters.
 * Between these it takes the records, and writes their values to a temporary file, at an offset for
 * each kernel, so that memory does not grow with the number of metrics.
 *
 * HolisticTraceAnalysis (HTA) finds counters in events of category cuda_profiler_range. First it
 * rounds times up to whole microseconds. Then it pairs the i-th of these events, by ts, with the
 * i-th cuda_runtime event whose name begins with cudaLaunchKernel, and expects equal numbers of
 * both. Finally it looks up the operators (cpu_op) around that launch, and needs at least one.
 *
 * So each such launch gets a range, even without counters, in the order of the launches, at a whole
 * microsecond of its own. A launch without an operator around it gets one with the launch's times,
 * inserted before it. Kernels that were launched in other ways have counters in their own events
 * alone. If the trace has a range for each launch already, from a capture of other metrics, the
 * counters go into these ranges. */

#include "client/report/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/text.h"
#include "client/report/chrome.h"
#include "client/report/merge_join.h"
#include "client/store/private.h"
#include "proto/base/clean.h"

enum { PIECE_BYTES = 256 * 1024 };

struct merging {
	const struct exporter_options *options;
	struct exporter_refusal *refusal;
	const struct gpuctr_plan *plan;
	gzFile text;
	struct merge_join join;
	int file;	/* the temporary file of values */
	double *values; /* values of one kernel, then their errors */
	uint64_t records, joined, valued, launches_valued;
	uint64_t together;	    /* launches within the same microsecond as the launch before */
	uint64_t bare;		    /* launches outside any operator */
	size_t next[TRACE_END + 1]; /* index of the next insertion of each category; TRACE_END: new
				       ranges at the end of the events */
	struct lanes lanes;	    /* lanes of the new ranges */
	int64_t last_us;	    /* time of the latest new range */
	uint64_t bytes;		    /* length of the trace */
	uint64_t at;		    /* bytes of the trace that were copied */
	bool copying;
};

/* --- refusals -------------------------------------------------------------------------------- */

static int refuse(struct merging *m, const char *code, const char *remedy)
{
	m->refusal->code = code;
	m->refusal->remedy = remedy;
	return EXPORTER_REFUSES;
}

static const char usual_remedy[] =
	"Name a trace that torch.profiler's export_chrome_trace() has written, of a run on a GPU.";

static int refuse_trace(struct merging *m, const char *why, int r, const char *remedy)
{
	struct buf *b = &m->refusal->why;

	text_terminal(b, m->options->trace);
	buf_printf(b, ": %s", *why ? why : strerror(-r));
	return refuse(m, "trace", remedy);
}

/* --- values ---------------------------------------------------------------------------------- */

static int refuse_file(struct merging *m)
{
	buf_printf(&m->refusal->why, "the temporary file: %s", strerror(errno));
	return refuse(m, "output", "Set TMPDIR to a folder with room.");
}

static int open_file(struct merging *m)
{
	char *path;
	int r;

	m->values = calloc(2 * m->plan->n_columns + 1, sizeof(double));
	if (!m->values) {
		return -ENOMEM;
	}
	path = store_private_temporary();
	m->file = path ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	r = m->file < 0 ? refuse_file(m) : 0;
	store_private_remove(path);
	return r;
}

static size_t values_bytes(const struct merging *m)
{
	return 2 * m->plan->n_columns * sizeof(double);
}

static off_t values_at(const struct merging *m, const struct merge_event *k)
{
	return (off_t)((size_t)(k - m->join.lists[TRACE_KERNEL].items) * values_bytes(m));
}

static int write_values(struct merging *m, struct merge_event *k,
			const struct gpuctr_record *record)
{
	size_t n = m->plan->n_columns, bytes = values_bytes(m);
	ssize_t done;

	for (size_t i = 0; i < n; i++) {
		m->values[i] = record->values[i];
		m->values[n + i] = record->errors ? record->errors[i] : NAN;
		k->put |= isfinite(record->values[i]) != 0;
	}
	errno = ENOSPC;
	done = pwrite(m->file, m->values, bytes, values_at(m, k));
	return done == (ssize_t)bytes ? 0 : refuse_file(m);
}

/* Adds the values of k as arguments: of kernels with a prefix and errors; of ranges, of which HTA
 * makes columns, values only. behind: other arguments stand before these. */
static int add_values(struct merging *m, const struct merge_event *k, bool of_range, bool behind,
		      struct buf *b)
{
	size_t n = m->plan->n_columns, bytes = values_bytes(m);
	struct json to = { b, behind };

	if (!k || !k->put) {
		return 0;
	}
	errno = EIO;
	if (pread(m->file, m->values, bytes, values_at(m, k)) != (ssize_t)bytes) {
		return refuse_file(m);
	}
	chrome_add_values(&to, of_range ? "" : "gpuctr::", m->plan, m->values,
			  of_range ? NULL : m->values + n);
	return 0;
}

/* --- beginning ------------------------------------------------------------------------------- */

static int read_trace(struct merging *m)
{
	const char *remedy = usual_remedy;
	CLEAN_BUF struct buf why = { 0 };
	int r;

	m->text = trace_text_open(m->options->trace);
	r = m->text ? trace_read(m->text, merge_join_event, &m->join, &m->bytes, &why, &remedy)
		    : -errno;
	if (r == 0 && m->join.lists[TRACE_KERNEL].n == 0) {
		buf_text(&why, "there is no kernel in it");
		r = -EINVAL;
	}
	return r ? refuse_trace(m, buf_string(&why), r, remedy) : merge_join_begin(&m->join);
}

static int begin(struct merging *m, const struct store_info *info)
{
	int r;

	if (m->options->process == 0 && info->n_processes > 1) {
		buf_text(&m->refusal->why, "a trace is of one process: say which of the capture's "
					   "by --process (report --by process lists them)");
		return EXPORTER_REFUSES;
	}
	m->plan = &info->plan;
	r = open_file(m);
	return r ? r : read_trace(m);
}

static void merge_close(void *e)
{
	struct merging *m = e;

	merge_join_deinit(&m->join);
	gzclose_r(m->text);
	free(m->values);
	if (m->file >= 0) {
		close(m->file);
	}
	free(m);
}

static void *merge_open(const struct store_info *info, const struct exporter_options *options,
			struct exporter_refusal *refusal)
{
	struct merging *m = calloc(1, sizeof(*m));

	if (!m) {
		return NULL;
	}
	m->options = options;
	m->refusal = refusal;
	m->file = -1;
	if (begin(m, info)) {
		merge_close(m);
		return NULL;
	}
	return m;
}

static int merge_record(void *e, struct buf *b, const struct gpuctr_record *record,
			const struct attribution *what)
{
	struct merging *m = e;
	struct merge_event *k = NULL;
	int r = record->kernel ? merge_join_record(&m->join, record->kernel, &k) : 0;

	m->records++;
	if (r || !k) {
		return r;
	}
	m->joined++;
	r = write_values(m, k, record);
	m->valued += k->put;
	return r;
}

/* --- what is put in -------------------------------------------------------------------------- */

/* Adds an operator around a launch. Its event comes first: of two events with the same times the
 * first one is the outer one. */
static void add_op(const struct merge_event *l, struct buf *b)
{
	struct json to = { b };

	json_begin(&to, NULL, '{');
	json_word(&to, "ph", "X");
	json_word(&to, "cat", "cpu_op");
	json_key(&to, NULL);
	buf_text(b, l->name->text);
	json_double(&to, "ts", l->begin);
	json_double(&to, "dur", l->us);
	json_word(&to, "name", "(no operator)");
	json_end(&to, '}');
	buf_text(b, ",\n");
}

/* Times are rounded up to whole microseconds, as HTA does it. */
static int64_t whole_us(const struct merge_event *l)
{
	return fabs(l->begin) < 9e18 ? (int64_t)ceil(l->begin) : 0;
}

/* Adds a range for a launch, later than the range before by a microsecond at least. */
static int add_range(struct merging *m, const struct merge_event *l, struct buf *b)
{
	const struct merge_event *k = merge_join_find(&m->join, l->correlation);
	double kernel_us = k ? fmin(k->us, 1e15) : 1;
	int64_t length_us = kernel_us >= 1 ? (int64_t)kernel_us : 1, us = whole_us(l);
	struct json to = { b };
	bool fresh;
	unsigned lane;
	int r;

	us = l == m->join.by_time[0] || us > m->last_us ? us : m->last_us + 1;
	m->last_us = us;
	lane = lanes_take(&m->lanes, us, length_us, &fresh);
	buf_text(b, ",\n");
	chrome_begin_span(&to, "cuda_profiler_range", k ? k->device : 0,
			  lane > 0 ? LANES_TID + lane : 0, us, length_us);
	json_text(&to, "name", k ? k->name->text : TEXT_UNKNOWN);
	json_begin(&to, "args", '{');
	r = add_values(m, k, true, false, b);
	json_end(&to, '}');
	json_end(&to, '}');
	return r;
}

static int put(struct merging *m, unsigned category, struct buf *b)
{
	const struct merge_join *j = &m->join;
	size_t i = m->next[category]++;
	const struct merge_event *e = &j->lists[category % TRACE_END].items[i];

	switch (category) {
	case TRACE_KERNEL:
		return add_values(m, e, false, !e->empty, b);
	case TRACE_LAUNCH:
		add_op(e, b);
		return 0;
	case TRACE_RANGE:
		return add_values(m, merge_join_find(j, e->correlation), true, !e->empty, b);
	default:
		return add_range(m, j->by_time[i], b);
	}
}

/* --- the copy -------------------------------------------------------------------------------- */

static bool leaves_ranges(const struct merge_join *j)
{
	size_t n = j->lists[TRACE_RANGE].n;

	return n != 0 && n != j->lists[TRACE_LAUNCH].n;
}

/* Returns the offset of the next insertion of a category. UINT64_MAX: there is none. */
static uint64_t find_next(struct merging *m, unsigned category)
{
	const struct merge_join *j = &m->join;
	const struct merge_list *l = &j->lists[category % TRACE_END];
	size_t *i = &m->next[category];

	if (category == TRACE_END) {
		bool more = j->lists[TRACE_RANGE].n == 0 && *i < j->lists[TRACE_LAUNCH].n;

		return more ? j->end : UINT64_MAX;
	}
	while (*i < l->n && !l->items[*i].put) {
		(*i)++;
	}
	return *i < l->n && (category == TRACE_KERNEL || !leaves_ranges(j)) ? l->items[*i].at
									    : UINT64_MAX;
}

static int count(struct merging *m)
{
	struct merge_join *j = &m->join;
	int r = merge_join_finish(j);

	for (size_t i = 0; r == 0 && i < j->lists[TRACE_LAUNCH].n; i++) {
		const struct merge_event *l = j->by_time[i];
		const struct merge_event *k = merge_join_find(j, l->correlation);

		m->launches_valued += k && k->put;
		m->together += i > 0 && whole_us(l) == whole_us(j->by_time[i - 1]);
		m->bare += l->put;
	}
	return r;
}

static int begin_copy(struct merging *m)
{
	int r = count(m);

	if (r == 0 && m->joined == 0) {
		buf_text(&m->refusal->why,
			 "No kernel of the capture has the name of one in the trace.");
		return refuse(m, "trace", "Take a trace and a capture of the same program.");
	}
	m->copying = r == 0;
	r = r ? r : trace_text_seek(m->text, 0);
	return r >= 0 || r == -ENOMEM ? r : refuse_trace(m, "", r, usual_remedy);
}

/* Copies the next piece of the trace, at most up to end. */
static int copy(struct merging *m, struct buf *b, uint64_t end)
{
	size_t n = end - m->at < PIECE_BYTES ? (size_t)(end - m->at) : PIECE_BYTES;
	int64_t done = buf_reserve(b, n) ? trace_text_next(m->text, b->data + b->n, n) : -ENOMEM;

	if (done == -ENOMEM) {
		return -ENOMEM;
	}
	if (done <= 0) {
		return refuse_trace(m, done == 0 ? "it has become shorter meanwhile" : "",
				    (int)done, usual_remedy);
	}
	b->n += (size_t)done;
	m->at += (uint64_t)done;
	return 0;
}

static int merge_end(void *e, struct buf *b)
{
	struct merging *m = e;
	int r = m->copying ? 0 : begin_copy(m);

	while (r == 0 && b->n < PIECE_BYTES) {
		uint64_t end = m->bytes;
		unsigned category = TRACE_OTHER;

		for (unsigned i = TRACE_OTHER + 1; i <= TRACE_END; i++) {
			uint64_t at = find_next(m, i);

			category = at < end ? i : category;
			end = at < end ? at : end;
		}
		if (m->at < end) {
			r = copy(m, b, end);
		} else if (category != TRACE_OTHER) {
			r = put(m, category, b);
		} else {
			return 0;
		}
	}
	return r ? r : EXPORTER_MORE;
}

/* --- what became of it ----------------------------------------------------------------------- */

/* "1 launch", "2 launches" */
static void add_launches(struct buf *b, uint64_t n)
{
	text_count(b, n);
	buf_text(b, n == 1 ? " launch" : " launches");
}

/* Appends what HTA will find in the trace. */
static void tell_ranges(const struct merging *m, struct buf *b)
{
	uint64_t otherwise = m->valued > m->launches_valued ? m->valued - m->launches_valued : 0;

	if (leaves_ranges(&m->join)) {
		buf_text(b, "the trace has events of category cuda_profiler_range, and not one for "
			    "each launch: they stay as they are\n");
		return;
	}
	buf_text(b, "for HTA: a cuda_profiler_range for each of ");
	add_launches(b, m->join.lists[TRACE_LAUNCH].n);
	buf_text(b, " (cudaLaunchKernel), ");
	text_count(b, m->launches_valued);
	buf_text(b, " with counters\n");
	if (otherwise > 0) {
		text_count(b, otherwise);
		buf_text(b,
			 " kernels with counters were launched in another way, which HTA does not "
			 "look at: they have no such range\n");
	}
	if (m->together > 0) {
		add_launches(b, m->together);
		buf_text(b, " began in one microsecond with another: HTA may exchange their "
			    "counters\n");
	}
	if (m->bare > 0) {
		add_launches(b, m->bare);
		buf_text(b, " had no operator around, which HTA needs: \"(no operator)\" was put "
			    "in\n");
	}
}

static void merge_tell(void *e, struct buf *b)
{
	const struct merging *m = e;

	text_count(b, m->valued);
	buf_text(b, " kernels have counters now; without a partner: ");
	text_count(b, m->join.lists[TRACE_KERNEL].n - m->joined);
	buf_text(b, " of the trace, ");
	text_count(b, m->records - m->joined);
	buf_text(b, " of the capture\n");
	tell_ranges(m, b);
	chrome_tell_crowded(m->lanes.crowded, b);
}

const struct exporter exporter_merge = {
	.name = "merge",
	.open = merge_open,
	.close = merge_close,
	.record = merge_record,
	.end = merge_end,
	.tell = merge_tell,
};
