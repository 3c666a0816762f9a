/* SPDX-License-Identifier: Apache-2.0 */

/* A kernel's record comes when it has ended, up to some seconds late, and a sample within a tenth
 * of a second. Attribution wants both in the order of time. So kernels and samples wait here until
 * they are LATE_NS old, and are then given to the attribution of their GPU, which forgets samples
 * in its turn. Of a record only what cannot be found again is kept: the record itself, and the
 * position that attribution gave it.
 *
 * Out of memory, everything is told without values: the records are what the program's user waited
 * for. */

#include "client/cli/sampled.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

/* Later than this no record comes: a batch waits for half a second, and then two for CUPTI. */
#define LATE_NS INT64_C(5000000000)
#define NOT_KEPT UINT64_MAX

enum { GPUS_MAX = 64 };

struct kept {
	struct gpuctr_record record;
	uint32_t position;
	uint8_t state; /* enum attribution_state */
	bool timed, has_gpu;
	uint16_t gpu;
	struct attribution_value *values; /* of one without a position; NULL: none */
};

struct sample {
	int64_t start_ns, end_ns;
};

struct gpu {
	char uuid[64];
	struct sampled *owner;
	struct attribution *attribution;
	struct attribution_kernel *kernels; /* that wait */
	size_t n_kernels, max_kernels;
	struct sample *samples; /* that wait */
	double *values;		/* of these */
	size_t n_samples, max_samples;
	unsigned first_alike; /* of its positions */
};

/* A stream of a process, whose kernels run one after the other. */
struct stream {
	unsigned process, context;
	uint64_t stream;
	bool copies; /* apart: what is missing of them is not known */
	uint64_t sequence;
	int64_t end_ns;	       /* of its last kernel with a time */
	int64_t lost_since_ns; /* 0: none without a time since */
};

/* A device of a process. */
struct device {
	unsigned process, index;
	int gpu; /* -1: it is not sampled */
};

struct sampled {
	const struct gpuctr_plan *plan;
	struct gpu gpus[GPUS_MAX];
	size_t n_gpus;
	struct device *devices;
	size_t n_devices, max_devices;
	struct map streams;
	uint64_t n_streams;
	struct kept *kept;
	size_t n_kept, max_kept;
	const struct gpuctr_range **active; /* of the last record that was kept */
	size_t n_active;
	void **blocks; /* what is freed at the end */
	size_t n_blocks, max_blocks;
	double *row; /* values, errors of a record */
	bool failed; /* out of memory */
	struct sampled_counts counts;
};

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

struct sampled *sampled_new(const struct gpuctr_plan *plan)
{
	struct sampled *s = calloc(1, sizeof(*s));

	if (!s) {
		return NULL;
	}
	s->plan = plan;
	s->row = calloc(2 * plan->n_columns + 1, sizeof(*s->row));
	return s->row && plan->n_metrics > 0 && plan->n_metrics <= ATTRIBUTION_METRICS_MAX
		       ? s
		       : sampled_free(s);
}

struct sampled *sampled_free(struct sampled *s)
{
	if (!s) {
		return NULL;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		attribution_free(s->gpus[i].attribution);
		free(s->gpus[i].kernels);
		free(s->gpus[i].samples);
		free(s->gpus[i].values);
	}
	for (size_t i = 0; i < s->n_kept; i++) {
		free(s->kept[i].values);
	}
	for (size_t i = 0; i < s->n_blocks; i++) {
		free(s->blocks[i]);
	}
	map_deinit_items(&s->streams);
	free(s->devices);
	free(s->kept);
	free(s->blocks);
	free(s->row);
	free(s);
	return NULL;
}

/* --- GPUs and processes ---------------------------------------------------------------------- */

static void on_kernel(void *user, const struct attribution_result *result)
{
	const struct gpu *gpu = user;
	struct sampled *s = gpu->owner;
	struct kept *k;
	size_t bytes = s->plan->n_metrics * sizeof(*k->values);

	if (result->id == NOT_KEPT) {
		return;
	}
	k = &s->kept[result->id];
	k->position = result->position;
	k->state = (uint8_t)result->state;
	if (result->values) {
		k->values = malloc(bytes);
		s->failed |= !k->values;
	}
	if (k->values) {
		memcpy(k->values, result->values, bytes);
	}
}

int sampled_add_gpu(struct sampled *s, const char *uuid)
{
	struct attribution_options options = { .metrics = (uint32_t)s->plan->n_metrics,
					       .on_kernel = on_kernel };
	struct gpu *gpu;

	if (s->n_gpus == GPUS_MAX) {
		return -E2BIG;
	}
	gpu = &s->gpus[s->n_gpus];
	*gpu = (struct gpu){ .owner = s };
	strncpy(gpu->uuid, uuid, sizeof(gpu->uuid) - 1);
	options.user = gpu;
	gpu->attribution = attribution_new(&options);
	return gpu->attribution ? (int)s->n_gpus++ : -ENOMEM;
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

static struct kept *keep(struct sampled *s, const struct gpuctr_record *record)
{
	struct kept *k;

	if (s->n_kept == SAMPLED_RECORDS_MAX ||
	    !array_make_room(&s->kept, sizeof(*s->kept), s->n_kept, &s->max_kept)) {
		return NULL;
	}
	k = &s->kept[s->n_kept];
	*k = (struct kept){ .record = *record,
			    .position = ATTRIBUTION_NO_POSITION,
			    .state = ATTRIBUTION_LOST };
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

static void add_kernel(struct sampled *s, struct gpu *gpu, struct stream *stream,
		       const struct gpuctr_record *r, uint64_t step, uint64_t id)
{
	const struct attribution_kernel kernel = { .id = id,
						   .sequence = stream->sequence,
						   .step = step,
						   .place = place_of(r),
						   .shape = shape_of(r),
						   .start_ns = r->start_ns,
						   .end_ns = r->start_ns + r->duration_ns };

	if (stream->lost_since_ns != 0) {
		s->failed |=
			attribution_lost(gpu->attribution, stream->lost_since_ns, r->start_ns) < 0;
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

	if (gpu && copy->kind == GPUCTR_COPY_LOST) {
		s->failed |= attribution_lost(gpu->attribution, kernel.start_ns, kernel.end_ns) < 0;
	} else if (gpu && stream) {
		add(s, gpu, &kernel);
	}
}

static void tell_without(struct sampled *s, const struct gpuctr_record *record,
			 enum sampled_reason why, sampled_on_record *on_record, void *user)
{
	struct gpuctr_record r = *record;

	for (size_t i = 0; i < 2 * s->plan->n_columns; i++) {
		s->row[i] = NAN;
	}
	r.values = s->row;
	r.errors = s->row + s->plan->n_columns;
	s->counts.without[why]++;
	on_record(user, &r);
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
		tell_without(s, record, SAMPLED_TOO_MANY, on_record, user);
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

void sampled_sample(struct sampled *s, int number, int64_t start_ns, int64_t end_ns,
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
	gpu->samples[gpu->n_samples] = (struct sample){ start_ns, end_ns };
	memcpy(gpu->values + gpu->n_samples * n, values, n * sizeof(*values));
	gpu->n_samples++;
	s->counts.samples++;
}

static int compare_starts(const void *a, const void *b)
{
	const struct attribution_kernel *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
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
			r = attribution_kernel(gpu->attribution, &gpu->kernels[k]);
		}
		r = r == 0 ? attribution_sample(gpu->attribution, gpu->samples[i].start_ns,
						gpu->samples[i].end_ns, gpu->values + i * n)
			   : r;
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
			s->failed |= attribution_lost(gpu->attribution, stream->lost_since_ns,
						      end_ns) < 0;
		}
	}
}

static void attribute(struct sampled *s, struct gpu *gpu, unsigned *alike)
{
	const struct attribution_counts *c = attribution_counts(gpu->attribution);

	tell_lost_to_end(s, gpu);
	give(s, gpu, INT64_MAX);
	for (size_t i = 0; i < gpu->n_kernels; i++) { /* behind the last sample */
		s->failed |= attribution_kernel(gpu->attribution, &gpu->kernels[i]) < 0;
	}
	gpu->n_kernels = 0;
	s->failed |= attribution_finish(gpu->attribution) < 0;
	gpu->first_alike = *alike;
	*alike += c->positions;
	s->counts.bad_samples += c->bad_samples + c->late_samples;
	s->counts.shift_known |= c->shift_known;
	s->counts.shift_ns = c->shift_known ? c->shift_ns[0] : s->counts.shift_ns;
}

static enum sampled_reason reason_of(enum attribution_state state)
{
	switch (state) {
	case ATTRIBUTION_TOO_SHORT:
		return SAMPLED_TOO_SHORT;
	case ATTRIBUTION_TOGETHER:
		return SAMPLED_TOGETHER;
	case ATTRIBUTION_CLOCKS:
		return SAMPLED_CLOCKS;
	case ATTRIBUTION_CROWDED:
		return SAMPLED_CROWDED;
	case ATTRIBUTION_MEASURED:
	case ATTRIBUTION_LOST:
		break;
	}
	return SAMPLED_LOST;
}

/* A column's value and error, of its metrics', which know nothing of each other. The first that is
 * not told is why the column is not. */
static enum attribution_state add_up(const struct gpuctr_plan *plan, size_t column,
				     const struct attribution_value *metrics, double *ret_value,
				     double *ret_error)
{
	enum attribution_state state = ATTRIBUTION_MEASURED;
	double value = 0, variance = 0;

	for (size_t i = 0; i < plan->n_terms; i++) {
		const struct gpuctr_term *t = &plan->terms[i];
		const struct attribution_value *m = &metrics[t->metric];

		if (t->column != column) {
			continue;
		}
		state = state == ATTRIBUTION_MEASURED || m->state > state ? m->state : state;
		value += t->weight * m->value;
		variance += t->weight * t->weight * m->error * m->error;
	}
	*ret_value = value;
	*ret_error = sqrt(variance);
	return state;
}

/* Fills the row; why the first column without a value has none, or SAMPLED_REASONS. */
static enum sampled_reason fill(struct sampled *s, const struct attribution_value *metrics)
{
	enum sampled_reason why = SAMPLED_REASONS;

	for (size_t i = 0; i < s->plan->n_columns; i++) {
		double value, error;
		enum attribution_state state = add_up(s->plan, i, metrics, &value, &error);
		bool told = state == ATTRIBUTION_MEASURED;

		if (i == 0 && (told || state == ATTRIBUTION_TOO_SHORT)) {
			s->counts.sum += value;
			s->counts.too_short_sum += told ? 0 : value;
		}
		why = why == SAMPLED_REASONS && !told ? reason_of(state) : why;
		s->row[i] = told ? value : NAN;
		s->row[s->plan->n_columns + i] = told ? error : NAN;
	}
	return why;
}

static void tell(struct sampled *s, struct kept *k, sampled_on_record *on_record, void *user)
{
	struct attribution_value of_position[ATTRIBUTION_METRICS_MAX];
	const struct attribution_value *metrics = k->values;
	const struct gpu *gpu = &s->gpus[k->gpu];
	enum sampled_reason why;

	if (!k->has_gpu || !k->timed || s->failed || k->state != ATTRIBUTION_MEASURED) {
		why = !k->has_gpu ? SAMPLED_OTHER_GPU
		      : !k->timed ? SAMPLED_NO_TIME
				  : reason_of(s->failed ? ATTRIBUTION_LOST
							: (enum attribution_state)k->state);
		tell_without(s, &k->record, why, on_record, user);
		return;
	}
	if (k->position != ATTRIBUTION_NO_POSITION) {
		attribution_position(gpu->attribution, k->position, of_position);
		metrics = of_position;
		k->record.alike = gpu->first_alike + k->position;
	}
	why = fill(s, metrics);
	if (why != SAMPLED_REASONS) {
		s->counts.without[why]++;
	}
	k->record.values = s->row;
	k->record.errors = s->row + s->plan->n_columns;
	on_record(user, &k->record);
}

void sampled_finish(struct sampled *s, sampled_on_record *on_record, void *user)
{
	unsigned alike = 1;

	for (size_t i = 0; i < s->n_gpus; i++) {
		attribute(s, &s->gpus[i], &alike);
	}
	for (size_t i = 0; i < s->n_kept; i++) {
		tell(s, &s->kept[i], on_record, user);
	}
}

const struct sampled_counts *sampled_counts(const struct sampled *s)
{
	return &s->counts;
}
