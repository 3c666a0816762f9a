/* SPDX-License-Identifier: Apache-2.0 */

/* The exporter that puts a capture's counters into a trace that was made in another run of the same
 * program: the i-th launch of a name in the trace gets those of the i-th of that name in the
 * capture. Names and order are all that the runs share; correlation ids and times differ.
 *
 * The trace is read twice, in pieces: when the export begins, for its kernels, launches and
 * operators, and at the end, when it is copied byte by byte with the counters put in. Between these
 * SQLite joins what is in a temporary database (merge_tables.sql, merge_join.sql), so that memory
 * grows with neither trace nor capture.
 *
 * HolisticTraceAnalysis finds counters in events of category cuda_profiler_range: it pairs the i-th
 * of them, by ts, with the i-th cuda_runtime event whose name begins with cudaLaunchKernel, wants
 * as many of the one as of the other, and looks up the operators (cpu_op) around that launch, of
 * which there must be one. Times are rounded up to whole microseconds before.
 *
 * So each such launch gets a range, one without counters too, in the order of the launches and at
 * whole microseconds of which none comes twice; and where no operator is around a launch, one with
 * its times is put in before it. A kernel that was launched in another way has its counters at the
 * kernel alone. Where the trace has a range for each launch already, of a capture of other metrics,
 * the counters go into these. */

#include "client/report/exporter.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/chrome.h"
#include "client/report/trace.h"

enum { PIECE_BYTES = 256 * 1024 };

extern const char *const merge_tables[], *const merge_join[];

/* Of the view merged. */
enum what {
	INSERT_VALUES, /* into the arguments of a kernel */
	INSERT_PLAIN,  /* into those of a range */
	INSERT_OP,     /* an operator before a launch */
	INSERT_RANGE,  /* a range at the end of the events */
};

enum { AT, WHAT, VALUES, NAME, DEVICE, WHOLE_US, LENGTH_US, THREAD, START, US };

/* The columns of the table counts. */
enum {
	RECORDS,
	KERNELS,
	JOINED,
	VALUED, /* of the joined, those that have a value of some metric */
	RANGES, /* that the trace has already */
	LAUNCHES,
	LAUNCHES_VALUED,
	TOGETHER, /* launches within the same microsecond as the launch before */
	BARE,	  /* launches outside any operator */
	COUNTS,
};

struct merging {
	const struct exporter_options *options;
	struct exporter_refusal *refusal;
	const struct gpuctr_plan *plan;
	gzFile text;
	sqlite3 *db;
	sqlite3_stmt *event, *record; /* that write one */
	sqlite3_stmt *merged;	      /* the next insertion */
	struct buf args, plain;	      /* of one record */
	uint64_t counts[COUNTS];
	struct lanes lanes; /* of the ranges */
	uint64_t bytes;	    /* of the trace */
	uint64_t at;	    /* how much of it was copied */
	bool copying, more;
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

/* --- the database ---------------------------------------------------------------------------- */

static int check(struct merging *m, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE) {
		return 0;
	}
	if (rc == SQLITE_NOMEM) {
		return -ENOMEM;
	}
	buf_printf(&m->refusal->why, "the temporary file: %s", sqlite3_errmsg(m->db));
	return refuse(m, "output", "Set TMPDIR to a folder with room.");
}

static int run(struct merging *m, const char *const *lines)
{
	CLEAN_BUF struct buf sql = { 0 };

	for (size_t i = 0; lines[i]; i++) {
		buf_text(&sql, lines[i]);
	}
	return sql.failed ? -ENOMEM
			  : check(m, sqlite3_exec(m->db, buf_string(&sql), NULL, NULL, NULL));
}

static int prepare(struct merging *m, const char *sql, sqlite3_stmt **ret)
{
	return check(m, sqlite3_prepare_v2(m->db, sql, -1, ret, NULL));
}

static int open_db(struct merging *m)
{
	int r = check(m, sqlite3_open("", &m->db));

	sqlite3_exec(m->db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL,
		     NULL, NULL);
	r = r ? r : run(m, merge_tables);
	r = r ? r
	      : prepare(m, "INSERT INTO event VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
			&m->event);
	return r ? r : prepare(m, "INSERT INTO record VALUES(NULL, ?1, ?2, ?3, ?4)", &m->record);
}

static int write_row(struct merging *m, sqlite3_stmt *s)
{
	sqlite3_step(s);
	return check(m, sqlite3_reset(s));
}

static void bind_text(sqlite3_stmt *s, int i, const char *text)
{
	sqlite3_bind_text(s, i, text, -1, SQLITE_STATIC);
}

static int on_event(const struct trace_event *e, void *userdata)
{
	struct merging *m = userdata;

	sqlite3_bind_int(m->event, 1, (int)e->category);
	bind_text(m->event, 2, e->name);
	bind_text(m->event, 3, e->thread);
	sqlite3_bind_double(m->event, 4, e->begin);
	sqlite3_bind_double(m->event, 5, e->us);
	sqlite3_bind_int64(m->event, 6, (int64_t)e->at);
	sqlite3_bind_int64(m->event, 7, (int64_t)e->args_at);
	sqlite3_bind_int(m->event, 8, e->empty);
	/* SQLite's numbers have a sign, and the order stays. */
	sqlite3_bind_int64(m->event, 9, (int64_t)(e->correlation ^ UINT64_C(1) << 63));
	sqlite3_bind_int64(m->event, 10, e->device);
	m->counts[KERNELS] += e->category == TRACE_KERNEL;
	return write_row(m, m->event);
}

/* --- beginning ------------------------------------------------------------------------------- */

static int read_trace(struct merging *m)
{
	const char *remedy = usual_remedy;
	CLEAN_BUF struct buf why = { 0 };
	int r;

	m->text = trace_text_open(m->options->trace);
	r = m->text ? trace_read(m->text, on_event, m, &m->bytes, &why, &remedy) : -errno;
	if (r == 0 && m->counts[KERNELS] == 0) {
		buf_text(&why, "there is no kernel in it");
		r = -EINVAL;
	}
	return r < 0 ? refuse_trace(m, buf_string(&why), r, remedy) : r;
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
	r = open_db(m);
	return r ? r : read_trace(m);
}

static void merge_close(void *e)
{
	struct merging *m = e;

	sqlite3_finalize(m->event);
	sqlite3_finalize(m->record);
	sqlite3_finalize(m->merged);
	sqlite3_close(m->db);
	gzclose_r(m->text);
	buf_deinit(&m->args);
	buf_deinit(&m->plain);
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

	buf_clear(&m->args);
	buf_clear(&m->plain);
	chrome_add_values(&(struct json){ &m->args }, "gpuctr::", m->plan, record->values,
			  record->errors);
	chrome_add_values(&(struct json){ &m->plain }, "", m->plan, record->values, NULL);
	bind_text(m->record, 1, record->kernel ? record->kernel->name : NULL);
	bind_text(m->record, 2, record->kernel ? record->kernel->mangled : NULL);
	bind_text(m->record, 3, buf_string(&m->args));
	bind_text(m->record, 4, buf_string(&m->plain));
	return m->args.failed || m->plain.failed ? -ENOMEM : write_row(m, m->record);
}

/* --- what is put in -------------------------------------------------------------------------- */

static const char *text_of(const struct merging *m, int column, const char *unknown)
{
	const char *text = (const char *)sqlite3_column_text(m->merged, column);

	return text ? text : unknown;
}

/* An operator's event comes before its launch, so that it is the outer one of two events with the
 * same times. */
static void add_op(const struct merging *m, struct buf *b)
{
	struct json to = { b };

	json_begin(&to, NULL, '{');
	json_word(&to, "ph", "X");
	json_word(&to, "cat", "cpu_op");
	json_key(&to, NULL);
	buf_text(b, text_of(m, THREAD, ""));
	json_double(&to, "ts", sqlite3_column_double(m->merged, START));
	json_double(&to, "dur", sqlite3_column_double(m->merged, US));
	json_word(&to, "name", "(no operator)");
	json_end(&to, '}');
	buf_text(b, ",\n");
}

static void add_range(struct merging *m, struct buf *b)
{
	int64_t us = sqlite3_column_int64(m->merged, WHOLE_US);
	int64_t length_us = sqlite3_column_int64(m->merged, LENGTH_US);
	struct json to = { b };
	bool fresh;
	unsigned lane = lanes_take(&m->lanes, us, length_us, &fresh);

	buf_text(b, ",\n");
	chrome_begin_span(&to, "cuda_profiler_range",
			  (uint64_t)sqlite3_column_int64(m->merged, DEVICE),
			  lane > 0 ? LANES_TID + lane : 0, us, length_us);
	json_text(&to, "name", text_of(m, NAME, TEXT_UNKNOWN));
	json_begin(&to, "args", '{');
	buf_text(b, text_of(m, VALUES, ""));
	json_end(&to, '}');
	json_end(&to, '}');
}

static void put(struct merging *m, struct buf *b)
{
	switch ((enum what)sqlite3_column_int(m->merged, WHAT)) {
	case INSERT_VALUES:
	case INSERT_PLAIN:
		buf_text(b, text_of(m, VALUES, ""));
		break;
	case INSERT_OP:
		add_op(m, b);
		break;
	case INSERT_RANGE:
		add_range(m, b);
		break;
	}
}

/* --- the copy -------------------------------------------------------------------------------- */

static int next(struct merging *m)
{
	int rc = sqlite3_step(m->merged);

	m->more = rc == SQLITE_ROW;
	return check(m, rc);
}

static int read_counts(struct merging *m)
{
	sqlite3_stmt *s;
	int r = prepare(m, "SELECT * FROM counts", &s);

	r = r ? r : check(m, sqlite3_step(s));
	for (size_t i = 0; r == 0 && i < COUNTS; i++) {
		m->counts[i] = (uint64_t)sqlite3_column_int64(s, (int)i);
	}
	sqlite3_finalize(s);
	return r;
}

static int begin_copy(struct merging *m)
{
	int r = run(m, merge_join);

	r = r ? r : read_counts(m);
	if (r == 0 && m->counts[JOINED] == 0) {
		buf_text(&m->refusal->why,
			 "No kernel of the capture has the name of one in the trace.");
		return refuse(m, "trace", "Take a trace and a capture of the same program.");
	}
	r = r ? r : prepare(m, "SELECT * FROM merged", &m->merged);
	r = r ? r : next(m);
	m->copying = r == 0;
	r = r ? r : trace_text_seek(m->text, 0);
	return r >= 0 || r == -ENOMEM ? r : refuse_trace(m, "", r, usual_remedy);
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

static int merge_end(void *e, struct buf *b)
{
	struct merging *m = e;
	int r = m->copying ? 0 : begin_copy(m);

	while (r == 0 && b->n < PIECE_BYTES) {
		uint64_t end = m->more ? (uint64_t)sqlite3_column_int64(m->merged, AT) : m->bytes;

		if (m->at < end) {
			r = copy(m, b, end);
		} else if (m->more) {
			put(m, b);
			r = next(m);
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
static void tell_ranges(const uint64_t *n, struct buf *b)
{
	uint64_t otherwise = n[VALUED] > n[LAUNCHES_VALUED] ? n[VALUED] - n[LAUNCHES_VALUED] : 0;

	if (n[RANGES] != 0 && n[RANGES] != n[LAUNCHES]) {
		buf_text(b, "the trace has events of category cuda_profiler_range, and not one for "
			    "each launch: they stay as they are\n");
		return;
	}
	buf_text(b, "for HTA: a cuda_profiler_range for each of ");
	add_launches(b, n[LAUNCHES]);
	buf_text(b, " (cudaLaunchKernel), ");
	text_count(b, n[LAUNCHES_VALUED]);
	buf_text(b, " with counters\n");
	if (otherwise > 0) {
		text_count(b, otherwise);
		buf_text(b,
			 " kernels with counters were launched in another way, which HTA does not "
			 "look at: they have no such range\n");
	}
	if (n[TOGETHER] > 0) {
		add_launches(b, n[TOGETHER]);
		buf_text(b, " began in one microsecond with another: HTA may exchange their "
			    "counters\n");
	}
	if (n[BARE] > 0) {
		add_launches(b, n[BARE]);
		buf_text(b, " had no operator around, which HTA needs: \"(no operator)\" was put "
			    "in\n");
	}
}

static void merge_tell(void *e, struct buf *b)
{
	const struct merging *m = e;
	const uint64_t *n = m->counts;

	text_count(b, n[VALUED]);
	buf_text(b, " kernels have counters now; without a partner: ");
	text_count(b, n[KERNELS] - n[JOINED]);
	buf_text(b, " of the trace, ");
	text_count(b, n[RECORDS] - n[JOINED]);
	buf_text(b, " of the capture\n");
	tell_ranges(n, b);
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
