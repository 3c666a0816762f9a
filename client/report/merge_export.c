/* SPDX-License-Identifier: Apache-2.0 */

/* The exporter that puts a capture's counters into a trace. The trace is read twice, in pieces:
 * when the export begins, for its kernels and launches, and at the end, when it is copied byte by
 * byte with the counters put in. */

#include "client/report/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/chrome.h"
#include "client/report/merge.h"

enum { PIECE_BYTES = 256 * 1024 };

struct merging {
	const struct exporter_options *options;
	struct exporter_refusal *refusal;
	struct trace trace;
	struct trace_text *text;
	struct merge *merge;
	struct merge_counts counts;
	bool copying;
	uint64_t at; /* how much of the trace was copied */
};

/* --- beginning ------------------------------------------------------------------------------- */

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

static int read_trace(struct merging *m)
{
	const char *remedy = usual_remedy;
	struct buf why = { 0 };
	int r;

	m->text = trace_text_open(m->options->trace);
	r = m->text ? trace_read(&m->trace, m->text, &why, &remedy) : -errno;
	if (r == 0 && m->trace.n == 0) {
		buf_text(&why, "there is no kernel in it");
		r = -EINVAL;
	}
	r = r ? refuse_trace(m, buf_string(&why), r, remedy) : 0;
	buf_deinit(&why);
	return r;
}

static int begin(struct merging *m, const struct store_info *info)
{
	if (m->options->process == 0 && info->n_processes > 1) {
		buf_text(&m->refusal->why, "a trace is of one process: say which of the capture's "
					   "by --process (report --by process lists them)");
		return EXPORTER_REFUSES;
	}
	return read_trace(m);
}

static void merge_export_close(void *e)
{
	struct merging *m = e;

	merge_free(m->merge);
	trace_deinit(&m->trace);
	trace_text_close(m->text);
	free(m);
}

static void *merge_export_open(const struct store_info *info,
			       const struct exporter_options *options,
			       struct exporter_refusal *refusal)
{
	struct merging *m = calloc(1, sizeof(*m));

	if (!m) {
		return NULL;
	}
	m->options = options;
	m->refusal = refusal;
	m->merge = begin(m, info) == 0 ? merge_new(&m->trace, &info->plan) : NULL;
	if (!m->merge) {
		merge_export_close(m);
		return NULL;
	}
	return m;
}

static int merge_export_record(void *e, struct buf *b, const struct gpuctr_record *record,
			       const struct attribution *what)
{
	struct merging *m = e;

	return merge_record(m->merge, record);
}

/* --- the copy -------------------------------------------------------------------------------- */

static int begin_copy(struct merging *m)
{
	int r = merge_finish(m->merge, &m->counts);

	if (r == 0 && m->counts.joined == 0) {
		buf_text(&m->refusal->why,
			 "No kernel of the capture has the name of one in the trace.");
		return refuse(m, "trace", "Take a trace and a capture of the same program.");
	}
	m->copying = r == 0;
	r = r ? r : trace_text_seek(m->text, 0);
	return r == 0 || r == -ENOMEM ? r : refuse_trace(m, "", r, usual_remedy);
}

/* Copies a piece of the trace that ends at end, or before. */
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

static int merge_export_end(void *e, struct buf *b)
{
	struct merging *m = e;
	int r = m->copying ? 0 : begin_copy(m);

	while (r == 0 && b->n < PIECE_BYTES) {
		uint64_t next;
		bool more = merge_next(m->merge, &next);

		next = more ? next : m->trace.bytes;
		if (m->at < next) {
			r = copy(m, b, next);
		} else if (more) {
			merge_put(m->merge, b);
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

/* What HTA will find. */
static void tell_ranges(const struct merge_counts *n, struct buf *b)
{
	if (n->ranges == MERGE_LEAVES_RANGES) {
		buf_text(b, "the trace has events of category cuda_profiler_range, and not one for "
			    "each launch: they stay as they are\n");
		return;
	}
	buf_text(b, "for HTA: a cuda_profiler_range for each of ");
	add_launches(b, n->launches);
	buf_text(b, " (cudaLaunchKernel), ");
	text_count(b, n->launches - n->launches_alone);
	buf_text(b, " with counters\n");
	if (n->otherwise > 0) {
		text_count(b, n->otherwise);
		buf_text(b,
			 " kernels with counters were launched in another way, which HTA does not "
			 "look at: they have no such range\n");
	}
	if (n->together > 0) {
		add_launches(b, n->together);
		buf_text(b, " began in one microsecond with another: HTA may exchange their "
			    "counters\n");
	}
	if (n->bare > 0) {
		add_launches(b, n->bare);
		buf_text(b, " had no operator around, which HTA needs: \"(no operator)\" was put "
			    "in\n");
	}
}

static void merge_export_tell(void *e, struct buf *b)
{
	const struct merging *m = e;
	const struct merge_counts *n = &m->counts;

	text_count(b, n->valued);
	buf_text(b, " kernels have counters now; without a partner: ");
	text_count(b, n->trace_alone);
	buf_text(b, " of the trace, ");
	text_count(b, n->capture_alone);
	buf_text(b, " of the capture\n");
	tell_ranges(n, b);
	chrome_tell_crowded(n->crowded, b);
}

const struct exporter exporter_merge = {
	.name = "merge",
	.without = STORE_SITES,
	.open = merge_export_open,
	.close = merge_export_close,
	.record = merge_export_record,
	.end = merge_export_end,
	.tell = merge_export_tell,
};
