/* SPDX-License-Identifier: Apache-2.0 */

/* A trace in Perfetto's own format, for ui.perfetto.dev and trace_processor:
 *
 *	process			its threads, each with its NVTX ranges and launches, and its marks
 *	    GPU			of that process
 *		stream		its kernels, with their exact times and all that their records say
 *		counter		the value while the kernel ran, and 0 after it
 *
 * A record says when its kernel began, and not when the launch was called or a range was opened. So
 * a launch stands where its kernel began, and a range from the begin of the first kernel that was
 * launched in it to the end of the last. On each track times go forward, as the format demands of
 * slices: what would begin before the last thing there stands behind it, is counted, and the end of
 * the export tells how many there were. Kernels are never moved: those of one stream that overlap
 * stand on tracks beside each other, up to STREAM_TRACKS. Kernels without a time are instants.
 *
 * What is kept is the ranges that are open on each thread and a bounded number of names, so memory
 * does not grow with records. */

#include "client/report/exporter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/text.h"
#include "client/report/marker.h"
#include "client/report/packets.h"
#include "client/report/tracks.h"

enum { STREAM_TRACKS = 16 };

struct perfetto {
	const struct store_info *info;
	const struct exporter_options *options;
	const struct store_process *process; /* the present one */
	struct packets *packets;
	struct tracks tracks;	/* of the present process */
	uint64_t process_track; /* its number, which is that of the process */
	uint64_t last_track;
	uint64_t moved, untimed;
};

/* --- life ------------------------------------------------------------------------------------ */

static void perfetto_close(void *e)
{
	struct perfetto *p = e;

	tracks_deinit(&p->tracks);
	packets_free(p->packets);
	free(p);
}

static void *perfetto_open(const struct store_info *info, const struct exporter_options *options,
			   struct buf *why)
{
	struct perfetto *p = calloc(1, sizeof(*p));

	(void)why;
	if (!p) {
		return NULL;
	}
	p->info = info;
	p->options = options;
	p->packets = packets_new(&info->plan);
	if (!p->packets) {
		perfetto_close(p);
		return NULL;
	}
	return p;
}

/* --- tracks ---------------------------------------------------------------------------------- */

static uint64_t take_number(struct perfetto *p, uint64_t n)
{
	uint64_t first = p->last_track + 1;

	p->last_track += n;
	return first;
}

static const char *device_name(const struct gpuctr_process *process, unsigned device)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		if (process->devices[i].index == device) {
			return process->devices[i].name;
		}
	}
	return "not announced";
}

/* The GPU's own track, and those of its counters with the numbers that follow. */
static void write_device(struct perfetto *p, struct buf *b, struct track *track)
{
	const struct gpuctr_plan *plan = &p->info->plan;
	struct buf name = { 0 };

	buf_printf(&name, "GPU %u: %s", track->device,
		   device_name(&p->process->process, track->device));
	track->number = take_number(p, plan->n_columns + 1);
	packets_track(b, track->number, p->process_track, buf_string(&name));
	for (size_t i = 0; i < plan->n_columns; i++) {
		packets_counter_track(b, track->number + 1 + i, track->number,
				      plan->columns[i].name, plan->columns[i].unit);
	}
	b->failed |= name.failed;
	buf_deinit(&name);
}

static struct track *get_device(struct perfetto *p, struct buf *b, unsigned device)
{
	bool fresh;
	struct track *track = tracks_get(&p->tracks, TRACK_COUNTERS, device, 0, &fresh);

	if (track && fresh) {
		track->last = INT64_MIN;
		write_device(p, b, track);
	}
	return track;
}

static void write_stream(struct perfetto *p, struct buf *b, struct track *track, uint64_t parent)
{
	char name[64];

	snprintf(name, sizeof(name), "stream %llu", (unsigned long long)track->id);
	track->number = take_number(p, 1);
	track->last = INT64_MIN;
	packets_track(b, track->number, parent, name);
}

static struct track *get_stream(struct perfetto *p, struct buf *b, unsigned device, uint64_t id)
{
	const struct track *gpu = get_device(p, b, device);
	bool fresh;
	struct track *track = gpu ? tracks_get(&p->tracks, TRACK_STREAM, device, id, &fresh) : NULL;

	if (track && fresh) {
		write_stream(p, b, track, gpu->number);
	}
	return track;
}

/* Where a kernel of the stream that begins at this time fits: behind another one, or on a track of
 * its own beside them. NULL: out of memory. */
static struct track *find_room(struct perfetto *p, struct buf *b, struct track *stream,
			       int64_t start_ns)
{
	struct track *track = stream;
	unsigned n = 1;

	for (; track->last > start_ns && track->beside; track = track->beside) {
		n++;
	}
	if (track->last <= start_ns || n >= STREAM_TRACKS) {
		return track;
	}
	track->beside = calloc(1, sizeof(struct track));
	if (!track->beside) {
		return NULL;
	}
	track->beside->kind = stream->kind;
	track->beside->device = stream->device;
	track->beside->id = stream->id;
	write_stream(p, b, track->beside, get_device(p, b, stream->device)->number);
	return track->beside;
}

static struct track *get_thread(struct perfetto *p, struct buf *b, enum track_kind kind,
				unsigned thread)
{
	bool fresh;
	struct track *track = tracks_get(&p->tracks, kind, 0, thread, &fresh);
	char name[64];

	if (!track || !fresh) {
		return track;
	}
	track->number = take_number(p, 1);
	track->last = INT64_MIN;
	if (kind == TRACK_THREAD) {
		packets_thread(b, track->number, p->process->process.pid, thread);
	} else {
		snprintf(name, sizeof(name), "marks of thread %u", thread);
		packets_track(b, track->number, p->process_track, name);
	}
	return track;
}

/* The time at which something can stand on a track: not before 0 and what is there. */
static int64_t find_time(struct perfetto *p, struct track *track, int64_t at_ns)
{
	int64_t first_ns = track->last > 0 ? track->last : 0;

	if (at_ns < first_ns) {
		p->moved++;
		at_ns = first_ns;
	}
	track->last = at_ns;
	return at_ns;
}

/* --- processes ------------------------------------------------------------------------------- */

static int perfetto_process(void *e, struct buf *b, const struct store_process *process)
{
	struct perfetto *p = e;
	struct buf name = { 0 };

	p->process = process;
	p->process_track = take_number(p, 1);
	buf_text(&name, process->process.program);
	if (*process->process.recorded_from) {
		buf_printf(&name, " (RECORDED on %s)", process->process.recorded_from);
	}
	packets_process(b, p->process_track, process->process.pid, buf_string(&name));
	b->failed |= name.failed;
	buf_deinit(&name);
	return 0;
}

/* --- threads --------------------------------------------------------------------------------- */

/* "domain:name", without what PyTorch appends. */
static void add_range_name(struct buf *name, const struct gpuctr_range *range, size_t n_name)
{
	if (range->domain && *range->domain) {
		buf_text(name, range->domain);
		buf_char(name, ':');
	}
	buf_add(name, range->message ? range->message : "", n_name);
}

/* As PyTorch's own traces name them. */
static void note_marker(struct perfetto *p, const struct marker *marker)
{
	struct buf sizes = { 0 };

	if (marker->seq >= 0) {
		packets_note(p->packets, NOTE_SEQ, (uint64_t)marker->seq);
	}
	if (marker->op_id >= 0) {
		packets_note(p->packets, NOTE_OP_ID, (uint64_t)marker->op_id);
	}
	if (marker->sizes) {
		buf_add(&sizes, marker->sizes, marker->n_sizes);
		packets_note_text(p->packets, NOTE_SIZES, buf_string(&sizes));
	}
	buf_deinit(&sizes);
}

static void begin_range(struct perfetto *p, struct buf *b, uint64_t track,
			const struct gpuctr_range *range, int64_t at_ns)
{
	struct buf name = { 0 };
	struct marker marker;

	marker_parse(range->message ? range->message : "", &marker);
	add_range_name(&name, range, marker.n_name);
	note_marker(p, &marker);
	packets_event(p->packets, b, PACKETS_BEGIN, track, at_ns, buf_string(&name), 0);
	b->failed |= name.failed;
	buf_deinit(&name);
}

/* Ends all but the outermost n where the last kernel of the thread has ended, and not after what
 * comes next. */
static void end_ranges(struct perfetto *p, struct buf *b, struct track *thread, size_t n,
		       int64_t next_ns)
{
	int64_t end_ns = thread->end < next_ns ? thread->end : next_ns;

	while (thread->n_open > n) {
		thread->n_open--;
		thread->last = end_ns > thread->last ? end_ns : thread->last;
		packets_event(p->packets, b, PACKETS_END, thread->number, thread->last, NULL, 0);
	}
}

static const char *launch_name(const struct gpuctr_record *record)
{
	return record->kind == GPUCTR_LAUNCH_GRAPH	   ? "launch of a graph"
	       : record->kind == GPUCTR_LAUNCH_COOPERATIVE ? "cooperative launch"
							   : "launch";
}

static int64_t end_of(const struct gpuctr_record *record, int64_t start_ns)
{
	int64_t end_ns;

	return record->duration_ns <= 0 ||
			       __builtin_add_overflow(start_ns, record->duration_ns, &end_ns)
		       ? start_ns
		       : end_ns;
}

/* Joins a launch and its kernel; never 0. */
static uint64_t flow_of(const struct gpuctr_record *record)
{
	return ((uint64_t)record->process << 40 | record->index) + 1;
}

static int write_launch(struct perfetto *p, struct buf *b, const struct gpuctr_record *record)
{
	struct track *thread = get_thread(p, b, TRACK_THREAD, record->thread);
	struct track_path path;
	int64_t at_ns;

	if (!thread) {
		return -ENOMEM;
	}
	track_find_path(thread, record->range, &path);
	at_ns = record->start_ns > thread->last ? record->start_ns : thread->last;
	end_ranges(p, b, thread, path.n_same, at_ns);
	at_ns = find_time(p, thread, record->start_ns);
	for (size_t i = path.n_same; i < path.n; i++) {
		if (!track_push(thread, path.ranges[i]->id, at_ns)) {
			return -ENOMEM;
		}
		begin_range(p, b, thread->number, path.ranges[i], at_ns);
	}
	packets_note(p->packets, NOTE_CORRELATION, record->correlation);
	packets_event(p->packets, b, PACKETS_INSTANT, thread->number, at_ns, launch_name(record),
		      flow_of(record));
	thread->end = end_of(record, at_ns);
	return 0;
}

/* --- kernels --------------------------------------------------------------------------------- */

static void note_shape(struct perfetto *p, unsigned note, const uint32_t shape[3])
{
	char text[48];

	snprintf(text, sizeof(text), "%u,%u,%u", shape[0], shape[1], shape[2]);
	packets_note_text(p->packets, note, text);
}

static void note_active(struct perfetto *p, const struct gpuctr_record *record)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < record->n_active; i++) {
		const struct gpuctr_range *range = record->active[i];

		buf_text(&names, i > 0 ? ", " : "");
		add_range_name(&names, range, range->message ? strlen(range->message) : 0);
	}
	if (record->n_active > 0) {
		packets_note_text(p->packets, NOTE_ACTIVE, buf_string(&names));
	}
	buf_deinit(&names);
}

static const char *clock_name(enum gpuctr_clock clock)
{
	return clock == GPUCTR_CLOCK_GPU ? "gpu" : clock == GPUCTR_CLOCK_RANGE ? "range" : "none";
}

static void note_record(struct perfetto *p, const struct gpuctr_record *record)
{
	packets_note(p->packets, NOTE_INDEX, record->index);
	packets_note_text(p->packets, NOTE_KIND, launch_name(record));
	note_shape(p, NOTE_GRID, record->grid);
	note_shape(p, NOTE_BLOCK, record->block);
	packets_note(p->packets, NOTE_SHARED, record->dynamic_shared_bytes);
	packets_note(p->packets, NOTE_DEVICE, record->device);
	packets_note(p->packets, NOTE_CONTEXT, record->context);
	packets_note(p->packets, NOTE_STREAM, record->stream);
	packets_note(p->packets, NOTE_CORRELATION, record->correlation);
	packets_note(p->packets, NOTE_THREAD, record->thread);
	packets_note_text(p->packets, NOTE_CLOCK, clock_name(record->clock));
	note_active(p, record);
	if (record->stratum > 0) {
		packets_note_double(p->packets, NOTE_CHANCE, record->chance);
	}
	for (size_t i = 0; i < p->info->plan.n_columns; i++) {
		if (isfinite(record->values[i])) {
			packets_note_double(p->packets, NOTE_COUNTERS + (unsigned)i,
					    record->values[i]);
		}
	}
}

static int write_kernel(struct perfetto *p, struct buf *b, const struct gpuctr_record *record)
{
	struct track *track = get_stream(p, b, record->device, record->stream);
	bool timed = record->clock != GPUCTR_CLOCK_NONE;
	int64_t at_ns;

	track = track ? find_room(p, b, track, record->start_ns) : NULL;
	if (!track) {
		return -ENOMEM;
	}
	at_ns = find_time(p, track, record->start_ns);
	note_record(p, record);
	packets_event(p->packets, b, timed ? PACKETS_BEGIN : PACKETS_INSTANT, track->number, at_ns,
		      record->kernel ? record->kernel->name : "(not known)", flow_of(record));
	if (timed) {
		track->last = end_of(record, at_ns);
		packets_event(p->packets, b, PACKETS_END, track->number, track->last, NULL, 0);
	}
	p->untimed += !timed;
	return 0;
}

/* The counters of the kernel before are 0 from its end, or from the next one's begin. */
static void end_counters(struct perfetto *p, struct buf *b, struct track *device, int64_t next_ns)
{
	int64_t end_ns = device->end < next_ns ? device->end : next_ns;

	if (device->last == INT64_MIN) {
		return;
	}
	device->last = end_ns > device->last ? end_ns : device->last;
	for (size_t i = 0; i < p->info->plan.n_columns; i++) {
		packets_count(p->packets, b, device->number + 1 + i, device->last, 0);
	}
}

static int write_counters(struct perfetto *p, struct buf *b, const struct gpuctr_record *record)
{
	struct track *device = get_device(p, b, record->device);
	int64_t at_ns;

	if (!device) {
		return -ENOMEM;
	}
	end_counters(p, b, device, record->start_ns);
	at_ns = find_time(p, device, record->start_ns);
	for (size_t i = 0; i < p->info->plan.n_columns; i++) {
		if (isfinite(record->values[i])) {
			packets_count(p->packets, b, device->number + 1 + i, at_ns,
				      record->values[i]);
		}
	}
	device->end = end_of(record, at_ns);
	return 0;
}

static int perfetto_record(void *e, struct buf *b, const struct gpuctr_record *record)
{
	int r = write_launch(e, b, record);

	r = r ? r : write_kernel(e, b, record);
	return r ? r : write_counters(e, b, record);
}

static int perfetto_mark(void *e, struct buf *b, const struct gpuctr_mark *mark)
{
	struct perfetto *p = e;
	struct track *track = get_thread(p, b, TRACK_MARKS, mark->thread);
	const struct gpuctr_range *range = mark->range;
	struct buf name = { 0 };

	if (!track) {
		return -ENOMEM;
	}
	add_range_name(&name, range, range->message ? strlen(range->message) : 0);
	packets_event(p->packets, b, PACKETS_INSTANT, track->number,
		      find_time(p, track, mark->time_ns), buf_string(&name), 0);
	b->failed |= name.failed;
	buf_deinit(&name);
	return 0;
}

/* --- ends ------------------------------------------------------------------------------------ */

static int perfetto_process_end(void *e, struct buf *b, const struct store_process *process)
{
	struct perfetto *p = e;

	(void)process;
	for (size_t i = 0; i < p->tracks.n; i++) {
		struct track *track = p->tracks.items[i];

		if (track->kind == TRACK_COUNTERS) {
			end_counters(p, b, track, INT64_MAX);
		} else {
			end_ranges(p, b, track, 0, INT64_MAX);
		}
	}
	tracks_deinit(&p->tracks);
	return 0;
}

static int perfetto_end(void *e, struct buf *b)
{
	(void)e;
	return b->failed ? -ENOMEM : 0;
}

static void perfetto_tell(void *e, struct buf *b)
{
	const struct perfetto *p = e;

	if (p->untimed > 0) {
		text_count(b, p->untimed);
		buf_text(b, " kernels have no time and are instants\n");
	}
	if (p->moved > 0) {
		text_count(b, p->moved);
		buf_text(b,
			 " events stand later than they were, because others of their track were "
			 "written before them\n");
	}
}

const struct exporter exporter_perfetto = {
	.name = "perfetto",
	.open = perfetto_open,
	.close = perfetto_close,
	.process = perfetto_process,
	.record = perfetto_record,
	.mark = perfetto_mark,
	.process_end = perfetto_process_end,
	.end = perfetto_end,
	.tell = perfetto_tell,
};
