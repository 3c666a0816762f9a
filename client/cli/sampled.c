/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels and copies of a GPU are sorted by time, and each goes to the GPU's attribution before the
 * first sample in which it ran. A kernel has the value of its position in the program, which gets
 * better until the end, so only the position is kept for a record.
 *
 * Where sets of metrics take turns, each set has an attribution of its own, which gets all kernels
 * and the samples of the set's turns. For metrics of other sets, a kernel has the value of its
 * position (sampled_tell.c).
 *
 * If memory runs out, records are written without values: they are still worth the user's wait. */

#include "client/cli/sampled_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"

/* A time after every kernel, and valid for the attribution. */
#define END_NS (INT64_MAX / 4 - 1)

struct device {
	unsigned process, index;
	int gpu; /* number of the GPU; -1: it is not sampled */
};

/* A stream of a process, whose kernels run one after the other. */
struct stream {
	unsigned process, context;
	uint64_t stream;
	bool copies; /* copies of a stream are kept apart, because some may be missing */
	uint64_t sequence;
	int64_t end_ns;		 /* end of its last kernel with a time */
	struct sampled_gpu *gpu; /* GPU of the kernels whose time CUPTI lost */
	int64_t lost_since_ns;	 /* since then kernels without a time came; 0: none did */
};

/* --- life ------------------------------------------------------------------------------------ */

bool sampled_adds_up(const char *metric)
{
	return schema_adds_up(metric) && strncmp(metric, "gpu__time_duration", 18) != 0;
}

const char *sampled_misfit(const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_metrics; i++) {
		if (!sampled_adds_up(plan->metrics[i])) {
			return plan->metrics[i];
		}
	}
	return NULL;
}

/* False: a set has too many metrics. */
static bool take_sets(struct sampled *s, const uint8_t *sets)
{
	for (size_t i = 0; i < s->plan->n_metrics; i++) {
		size_t number = sets ? sets[i] : 0;
		struct sampled_set *set = &s->sets[number < SAMPLER_SETS_MAX ? number : 0];

		if (number >= SAMPLER_SETS_MAX || set->n == ATTRIBUTION_METRICS_MAX ||
		    i == SAMPLER_METRICS_MAX) {
			return false;
		}
		set->metrics[set->n++] = (uint32_t)i;
		s->n_sets = number >= s->n_sets ? number + 1 : s->n_sets;
	}
	return s->n_sets > 0;
}

struct sampled *sampled_new(const struct gpuctr_plan *plan, const uint8_t *sets)
{
	struct sampled *s = calloc(1, sizeof(*s));

	if (!s) {
		return NULL;
	}
	s->plan = plan;
	s->until_ns = INT64_MAX;
	s->row = calloc(2 * plan->n_columns + 1, sizeof(*s->row));
	s->metrics = calloc(plan->n_metrics + 1, sizeof(*s->metrics));
	if (!s->row || !s->metrics) {
		s = sampled_free(s);
		errno = ENOMEM;
	} else if (!take_sets(s, sets)) {
		s = sampled_free(s);
		errno = E2BIG;
	}
	return s;
}

static void free_gpu(struct sampled *s, struct sampled_gpu *gpu)
{
	for (size_t i = 0; gpu->parts && i < s->n_sets; i++) {
		attribution_free(gpu->parts[i].attribution);
	}
	free(gpu->parts);
	free(gpu->items);
}

struct sampled *sampled_free(struct sampled *s)
{
	if (!s) {
		return NULL;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		free_gpu(s, &s->gpus[i]);
	}
	for (size_t i = 0; i < s->n * s->n_sets; i++) {
		free(s->told[i].values);
	}
	map_deinit_items(&s->streams);
	map_deinit_items(&s->devices);
	free(s->places);
	free(s->told);
	free(s->row);
	free(s->metrics);
	free(s);
	return NULL;
}

/* --- GPUs and processes ---------------------------------------------------------------------- */

static void on_kernel(void *user, const struct attribution_result *result)
{
	const struct sampled_part *part = user;
	struct sampled *s = part->gpu->owner;
	size_t bytes = s->sets[part->set].n * sizeof(struct attribution_value);
	struct sampled_told *told;

	if (result->id >= s->n) {
		return; /* a copy */
	}
	told = &s->told[result->id * s->n_sets + part->set];
	told->position = result->position;
	told->state = (uint8_t)result->state;
	if (result->values) {
		told->values = malloc(bytes);
		s->failed |= !told->values;
	}
	if (told->values) {
		memcpy(told->values, result->values, bytes);
	}
}

void sampled_hear_pauses(struct sampled *s, sampled_on_pause *on_pause, void *user)
{
	s->on_pause = on_pause;
	s->on_pause_user = user;
}

static int on_pause(void *user)
{
	struct sampled *s = ((const struct sampled_part *)user)->gpu->owner;

	s->is_given_up = s->is_given_up || s->on_pause(s->on_pause_user);
	return s->is_given_up;
}

static bool add_part(struct sampled_gpu *gpu, size_t set)
{
	struct sampled_part *part = &gpu->parts[set];
	const struct attribution_options options = {
		.metrics = (uint32_t)gpu->owner->sets[set].n,
		.on_kernel = on_kernel,
		.on_pause = gpu->owner->on_pause ? on_pause : NULL,
		.user = part,
	};

	*part = (struct sampled_part){ .gpu = gpu, .set = set };
	part->attribution = attribution_new(&options);
	return part->attribution != NULL;
}

int sampled_add_gpu(struct sampled *s, const char *uuid)
{
	struct sampled_gpu *gpu;

	if (s->n_gpus == SAMPLED_GPUS_MAX) {
		return -E2BIG;
	}
	gpu = &s->gpus[s->n_gpus++];
	*gpu = (struct sampled_gpu){ .owner = s, .parts = calloc(s->n_sets, sizeof(*gpu->parts)) };
	strncpy(gpu->uuid, uuid, sizeof(gpu->uuid) - 1);
	for (size_t i = 0; gpu->parts && i < s->n_sets; i++) {
		if (!add_part(gpu, i)) {
			return -ENOMEM;
		}
	}
	return gpu->parts ? (int)s->n_gpus - 1 : -ENOMEM;
}

int sampled_find_gpu(const struct sampled *s, const char *uuid)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (strncmp(s->gpus[i].uuid, uuid, sizeof(s->gpus[i].uuid) - 1) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static bool is_device(const void *item, const void *key)
{
	const struct device *d = item, *wanted = key;

	return d->process == wanted->process && d->index == wanted->index;
}

/* A hash table, because each record needs its device, and programs choose their number. */
static struct device *find_device(const struct sampled *s, unsigned process, unsigned index)
{
	const struct device wanted = { .process = process, .index = index };

	return map_find(&s->devices, map_mix(map_mix(0, process), index), is_device, &wanted);
}

void sampled_process(struct sampled *s, const struct gpuctr_process *process)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		const struct gpuctr_device *d = &process->devices[i];
		struct device *device;

		if (find_device(s, process->process, d->index)) {
			continue;
		}
		device = malloc(sizeof(*device));
		if (!device || map_add(&s->devices, map_mix(map_mix(0, process->process), d->index),
				       device) < 0) {
			free(device);
			s->failed = true;
			return;
		}
		*device =
			(struct device){ process->process, d->index, sampled_find_gpu(s, d->uuid) };
	}
}

/* NULL: the GPU is not sampled. */
static struct sampled_gpu *gpu_of(struct sampled *s, unsigned process, unsigned index)
{
	const struct device *device = find_device(s, process, index);

	return device && device->gpu >= 0 ? &s->gpus[device->gpu] : NULL;
}

/* --- items ----------------------------------------------------------------------------------- */

static void add_item(struct sampled_gpu *gpu, const struct attribution_kernel *item)
{
	if (!array_make_room(&gpu->items, sizeof(*gpu->items), gpu->n_items, &gpu->max_items)) {
		gpu->owner->failed = true;
		return;
	}
	gpu->items[gpu->n_items++] = *item;
}

static void add_unknown(struct sampled_gpu *gpu, int64_t start_ns, int64_t end_ns)
{
	if (start_ns < end_ns) {
		add_item(gpu,
			 &(struct attribution_kernel){ .start_ns = start_ns,
						       .end_ns = end_ns < END_NS ? end_ns : END_NS,
						       .id = SAMPLED_UNKNOWN });
	}
}

void sampled_unknown(struct sampled *s, int gpu, int64_t start_ns, int64_t end_ns)
{
	if (gpu >= 0) {
		add_unknown(&s->gpus[gpu], start_ns, end_ns);
	} else {
		s->until_ns = start_ns < s->until_ns ? start_ns : s->until_ns;
	}
}

/* Adds a kernel or copy. False: there are too many; then the time from this one on counts as
 * unknown, because kernels beside those left out have no value either. */
static bool add_running(struct sampled *s, struct sampled_gpu *gpu,
			const struct attribution_kernel *item)
{
	if (s->n_items < SAMPLED_ITEMS_MAX) {
		s->n_items++;
		add_item(gpu, item);
		return true;
	}
	if (s->n_items++ == SAMPLED_ITEMS_MAX) {
		for (size_t i = 0; i < s->n_gpus; i++) {
			add_unknown(&s->gpus[i], item->start_ns, END_NS);
		}
	}
	return false;
}

/* --- streams --------------------------------------------------------------------------------- */

static bool is_stream(const void *item, const void *key)
{
	const struct stream *s = item, *wanted = key;

	return s->process == wanted->process && s->context == wanted->context &&
	       s->stream == wanted->stream && s->copies == wanted->copies;
}

/* NULL: out of memory. */
static struct stream *find_stream(struct sampled *s, const struct stream *wanted)
{
	uint64_t hash = map_mix(map_mix(map_mix(0, wanted->process), wanted->context),
				wanted->stream << 1 | wanted->copies);
	struct stream *found = map_find(&s->streams, hash, is_stream, wanted);

	if (found) {
		return found;
	}
	found = calloc(1, sizeof(*found));
	if (!found || map_add(&s->streams, hash, found) < 0) {
		free(found);
		s->failed = true;
		return NULL;
	}
	*found = *wanted;
	found->sequence = hash; /* does not depend on the order of records */
	return found;
}

/* --- records --------------------------------------------------------------------------------- */

static uint32_t shape_of(const struct gpuctr_record *r)
{
	const char *name = r->kernel ? r->kernel->mangled : "";
	uint64_t hash = map_hash(name, strlen(name));

	for (int i = 0; i < 3; i++) {
		hash = map_mix(hash, (uint64_t)r->grid[i] << 32 | r->block[i]);
	}
	return (uint32_t)(hash ^ hash >> 32);
}

/* A graph's node is the same work in each launch of the graph. A graph's kernels may run at the
 * same time, so their order is no sequence. The shape is part of the place, because a program may
 * change a node. */
static uint64_t place_of(const struct gpuctr_record *r)
{
	uint64_t hash = map_mix(map_mix(0, r->process), r->context);

	if (r->kind != GPUCTR_LAUNCH_GRAPH_KERNEL) {
		return 0;
	}
	hash = map_mix(map_mix(hash, r->graph), r->graph_node);
	return map_mix(hash, shape_of(r)) | 1;
}

/* Has the record a valid time? A file may hold any. */
static bool is_timed(const struct gpuctr_record *r)
{
	int64_t after_ns = r->start_ns > 0 ? r->start_ns : 0;

	return r->clock == GPUCTR_CLOCK_GPU && r->start_ns > -CLOCK_NS_MOST &&
	       after_ns <= CLOCK_NS_MOST && r->duration_ns >= 0 &&
	       r->duration_ns <= CLOCK_NS_MOST - after_ns;
}

/* Notes that a kernel without a time ran between its neighbours in the stream, or until the end. */
static void note_timeless(struct stream *stream, struct sampled_gpu *gpu,
			  const struct gpuctr_record *r)
{
	stream->gpu = gpu;
	if (stream->lost_since_ns == 0) {
		stream->lost_since_ns = stream->end_ns ? stream->end_ns : r->start_ns;
	}
}

static bool add_kernel(struct sampled *s, struct sampled_gpu *gpu, struct stream *stream,
		       const struct gpuctr_record *r, uint64_t step)
{
	const struct attribution_kernel item = { .start_ns = r->start_ns,
						 .end_ns = r->start_ns + r->duration_ns,
						 .sequence = stream->sequence,
						 .step = step,
						 .place = place_of(r),
						 .shape = shape_of(r),
						 .id = s->n - 1 };

	if (stream->lost_since_ns != 0) {
		add_unknown(gpu, stream->lost_since_ns, r->start_ns);
		stream->lost_since_ns = 0;
	}
	stream->end_ns = item.end_ns;
	return add_running(s, gpu, &item);
}

/* NULL: out of memory, or there are more records than ids. */
static struct sampled_place *add_place(struct sampled *s)
{
	size_t had = s->max;

	if (s->n >= SAMPLED_UNKNOWN ||
	    !array_make_room(&s->places, sizeof(*s->places), s->n, &s->max)) {
		return NULL;
	}
	if (s->max != had) {
		struct sampled_told *more = realloc(s->told, s->max * s->n_sets * sizeof(*more));

		if (!more) {
			s->max = had;
			return NULL;
		}
		s->told = more;
	}
	for (size_t i = 0; i < s->n_sets; i++) {
		s->told[s->n * s->n_sets + i] =
			(struct sampled_told){ .position = ATTRIBUTION_NO_POSITION,
					       .state = ATTRIBUTION_LOST };
	}
	return &s->places[s->n++];
}

void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step)
{
	struct sampled_gpu *gpu = gpu_of(s, record->process, record->device);
	const struct stream wanted = { .process = record->process,
				       .context = record->context,
				       .stream = record->stream };
	struct stream *stream = find_stream(s, &wanted);
	struct sampled_place *place = add_place(s);

	s->counts.records++;
	if (!place || !stream) {
		s->failed = true;
		return;
	}
	*place = (struct sampled_place){ .gpu = gpu ? (uint8_t)(gpu - s->gpus) : 0,
					 .why = SAMPLED_REASONS };
	if (!gpu) {
		place->why = SAMPLED_OTHER_GPU;
	} else if (!is_timed(record)) {
		place->why = SAMPLED_NO_TIME;
		note_timeless(stream, gpu, record);
	} else if (!add_kernel(s, gpu, stream, record, step)) {
		place->why = SAMPLED_TOO_MANY;
	}
}

void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy)
{
	const struct stream wanted = { .process = copy->process,
				       .context = copy->context,
				       .stream = copy->stream,
				       .copies = true };
	struct sampled_gpu *gpu = gpu_of(s, copy->process, copy->device);
	const struct stream *stream = find_stream(s, &wanted);
	const struct attribution_kernel item = {
		.start_ns = copy->start_ns,
		.end_ns = copy->start_ns + copy->duration_ns,
		.sequence = stream ? stream->sequence : 0,
		.shape = (uint32_t)map_mix((uint64_t)copy->kind + 1, copy->bytes),
		.id = SAMPLED_COPY,
	};

	if (gpu && copy->kind == GPUCTR_COPY_LOST) {
		add_unknown(gpu, item.start_ns, item.end_ns);
	} else if (gpu && stream) {
		add_running(s, gpu, &item);
	}
}

/* --- the order of time ----------------------------------------------------------------------- */

/* Values depend on this order, so the order must not depend on the order of records. */
static int compare_items(const void *a, const void *b)
{
	const struct attribution_kernel *x = a, *y = b;

#define ORDER(member)                                  \
	if (x->member != y->member) {                  \
		return x->member < y->member ? -1 : 1; \
	}
	ORDER(start_ns)
	ORDER(end_ns)
	ORDER(sequence)
	ORDER(shape)
#undef ORDER
	return 0;
}

static void note_timeless_to_end(struct sampled *s)
{
	for (size_t i = 0; i < s->streams.n_slots; i++) {
		struct stream *stream = s->streams.slots[i].item;

		if (stream && stream->lost_since_ns != 0) {
			add_unknown(stream->gpu, stream->lost_since_ns, END_NS);
			stream->lost_since_ns = 0;
		}
	}
}

static void sort(struct sampled *s)
{
	note_timeless_to_end(s);
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct sampled_gpu *gpu = &s->gpus[i];

		if (!gpu->is_sorted && gpu->n_items > 0) {
			qsort(gpu->items, gpu->n_items, sizeof(*gpu->items), compare_items);
		}
		gpu->is_sorted = true;
	}
}

/* --- samples --------------------------------------------------------------------------------- */

/* Returns the set of the first metric that has a value; ret: the values of that set, in order. */
static size_t take_values(const struct sampled *s, const double *values,
			  double ret[ATTRIBUTION_METRICS_MAX])
{
	size_t set = 0, i = 0;

	while (set < s->n_sets && isnan(values[s->sets[set].metrics[i]])) {
		i = i + 1 < s->sets[set].n ? i + 1 : 0;
		set += i == 0;
	}
	set = set < s->n_sets ? set : 0;
	for (i = 0; i < s->sets[set].n; i++) {
		ret[i] = values[s->sets[set].metrics[i]];
	}
	return set;
}

/* Gives the attribution the items that began before this time. */
static int give_items(struct sampled_part *part, int64_t until_ns)
{
	const struct sampled_gpu *gpu = part->gpu;
	int r = 0;

	for (; r == 0 && part->next < gpu->n_items; part->next++) {
		const struct attribution_kernel *item = &gpu->items[part->next];

		if (item->start_ns >= until_ns) {
			break;
		}
		r = item->id == SAMPLED_UNKNOWN
			    ? attribution_lost(part->attribution, item->start_ns, item->end_ns)
			    : attribution_kernel(part->attribution, item);
	}
	return r;
}

/* Tells the attribution that other sets had their turns since the last sample of this set. */
static int note_away(const struct sampled_part *part, int64_t until_ns)
{
	int64_t since_ns = part->last_ns ? part->last_ns : part->gpu->begin_ns;

	return part->gpu->owner->n_sets > 1 && since_ns < until_ns
		       ? attribution_away(part->attribution, since_ns, until_ns)
		       : 0;
}

void sampled_sample(struct sampled *s, int number, int64_t start_ns, int64_t end_ns,
		    const double *values)
{
	struct sampled_gpu *gpu = &s->gpus[number];
	double of_set[ATTRIBUTION_METRICS_MAX];
	struct sampled_part *part = &gpu->parts[take_values(s, values, of_set)];

	if (s->failed || end_ns > s->until_ns) {
		return;
	}
	if (!gpu->is_sorted) {
		sort(s);
	}
	gpu->begin_ns = gpu->begin_ns ? gpu->begin_ns : start_ns;
	if (note_away(part, start_ns) < 0 || give_items(part, end_ns) < 0 ||
	    attribution_sample(part->attribution, start_ns, end_ns, of_set) < 0) {
		s->failed = true;
		return;
	}
	part->last_ns = end_ns;
	gpu->last_ns = end_ns > gpu->last_ns ? end_ns : gpu->last_ns;
	s->counts.samples++;
}

static void finish(struct sampled *s, struct sampled_part *part)
{
	const struct attribution_counts *c = attribution_counts(part->attribution);

	s->failed = s->failed || note_away(part, part->gpu->last_ns) < 0 ||
		    give_items(part, INT64_MAX) < 0 || attribution_finish(part->attribution) < 0;
	s->counts.bad_samples += c->bad_samples + c->late_samples;
	s->counts.apart_ns = s->counts.apart_ns ? s->counts.apart_ns : c->apart_ns;
	if (c->shift_known && !s->counts.shift_known) {
		s->counts.shift_known = true;
		s->counts.shift_ns = c->shift_ns[0];
	}
}

void sampled_finish(struct sampled *s)
{
	sort(s);
	for (size_t i = 0; i < s->n_gpus; i++) {
		for (size_t k = 0; k < s->n_sets; k++) {
			finish(s, &s->gpus[i].parts[k]);
		}
		free(s->gpus[i].items);
		s->gpus[i].items = NULL;
		s->gpus[i].n_items = 0;
	}
}

void sampled_leave_out(struct sampled *s, uint64_t samples)
{
	s->counts.bad_samples += samples;
}

const struct sampled_counts *sampled_counts(const struct sampled *s)
{
	return &s->counts;
}
