/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the events of a trace, one in each line. All arguments of cuda_profiler_range are numbers,
 * because HTA makes a column of each. Unknown values are left out, and arguments that are no
 * counters have the prefix gpuctr:: in their names. A kernel has torch.profiler's arguments, and
 * there the counters have the prefix. */

#include "client/report/chrome.h"

#include <math.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/sizes.h"
#include "proto/base/json.h"
#include "proto/base/site_name.h"

enum { DEVICES_A_PROCESS = 100 };

/* The pid that represents a device in the trace: the device's index, as in PyTorch's traces. If
 * several processes are exported, the pid also depends on the process, because each process numbers
 * its devices itself. */
static uint64_t device_pid(const struct chrome *c, const struct store_process *p, unsigned device)
{
	uint64_t process = p->process.process;

	return c->several ? process * DEVICES_A_PROCESS + device : device;
}

static void begin_event(struct chrome *c, struct buf *b)
{
	if (c->has_event) {
		buf_text(b, ",\n");
	}
	c->has_event = true;
}

void chrome_begin_span(struct json *m, const char *category, uint64_t pid, uint64_t tid,
		       int64_t at_us, int64_t us)
{
	json_begin(m, NULL, '{');
	json_word(m, "ph", "X");
	json_word(m, "cat", category);
	json_u64(m, "pid", pid);
	json_u64(m, "tid", tid);
	json_i64(m, "ts", at_us);
	json_i64(m, "dur", us);
}

static struct json begin_span(struct chrome *c, struct buf *b, const char *category, uint64_t pid,
			      uint64_t tid, int64_t at_us, int64_t us)
{
	struct json m = { b };

	begin_event(c, b);
	chrome_begin_span(&m, category, pid, tid, at_us, us);
	return m;
}

/* --- the trace ------------------------------------------------------------------------------- */

void chrome_write_head(struct chrome *c, struct buf *b)
{
	const struct store_info *info = c->info;
	struct json m = { b, true };

	/* HTA searches the text for the rank, and needs the blank. */
	buf_printf(b,
		   "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"distributedInfo\":{\"rank\": "
		   "%u},\n\"baseTimeNanoseconds\":%lld",
		   c->options->rank, (long long)c->base_ns);
	json_begin(&m, "gpuctr", '{');
	json_text(&m, "version", info->version);
	json_text(&m, "host", info->host);
	json_text(&m, "driver", info->driver);
	json_text(&m, "command", info->command);
	json_text(&m, "recorded_from", info->recorded_from);
	if (info->sampled) {
		json_bool(&m, "sampled", true);
	}
	json_begin(&m, "units", '{');
	for (size_t i = 0; i < info->plan.n_columns; i++) {
		json_key_text(&m, info->plan.columns[i].name);
		json_string(b, info->plan.columns[i].unit);
	}
	buf_text(b, "}},\n\"traceEvents\":[\n");
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

static void write_name(struct chrome *c, struct buf *b, const char *what, uint64_t pid,
		       uint64_t tid, const char *key, struct buf *name)
{
	struct json m = { b };

	begin_event(c, b);
	json_begin(&m, NULL, '{');
	json_word(&m, "ph", "M");
	json_word(&m, "name", what);
	json_u64(&m, "pid", pid);
	json_u64(&m, "tid", tid);
	json_begin(&m, "args", '{');
	json_text(&m, key, buf_string(name));
	json_end(&m, '}');
	json_end(&m, '}');
	b->failed |= name->failed;
	buf_clear(name);
}

void chrome_write_process(struct chrome *c, struct buf *b)
{
	const struct gpuctr_process *p = &c->process->process;
	CLEAN_BUF struct buf name = { 0 };

	buf_text(&name, p->program);
	write_name(c, b, "process_name", p->pid, 0, "name", &name);
	if (*p->recorded_from) {
		buf_text(&name, "RECORDED on ");
		buf_text(&name, p->recorded_from);
	}
	if (c->info->sampled) {
		buf_text(&name, name.n > 0 ? ", values SAMPLED" : "values SAMPLED");
	}
	if (name.n > 0) {
		write_name(c, b, "process_labels", p->pid, 0, "labels", &name);
	}
	for (size_t i = 0; i < p->n_devices; i++) {
		const struct gpuctr_device *d = &p->devices[i];

		buf_printf(&name, "GPU %u: %s", d->index, d->name);
		if (c->several) {
			buf_printf(&name, " (process %u)", p->process);
		}
		write_name(c, b, "process_name", device_pid(c, c->process, d->index), 0, "name",
			   &name);
	}
}

/* A stream's first track has the stream's number, as in PyTorch's traces. */
static uint64_t track_tid(const struct track *track, unsigned lane)
{
	bool own = track->kind == TRACK_THREAD || (track->kind == TRACK_STREAM && lane == 0);

	return own ? track->id : LANES_TID + LANES_MAX * track->number + lane;
}

void chrome_write_names(struct chrome *c, struct buf *b, const struct track *track, unsigned lane)
{
	uint64_t pid = track->kind == TRACK_THREAD ? c->process->process.pid
						   : device_pid(c, c->process, track->device);
	CLEAN_BUF struct buf name = { 0 };

	if (track->kind == TRACK_THREAD && track->id == 0) {
		buf_text(&name, "unknown thread");
	} else {
		buf_printf(&name, "%s %llu",
			   track->kind == TRACK_THREAD	 ? "thread"
			   : track->kind == TRACK_STREAM ? "stream"
							 : "counters of stream",
			   (unsigned long long)track->id);
	}
	if (lane > 0) {
		buf_printf(&name, " (%u)", lane + 1);
	}
	write_name(c, b, "thread_name", pid, track_tid(track, lane), "name", &name);
}

/* Takes the first free lane for an event, and returns the lane's tid. */
static uint64_t take_lane(struct chrome *c, struct buf *b, struct track *track, int64_t begin,
			  int64_t length)
{
	bool fresh;
	unsigned lane = lanes_take(&track->lanes, begin, length, &fresh);

	if (fresh) {
		chrome_write_names(c, b, track, lane);
	}
	return track_tid(track, lane);
}

void chrome_tell_crowded(uint64_t events, struct buf *b)
{
	if (events > 0) {
		text_count(b, events);
		buf_printf(b,
			   " events overlap %d others, and no track was left for them: Perfetto "
			   "leaves them out\n",
			   LANES_MAX);
	}
}

/* --- events ---------------------------------------------------------------------------------- */

/* "domain:text" */
static void add_range_name(struct json *m, const struct gpuctr_site *site,
			   const struct gpuctr_occurrence *at, const char *sizes)
{
	CLEAN_BUF struct buf text = { 0 };
	bool is_step = site->numbered == GPUCTR_NUMBER_STEP;

	if (*site->domain) {
		buf_text(&text, site->domain);
		buf_char(&text, ':');
	}
	site_name_format(&text, site->name, sizes, is_step ? SITE_NUMBER_STEP : SITE_NUMBER_NONE,
			 gpuctr_site_number(site, at));
	json_text(m, "name", buf_string(&text));
	m->b->failed |= text.failed;
}

/* The names of arguments are those of PyTorch's own traces. */
static void add_arguments(struct json *m, const struct gpuctr_site *site, int64_t seq)
{
	json_begin(m, "args", '{');
	if (seq >= 0) {
		json_i64(m, "Sequence number", seq);
	}
	if (sizes_is_list(site->sizes)) {
		json_key(m, "Input Dims");
		buf_text(m->b, site->sizes);
	} else if (*site->sizes) { /* the text was cut off, or is not PyTorch's */
		json_text(m, "sizes", site->sizes);
	}
	json_end(m, '}');
}

void chrome_format_range(struct buf *text, const struct gpuctr_site *site,
			 const struct gpuctr_occurrence *at)
{
	bool has_seq = site->numbered == GPUCTR_NUMBER_SEQ;
	struct json m = { text };

	add_range_name(&m, site, at, "");
	if (has_seq || *site->sizes) {
		add_arguments(&m, site, has_seq ? gpuctr_site_number(site, at) : -1);
	}
}

void chrome_write_range(struct chrome *c, struct buf *b, uint64_t thread, const struct buf *text,
			int64_t begin_us, int64_t end_us)
{
	struct json m = begin_span(c, b, "cpu_op", c->process->process.pid, thread, begin_us,
				   end_us - begin_us);

	if (text) {
		c->ranges++;
		json_add(&m, text);
	} else {
		json_word(&m, "name", "(no NVTX range)");
	}
	json_end(&m, '}');
}

static const char *kind_name(enum gpuctr_launch_kind kind)
{
	return kind == GPUCTR_LAUNCH_COOPERATIVE ? "cooperative"
	       : kind == GPUCTR_LAUNCH_GRAPH	 ? "graph"
						 : "graph_kernel";
}

void chrome_write_launch(struct chrome *c, struct buf *b, const struct gpuctr_record *record,
			 int64_t at_us)
{
	struct json m =
		begin_span(c, b, "cuda_runtime", c->process->process.pid, record->thread, at_us, 1);

	/* HTA before 0.3 needs exactly this name for each launch. */
	json_word(&m, "name", "cudaLaunchKernel");
	json_begin(&m, "args", '{');
	json_u64(&m, "correlation", record->correlation);
	if (record->kind != GPUCTR_LAUNCH_KERNEL) {
		json_word(&m, "gpuctr::kind", kind_name(record->kind));
	}
	json_end(&m, '}');
	json_end(&m, '}');
}

static void add_kernel_name(struct json *m, const struct gpuctr_record *record)
{
	json_text(m, "name", record->kernel ? record->kernel->name : TEXT_UNKNOWN);
}

static void add_value(struct json *m, const char *prefix, const char *name, const char *what,
		      double value)
{
	if (isfinite(value)) {
		json_key(m, NULL);
		buf_char(m->b, '"');
		buf_text(m->b, prefix);
		json_string_body(m->b, name);
		buf_text(m->b, what);
		buf_text(m->b, "\":");
		json_value(m, value);
	}
}

void chrome_add_values(struct json *m, const char *prefix, const struct gpuctr_plan *plan,
		       const double *values, const double *errors)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		add_value(m, prefix, plan->columns[i].name, "", values[i]);
		if (errors) {
			add_value(m, prefix, plan->columns[i].name, " error", errors[i]);
		}
	}
}

void chrome_write_counters(struct chrome *c, struct buf *b, struct track *track,
			   const struct gpuctr_record *record, int64_t at_us)
{
	int64_t us = record->duration_ns < 1000 ? 1 : record->duration_ns / 1000;
	uint64_t tid = take_lane(c, b, track, at_us, us);
	struct json m = begin_span(c, b, "cuda_profiler_range",
				   device_pid(c, c->process, record->device), tid, at_us, us);

	add_kernel_name(&m, record);
	json_begin(&m, "args", '{');
	chrome_add_values(&m, "", &c->info->plan, record->values, NULL);
	if (record->duration_ns >= 0) {
		json_i64(&m, "gpuctr::duration_ns", record->duration_ns);
	}
	json_u64(&m, "gpuctr::index", record->index);
	json_end(&m, '}');
	json_end(&m, '}');
}

/* Adds a time in microseconds, with three decimals. */
static void add_exact(struct json *m, const char *key, int64_t ns)
{
	unsigned rest = (unsigned)(ns % 1000);
	const char decimals[] = { '.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
				  (char)('0' + rest % 10) };

	json_i64(m, key, ns / 1000);
	buf_add(m->b, decimals, sizeof(decimals));
}

static void add_launch_arguments(const struct chrome *c, struct json *m,
				 const struct gpuctr_record *record)
{
	json_begin(m, "args", '{');
	json_u64(m, "device", record->device);
	json_u64(m, "context", record->context);
	json_u64(m, "stream", record->stream);
	json_u64(m, "correlation", record->correlation);
	json_u32s(m, "grid", record->grid, 3);
	json_u32s(m, "block", record->block, 3);
	if (record->kind == GPUCTR_LAUNCH_GRAPH_KERNEL) { /* names of torch.profiler's */
		json_u64(m, "graph id", record->graph);
		json_u64(m, "graph node id", record->graph_node);
	}
	if (record->clock == GPUCTR_CLOCK_RANGE) {
		json_word(m, "gpuctr::clock", "range");
	}
	if (record->n_active > 0) {
		json_begin(m, "gpuctr::ranges", '[');
		for (size_t i = 0; i < record->n_active; i++) {
			json_text(m, NULL, record->active[i]->name);
		}
		json_end(m, ']');
	}
	chrome_add_values(m, "gpuctr::", &c->info->plan, record->values, record->errors);
	json_end(m, '}');
}

/* Sets the time since the trace began. False: the time is before that. */
static bool find_since(const struct chrome *c, int64_t at_ns, int64_t *ret_ns)
{
	return !__builtin_sub_overflow(at_ns, c->base_ns, ret_ns) && *ret_ns >= 0;
}

void chrome_write_kernel(struct chrome *c, struct buf *b, struct track *track,
			 const struct gpuctr_record *record)
{
	struct json m = { b };
	int64_t since_ns;
	uint64_t tid;

	if (record->duration_ns < 0 || !find_since(c, record->start_ns, &since_ns)) {
		return;
	}
	tid = take_lane(c, b, track, since_ns, record->duration_ns);
	begin_event(c, b);
	json_begin(&m, NULL, '{');
	json_word(&m, "ph", "X");
	json_word(&m, "cat", "kernel");
	json_u64(&m, "pid", device_pid(c, c->process, record->device));
	json_u64(&m, "tid", tid);
	add_exact(&m, "ts", since_ns);
	add_exact(&m, "dur", record->duration_ns);
	add_kernel_name(&m, record);
	add_launch_arguments(c, &m, record);
	json_end(&m, '}');
}

void chrome_write_mark(struct chrome *c, struct buf *b, const struct gpuctr_mark *mark)
{
	struct json m = { b };
	int64_t since_ns;

	if (!mark->site || !find_since(c, mark->time_ns, &since_ns)) {
		return;
	}
	begin_event(c, b);
	json_begin(&m, NULL, '{');
	json_word(&m, "ph", "i");
	json_word(&m, "s", "t");
	json_word(&m, "cat", "mark");
	json_u64(&m, "pid", c->process->process.pid);
	json_u64(&m, "tid", mark->thread);
	json_i64(&m, "ts", since_ns / 1000);
	add_range_name(&m, mark->site, &mark->at, mark->site->sizes);
	json_end(&m, '}');
}

/* --- samples --------------------------------------------------------------------------------- */

/* Finds a process that has the device, for the pid. */
static bool find_device(const struct chrome *c, const char *uuid, uint64_t *ret_pid)
{
	for (size_t i = 0; i < c->info->n_processes; i++) {
		const struct store_process *p = &c->info->processes[i];
		bool chosen = c->options->process == 0 || c->options->process == p->process.process;

		for (size_t d = 0; chosen && d < p->process.n_devices; d++) {
			if (strcmp(p->process.devices[d].uuid, uuid) == 0) {
				*ret_pid = device_pid(c, p, p->process.devices[d].index);
				return true;
			}
		}
	}
	return false;
}

static const char *find_unit(const struct gpuctr_plan *plan, const char *metric)
{
	for (size_t i = 0; i < plan->n_columns; i++) {
		if (strcmp(plan->columns[i].name, metric) == 0) {
			return plan->columns[i].unit;
		}
	}
	return "";
}

static void write_counter(struct chrome *c, struct buf *b, uint64_t pid, const char *metric,
			  int64_t since_ns, double per_second)
{
	const char *unit = find_unit(&c->info->plan, metric);
	struct json m = { b };

	begin_event(c, b);
	json_begin(&m, NULL, '{');
	json_word(&m, "ph", "C");
	json_word(&m, "cat", "sample");
	json_u64(&m, "pid", pid);
	add_exact(&m, "ts", since_ns);
	json_text(&m, "name", metric);
	json_begin(&m, "args", '{');
	json_key(&m, NULL);
	buf_char(b, '"');
	json_string_body(b, *unit ? unit : "1");
	buf_text(b, "/s\":");
	json_value(&m, round(per_second));
	json_end(&m, '}');
	json_end(&m, '}');
}

/* A counter keeps its value until the next event, so unchanged values are not written again. */
void chrome_write_samples(struct chrome *c, struct buf *b, const struct store_samples *samples)
{
	const struct gpuctr_plan *plan = &c->info->plan;
	uint64_t pid;

	if (!find_device(c, samples->gpu, &pid)) {
		return;
	}
	for (size_t m = 0; m < plan->n_metrics; m++) {
		double last = NAN;

		for (size_t i = 0; i < samples->n; i++) {
			const int64_t *times = samples->times[i];
			double ns = (double)(times[1] - times[0]);
			double now = samples->values[i * plan->n_metrics + m] / ns * 1e9;
			int64_t since_ns;

			if (isfinite(now) && now != last && find_since(c, times[0], &since_ns)) {
				write_counter(c, b, pid, plan->metrics[m], since_ns, now);
				last = now;
			}
		}
	}
}
