/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels and samples of a GPU wait (waiting.c), and are then given to its attribution. Of a record
 * only what cannot be found again is kept: the record itself, and the position that attribution
 * gave it.
 *
 * Where sets of metrics take turns each has an attribution of its own, which gets all kernels, and
 * the samples of its turns. A kernel that ran in another's turn has the value of its position
 * (sampled_tell.c).
 *
 * Out of memory, everything is told without values: the records are what the program's user waited
 * for. */

#include "client/cli/sampled_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/cli/waiting.h"
#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

/* Agents tell four times a second what they have seen. */
#define COUNTED_NS INT64_C(1000000000)
#define NOT_KEPT UINT64_MAX

enum {
	FILES_SCALE = 8,
	TOLD_PART = 8, /* of the records that are kept, when they are too many */
	PIECES = 32,   /* of the samples that wait, of several sets */
};

/* A stream of a process, whose kernels run one after the other. */
struct stream {
	unsigned process, context;
	uint64_t stream;
	bool copies; /* a stream of copies, kept apart: which of its copies are missing is not known
		      */
	uint64_t sequence;
	int64_t end_ns;		       /* of its last kernel with a time */
	const struct sampled_gpu *gpu; /* of one without a time */
	int64_t lost_since_ns;	       /* 0: none without a time since */
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

/* The first n. Records that follow each other share their list of ranges. */
static void forget(struct sampled *s, size_t n)
{
	size_t sets = s->n_sets;

	for (size_t i = 0; i < n; i++) {
		const struct gpuctr_record *r = &s->kept[i].record;

		if (i + 1 == s->n_kept || r->active != s->kept[i + 1].record.active) {
			free((void *)(uintptr_t)r->active);
		}
	}
	for (size_t i = 0; i < n * sets; i++) {
		free(s->told[i].values);
	}
	s->n_kept -= n;
	s->first_kept += n;
	if (s->n_kept > 0) {
		memmove(s->kept, s->kept + n, s->n_kept * sizeof(*s->kept));
		memmove(s->told, s->told + n * sets, s->n_kept * sets * sizeof(*s->told));
	} else {
		s->active = NULL;
		s->n_active = 0;
	}
}

void sampled_expect_files(struct sampled *s)
{
	s->scale = FILES_SCALE;
}

struct sampled *sampled_free(struct sampled *s)
{
	if (!s) {
		return NULL;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		for (size_t k = 0; s->gpus[i].parts && k < s->n_sets; k++) {
			waiting_deinit(&s->gpus[i].parts[k].waiting);
			sampled_given_deinit(&s->gpus[i].parts[k].given);
		}
		free(s->gpus[i].parts);
	}
	forget(s, s->n_kept);
	map_deinit_items(&s->streams);
	free(s->devices);
	free(s->kept);
	free(s->told);
	free(s->row);
	free(s->metrics);
	free(s->unknown);
	free(s);
	return NULL;
}

/* --- GPUs and processes ---------------------------------------------------------------------- */

/* NULL: it is told already, or was none. */
static struct sampled_told *find_told(const struct sampled_part *part, uint64_t id)
{
	struct sampled *s = part->gpu->owner;

	return id != NOT_KEPT && id >= s->first_kept
		       ? &s->told[(id - s->first_kept) * s->n_sets + part->set]
		       : NULL;
}

static void on_late(void *user, uint64_t kernel)
{
	struct sampled_told *told = find_told(user, kernel);

	if (told) {
		told->is_late = true;
	}
}

static void on_kernel(void *user, const struct attribution_result *result)
{
	const struct sampled_part *part = user;
	struct sampled *s = part->gpu->owner;
	struct sampled_told *told = find_told(part, result->id);
	size_t bytes = s->sets[part->set].n * sizeof(*told->values);

	if (!told) {
		return;
	}
	told->is_known = true;
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

void sampled_hear_samples(struct sampled *s, sampled_on_sample *on_sample, void *user)
{
	s->on_sample = on_sample;
	s->on_sample_user = user;
}

static const struct waiting_handler waiting_handler = { on_late, sampled_given };

static int add_part(struct sampled_gpu *gpu, size_t set)
{
	struct sampled_part *part = &gpu->parts[set];
	const struct attribution_options options = { .metrics = (uint32_t)gpu->owner->sets[set].n,
						     .on_kernel = on_kernel,
						     .user = part };

	*part = (struct sampled_part){ .gpu = gpu, .set = set };
	if (waiting_init(&part->waiting, &options, &waiting_handler) < 0) {
		return -ENOMEM;
	}
	part->waiting.scale = gpu->owner->scale;
	return 0;
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
		if (add_part(gpu, i) < 0) {
			return -ENOMEM;
		}
	}
	return gpu->parts ? (int)s->n_gpus - 1 : -ENOMEM;
}

static int find_gpu(const struct sampled *s, const char *uuid)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (strcmp(s->gpus[i].uuid, uuid) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static struct sampled_device *find_device(const struct sampled *s, unsigned process, unsigned index)
{
	for (size_t i = s->n_devices; i-- > 0;) {
		if (s->devices[i].process == process && s->devices[i].index == index) {
			return &s->devices[i];
		}
	}
	return NULL;
}

/* NULL: it is not sampled. */
static struct sampled_gpu *gpu_of(struct sampled *s, const struct sampled_device *device)
{
	return device && device->gpu >= 0 ? &s->gpus[device->gpu] : NULL;
}

/* The end of the last one that waits; 0: none does. */
static int64_t last_sample(const struct sampled_gpu *gpu)
{
	int64_t last_ns = 0;

	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		int64_t ns = waiting_last_sample(&gpu->parts[i].waiting);

		last_ns = ns > last_ns ? ns : last_ns;
	}
	return last_ns;
}

static void add_device(struct sampled *s, unsigned process, const struct gpuctr_device *d)
{
	int gpu = find_gpu(s, d->uuid);

	s->devices[s->n_devices++] = (struct sampled_device){
		.process = process,
		.index = d->index,
		.gpu = gpu,
		.last_ns = gpu >= 0 ? last_sample(&s->gpus[gpu]) : 0,
	};
}

void sampled_process(struct sampled *s, const struct gpuctr_process *process)
{
	for (size_t i = 0; i < process->n_devices; i++) {
		const struct gpuctr_device *d = &process->devices[i];

		if (find_device(s, process->process, d->index)) {
			continue;
		}
		if (!array_make_room(&s->devices, sizeof(*s->devices), s->n_devices,
				     &s->max_devices)) {
			s->failed = true;
			return;
		}
		add_device(s, process->process, d);
	}
}

int sampled_find_gpu(const struct sampled *s, unsigned process, unsigned index)
{
	const struct sampled_device *device = find_device(s, process, index);

	return device ? device->gpu : -1;
}

static bool add_unknown(struct sampled *s, const struct sampled_unknown *unknown)
{
	if (!array_make_room(&s->unknown, sizeof(*s->unknown), s->n_unknown, &s->max_unknown)) {
		return false;
	}
	s->unknown[s->n_unknown++] = *unknown;
	return true;
}

static void tell_lost(struct sampled_gpu *gpu, int64_t start_ns, int64_t end_ns)
{
	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		gpu->owner->failed |= waiting_lost(&gpu->parts[i].waiting, start_ns, end_ns) < 0;
	}
}

/* A process may have begun, or run its last kernel, behind the last sample: no time is left. */
void sampled_note_unknown(struct sampled *s, const struct sampled_unknown *unknown)
{
	if (unknown->start_ns >= unknown->end_ns) {
		return;
	}
	if (unknown->gpu < 0) {
		sampled_discard(s, unknown->start_ns);
		return;
	}
	tell_lost(&s->gpus[unknown->gpu], unknown->start_ns, unknown->end_ns);
	s->failed |= !add_unknown(s, unknown);
}

size_t sampled_unknown(const struct sampled *s, const struct sampled_unknown **ret)
{
	*ret = s->unknown;
	return s->n_unknown;
}

/* Nobody knows what the process ran there meanwhile. */
static void note_unknown(struct sampled *s, const struct sampled_device *d, int64_t start_ns,
			 int64_t end_ns)
{
	if (d->gpu >= 0) {
		sampled_note_unknown(s, &(struct sampled_unknown){ d->gpu, start_ns, end_ns });
	}
}

/* One that was killed may have run kernels since its last record; where it counted none, since its
 * last count. */
void sampled_process_end(struct sampled *s, const struct gpuctr_process_end *end, int64_t now_ns)
{
	s->is_live = true;
	for (size_t i = 0; i < s->n_devices; i++) {
		struct sampled_device *d = &s->devices[i];
		int64_t since_ns = d->last_ns;

		if (d->process != end->process || d->is_over) {
			continue;
		}
		d->is_over = true;
		if (end->totals.lost == 0 && since_ns < now_ns - COUNTED_NS) {
			since_ns = now_ns - COUNTED_NS;
		}
		if (!end->clean || end->totals.lost > 0) {
			note_unknown(s, d, since_ns, now_ns);
		}
	}
}

void sampled_progress(struct sampled *s, const struct gpuctr_totals *t)
{
	uint64_t known = t->measured + t->filtered + t->capturing + t->unready + t->failed +
			 t->dropped + t->lost + t->unchosen;

	s->is_live = true;
	s->undelivered = t->seen > known ? t->seen - known : 0;
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
	found->sequence = hash; /* the same whatever came first, live or from a file */
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

/* A kernel of a graph is the same work whenever the graph is launched. Several of them may run at
 * once, so their order is no sequence. Of another shape, its node was changed. */
static uint64_t place_of(const struct gpuctr_record *r)
{
	uint64_t hash = map_mix(map_mix(0, r->process), r->context);

	if (r->kind != GPUCTR_LAUNCH_GRAPH_KERNEL) {
		return 0;
	}
	hash = map_mix(map_mix(hash, r->graph), r->graph_node);
	return map_mix(hash, shape_of(r)) | 1;
}

/* Records of one kind that follow each other have mostly the same. */
static bool keep_active(struct sampled *s, struct gpuctr_record *r)
{
	size_t bytes = r->n_active * sizeof(const struct gpuctr_range *);

	if (s->n_active != r->n_active || (bytes > 0 && memcmp(s->active, r->active, bytes) != 0)) {
		void *copy = bytes > 0 ? malloc(bytes) : NULL;

		if (bytes > 0 && !copy) {
			return false;
		}
		s->active = copy ? memcpy(copy, r->active, bytes) : NULL;
		s->n_active = r->n_active;
	}
	r->active = s->active;
	return true;
}

static bool make_room(struct sampled *s)
{
	size_t had = s->max_kept;
	struct sampled_told *more;

	if (!array_make_room(&s->kept, sizeof(*s->kept), s->n_kept, &s->max_kept)) {
		return false;
	}
	more = s->max_kept == had ? s->told
				  : realloc(s->told, s->max_kept * s->n_sets * sizeof(*more));
	if (!more) {
		s->max_kept = had;
		return false;
	}
	s->told = more;
	return true;
}

static struct sampled_kept *keep(struct sampled *s, const struct gpuctr_record *record)
{
	struct sampled_kept *k;

	if (!make_room(s)) {
		return NULL;
	}
	k = &s->kept[s->n_kept];
	*k = (struct sampled_kept){ .record = *record };
	k->record.values = NULL;
	for (size_t i = 0; i < s->n_sets; i++) {
		s->told[s->n_kept * s->n_sets + i] =
			(struct sampled_told){ .position = ATTRIBUTION_NO_POSITION,
					       .state = ATTRIBUTION_LOST };
	}
	if (!keep_active(s, &k->record)) {
		return NULL;
	}
	s->n_kept++;
	return k;
}

/* A file may hold any times. */
static bool is_timed(const struct gpuctr_record *r)
{
	int64_t after_ns = r->start_ns > 0 ? r->start_ns : 0;

	return r->clock == GPUCTR_CLOCK_GPU && r->start_ns > -CLOCK_NS_MOST &&
	       after_ns <= CLOCK_NS_MOST && r->duration_ns >= 0 &&
	       r->duration_ns <= CLOCK_NS_MOST - after_ns;
}

/* It ran between the kernels before and behind it in its stream, or to the end. */
static void note_timeless(struct stream *stream, const struct sampled_gpu *gpu,
			  const struct gpuctr_record *r)
{
	stream->gpu = gpu;
	if (stream->lost_since_ns == 0) {
		stream->lost_since_ns = stream->end_ns ? stream->end_ns : r->start_ns;
	}
}

static void add(struct sampled *s, struct sampled_device *device, struct sampled_gpu *gpu,
		const struct attribution_kernel *kernel)
{
	device->last_ns = kernel->end_ns > device->last_ns ? kernel->end_ns : device->last_ns;
	for (size_t i = 0; i < s->n_sets; i++) {
		s->failed |= waiting_kernel(&gpu->parts[i].waiting, kernel) < 0;
	}
}

static void add_kernel(struct sampled *s, struct sampled_device *device, struct stream *stream,
		       const struct gpuctr_record *r, uint64_t step, uint64_t id)
{
	struct sampled_gpu *gpu = &s->gpus[device->gpu];
	const struct attribution_kernel kernel = { .id = id,
						   .sequence = stream->sequence,
						   .step = step,
						   .place = place_of(r),
						   .shape = shape_of(r),
						   .start_ns = r->start_ns,
						   .end_ns = r->start_ns + r->duration_ns };

	if (stream->lost_since_ns != 0) {
		tell_lost(gpu, stream->lost_since_ns, r->start_ns);
		stream->lost_since_ns = 0;
	}
	stream->end_ns = kernel.end_ns;
	add(s, device, gpu, &kernel);
}

void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy)
{
	const struct stream wanted = { .process = copy->process,
				       .context = copy->context,
				       .stream = copy->stream,
				       .copies = true };
	struct sampled_device *device = find_device(s, copy->process, copy->device);
	struct sampled_gpu *gpu = gpu_of(s, device);
	const struct stream *stream = find_stream(s, &wanted);
	bool is_untraced = copy->kind == GPUCTR_COPY_UNTRACED;
	const struct attribution_kernel kernel = {
		.id = NOT_KEPT,
		.sequence = stream ? stream->sequence : 0,
		.shape = (uint32_t)map_mix((uint64_t)copy->kind + 1, copy->bytes),
		.start_ns = copy->start_ns,
		.end_ns = copy->start_ns + copy->duration_ns,
	};

	s->counts.untraced_ns += is_untraced ? (uint64_t)copy->duration_ns : 0;
	if (gpu && (is_untraced || copy->kind == GPUCTR_COPY_LOST)) {
		tell_lost(gpu, kernel.start_ns, kernel.end_ns);
	} else if (gpu && stream) {
		add(s, device, gpu, &kernel);
	}
}

static void tell_oldest(struct sampled *s, sampled_on_record *on_record, void *user);

void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step,
		    sampled_on_record *on_record, void *user)
{
	struct sampled_device *device = find_device(s, record->process, record->device);
	struct sampled_gpu *gpu = gpu_of(s, device);
	const struct stream wanted = { .process = record->process,
				       .context = record->context,
				       .stream = record->stream };
	struct stream *stream = find_stream(s, &wanted);
	struct sampled_kept *k;

	if (s->n_kept >= SAMPLED_RECORDS_MAX * (s->scale ? s->scale : 1)) {
		tell_oldest(s, on_record, user);
	}
	k = keep(s, record);
	s->counts.kernels++;
	if (k) {
		k->timed = is_timed(record);
		k->has_gpu = gpu != NULL;
		k->gpu = gpu ? (uint16_t)(gpu - s->gpus) : 0;
	} else {
		sampled_tell_without(s, record, SAMPLED_TOO_MANY, on_record, user);
	}
	if (!gpu || !stream) {
		return;
	}
	if (is_timed(record)) {
		add_kernel(s, device, stream, record, step,
			   k ? s->first_kept + (uint64_t)(k - s->kept) : NOT_KEPT);
	} else {
		note_timeless(stream, gpu, record);
	}
}

/* --- samples --------------------------------------------------------------------------------- */

/* The set of the first metric that has a value; its values, in their order. */
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

/* Others had their turns since the last sample of this set. */
static int note_away(const struct sampled_gpu *gpu, struct sampled_part *part, int64_t until_ns)
{
	int64_t since_ns = part->last_ns ? part->last_ns : gpu->begin_ns;

	return gpu->owner->n_sets > 1 ? waiting_away(&part->waiting, since_ns, until_ns) : 0;
}

static int64_t first_sample(const struct sampled_gpu *gpu)
{
	int64_t first_ns = 0;

	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		int64_t ns = waiting_first_sample(&gpu->parts[i].waiting);

		first_ns = ns != 0 && (first_ns == 0 || ns < first_ns) ? ns : first_ns;
	}
	return first_ns;
}

/* To all sets what ends by this time, in pieces: what one set has got waits to be told until the
 * others have theirs. */
static void give_pieces(struct sampled *s, struct sampled_gpu *gpu, int64_t until_ns)
{
	int64_t first_ns = first_sample(gpu), piece_ns = (until_ns - first_ns) / PIECES + 1;

	if (s->n_sets == 1 || !s->on_sample || first_ns == 0) {
		return;
	}
	for (int64_t at_ns = first_ns; at_ns < until_ns && !s->failed;) {
		at_ns = until_ns - at_ns > piece_ns ? at_ns + piece_ns : until_ns;
		for (size_t i = 0; i < s->n_sets && !s->failed; i++) {
			s->failed |= waiting_advance(&gpu->parts[i].waiting, at_ns, false) < 0;
		}
		sampled_tell_given(gpu);
	}
}

void sampled_sample(struct sampled *s, int number, int64_t start_ns, int64_t end_ns,
		    const double *values)
{
	struct sampled_gpu *gpu = &s->gpus[number];
	double of_set[ATTRIBUTION_METRICS_MAX];
	struct sampled_part *part = &gpu->parts[take_values(s, values, of_set)];

	gpu->begin_ns = gpu->begin_ns ? gpu->begin_ns : start_ns;
	if (!s->failed && waiting_is_full(&part->waiting)) {
		give_pieces(s, gpu, waiting_middle_sample(&part->waiting));
	}
	if (s->failed || note_away(gpu, part, start_ns) < 0 ||
	    waiting_sample(&part->waiting, start_ns, end_ns, of_set) < 0) {
		s->failed = true;
		return;
	}
	part->last_ns = end_ns;
	gpu->last_ns = end_ns > gpu->last_ns ? end_ns : gpu->last_ns;
	s->counts.samples++;
}

void sampled_discard(struct sampled *s, int64_t since_ns)
{
	for (size_t i = 0; i < s->n_gpus * s->n_sets; i++) {
		waiting_discard(&s->gpus[i / s->n_sets].parts[i % s->n_sets].waiting, since_ns);
	}
	s->failed |= !add_unknown(s, &(struct sampled_unknown){ -1, since_ns, INT64_MAX });
}

/* Not each time: what stays is moved. */
static bool is_time(const struct sampled_gpu *gpu, int64_t until_ns)
{
	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		int64_t first_ns = waiting_first_sample(&gpu->parts[i].waiting);

		if (first_ns != 0 && until_ns >= first_ns + WAITING_NS) {
			return true;
		}
	}
	return false;
}

void sampled_advance(struct sampled *s)
{
	for (size_t i = 0; i < s->n_gpus && !s->failed; i++) {
		struct sampled_gpu *gpu = &s->gpus[i];
		int64_t until_ns = last_sample(gpu) - WAITING_NS;

		if (!is_time(gpu, until_ns)) {
			continue;
		}
		for (size_t k = 0; k < s->n_sets && !s->failed; k++) {
			s->failed |= waiting_advance(&gpu->parts[k].waiting, until_ns,
						     s->undelivered > 0) < 0;
		}
		sampled_tell_given(gpu);
	}
}

/* --- the end --------------------------------------------------------------------------------- */

static void tell_lost_to_end(struct sampled *s, struct sampled_gpu *gpu)
{
	for (size_t i = 0; i < s->streams.n_slots; i++) {
		const struct stream *stream = s->streams.slots[i].item;

		if (stream && stream->gpu == gpu && stream->lost_since_ns != 0) {
			tell_lost(gpu, stream->lost_since_ns, last_sample(gpu));
		}
	}
}

static void finish(struct sampled *s, struct sampled_part *part)
{
	const struct attribution_counts *c = attribution_counts(part->waiting.attribution);

	s->failed |= s->failed || waiting_finish(&part->waiting) < 0;
	s->counts.bad_samples += c->bad_samples + c->late_samples;
	s->counts.apart_ns = s->counts.apart_ns ? s->counts.apart_ns : c->apart_ns;
	if (c->shift_known && !s->counts.shift_known) {
		s->counts.shift_known = true;
		s->counts.shift_ns = c->shift_ns[0];
	}
}

static void attribute(struct sampled *s, struct sampled_gpu *gpu)
{
	tell_lost_to_end(s, gpu);
	for (size_t i = 0; i < s->n_sets; i++) {
		s->failed |= note_away(gpu, &gpu->parts[i], gpu->last_ns) < 0;
	}
	give_pieces(s, gpu, last_sample(gpu));
	for (size_t i = 0; i < s->n_sets; i++) {
		finish(s, &gpu->parts[i]);
	}
	sampled_tell_given(gpu);
}

static void tell_oldest(struct sampled *s, sampled_on_record *on_record, void *user)
{
	size_t n = s->n_kept / TOLD_PART;

	for (size_t i = 0; i < n; i++) {
		sampled_tell(s, &s->kept[i], on_record, user);
	}
	forget(s, n);
}

/* For a process whose end was not reported: what it ran since its last record. */
static void note_unended(struct sampled *s)
{
	for (size_t i = 0; i < s->n_devices; i++) {
		const struct sampled_device *d = &s->devices[i];
		const struct sampled_gpu *gpu = gpu_of(s, d);
		int64_t end_ns = gpu ? last_sample(gpu) : 0;
		int64_t since_ns = end_ns - (s->undelivered > 0 ? WAITING_NS : COUNTED_NS);

		if (s->is_live && !d->is_over) {
			note_unknown(s, d, d->last_ns > since_ns ? d->last_ns : since_ns, end_ns);
		}
	}
}

void sampled_finish(struct sampled *s, sampled_on_record *on_record, void *user)
{
	note_unended(s);
	for (size_t i = 0; i < s->n_gpus; i++) {
		attribute(s, &s->gpus[i]);
	}
	for (size_t i = 0; i < s->n_kept; i++) {
		sampled_tell(s, &s->kept[i], on_record, user);
	}
}

const struct sampled_counts *sampled_counts(const struct sampled *s)
{
	return &s->counts;
}
