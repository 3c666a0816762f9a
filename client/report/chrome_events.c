/* SPDX-License-Identifier: Apache-2.0 */

/* The text of a trace's events, an event a line. Arguments of cuda_profiler_range are numbers and
 * nothing else, because HTA makes a column of each: values that are not known are left out, and
 * what is no counter has the prefix gpuctr:: in its name. */

#include "client/report/chrome.h"

#include <math.h>

#include "client/cli/text.h"
#include "client/report/marker.h"

#define ADD(b, text) buf_add(b, text, sizeof(text) - 1)

enum { DEVICES_A_PROCESS = 100 };

uint64_t chrome_device_pid(const struct chrome *c, unsigned device)
{
	uint64_t process = c->process->process.process;

	return c->several ? process * DEVICES_A_PROCESS + device : device;
}

static void begin_event(struct chrome *c, struct buf *b)
{
	if (c->has_event) {
		ADD(b, ",\n");
	}
	c->has_event = true;
}

/* {"ph":"X","cat":CATEGORY,"pid":,"tid":,"ts":,"dur": */
static void add_span(struct chrome *c, struct buf *b, const char *category, uint64_t pid,
		     uint64_t tid, int64_t at_us, int64_t us)
{
	begin_event(c, b);
	ADD(b, "{\"ph\":\"X\",\"cat\":\"");
	buf_text(b, category);
	ADD(b, "\",\"pid\":");
	buf_u64(b, pid);
	ADD(b, ",\"tid\":");
	buf_u64(b, tid);
	ADD(b, ",\"ts\":");
	buf_i64(b, at_us);
	ADD(b, ",\"dur\":");
	buf_i64(b, us);
}

/* --- the trace ------------------------------------------------------------------------------- */

static void add_text(struct buf *b, const char *key, const char *text)
{
	buf_text(b, key);
	text_json(b, text);
}

void chrome_write_head(struct chrome *c, struct buf *b)
{
	const struct store_info *info = c->info;

	/* HTA looks for the rank as text, and wants the blank. */
	buf_printf(b,
		   "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"rank\": "
		   "%u},\n\"baseTimeNanoseconds\":%lld",
		   c->options->rank, (long long)c->base_ns);
	add_text(b, ",\"gpuctr\":{\"version\":", info->version);
	add_text(b, ",\"host\":", info->host);
	add_text(b, ",\"driver\":", info->driver);
	add_text(b, ",\"command\":", info->command);
	add_text(b, ",\"recorded_from\":", info->recorded_from);
	ADD(b, ",\"units\":{");
	for (size_t i = 0; i < info->plan.n_columns; i++) {
		buf_text(b, i > 0 ? "," : "");
		buf_add(b, c->keys[i].data, c->keys[i].n);
		text_json(b, info->plan.columns[i].unit);
	}
	ADD(b, "}},\n\"traceEvents\":[\n");
}

void chrome_write_tail(struct chrome *c, struct buf *b)
{
	const struct gpuctr_totals *t = &c->info->totals;

	buf_printf(b,
		   "\n],\n\"gpuctr_end\":{\"complete\":%s,\"records\":%llu,\"ranges\":%llu,"
		   "\"seen\":%llu,\"measured\":%llu,\"delayed\":%llu,\"most_delayed_us\":%lld}}\n",
		   c->info->complete ? "true" : "false", (unsigned long long)c->records,
		   (unsigned long long)c->ranges, (unsigned long long)t->seen,
		   (unsigned long long)t->measured, (unsigned long long)c->delayed,
		   (long long)c->most_delayed_us);
}

/* --- names of tracks ------------------------------------------------------------------------- */

/* The name follows as JSON, then "}}". */
static void begin_name(struct chrome *c, struct buf *b, const char *what, uint64_t pid,
		       uint64_t tid)
{
	begin_event(c, b);
	buf_printf(b, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%llu,\"tid\":%llu,\"args\":{\"name\":",
		   what, (unsigned long long)pid, (unsigned long long)tid);
}

void chrome_write_process(struct chrome *c, struct buf *b)
{
	const struct gpuctr_process *p = &c->process->process;

	begin_name(c, b, "process_name", p->pid, 0);
	text_json(b, p->program);
	ADD(b, "}}");
	if (*p->recorded_from) {
		begin_event(c, b);
		buf_printf(b,
			   "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%u,\"tid\":0,"
			   "\"args\":{\"labels\":\"RECORDED on ",
			   p->pid);
		text_json_body(b, p->recorded_from);
		ADD(b, "\"}}");
	}
	for (size_t i = 0; i < p->n_devices; i++) {
		begin_name(c, b, "process_name", chrome_device_pid(c, p->devices[i].index), 0);
		buf_printf(b, "\"GPU %u: ", p->devices[i].index);
		text_json_body(b, p->devices[i].name);
		if (c->several) {
			buf_printf(b, " (process %u)", p->process);
		}
		ADD(b, "\"}}");
	}
}

void chrome_write_names(struct chrome *c, struct buf *b, const struct track *track)
{
	uint64_t pid = track->kind == TRACK_THREAD ? c->process->process.pid
						   : chrome_device_pid(c, track->device);

	begin_name(c, b, "thread_name", pid, track->id);
	if (track->kind == TRACK_COUNTERS) {
		ADD(b, "\"counters\"}}");
		return;
	}
	buf_printf(b, "\"%s %llu\"}}", track->kind == TRACK_THREAD ? "thread" : "stream",
		   (unsigned long long)track->id);
}

/* --- events ---------------------------------------------------------------------------------- */

static void add_domain(struct buf *b, const struct gpuctr_range *range)
{
	if (range->domain && *range->domain) {
		text_json_body(b, range->domain);
		buf_char(b, ':');
	}
}

static void add_sizes(struct buf *b, const struct marker *m)
{
	if (marker_is_list(m->sizes, m->n_sizes)) {
		ADD(b, "\"Input Dims\":");
		buf_add(b, m->sizes, m->n_sizes);
		return;
	}
	ADD(b, "\"sizes\":\""); /* of a message that was cut off, or is not PyTorch's */
	text_json_part(b, m->sizes, m->n_sizes);
	buf_char(b, '"');
}

/* As PyTorch's own traces name them. */
static void add_marker(struct buf *b, const struct marker *m)
{
	const char *separator = "";

	ADD(b, ",\"args\":{");
	if (m->seq >= 0) {
		ADD(b, "\"Sequence number\":");
		buf_i64(b, m->seq);
		separator = ",";
	}
	if (m->op_id >= 0) {
		buf_text(b, separator);
		ADD(b, "\"External id\":");
		buf_i64(b, m->op_id);
		separator = ",";
	}
	if (m->sizes) {
		buf_text(b, separator);
		add_sizes(b, m);
	}
	buf_char(b, '}');
}

void chrome_format_range(struct buf *text, const struct gpuctr_range *range)
{
	const char *message = range->message ? range->message : "";
	struct marker marker;

	marker_parse(message, &marker);
	ADD(text, ",\"name\":\"");
	add_domain(text, range);
	text_json_part(text, message, marker.n_name);
	buf_char(text, '"');
	if (marker.found) {
		add_marker(text, &marker);
	}
	buf_char(text, '}');
}

void chrome_write_range(struct chrome *c, struct buf *b, uint64_t thread, const struct buf *text,
			int64_t begin_us, int64_t end_us)
{
	add_span(c, b, "cpu_op", c->process->process.pid, thread, begin_us, end_us - begin_us);
	if (!text) {
		ADD(b, ",\"name\":\"(no NVTX range)\"}");
		return;
	}
	c->ranges++;
	buf_add(b, text->data, text->n);
	b->failed |= text->failed;
}

void chrome_write_launch(struct chrome *c, struct buf *b, const struct gpuctr_record *record,
			 int64_t at_us)
{
	add_span(c, b, "cuda_runtime", c->process->process.pid, record->thread, at_us, 1);
	/* HTA before 0.3 wants just this name, of each. */
	ADD(b, ",\"name\":\"cudaLaunchKernel\",\"args\":{\"correlation\":");
	buf_u64(b, record->correlation);
	buf_text(b, record->kind == GPUCTR_LAUNCH_GRAPH ? ",\"gpuctr::kind\":\"graph\""
		    : record->kind == GPUCTR_LAUNCH_COOPERATIVE
			    ? ",\"gpuctr::kind\":\"cooperative\""
			    : "");
	ADD(b, "}}");
}

static void add_kernel_name(struct chrome *c, struct buf *b, const struct gpuctr_record *record)
{
	struct buf *text;
	bool fresh;

	ADD(b, ",\"name\":");
	if (!record->kernel) {
		ADD(b, "\"(not known)\"");
		return;
	}
	text = fragments_get(c->kernels, record->process, record->kernel->id, &fresh);
	if (fresh) {
		text_json(text, record->kernel->name);
	}
	buf_add(b, text->data, text->n);
}

void chrome_write_counters(struct chrome *c, struct buf *b, const struct gpuctr_record *record,
			   int64_t at_us)
{
	int64_t us = record->duration_ns / 1000;

	add_span(c, b, "cuda_profiler_range", chrome_device_pid(c, record->device), 0, at_us,
		 us > 0 ? us : 1);
	add_kernel_name(c, b, record);
	ADD(b, ",\"args\":{");
	for (size_t i = 0; i < c->info->plan.n_columns; i++) {
		if (isfinite(record->values[i])) {
			buf_add(b, c->keys[i].data, c->keys[i].n);
			buf_double(b, record->values[i]);
			buf_char(b, ',');
		}
	}
	if (record->duration_ns >= 0) {
		ADD(b, "\"gpuctr::duration_ns\":");
		buf_i64(b, record->duration_ns);
		buf_char(b, ',');
	}
	ADD(b, "\"gpuctr::index\":");
	buf_u64(b, record->index);
	ADD(b, "}}");
}

/* Microseconds with three decimals. */
static void add_exact(struct buf *b, int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	unsigned rest = (unsigned)(size % 1000);
	const char decimals[] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
				  (char)('0' + rest % 10) };

	if (ns < 0) {
		buf_char(b, '-');
	}
	buf_u64(b, size / 1000);
	buf_add(b, decimals, sizeof(decimals));
}

static void add_shape(struct buf *b, const char *key, const uint32_t shape[3])
{
	buf_text(b, key);
	for (int i = 0; i < 3; i++) {
		buf_char(b, i > 0 ? ',' : '[');
		buf_u64(b, shape[i]);
	}
	buf_char(b, ']');
}

static void add_launch_arguments(struct chrome *c, struct buf *b,
				 const struct gpuctr_record *record)
{
	ADD(b, ",\"args\":{\"device\":");
	buf_u64(b, record->device);
	ADD(b, ",\"context\":");
	buf_u64(b, record->context);
	ADD(b, ",\"stream\":");
	buf_u64(b, record->stream);
	ADD(b, ",\"correlation\":");
	buf_u64(b, record->correlation);
	add_shape(b, ",\"grid\":", record->grid);
	add_shape(b, ",\"block\":", record->block);
	if (record->clock == GPUCTR_CLOCK_RANGE) {
		ADD(b, ",\"gpuctr::clock\":\"range\"");
	}
	for (size_t i = 0; i < record->n_active; i++) {
		buf_text(b, i > 0 ? "," : ",\"gpuctr::ranges\":[");
		text_json(b, record->active[i]->message);
	}
	buf_text(b, record->n_active > 0 ? "]}}" : "}}");
	(void)c;
}

void chrome_write_kernel(struct chrome *c, struct buf *b, const struct gpuctr_record *record)
{
	int64_t since_ns;

	if (record->duration_ns < 0 ||
	    __builtin_sub_overflow(record->start_ns, c->base_ns, &since_ns)) {
		return;
	}
	begin_event(c, b);
	ADD(b, "{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":");
	buf_u64(b, chrome_device_pid(c, record->device));
	ADD(b, ",\"tid\":");
	buf_u64(b, record->stream);
	ADD(b, ",\"ts\":");
	add_exact(b, since_ns);
	ADD(b, ",\"dur\":");
	add_exact(b, record->duration_ns);
	add_kernel_name(c, b, record);
	add_launch_arguments(c, b, record);
}

void chrome_write_mark(struct chrome *c, struct buf *b, const struct gpuctr_mark *mark)
{
	int64_t since_ns;

	if (!mark->range || __builtin_sub_overflow(mark->time_ns, c->base_ns, &since_ns)) {
		return;
	}
	begin_event(c, b);
	buf_printf(b,
		   "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"mark\",\"pid\":%u,\"tid\":%u,\"ts\":%lld,"
		   "\"name\":\"",
		   c->process->process.pid, mark->thread, (long long)(since_ns / 1000));
	add_domain(b, mark->range);
	text_json_body(b, mark->range->message);
	ADD(b, "\"}");
}
