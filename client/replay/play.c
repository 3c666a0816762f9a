/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/play.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/deliver.h"
#include "client/agent/evaluate.h"
#include "client/agent/filter.h"
#include "client/agent/connection.h"
#include "client/agent/pack.h"
#include "client/replay/evaluator.h"
#include "client/replay/ranges.h"
#include "proto/base/array.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* Does from a file what the agent does at run time. Kernels and NVTX ranges get new numbers in a
 * new intern table, records become launches, and each stored image becomes a batch with the
 * launches that it holds. The agent's own code handles the batches, and CUPTI evaluates the images
 * in a child process (evaluator.h). The values in the records are not used.
 *
 * A recording with samples has no images. Its launches and copies are played as a trace, and the
 * client that asked for the trace gets the samples from another process (samples.h). */

enum {
	FINISH_TIMEOUT_S = 60,
	TRACED_LAUNCHES = 1024, /* launches in a batch */
	COPIES_MAX = 1 << 20,	/* 40 bytes each; a file may claim any number */
};

struct player {
	struct store_reader *reader;
	const struct store_info *info;
	const struct store_process *process;
	struct store_kernels recorded;
	bool realtime;
	atomic_bool stopped; /* the daemon ended the capture */

	struct connection connection;
	struct arena arena;
	struct wire_agent_welcome welcome;
	struct intern intern;
	struct counters counters;
	struct filter filter;
	struct deliver deliver;
	struct host host;
	struct evaluator evaluator;
	bool told_end;		/* the client was told that no more images are evaluated */
	bool checked;		/* check_metrics() has run */
	struct refusal missing; /* the metric that the recording lacks; code 0: none */
	/* For a recording with samples: the work that has a part in samples but no record: copies
	 * and fills of memory, and launches that the filter leaves out. */
	struct pack_copy *copies;
	size_t n_copies, max_copies;

	/* For each recorded kernel: */
	uint32_t *kernels; /* its new number */
	bool *selected;	   /* the filter chooses it */
	struct ranges ranges;
	int64_t recorded_begin_ns, begin_ns; /* for --realtime */
};

void play_hardware(const struct store_info *info, const struct store_process *process, char *text,
		   size_t size)
{
	const char *name = process && process->process.n_devices > 0
				   ? process->process.devices[0].name
				   : "a GPU";

	snprintf(text, size, "%s (%s), driver %s", name, info->plan.chip,
		 info->driver[0] ? info->driver : "unknown");
}

int play_unreadable(struct store_reader *reader, struct refusal *r)
{
	const struct store_error *e = store_reader_error(reader);

	refusal_set(r, GPUCTR_E_BAD_RECORDING, e->remedy, "%s", e->message);
	return r->code;
}

static int out_of_memory(struct refusal *r)
{
	refusal_set(r, GPUCTR_E_INTERNAL, "", "out of memory");
	return r->code;
}

/* --- definitions --- */

static uint32_t set_number(struct player *p, const struct gpuctr_record *record)
{
	uint32_t numbers[64];
	size_t n = record->n_active < ARRAY_SIZE(numbers) ? record->n_active : ARRAY_SIZE(numbers);

	for (size_t i = 0; i < n; i++) {
		numbers[i] = ranges_number(&p->ranges, record->active[i]);
	}
	return n ? intern_set(&p->intern, numbers, n) : 0;
}

static int define_kernels(struct player *p, struct refusal *r)
{
	const struct store_kernels *recorded = &p->recorded;

	if (store_load_kernels(p->reader, p->process->process.process, &p->recorded) != 0) {
		return play_unreadable(p->reader, r);
	}
	p->kernels = calloc(recorded->n + 1, sizeof(*p->kernels));
	p->selected = calloc(recorded->n + 1, sizeof(*p->selected));
	if (!p->kernels || !p->selected) {
		return out_of_memory(r);
	}
	for (size_t i = 0; i < recorded->n; i++) {
		const struct gpuctr_kernel *k = &recorded->items[i];

		/* -1 is WIRE_UNKNOWN_ATTRIBUTE. */
		p->kernels[i] =
			intern_function(&p->intern, k->mangled, (uint32_t)k->static_shared_bytes,
					(uint32_t)k->registers);
		p->selected[i] = filter_selects(&p->filter, k->mangled);
	}
	return 0;
}

/* --- launches --- */

static bool takes(struct player *p, size_t kernel, const struct gpuctr_record *record)
{
	const char *mangled = p->recorded.items[kernel].mangled;

	return filter_takes(&p->filter, p->filter.mode == GPUCTR_FILTER_PER_GPU
						? record->device + UINT64_C(1)
						: map_hash(mangled, strlen(mangled)) | 1);
}

static void fill_launch(struct player *p, const struct gpuctr_record *record, struct launch *l)
{
	size_t kernel =
		record->kernel ? (size_t)(record->kernel - p->recorded.items) : p->recorded.n;

	*l = (struct launch){
		.function = p->kernels[kernel],
		.dynamic_shared_bytes = record->dynamic_shared_bytes,
		.device = record->device,
		.context = record->context,
		.stream = record->stream,
		.correlation = record->correlation,
		.thread = record->thread,
		.set = set_number(p, record),
		.start_ns = (uint64_t)record->start_ns,
		.duration_ns = record->duration_ns > 0 ? (uint64_t)record->duration_ns : 0,
		.clock = (uint8_t)record->clock,
		.kind = (uint8_t)record->kind,
		.graph = record->graph,
		.graph_node = record->graph_node,
	};
	ranges_path(&p->ranges, record, &l->path);
	memcpy(l->grid, record->grid, sizeof(l->grid));
	memcpy(l->block, record->block, sizeof(l->block));
	if (!p->selected[kernel] || !ranges_select(&p->ranges, record) ||
	    !takes(p, kernel, record)) {
		l->fate = LAUNCH_FILTERED;
	}
	atomic_fetch_add(&p->counters.seen, 1);
}

static int fill_batch(struct player *p, const struct gpuctr_image *image, struct batch *b,
		      struct refusal *r)
{
	const struct gpuctr_record *record;
	struct store_cursor *cursor;
	int e = store_records(p->reader, p->process->process.process, image->first, image->count,
			      &cursor);

	if (e != 0) {
		return play_unreadable(p->reader, r);
	}
	while ((e = store_next_record(cursor, &record)) == 0 && record && b->n < b->room) {
		fill_launch(p, record, &b->launches[b->n++]);
	}
	store_cursor_free(cursor);
	if (e != 0) {
		return play_unreadable(p->reader, r);
	}
	if (b->n != image->count) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING, "Record it again with --raw.",
			    "an image holds %u kernels, but the file has %zu of them", image->count,
			    b->n);
		return r->code;
	}
	return 0;
}

static void wait_until_due(struct player *p, const struct batch *b)
{
	int64_t due, now = (int64_t)clock_now_ns();

	if (!p->realtime || b->n == 0) {
		return;
	}
	if (p->begin_ns == 0) {
		p->begin_ns = now;
		p->recorded_begin_ns = (int64_t)b->launches[0].start_ns;
	}
	due = p->begin_ns + (int64_t)b->launches[b->n - 1].start_ns - p->recorded_begin_ns;
	if (due > now) {
		struct timespec t = { (due - now) / 1000000000, (due - now) % 1000000000 };

		nanosleep(&t, NULL);
	}
}

/* Delivers a filled batch, or frees it if code is not 0. Returns code. */
static int put(struct player *p, struct batch *b, int code)
{
	if (code != 0) {
		deliver_free_batch(&p->deliver, b);
	} else {
		wait_until_due(p, b);
		deliver_put(&p->deliver, b, FINISH_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	return code;
}

static int play_image(struct player *p, const struct gpuctr_image *image, struct refusal *r)
{
	struct batch *b = deliver_new_batch(&p->deliver, image->count);
	int code;

	if (!b) {
		return out_of_memory(r);
	}
	b->host = &p->host;
	b->index = image->first;
	code = fill_batch(p, image, b, r);
	if (code == 0 && deliver_copy_image(b, image->data, image->size) < 0) {
		code = out_of_memory(r);
	}
	return put(p, b, code);
}

static void tell_unevaluated(struct player *p, const struct batch *b, const char *why, bool is_last)
{
	size_t kernel = 0;
	const char *name = "";
	char text[512];

	while (kernel < p->recorded.n && p->kernels[kernel] != b->launches[0].function) {
		kernel++;
	}
	if (kernel < p->recorded.n) {
		name = p->recorded.items[kernel].name;
	}
	snprintf(text, sizeof(text),
		 "the recording's kernels %llu to %llu (the first is %.120s) could not be "
		 "evaluated: %s%s",
		 (unsigned long long)b->index, (unsigned long long)(b->index + b->n - 1), name, why,
		 is_last ? "; the rest is not tried" : "");
	utf8_repair(text);
	deliver_notice(&p->deliver, GPUCTR_E_BAD_RECORDING, text,
		       "Take the file as it was written, or record it again with --raw.");
}

/* Checks that the recording holds the wanted metrics: if so, each column has some value in the
 * first image that could be evaluated. */
static void check_metrics(struct player *p, const struct batch *b, const double *values)
{
	const struct wire_plan *plan = &p->welcome.plan;
	char have[512] = "It holds ";

	for (size_t i = 0; i < plan->columns.n && p->missing.code == 0; i++) {
		const struct wire_column *c = &plan->columns.v[i];
		size_t k = 0;

		while (k < b->n && isnan(values[k * plan->columns.n + i])) {
			k++;
		}
		if (k == b->n && c->metric.n > 0) {
			for (size_t m = 0; m < p->info->plan.n_metrics; m++) {
				snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s, ",
					 p->info->plan.metrics[m]);
			}
			refusal_set(&p->missing, GPUCTR_E_METRIC_NOT_RECORDED, have,
				    "the recording does not hold %s",
				    c->metric.n == 1 ? plan->metrics.v[c->metric.v[0]] : c->name);
			snprintf(p->missing.remedy, sizeof(p->missing.remedy),
				 "%sand what derives from them.", have);
			deliver_refusal(&p->deliver, &p->missing);
		}
	}
	p->checked = true;
}

static void leave_unmeasured(const struct player *p, const struct batch *b, double *values,
			     bool *measured)
{
	evaluate_nothing(b, p->welcome.plan.columns.n, values, measured);
	memset(measured, false, b->n * sizeof(*measured));
}

/* Called on the delivering thread. An image that cannot be evaluated is reported here; the thread
 * counts its launches as failed. */
static int evaluate(void *userdata, const struct batch *b, double *values, bool *measured)
{
	struct player *p = userdata;
	size_t n_ranges = 0;
	int result = p->missing.code != 0
			     ? -EIO
			     : evaluator_batch(&p->evaluator, b, values, measured, &n_ranges);

	if (result == 0 && !p->checked) {
		check_metrics(p, b, values);
	}
	if (p->missing.code != 0) {
		atomic_store(&p->stopped, true);
		leave_unmeasured(p, b, values, measured);
		return 0;
	}
	if (result != -EIO) {
		if (n_ranges < b->n) {
			tell_unevaluated(p, b, "the image holds fewer kernels than the file says",
					 false);
		}
		return result;
	}
	leave_unmeasured(p, b, values, measured);
	if (!p->told_end) {
		tell_unevaluated(p, b, p->evaluator.why, p->evaluator.given_up);
		p->told_end = p->evaluator.given_up;
	}
	return 0;
}

static int play_images(struct player *p, struct refusal *r)
{
	const struct gpuctr_image *image;
	struct store_cursor *cursor;
	int code = 0, e = store_images(p->reader, p->process->process.process, 0, 0, &cursor);

	if (e != 0) {
		return play_unreadable(p->reader, r);
	}
	while (code == 0 && !atomic_load(&p->stopped) &&
	       (e = store_next_image(cursor, &image)) == 0 && image) {
		code = play_image(p, image, r);
	}
	if (code == 0 && e != 0) {
		code = play_unreadable(p->reader, r);
	}
	store_cursor_free(cursor);
	return code;
}

/* --- traces --- */

static void send_copies(void *userdata)
{
	struct player *p = userdata;

	deliver_send_copies(&p->deliver, p->copies, p->n_copies);
}

/* False: out of memory, or there are too many. */
static bool add_copy(struct player *p, const struct pack_copy *copy)
{
	if (p->n_copies == COPIES_MAX ||
	    !array_make_room(&p->copies, sizeof(*p->copies), p->n_copies, &p->max_copies)) {
		return false;
	}
	p->copies[p->n_copies++] = *copy;
	return true;
}

static bool add_launch(struct player *p, const struct launch *l, const char *name)
{
	uint64_t shape = map_hash(name, strlen(name));

	for (int i = 0; i < 3; i++) {
		shape = map_mix(shape, (uint64_t)l->grid[i] << 32 | l->block[i]);
	}
	return l->clock != GPUCTR_CLOCK_GPU ||
	       add_copy(p, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
						.device = l->device,
						.context = l->context,
						.stream = (uint32_t)l->stream,
						.bytes = shape,
						.start_ns = l->start_ns,
						.duration_ns = l->duration_ns });
}

static int refuse_copies(struct refusal *r)
{
	refusal_set(
		r, GPUCTR_E_BAD_RECORDING, "Record a shorter run, or choose more of its kernels.",
		"more than %d copies of memory, and launches that are left out, or no memory for "
		"them",
		COPIES_MAX);
	return r->code;
}

static int load_copies(struct player *p, struct refusal *r)
{
	const struct gpuctr_copy *v;
	struct store_blocks *blocks = NULL;
	int e = store_copies(p->reader, p->process->process.process, &blocks);
	bool fits = true;
	size_t n;

	while (e == 0 && fits && (e = store_next_copies(blocks, &v, &n)) == 0 && v) {
		for (size_t i = 0; fits && i < n; i++) {
			fits = add_copy(p, &(struct pack_copy){
						   .kind = (uint8_t)v[i].kind,
						   .device = v[i].device,
						   .context = v[i].context,
						   .stream = (uint32_t)v[i].stream,
						   .bytes = v[i].bytes,
						   .start_ns = (uint64_t)v[i].start_ns,
						   .duration_ns = (uint64_t)v[i].duration_ns });
		}
	}
	store_blocks_free(blocks);
	return e != 0 ? play_unreadable(p->reader, r) : fits ? 0 : refuse_copies(r);
}

/* Fills a batch from the records. A batch that is not full afterwards is the last one. */
static int fill_traced(struct player *p, struct store_cursor *cursor, struct batch *b,
		       struct refusal *r)
{
	const struct gpuctr_record *record;
	bool fits = true;

	while (fits && b->n < b->room) {
		struct launch *l = &b->launches[b->n];

		if (store_next_record(cursor, &record) != 0) {
			return play_unreadable(p->reader, r);
		}
		if (!record) {
			return 0;
		}
		fill_launch(p, record, l);
		b->n++;
		fits = l->fate != LAUNCH_FILTERED ||
		       add_launch(p, l, record->kernel ? record->kernel->mangled : "");
	}
	return fits ? 0 : refuse_copies(r);
}

static int play_launches(struct player *p, struct store_cursor *cursor, struct refusal *r)
{
	bool more = true;
	int code = 0;

	while (more && code == 0 && !atomic_load(&p->stopped)) {
		struct batch *b = deliver_new_batch(&p->deliver, TRACED_LAUNCHES);

		if (!b) {
			return out_of_memory(r);
		}
		code = fill_traced(p, cursor, b, r);
		more = b->n == b->room;
		code = put(p, b, code);
	}
	return code;
}

static int play_trace(struct player *p, struct refusal *r)
{
	struct store_cursor *cursor;
	int code;

	if (store_records(p->reader, p->process->process.process, 0, 0, &cursor) != 0) {
		return play_unreadable(p->reader, r);
	}
	code = play_launches(p, cursor, r);
	store_cursor_free(cursor);
	return code == 0 ? load_copies(p, r) : code;
}

/* --- the process --- */

static void announce(struct player *p, const char *hardware)
{
	const struct gpuctr_process *q = &p->process->process;
	struct wire_message m = { .type = WIRE_PROCESS };

	m.process = (struct wire_process){
		.capture = p->welcome.capture,
		.process = p->welcome.process,
		.cupti = q->cupti,
		.driver = q->driver,
		.devices = { q->n_devices < LIMIT_GPUS ? q->n_devices : LIMIT_GPUS, q->devices },
		.recorded_from = hardware,
	};
	deliver_note(&p->deliver, &m);
}

/* The daemon has ended the capture: the client shows why. Batches so far are still delivered. */
static void on_stop(void *userdata)
{
	struct player *p = userdata;

	atomic_store(&p->stopped, true);
}

static bool chooses(const struct filter *f)
{
	return filter_chooses_kernels(f) || f->skip || f->every > 1 || f->count ||
	       nvtx_filter_is_used(&f->nvtx);
}

/* Refuses a selection of launches that the recording's contents do not allow. */
static int check_selection(const struct player *p, struct refusal *r)
{
	const struct wire_selection *s = &p->welcome.selection;

	r->code = 0;
	if (p->welcome.trace && !p->info->has_samples) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING,
			    "Leave out --mode, or take one of a run with --mode sample.",
			    "%s holds no samples", p->info->path);
	} else if (!p->welcome.trace && p->info->has_samples) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING, "Play it with --mode sample.",
			    "%s holds samples, and no launch was measured alone", p->info->path);
	} else if (s->raw_images && chooses(&p->filter)) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Leave out --raw, or what chooses kernels.",
			    "a recording's counter data is copied whole, not filtered");
	} else if (s->capture_range[0] || s->schedule.active > 0) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST,
			    "Choose launches by --kernel, --nvtx or --skip.",
			    "a recording does not know when its program began a step or called "
			    "cudaProfilerStart()");
	}
	return r->code;
}

static int player_init(struct player *p, const struct vendor_host *vendor, const char *socket_path,
		       const char *token, struct refusal *r)
{
	char hardware[160], program[128];
	struct wire_agent_hello hello = {
		.token = token,
		.program = program,
		.recorded_from = hardware,
		.chip = p->info->plan.chip,
	};

	play_hardware(p->info, p->process, hardware, sizeof(hardware));
	snprintf(program, sizeof(program), "%s", p->process->process.program);
	utf8_repair(program);
	utf8_repair(hardware);
	arena_init(&p->arena, LIMIT_UNPACKED_BYTES);
	if (intern_init(&p->intern) < 0) {
		return out_of_memory(r);
	}
	p->intern.pending_bytes_max = SIZE_MAX / 2; /* bounded by the queue, which may block */
	if ((vendor && host_init(&p->host, vendor, p->info->plan.chip, r) != 0) ||
	    hello_say(&p->connection, socket_path, &hello, &p->arena, &p->welcome, r) != 0 ||
	    filter_init(&p->filter, &p->welcome.selection, r) != 0 || check_selection(p, r) != 0) {
		return r->code;
	}
	if (vendor) {
		evaluator_init(&p->evaluator, &p->host, &p->welcome.plan);
	}
	p->ranges.filter = &p->filter.nvtx;
	p->ranges.intern = &p->intern;
	p->deliver.connection = &p->connection;
	p->deliver.intern = &p->intern;
	p->deliver.counters = &p->counters;
	p->deliver.welcome = &p->welcome;
	p->deliver.waits_for_reader = true; /* a measured program must not wait, a recording can */
	p->deliver.on_stop = on_stop;
	p->deliver.evaluate = vendor ? evaluate : NULL;
	p->deliver.on_end = send_copies;
	p->deliver.userdata = p;
	if (deliver_start(&p->deliver) < 0) {
		refusal_set(r, GPUCTR_E_INTERNAL, "", "no thread could be started");
		return r->code;
	}
	announce(p, hardware);
	return 0;
}

static void player_free(struct player *p)
{
	filter_deinit(&p->filter);
	free(p->kernels);
	free(p->selected);
	ranges_deinit(&p->ranges);
	/* if the delivering thread has not ended in time, it still uses the rest */
	if (deliver_deinit(&p->deliver)) {
		connection_close(&p->connection);
		host_deinit(&p->host);
		evaluator_deinit(&p->evaluator);
		free(p->copies);
		intern_deinit(&p->intern);
		arena_deinit(&p->arena);
		free(p);
	}
}

int play_process(struct store_reader *reader, const struct store_process *process,
		 const struct vendor_host *vendor, const char *socket_path, const char *token,
		 bool realtime, uint64_t *total_measured, struct refusal *r)
{
	struct player *p = calloc(1, sizeof(*p));
	struct refusal missed;
	int code;

	if (!p) {
		return out_of_memory(r);
	}
	p->reader = reader;
	p->info = store_info(reader);
	p->process = process;
	p->realtime = realtime;
	p->connection.fd = -1;
	deliver_init(&p->deliver);
	code = player_init(p, vendor, socket_path, token, r);
	if (code == 0) {
		code = define_kernels(p, r);
	}
	if (code == 0) {
		code = vendor ? play_images(p, r) : play_trace(p, r);
	}
	if (p->deliver.runs) {
		if (code != 0) {
			deliver_notice(&p->deliver, code, r->message, r->remedy);
		} else if (filter_missed_all(&p->filter, &missed)) {
			deliver_refusal(&p->deliver, &missed);
		} else if (nvtx_filter_missed(&p->filter.nvtx, &p->welcome.selection, &missed)) {
			deliver_refusal(&p->deliver, &missed);
		}
		deliver_finish(&p->deliver, FINISH_TIMEOUT_S * CLOCK_NS_PER_S);
	}
	if (code == 0 && p->missing.code != 0) {
		*r = p->missing;
		code = r->code;
	}
	*total_measured += atomic_load(&p->counters.measured);
	player_free(p);
	return code;
}
