/* SPDX-License-Identifier: Apache-2.0 */

/* A kernel's record comes when it has ended, up to some seconds late, and a sample within a tenth
 * of a second. Attribution wants both in the order of time. So kernels and samples wait here until
 * they are LATE_NS old, and are then given to the attribution of their GPU, which forgets samples
 * in its turn. Of a record only what cannot be found again is kept: the record itself, and the
 * position that attribution gave it.
 *
 * Where sets of metrics take turns each has an attribution of its own, which gets all kernels, and
 * the samples of its turns. A kernel that ran in another's turn has the value of its position
 * (sampled_tell.c).
 *
 * Out of memory, everything is told without values: the records are what the program's user waited
 * for. */

#include "client/cli/sampled_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

/* Later than this no record comes: a batch waits for half a second, and then two for CUPTI. */
#define LATE_NS INT64_C(5000000000)
#define NOT_KEPT UINT64_MAX

/* --- life ------------------------------------------------------------------------------------ */

const char *sampled_misfit(const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < plan->n_metrics; i++) {
		if (!schema_adds_up(plan->metrics[i]) ||
		    strncmp(plan->metrics[i], "gpu__time_duration", 18) == 0) {
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
		struct set *set = &s->sets[number];

		if (number >= SAMPLER_SETS_MAX || set->n == ATTRIBUTION_METRICS_MAX) {
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
	return s->row && s->metrics && take_sets(s, sets) ? s : sampled_free(s);
}

static void free_gpu(struct gpu *gpu)
{
	for (size_t i = 0; gpu->parts && i < gpu->owner->n_sets; i++) {
		attribution_free(gpu->parts[i].attribution);
	}
	free(gpu->parts);
	free(gpu->kernels);
	free(gpu->samples);
	free(gpu->values);
}

struct sampled *sampled_free(struct sampled *s)
{
	if (!s) {
		return NULL;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		free_gpu(&s->gpus[i]);
	}
	for (size_t i = 0; i < s->n_kept * s->n_sets; i++) {
		free(s->told[i].values);
	}
	for (size_t i = 0; i < s->n_blocks; i++) {
		free(s->blocks[i]);
	}
	map_deinit_items(&s->streams);
	free(s->devices);
	free(s->kept);
	free(s->told);
	free(s->blocks);
	free(s->row);
	free(s->metrics);
	free(s);
	return NULL;
}

/* --- GPUs and processes ---------------------------------------------------------------------- */

static void on_kernel(void *user, const struct attribution_result *result)
{
	const struct part *part = user;
	struct sampled *s = part->gpu->owner;
	size_t bytes = s->sets[part->set].n * sizeof(struct attribution_value);
	struct told *told;

	if (result->id == NOT_KEPT) {
		return;
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

static bool add_part(struct gpu *gpu, size_t set)
{
	struct part *part = &gpu->parts[set];
	const struct attribution_options options = { .metrics = (uint32_t)gpu->owner->sets[set].n,
						     .on_kernel = on_kernel,
						     .user = part };

	*part = (struct part){ .gpu = gpu, .set = set };
	part->attribution = attribution_new(&options);
	return part->attribution;
}

int sampled_add_gpu(struct sampled *s, const char *uuid)
{
	struct gpu *gpu;

	if (s->n_gpus == SAMPLED_GPUS_MAX) {
		return -E2BIG;
	}
	gpu = &s->gpus[s->n_gpus++];
	*gpu = (struct gpu){ .owner = s };
	strncpy(gpu->uuid, uuid, sizeof(gpu->uuid) - 1);
	gpu->parts = calloc(s->n_sets, sizeof(*gpu->parts));
	if (!gpu->parts) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < s->n_sets; i++) {
		if (!add_part(gpu, i)) {
			return -ENOMEM;
		}
	}
	return (int)s->n_gpus - 1;
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

static struct device *find_device(const struct sampled *s, unsigned process, unsigned index)
{
	for (size_t i = s->n_devices; i-- > 0;) {
		if (s->devices[i].process == process && s->devices[i].index == index) {
			return &s->devices[i];
		}
	}
	return NULL;
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
		s->devices[s->n_devices++] =
			(struct device){ process->process, d->index, find_gpu(s, d->uuid) };
	}
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
	found->sequence = ++s->n_streams;
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

/* Records of one kind that follow each other have mostly the same. */
static bool keep_active(struct sampled *s, struct gpuctr_record *r)
{
	size_t bytes = r->n_active * sizeof(const struct gpuctr_range *);
	void *copy;

	if (r->n_active == 0) {
		r->active = NULL;
		return true;
	}
	if (s->n_active != r->n_active || memcmp(s->active, r->active, bytes) != 0) {
		copy = malloc(bytes);
		if (!copy ||
		    !array_make_room(&s->blocks, sizeof(*s->blocks), s->n_blocks, &s->max_blocks)) {
			free(copy);
			return false;
		}
		s->blocks[s->n_blocks++] = memcpy(copy, r->active, bytes);
		s->active = copy;
		s->n_active = r->n_active;
	}
	r->active = s->active;
	return true;
}

static bool make_room(struct sampled *s)
{
	size_t had = s->max_kept;
	struct told *more;

	if (s->n_kept == SAMPLED_RECORDS_MAX ||
	    !array_make_room(&s->kept, sizeof(*s->kept), s->n_kept, &s->max_kept)) {
		return false;
	}
	if (s->max_kept != had) {
		more = realloc(s->told, s->max_kept * s->n_sets * sizeof(*more));
		if (!more) {
			s->max_kept = had;
			return false;
		}
		s->told = more;
	}
	return true;
}

static struct kept *keep(struct sampled *s, const struct gpuctr_record *record)
{
	struct kept *k;

	if (!make_room(s)) {
		return NULL;
	}
	k = &s->kept[s->n_kept];
	*k = (struct kept){ .record = *record };
	for (size_t i = 0; i < s->n_sets; i++) {
		s->told[s->n_kept * s->n_sets + i] =
			(struct told){ .position = ATTRIBUTION_NO_POSITION,
				       .state = ATTRIBUTION_LOST };
	}
	k->record.values = NULL;
	if (!keep_active(s, &k->record)) {
		return NULL;
	}
	s->n_kept++;
	return k;
}

/* It ran between the kernels before and behind it in its stream, or to the end. */
static void note_timeless(struct stream *stream, const struct gpuctr_record *r)
{
	if (stream->lost_since_ns == 0) {
		stream->lost_since_ns = stream->end_ns ? stream->end_ns : r->start_ns;
	}
}

static void add(struct sampled *s, struct gpu *gpu, const struct attribution_kernel *kernel)
{
	if (!array_make_room(&gpu->kernels, sizeof(*gpu->kernels), gpu->n_kernels,
			     &gpu->max_kernels)) {
		s->failed = true;
		return;
	}
	gpu->kernels[gpu->n_kernels++] = *kernel;
}

static void tell_lost(struct gpu *gpu, int64_t start_ns, int64_t end_ns)
{
	for (size_t i = 0; i < gpu->owner->n_sets; i++) {
		gpu->owner->failed |=
			attribution_lost(gpu->parts[i].attribution, start_ns, end_ns) < 0;
	}
}

static void add_kernel(struct sampled *s, struct gpu *gpu, struct stream *stream,
		       const struct gpuctr_record *r, uint64_t step, uint64_t id)
{
	const struct attribution_kernel kernel = { .id = id,
						   .sequence = stream->sequence,
						   .step = step,
						   .shape = shape_of(r),
						   .start_ns = r->start_ns,
						   .end_ns = r->start_ns + r->duration_ns };

	if (stream->lost_since_ns != 0) {
		tell_lost(gpu, stream->lost_since_ns, r->start_ns);
		stream->lost_since_ns = 0;
	}
	stream->end_ns = kernel.end_ns;
	add(s, gpu, &kernel);
}

static struct gpu *gpu_of(struct sampled *s, unsigned process, unsigned index)
{
	const struct device *device = find_device(s, process, index);

	return device && device->gpu >= 0 ? &s->gpus[device->gpu] : NULL;
}

void sampled_copy(struct sampled *s, const struct gpuctr_copy *copy)
{
	const struct stream wanted = { .process = copy->process,
				       .context = copy->context,
				       .stream = copy->stream,
				       .copies = true };
	struct gpu *gpu = gpu_of(s, copy->process, copy->device);
	const struct stream *stream = find_stream(s, &wanted);
	const struct attribution_kernel kernel = {
		.id = NOT_KEPT,
		.sequence = stream ? stream->sequence : 0,
		.shape = (uint32_t)map_mix((uint64_t)copy->kind + 1, copy->bytes),
		.start_ns = copy->start_ns,
		.end_ns = copy->start_ns + copy->duration_ns,
	};

	if (gpu && stream) {
		add(s, gpu, &kernel);
	}
}

void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step,
		    sampled_on_record *on_record, void *user)
{
	struct gpu *gpu = gpu_of(s, record->process, record->device);
	const struct stream wanted = { .process = record->process,
				       .context = record->context,
				       .stream = record->stream };
	struct stream *stream = find_stream(s, &wanted);
	struct kept *k = keep(s, record);
	uint64_t id = k ? (uint64_t)(k - s->kept) : NOT_KEPT;

	s->counts.kernels++;
	if (k) {
		k->timed = record->clock == GPUCTR_CLOCK_GPU;
		k->has_gpu = gpu != NULL;
		k->gpu = gpu ? (uint16_t)(gpu - s->gpus) : 0;
	} else {
		sampled_tell_without(s, record, SAMPLED_TOO_MANY, on_record, user);
	}
	if (!gpu || !stream) {
		return;
	}
	if (record->clock == GPUCTR_CLOCK_GPU) {
		add_kernel(s, gpu, stream, record, step, id);
	} else {
		note_timeless(stream, record);
	}
}

/* --- samples --------------------------------------------------------------------------------- */

void sampled_sample(struct sampled *s, int number, size_t set, int64_t start_ns, int64_t end_ns,
		    const double *values)
{
	struct gpu *gpu = &s->gpus[number];
	size_t n = s->plan->n_metrics, had = gpu->max_samples;

	if (!array_make_room(&gpu->samples, sizeof(*gpu->samples), gpu->n_samples,
			     &gpu->max_samples)) {
		s->failed = true;
		return;
	}
	if (gpu->max_samples != had) {
		double *more = realloc(gpu->values, gpu->max_samples * n * sizeof(*more));

		if (!more) {
			gpu->max_samples = had;
			s->failed = true;
			return;
		}
		gpu->values = more;
	}
	gpu->samples[gpu->n_samples] = (struct sample){ set, start_ns, end_ns };
	memcpy(gpu->values + gpu->n_samples * n, values, s->sets[set].n * sizeof(*values));
	gpu->n_samples++;
	s->counts.samples++;
}

static int compare_starts(const void *a, const void *b)
{
	const struct attribution_kernel *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int give_kernel(struct gpu *gpu, const struct attribution_kernel *kernel)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < gpu->owner->n_sets; i++) {
		r = attribution_kernel(gpu->parts[i].attribution, kernel);
	}
	return r;
}

/* Between its last sample and this time others had their turns. */
static int tell_away(struct gpu *gpu, struct part *part, int64_t until_ns)
{
	int64_t since_ns = part->end_ns ? part->end_ns : gpu->begin_ns;

	return since_ns < until_ns ? attribution_away(part->attribution, since_ns, until_ns) : 0;
}

static int give_sample(struct gpu *gpu, const struct sample *sample, const double *values)
{
	struct part *part = &gpu->parts[sample->set];
	int r = 0;

	gpu->begin_ns = gpu->begin_ns ? gpu->begin_ns : sample->start_ns;
	if (sample->set != gpu->turn) {
		r = tell_away(gpu, part, sample->start_ns);
		gpu->turn = sample->set;
	}
	gpu->end_ns = part->end_ns = sample->end_ns;
	return r == 0 ? attribution_sample(part->attribution, sample->start_ns, sample->end_ns,
					   values)
		      : r;
}

/* Gives kernels and samples that end by this time to the attribution, in the order of time. */
static void give(struct sampled *s, struct gpu *gpu, int64_t until_ns)
{
	size_t n = s->plan->n_metrics, k = 0, i = 0;
	int r = 0;

	if (gpu->n_kernels > 1) {
		qsort(gpu->kernels, gpu->n_kernels, sizeof(*gpu->kernels), compare_starts);
	}
	for (; r == 0 && i < gpu->n_samples && gpu->samples[i].end_ns <= until_ns; i++) {
		for (; r == 0 && k < gpu->n_kernels &&
		       gpu->kernels[k].start_ns < gpu->samples[i].end_ns;
		     k++) {
			r = give_kernel(gpu, &gpu->kernels[k]);
		}
		r = r == 0 ? give_sample(gpu, &gpu->samples[i], gpu->values + i * n) : r;
	}
	s->failed |= r < 0;
	gpu->n_kernels -= k;
	gpu->n_samples -= i;
	if (gpu->n_kernels > 0) {
		memmove(gpu->kernels, gpu->kernels + k, gpu->n_kernels * sizeof(*gpu->kernels));
	}
	if (gpu->n_samples > 0) {
		memmove(gpu->samples, gpu->samples + i, gpu->n_samples * sizeof(*gpu->samples));
		memmove(gpu->values, gpu->values + i * n,
			gpu->n_samples * n * sizeof(*gpu->values));
	}
}

void sampled_advance(struct sampled *s)
{
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct gpu *gpu = &s->gpus[i];

		/* Not each time: what stays is moved. */
		if (gpu->n_samples > 0 &&
		    gpu->samples[gpu->n_samples - 1].end_ns - gpu->samples[0].start_ns >
			    2 * LATE_NS) {
			give(s, gpu, gpu->samples[gpu->n_samples - 1].end_ns - LATE_NS);
		}
	}
}

/* --- the end --------------------------------------------------------------------------------- */

static void tell_lost_to_end(struct sampled *s, struct gpu *gpu)
{
	int64_t end_ns = gpu->n_samples > 0 ? gpu->samples[gpu->n_samples - 1].end_ns : 0;

	for (size_t i = 0; i < s->streams.n_slots; i++) {
		const struct stream *stream = s->streams.slots[i].item;

		if (stream && stream->lost_since_ns != 0 && stream->lost_since_ns < end_ns) {
			tell_lost(gpu, stream->lost_since_ns, end_ns);
		}
	}
}

static void finish(struct sampled *s, struct gpu *gpu, struct part *part, unsigned *alike)
{
	const struct attribution_counts *c = attribution_counts(part->attribution);

	s->failed |= tell_away(gpu, part, gpu->end_ns) < 0;
	s->failed |= attribution_finish(part->attribution) < 0;
	part->first_alike = *alike;
	*alike += c->positions;
	s->counts.bad_samples += c->bad_samples + c->late_samples;
	if (c->shift_known && !s->counts.shift_known) {
		s->counts.shift_known = true;
		s->counts.shift_ns = c->shift_ns[0];
	}
}

static void attribute(struct sampled *s, struct gpu *gpu, unsigned *alike)
{
	tell_lost_to_end(s, gpu);
	give(s, gpu, INT64_MAX);
	for (size_t i = 0; i < gpu->n_kernels; i++) { /* behind the last sample */
		s->failed |= give_kernel(gpu, &gpu->kernels[i]) < 0;
	}
	gpu->n_kernels = 0;
	for (size_t i = 0; i < s->n_sets; i++) {
		finish(s, gpu, &gpu->parts[i], alike);
	}
}

void sampled_finish(struct sampled *s, sampled_on_record *on_record, void *user)
{
	unsigned alike = 1;

	for (size_t i = 0; i < s->n_gpus; i++) {
		attribute(s, &s->gpus[i], &alike);
	}
	for (size_t i = 0; i < s->n_kept; i++) {
		sampled_tell(s, &s->kept[i], on_record, user);
	}
}

const struct sampled_counts *sampled_counts(const struct sampled *s)
{
	return &s->counts;
}
