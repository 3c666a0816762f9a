/* SPDX-License-Identifier: Apache-2.0 */

/* A trace in Chrome's format, with counters in the events that PyTorch's profiler used for them, so
 * that HolisticTraceAnalysis, Perfetto and chrome://tracing read it. For each record:
 *
 *	cuda_profiler_range	the kernel with its counters, on a track of its stream's
 *	cuda_runtime		its launch, on its thread
 *	cpu_op			the NVTX ranges around the launch, on the same thread
 *	kernel			the same kernel, with its counters, on the track of its stream,
 *				where its time is known
 *
 * HTA pairs the i-th cuda_profiler_range with the i-th cuda_runtime by their ts, and wants a cpu_op
 * around each launch. A record has the time when its kernel began, but not when the program called
 * the launch or opened a range. So the first three kinds stand in the order of the launches, each
 * at the whole microsecond in which the kernel began, or as much later as the order and the nesting
 * need; the end of the trace says how many were delayed, and by how much at most. A range is drawn
 * around the launches that came while it was open, and ends with the last of them. The fourth kind
 * has the exact times. Samples that the capture keeps are counters (ph C) of the device.
 *
 * Times count from the second in which the capture was made or, if earlier, in which the first
 * kernel began, so none is negative.
 *
 * Only the open ranges of each thread are kept, so memory does not grow with records. */

#include "client/report/chrome.h"

#include <errno.h>
#include <stdlib.h>

#define SECOND_NS INT64_C(1000000000)

static void chrome_close(void *e)
{
	struct chrome *c = e;

	tracks_deinit(&c->tracks);
	free(c);
}

static void *chrome_open(const struct store_info *info, const struct exporter_options *options,
			 struct exporter_refusal *refusal)
{
	struct chrome *c = calloc(1, sizeof(*c));

	if (!c) {
		return NULL;
	}
	c->info = info;
	c->options = options;
	c->several = options->process == 0 && info->n_processes > 1;
	c->base_ns = info->created_ns;
	if (c->base_ns <= 0 || (info->first_ns > 0 && info->first_ns < c->base_ns)) {
		c->base_ns = info->first_ns;
	}
	c->base_ns -= c->base_ns % SECOND_NS;
	return c;
}

static int chrome_process(void *e, struct buf *b, const struct store_process *process)
{
	struct chrome *c = e;

	if (!c->has_event) {
		chrome_write_head(c, b);
	}
	c->process = process;
	c->last_us = 0;
	chrome_write_process(c, b);
	return 0;
}

/* --- ranges ---------------------------------------------------------------------------------- */

/* Ends all open ranges but the outermost n, inner ranges first. */
static void close_ranges(struct chrome *c, struct buf *b, struct track *thread, size_t n)
{
	int64_t end_us = thread->end;

	while (thread->n_open > n) {
		const struct track_range *r = &thread->open[--thread->n_open];

		chrome_write_range(c, b, thread->id, &r->text, r->begin, ++end_us);
	}
}

static int open_ranges(struct track *thread, const struct track_path *path,
		       const struct gpuctr_occurrence *at, int64_t at_us)
{
	for (size_t i = path->n_same; i < path->n; i++) {
		const struct gpuctr_site *site = path->sites[i];
		struct track_range *open =
			track_push(thread, site->id, at_us - (int64_t)(path->n - i));

		if (!open) {
			return -ENOMEM;
		}
		chrome_format_range(&open->text, site, at);
	}
	return 0;
}

/* --- records --------------------------------------------------------------------------------- */

static int64_t to_us(const struct chrome *c, int64_t ns)
{
	int64_t since;

	if (__builtin_sub_overflow(ns, c->base_ns, &since)) {
		return 0;
	}
	return since / 1000 - (since % 1000 < 0);
}

/* Returns a time for the launch that is after the previous launch, and leaves a microsecond for the
 * end of each closed range and the begin of each new one. */
static int64_t find_time(struct chrome *c, const struct track *thread,
			 const struct track_path *path, int64_t start_ns)
{
	int64_t started_us = to_us(c, start_ns), at_us = started_us;
	int64_t opened = path->n == 0 ? 1 : (int64_t)(path->n - path->n_same);
	int64_t free_us = thread->end + (int64_t)(thread->n_open - path->n_same) + opened + 1;

	at_us = at_us > c->last_us ? at_us : c->last_us + 1;
	at_us = at_us >= free_us ? at_us : free_us;
	c->last_us = at_us;
	if (at_us > started_us && started_us >= 0) {
		int64_t delayed_us = at_us - started_us;

		c->delayed++;
		c->most_delayed_us =
			delayed_us > c->most_delayed_us ? delayed_us : c->most_delayed_us;
	}
	return at_us;
}

static struct track *get_track(struct chrome *c, struct buf *b, enum track_kind kind,
			       unsigned device, uint64_t id)
{
	bool fresh;
	struct track *track = tracks_get(&c->tracks, kind, device, id, &fresh);

	if (track && fresh && kind == TRACK_THREAD) {
		chrome_write_names(c, b, track, 0);
	}
	return track;
}

static int chrome_record(void *e, struct buf *b, const struct gpuctr_record *record,
			 const struct attribution *what)
{
	struct chrome *c = e;
	struct track *thread = get_track(c, b, TRACK_THREAD, 0, record->thread);
	struct track *counters = get_track(c, b, TRACK_COUNTERS, record->device, record->stream);
	struct track *stream = get_track(c, b, TRACK_STREAM, record->device, record->stream);
	struct track_path path;
	int64_t at_us;

	if (!thread || !counters || !stream) {
		return -ENOMEM;
	}
	track_find_path(thread, record, &path);
	at_us = find_time(c, thread, &path, record->start_ns);
	close_ranges(c, b, thread, path.n_same);
	if (open_ranges(thread, &path, &record->at, at_us)) {
		return -ENOMEM;
	}
	if (path.n == 0) {
		chrome_write_range(c, b, thread->id, NULL, at_us - 1, at_us + 2);
		thread->end = at_us + 2;
	} else {
		thread->end = at_us + 1;
	}
	chrome_write_launch(c, b, record, at_us);
	chrome_write_counters(c, b, counters, record, at_us);
	chrome_write_kernel(c, b, stream, record);
	c->records++;
	return 0;
}

static int chrome_mark(void *e, struct buf *b, const struct gpuctr_mark *mark)
{
	struct chrome *c = e;

	if (!get_track(c, b, TRACK_THREAD, 0, mark->thread)) {
		return -ENOMEM;
	}
	chrome_write_mark(c, b, mark);
	return 0;
}

static int chrome_process_end(void *e, struct buf *b, const struct store_process *process)
{
	struct chrome *c = e;

	for (size_t i = 0; i < c->tracks.n; i++) {
		close_ranges(c, b, c->tracks.items[i], 0);
		c->crowded += c->tracks.items[i]->lanes.crowded;
	}
	tracks_deinit(&c->tracks);
	return 0;
}

static int chrome_samples(void *e, struct buf *b, const struct store_samples *samples)
{
	chrome_write_samples(e, b, samples);
	return 0;
}

static int chrome_end(void *e, struct buf *b)
{
	struct chrome *c = e;

	if (!c->has_event) {
		chrome_write_head(c, b);
	}
	chrome_write_tail(c, b);
	return 0;
}

static void chrome_tell(void *e, struct buf *b)
{
	const struct chrome *c = e;

	if (c->several) {
		buf_text(b, "several processes are in this trace; HTA wants one each: --process "
			    "N --rank R\n");
	}
	chrome_tell_crowded(c->crowded, b);
}

const struct exporter exporter_chrome = {
	.name = "chrome",
	.needs_first = true,
	.open = chrome_open,
	.close = chrome_close,
	.process = chrome_process,
	.record = chrome_record,
	.mark = chrome_mark,
	.process_end = chrome_process_end,
	.samples = chrome_samples,
	.end = chrome_end,
	.tell = chrome_tell,
};
