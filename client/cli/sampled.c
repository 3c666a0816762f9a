/* SPDX-License-Identifier: Apache-2.0 */

/* Kernels and samples of a GPU wait (waiting.c), and are then given to its attribution. Of a record
 * only what cannot be found again is kept: the record itself, and the position that attribution
 * gave it.
 *
 * Out of memory, everything is told without values: the records are what the program's user waited
 * for. */

#include "client/cli/sampled.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/cli/waiting.h"
#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

/* Agents tell four times a second what they have seen. */
#define COUNTED_NS INT64_C(1000000000)
#define NOT_KEPT UINT64_MAX

enum {
	GPUS_MAX = 64,
	FILES_SCALE = 8,
	TOLD_PART = 8, /* of the records that are kept, when they are too many */
};

struct kept {
	struct gpuctr_record record;
	uint32_t position;
	uint8_t state; /* enum attribution_state */
	bool timed, has_gpu, is_known, is_late;
	uint16_t gpu;
	struct attribution_value *values; /* the kernel's own, if it has no position; NULL: none */
};

struct gpu {
	char uuid[64];
	struct sampled *owner;
	struct waiting waiting;
};

/* A stream of a process, whose kernels run one after the other. */
struct stream {
	unsigned process, context;
	uint64_t stream;
	bool copies; /* a stream of copies, kept apart: which of its copies are missing is not known
		      */
	uint64_t sequence;
	int64_t end_ns;	       /* of its last kernel with a time */
	const struct gpu *gpu; /* of one without a time */
	int64_t lost_since_ns; /* 0: none without a time since */
};

/* A device of a process. */
struct device {
	unsigned process, index;
	int gpu;	 /* -1: it is not sampled */
	int64_t last_ns; /* the end of its last kernel that came; of none, when it began */
	bool is_over;	 /* nothing more comes */
};

struct sampled {
	const struct gpuctr_plan *plan;
	struct gpu gpus[GPUS_MAX];
	size_t n_gpus;
	struct device *devices;
	size_t n_devices, max_devices;
	struct map streams;
	struct kept *kept;
	size_t n_kept, max_kept;
	uint64_t first_kept;		    /* its number among all */
	const struct gpuctr_range **active; /* index of the last record that was kept */
	size_t n_active;
	double *row; /* values, errors of a record */
	struct sampled_unknown *unknown;
	size_t n_unknown, max_unknown;
	bool failed;		      /* out of memory */
	size_t scale;		      /* of bounds; 0: 1 */
	bool is_live;		      /* ends of processes are told */
	uint64_t undelivered;	      /* launches of all processes, at least */
	enum sampled_reason told_why; /* of the record that is being reported */
	struct sampled_counts counts;
	sampled_on_sample *on_sample;
	void *on_sample_user;
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

/* The first n. Records that follow each other share their list of ranges. */
static void forget(struct sampled *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct gpuctr_record *r = &s->kept[i].record;

		if (i + 1 == s->n_kept || r->active != s->kept[i + 1].record.active) {
			free((void *)(uintptr_t)r->active);
		}
		free(s->kept[i].values);
	}
	s->n_kept -= n;
	s->first_kept += n;
	if (s->n_kept > 0) {
		memmove(s->kept, s->kept + n, s->n_kept * sizeof(*s->kept));
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
		waiting_deinit(&s->gpus[i].waiting);
	}
	forget(s, s->n_kept);
	map_deinit_items(&s->streams);
	free(s->devices);
	free(s->kept);
	free(s->row);
	free(s->unknown);
	free(s);
	return NULL;
}

/* --- GPUs and processes ---------------------------------------------------------------------- */

/* NULL: the record was reported already, or there was none. */
static struct kept *find_kept(struct sampled *s, uint64_t id)
{
	return id != NOT_KEPT && id >= s->first_kept ? &s->kept[id - s->first_kept] : NULL;
}

static void on_late(void *user, uint64_t kernel)
{
	struct kept *k = find_kept(((const struct gpu *)user)->owner, kernel);

	if (k) {
		k->is_late = true;
	}
}

static void on_kernel(void *user, const struct attribution_result *result)
{
	const struct gpu *gpu = user;
	struct sampled *s = gpu->owner;
	struct kept *k = find_kept(s, result->id);
	size_t bytes = s->plan->n_metrics * sizeof(*k->values);

	if (!k) {
		return;
	}
	k->is_known = true;
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

static void on_given(void *user, int64_t start_ns, int64_t end_ns, const double *values)
{
	const struct gpu *gpu = user;
	const struct sampled *s = gpu->owner;

	if (s->on_sample) {
		s->on_sample(s->on_sample_user, (int)(gpu - s->gpus), start_ns, end_ns, values);
	}
}

void sampled_hear_samples(struct sampled *s, sampled_on_sample *on_sample, void *user)
{
	s->on_sample = on_sample;
	s->on_sample_user = user;
}

static const struct waiting_handler waiting_handler = { on_late, on_given };

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
	if (waiting_init(&gpu->waiting, &options, &waiting_handler) < 0) {
		return -ENOMEM;
	}
	gpu->waiting.scale = s->scale;
	return (int)s->n_gpus++;
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

int sampled_find_gpu(const struct sampled *s, unsigned process, unsigned index)
{
	const struct device *device = find_device(s, process, index);

	return device ? device->gpu : -1;
}

/* NULL: it is not sampled. */
static struct gpu *gpu_of(struct sampled *s, const struct device *device)
{
	return device && device->gpu >= 0 ? &s->gpus[device->gpu] : NULL;
}

static void add_device(struct sampled *s, unsigned process, const struct gpuctr_device *d)
{
	int gpu = find_gpu(s, d->uuid);

	s->devices[s->n_devices++] = (struct device){
		.process = process,
		.index = d->index,
		.gpu = gpu,
		.last_ns = gpu >= 0 ? waiting_last_sample(&s->gpus[gpu].waiting) : 0,
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

static bool add_unknown(struct sampled *s, const struct sampled_unknown *unknown)
{
	if (!array_make_room(&s->unknown, sizeof(*s->unknown), s->n_unknown, &s->max_unknown)) {
		return false;
	}
	s->unknown[s->n_unknown++] = *unknown;
	return true;
}

void sampled_note_unknown(struct sampled *s, const struct sampled_unknown *unknown)
{
	if (unknown->gpu < 0) {
		sampled_discard(s, unknown->start_ns);
		return;
	}
	s->failed |= waiting_lost(&s->gpus[unknown->gpu].waiting, unknown->start_ns,
				  unknown->end_ns) < 0 ||
		     !add_unknown(s, unknown);
}

size_t sampled_unknown(const struct sampled *s, const struct sampled_unknown **ret)
{
	*ret = s->unknown;
	return s->n_unknown;
}

/* Nobody knows what the process ran there meanwhile, so nobody else gets these samples. */
static void note_unknown(struct sampled *s, const struct device *d, int64_t start_ns,
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
		struct device *d = &s->devices[i];
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

static struct kept *keep(struct sampled *s, const struct gpuctr_record *record)
{
	struct kept *k;

	if (!array_make_room(&s->kept, sizeof(*s->kept), s->n_kept, &s->max_kept)) {
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

/* The kernel ran between the kernels before and after it in its stream, or until the end. */
static void note_timeless(struct stream *stream, const struct gpu *gpu,
			  const struct gpuctr_record *r)
{
	stream->gpu = gpu;
	if (stream->lost_since_ns == 0) {
		stream->lost_since_ns = stream->end_ns ? stream->end_ns : r->start_ns;
	}
}

static void add(struct sampled *s, struct device *device, struct gpu *gpu,
		const struct attribution_kernel *kernel)
{
	device->last_ns = kernel->end_ns > device->last_ns ? kernel->end_ns : device->last_ns;
	s->failed |= waiting_kernel(&gpu->waiting, kernel) < 0;
}

static void add_kernel(struct sampled *s, struct device *device, struct stream *stream,
		       const struct gpuctr_record *r, uint64_t step, uint64_t id)
{
	struct gpu *gpu = &s->gpus[device->gpu];
	const struct attribution_kernel kernel = { .id = id,
						   .sequence = stream->sequence,
						   .step = step,
						   .place = place_of(r),
						   .shape = shape_of(r),
						   .start_ns = r->start_ns,
						   .end_ns = r->start_ns + r->duration_ns };

	if (stream->lost_since_ns != 0) {
		s->failed |= waiting_lost(&gpu->waiting, stream->lost_since_ns, r->start_ns) < 0;
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
	struct device *device = find_device(s, copy->process, copy->device);
	struct gpu *gpu = gpu_of(s, device);
	const struct stream *stream = find_stream(s, &wanted);
	const struct attribution_kernel kernel = {
		.id = NOT_KEPT,
		.sequence = stream ? stream->sequence : 0,
		.shape = (uint32_t)map_mix((uint64_t)copy->kind + 1, copy->bytes),
		.start_ns = copy->start_ns,
		.end_ns = copy->start_ns + copy->duration_ns,
	};

	if (gpu && copy->kind == GPUCTR_COPY_LOST) {
		s->failed |= waiting_lost(&gpu->waiting, kernel.start_ns, kernel.end_ns) < 0;
	} else if (gpu && stream) {
		add(s, device, gpu, &kernel);
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
	s->told_why = why;
	on_record(user, &r);
}

static void tell_oldest(struct sampled *s, sampled_on_record *on_record, void *user);

void sampled_record(struct sampled *s, const struct gpuctr_record *record, uint64_t step,
		    sampled_on_record *on_record, void *user)
{
	struct device *device = find_device(s, record->process, record->device);
	struct gpu *gpu = gpu_of(s, device);
	const struct stream wanted = { .process = record->process,
				       .context = record->context,
				       .stream = record->stream };
	struct stream *stream = find_stream(s, &wanted);
	struct kept *k;

	if (s->n_kept >= SAMPLED_RECORDS_MAX * (s->scale ? s->scale : 1)) {
		tell_oldest(s, on_record, user);
	}
	k = keep(s, record);
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
		add_kernel(s, device, stream, record, step,
			   k ? s->first_kept + (uint64_t)(k - s->kept) : NOT_KEPT);
	} else {
		note_timeless(stream, gpu, record);
	}
}

/* --- samples --------------------------------------------------------------------------------- */

void sampled_sample(struct sampled *s, int number, int64_t start_ns, int64_t end_ns,
		    const double *values)
{
	if (s->failed || waiting_sample(&s->gpus[number].waiting, start_ns, end_ns, values) < 0) {
		s->failed = true;
		return;
	}
	s->counts.samples++;
}

void sampled_discard(struct sampled *s, int64_t since_ns)
{
	s->failed |= !add_unknown(s, &(struct sampled_unknown){ -1, since_ns, INT64_MAX });
	for (size_t i = 0; i < s->n_gpus; i++) {
		waiting_discard(&s->gpus[i].waiting, since_ns);
	}
}

void sampled_advance(struct sampled *s)
{
	for (size_t i = 0; i < s->n_gpus && !s->failed; i++) {
		s->failed = waiting_advance(&s->gpus[i].waiting, s->undelivered > 0) < 0;
	}
}

/* --- the end --------------------------------------------------------------------------------- */

static void tell_lost_to_end(struct sampled *s, struct gpu *gpu)
{
	int64_t end_ns = waiting_last_sample(&gpu->waiting);

	for (size_t i = 0; i < s->streams.n_slots; i++) {
		const struct stream *stream = s->streams.slots[i].item;

		if (stream && stream->gpu == gpu && stream->lost_since_ns != 0) {
			s->failed |= waiting_lost(&gpu->waiting, stream->lost_since_ns, end_ns) < 0;
		}
	}
}

static void attribute(struct sampled *s, struct gpu *gpu)
{
	const struct attribution_counts *c = attribution_counts(gpu->waiting.attribution);

	tell_lost_to_end(s, gpu);
	s->failed |= s->failed || waiting_finish(&gpu->waiting) < 0;
	s->counts.bad_samples += c->bad_samples + c->late_samples;
	s->counts.shift_known |= c->shift_known;
	s->counts.apart_ns = s->counts.apart_ns ? s->counts.apart_ns : c->apart_ns;
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

/* A column's value and error, from its metrics', whose errors are independent. The first metric
 * without a value is the reason why the column has none. */
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

/* Returns why the metric has no value, or SAMPLED_REASONS. */
static enum sampled_reason why_none(const struct sampled *s, const struct kept *k)
{
	if (!k->has_gpu) {
		return SAMPLED_OTHER_GPU;
	}
	if (!k->timed) {
		return SAMPLED_NO_TIME;
	}
	if (k->is_late || s->failed) {
		return k->is_late ? SAMPLED_LATE : SAMPLED_LOST;
	}
	if (!k->is_known) {
		return SAMPLED_TOO_MANY;
	}
	if (k->state != ATTRIBUTION_MEASURED) {
		return reason_of((enum attribution_state)k->state);
	}
	return waiting_is_beside_late(&s->gpus[k->gpu].waiting, k->record.start_ns,
				      k->record.start_ns + k->record.duration_ns)
		       ? SAMPLED_LOST
		       : SAMPLED_REASONS;
}

static void tell(struct sampled *s, struct kept *k, sampled_on_record *on_record, void *user)
{
	struct attribution_value of_position[ATTRIBUTION_METRICS_MAX];
	const struct attribution_value *metrics = k->values;
	enum sampled_reason why = why_none(s, k);

	if (why != SAMPLED_REASONS) {
		tell_without(s, &k->record, why, on_record, user);
		return;
	}
	if (k->position != ATTRIBUTION_NO_POSITION) {
		attribution_position(s->gpus[k->gpu].waiting.attribution, k->position, of_position);
		metrics = of_position;
		k->record.alike = 1 + k->position * (unsigned)s->n_gpus + k->gpu;
	}
	why = fill(s, metrics);
	if (why != SAMPLED_REASONS) {
		s->counts.without[why]++;
	}
	s->told_why = why;
	k->record.values = s->row;
	k->record.errors = s->row + s->plan->n_columns;
	on_record(user, &k->record);
}

static void tell_oldest(struct sampled *s, sampled_on_record *on_record, void *user)
{
	size_t n = s->n_kept / TOLD_PART;

	for (size_t i = 0; i < n; i++) {
		tell(s, &s->kept[i], on_record, user);
	}
	forget(s, n);
}

/* For a process whose end was not reported: what it ran since its last record. */
static void note_unended(struct sampled *s)
{
	for (size_t i = 0; i < s->n_devices; i++) {
		const struct device *d = &s->devices[i];
		const struct gpu *gpu = gpu_of(s, d);
		int64_t end_ns = gpu ? waiting_last_sample(&gpu->waiting) : 0;
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
		tell(s, &s->kept[i], on_record, user);
	}
}

const struct sampled_counts *sampled_counts(const struct sampled *s)
{
	return &s->counts;
}

/* --- words ----------------------------------------------------------------------------------- */

const char *sampled_reason_name(enum sampled_reason why)
{
	static const char *const names[SAMPLED_REASONS] = {
		[SAMPLED_TOO_SHORT] = "too short to tell",
		[SAMPLED_TOGETHER] = "not told apart",
		[SAMPLED_LOST] = "samples missing",
		[SAMPLED_CLOCKS] = "clocks differ",
		[SAMPLED_CROWDED] = "too many at once",
		[SAMPLED_NO_TIME] = "without a time",
		[SAMPLED_OTHER_GPU] = "on other GPUs",
		[SAMPLED_TOO_MANY] = "too many to be kept",
		[SAMPLED_LATE] = "came too late",
	};

	return names[why];
}

const char *sampled_told_why(const struct sampled *s)
{
	return s->told_why == SAMPLED_REASONS ? NULL : sampled_reason_name(s->told_why);
}

void sampled_describe(const struct sampled *s, struct buf *b)
{
	const struct sampled_counts *c = &s->counts;
	const char *separator = ": ";
	uint64_t without = 0;

	for (int i = 0; i < SAMPLED_REASONS; i++) {
		without += c->without[i];
	}
	text_count(b, without);
	buf_text(b, " of ");
	text_count(b, c->kernels);
	buf_text(b, " kernels have no value");
	for (int i = 0; i < SAMPLED_REASONS; i++) {
		if (c->without[i] == 0) {
			continue;
		}
		buf_printf(b, "%s%s ", separator, sampled_reason_name((enum sampled_reason)i));
		separator = ", ";
		text_count(b, c->without[i]);
		if (i == SAMPLED_TOO_SHORT && c->sum > 0) {
			buf_printf(b, " (with %.2g %% of the first metric)",
				   100 * c->too_short_sum / c->sum);
		}
	}
}
