/* SPDX-License-Identifier: Apache-2.0 */
#include "client/sampler/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/sampler/metrics.h"
#include "client/sampler/refuse.h"
#include "proto/base/clock.h"
#include "proto/nvidia/uuid.h"

/* PM sampling wants no context: it counts whatever runs on the GPU. The hardware writes samples
 * into a buffer; decoding moves them into an image, and each is evaluated from there. At 10 us that
 * is all of the work here: CUPTI decodes a sample in 3.8 to 5.5 us and evaluates it in 1.9 to 2.9,
 * so a second thread evaluates (evaluator.h). Decoding into an image that holds samples costs more,
 * so an image is emptied after each drain.
 *
 * A full image costs samples: the next image gets 100 to 600 samples at once, and as many are
 * missing behind these (H100, CUPTI 2025.3). So an image has room for a third of a second, and
 * doubles if it was full all the same. Emptying an image whose last sample is incomplete loses this
 * sample. Once such an image is half full, a drain looks at it several times, because the sample is
 * soon complete; once it is three quarters full, it is emptied all the same.
 *
 * The first sample after Start begins at some earlier time, so it is left out. When the buffer
 * overflows, CUPTI returns OUT_OF_MEMORY or sets a flag, but not how many samples are missing. So
 * sampling begins anew, and the length of the gap gives their number. When the driver takes the
 * counters away, CUPTI returns an error, or no samples come any more.
 *
 * Samples have times of the machine's clock, and times in the stream never go back. When the clock
 * is set back, samples are lost, and counted one by one, until it has reached its former time.
 *
 * The time to decode a sample grows with its size: a few us for metrics of the memory, tens of us
 * for metrics of 132 SMs, 26 KB each. At 200 us none of four runs lost more than three such
 * samples, at 100 us one of four lost 3 % (H100, H200). So unless the user gave an interval,
 * metrics of SMs get 200 us or more. The interval doubles when the buffer overflows although
 * nothing has delayed this process, or when samples come faster than they are decoded for a second.
 * Samples of the L2 cache, 6 KB each, were decoded at 76,000 a second (H100).
 *
 * Sets of metrics take turns. A CUPTI object that was configured for one set cannot change to
 * another: it goes on with the first or gives no samples (H200, CUPTI 2025.3). So each turn makes a
 * new object, which takes 0.4 to 0.6 s. Turns are of uneven length, so that they do not follow the
 * steps of a program. A change of objects that fails may succeed a moment later (another profiler
 * listed counters, the daemon was replaced), so each drain tries it again, for two seconds. */

enum {
	SAMPLES_FIRST = 32768,
	SAMPLES_OF_SETS = 16384, /* in an image, if there are several sets */
	SAMPLES_MIN = 64,
	OVERFLOWS_MAX = 3,
	SILENT_INTERVALS = 200,
	FIRST_INTERVALS = 4,	   /* until the first sample comes, at most */
	SIZED_SAMPLES = 1024,	   /* in a layout that only gives the size of one */
	SMALL_SAMPLE_BYTES = 8192, /* samples of metrics that are not of SMs are smaller */
	DECODED_NS_PER_BYTE = 8,
	SMALL_NS_PER_BYTE = 3, /* for small samples */
	DRAIN_MIN_MS = 30,
	DRAIN_MAX_MS = 100,
	DRAIN_SAMPLES = 100, /* between two drains, at long intervals */
	LOOKS = 8,	     /* in a drain, at an incomplete sample */
	LOOK_PAUSE_NS = 50000,
};

#define IMAGE_FIRST_BYTES (UINT64_C(112) << 20)
#define IMAGE_MAX_BYTES (UINT64_C(256) << 20)
#define SHORT_INTERVAL_NS 20000
#define USUAL_INTERVAL_NS 10000
#define LONGEST_INTERVAL_NS (20 * CLOCK_NS_PER_MS) /* longest that is tried after overflows */
#define OVERFLOWS_APART_NS CLOCK_NS_PER_S	   /* closer overflows count as in a row */
#define HELD_UP_NS (10 * CLOCK_NS_PER_MS)	   /* a drain later than this was held up */
#define LAST_DRAIN_NS (2 * CLOCK_NS_PER_S)	   /* samples still in the buffer then are lost */
#define SILENT_NS (3 * CLOCK_NS_PER_S)
/* Longest drain; turns, signals and the end are handled after it. */
#define DRAIN_MOST_NS (200 * CLOCK_NS_PER_MS)
#define BEHIND_NS CLOCK_NS_PER_S
#define CHANGE_NS (2 * CLOCK_NS_PER_S) /* for so long a change is tried */
#define CHANGE_AGAIN_NS (100 * CLOCK_NS_PER_MS)

static uint64_t buffer_bytes(const struct session *s)
{
	return s->options->buffer_bytes			  ? s->options->buffer_bytes
	       : s->set->interval_ns <= SHORT_INTERVAL_NS ? UINT64_C(512) << 20
							  : UINT64_C(256) << 20;
}

static int refuse(const struct session *s, CUptiResult result, const char *call, struct refusal *r)
{
	return refuse_call(&s->host, &s->vendor, result, call, buffer_bytes(s), r);
}

/* Explains a failure while sampling: with most results the counters were taken away. */
static int cut_off(const struct session *s, CUptiResult result, const char *call, struct refusal *r)
{
	if (result == CUPTI_ERROR_HARDWARE_BUSY || result == CUPTI_ERROR_OUT_OF_MEMORY) {
		return refuse(s, result, call, r);
	}
	refusal_set(r, SAMPLER_CUT_OFF,
		    "`gpuctr-client status` shows who has them now; the kernel's log has errors "
		    "(Xid) of a GPU that is lost.",
		    "the counters were taken away, or the GPU is lost (%s: %s)", call,
		    result != CUPTI_SUCCESS ? host_result_name(&s->vendor, result)
		    : s->end_ns == 0	    ? "no samples come"
					    : "no samples come any more");
	return r->code;
}

/* --- opening --- */

static bool is_device(const struct session *s, int i, CUdevice device, const char *gpu)
{
	char index[16], uuid[SAMPLER_UUID_BYTES];
	CUuuid bytes;

	snprintf(index, sizeof(index), "%d", i);
	if (s->driver.cuDeviceGetUuid(&bytes, device) != CUDA_SUCCESS) {
		return false;
	}
	uuid_format(&bytes, uuid, sizeof(uuid));
	return strcmp(gpu, index) == 0 || strcmp(gpu, uuid) == 0;
}

static int find_device(struct session *s, struct refusal *r)
{
	char name[128] = "";
	CUdevice device;
	CUuuid bytes;
	int n = 0;

	if (s->driver.cuInit(0) != CUDA_SUCCESS || s->driver.cuDeviceGetCount(&n) != CUDA_SUCCESS) {
		n = 0;
	}
	for (int i = 0; i < n; i++) {
		if (s->driver.cuDeviceGet(&device, i) == CUDA_SUCCESS &&
		    is_device(s, i, device, s->options->gpu)) {
			s->pm.device = i;
			s->driver.cuDeviceGetUuid(&bytes, device);
			uuid_format(&bytes, s->uuid, sizeof(s->uuid));
			s->driver.cuDeviceGetName(name, sizeof(name), device);
			/* "NVIDIA H200 MIG 1g.18gb" */
			return strstr(name, " MIG ") ? refuse_mig(name, "", r) : 0;
		}
	}
	refusal_set(r, SAMPLER_NO_GPU,
		    "`gpuctr-client status` lists GPUs; CUDA_VISIBLE_DEVICES may hide some.",
		    "CUDA shows no GPU %.64s (%d in all)", s->options->gpu, n);
	return r->code;
}

static int open_libraries(struct session *s, struct refusal *r)
{
	CUpti_Profiler_Initialize_Params init = {
		.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE,
	};
	char chip[sizeof(s->host.chip)];
	CUptiResult result;
	int code;

	if (vendor_open_driver(&s->driver, r) != 0) {
		return r->code = SAMPLER_NO_CUPTI;
	}
	code = find_device(s, r);
	if (code != 0) {
		return code;
	}
	if (vendor_open_host(&s->vendor, r) != 0 ||
	    vendor_open_sampling(&s->vendor, &s->pm.v, r) != 0) {
		return r->code = SAMPLER_NO_CUPTI;
	}
	vendor_chip_name(&s->vendor, (size_t)s->pm.device, chip, sizeof(chip));
	result = s->vendor.cuptiProfilerInitialize(&init);
	if (result != CUPTI_SUCCESS) {
		return refuse(s, result, "cuptiProfilerInitialize", r);
	}
	return host_init_sampling(&s->host, &s->vendor, chip, r) != 0 ? (r->code = SAMPLER_NO_CHIP)
								      : 0;
}

/* --- images --- */

static CUptiResult init_image(struct session *s, struct image *m)
{
	struct image_layout layout;
	CUptiResult result = pm_layout(&s->pm, &s->set->metrics, m->layout.room, &layout);

	result = result == CUPTI_SUCCESS ? pm_init_image(&s->pm, m) : result;
	if (result == CUPTI_SUCCESS) {
		image_keep(m);
	}
	return result;
}

/* Replaces the image. If there is no memory for the new one, the present one stays. */
static CUptiResult make_image(struct session *s, struct image *m, uint32_t room)
{
	struct image_layout layout;
	struct image made;
	CUptiResult result = pm_layout(&s->pm, &s->set->metrics, room, &layout);

	if (result == CUPTI_SUCCESS && !image_init(&made, &layout, s->set->metrics.n)) {
		result = CUPTI_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUPTI_SUCCESS) {
		return result;
	}
	image_deinit(m);
	*m = made;
	return init_image(s, m);
}

/* Empties this image. From here on CUPTI decodes samples into it. */
static CUptiResult use_image(struct session *s, struct image *m)
{
	CUptiResult result = CUPTI_SUCCESS;

	s->set->image = m;
	if (s->pm.room != m->layout.room) {
		struct image_layout same;

		result = pm_layout(&s->pm, &s->set->metrics, m->layout.room, &same);
	}
	if (result == CUPTI_SUCCESS && !m->is_empty && !image_empty(m)) {
		result = init_image(s, m);
	}
	image_begin(m);
	return result;
}

static CUptiResult make_first_image(struct session *s, struct image *m)
{
	uint32_t room = s->n_sets > 1 ? SAMPLES_OF_SETS : SAMPLES_FIRST;
	struct image_layout layout;
	CUptiResult result = pm_layout(&s->pm, &s->set->metrics, room, &layout);

	if (result == CUPTI_SUCCESS && room * layout.sample > IMAGE_FIRST_BYTES) {
		room = (uint32_t)(IMAGE_FIRST_BYTES / layout.sample);
		room = room > SAMPLES_MIN ? room : SAMPLES_MIN;
	}
	return result == CUPTI_SUCCESS ? make_image(s, m, room) : result;
}

/* Makes the set's image, or initialises that of an earlier turn for the new CUPTI object. */
static CUptiResult prepare_images(struct session *s)
{
	struct image *first = s->set->image = &s->set->images[0];
	const struct image_layout had = first->layout;
	struct image_layout layout;
	CUptiResult result;

	image_deinit(&s->set->images[1]);
	if (!first->data) {
		result = make_first_image(s, first);
	} else {
		result = pm_layout(&s->pm, &s->set->metrics, had.room, &layout);
		if (result == CUPTI_SUCCESS) {
			result = layout.head == had.head && layout.sample == had.sample
					 ? init_image(s, first)
					 : make_image(s, first, had.room);
		}
	}
	return result == CUPTI_SUCCESS ? use_image(s, first) : result;
}

/* The set's other image, with more room if the present one was full and there is memory. NULL:
 * there is only one image, because no thread evaluates, or sets take turns, each with its own. */
static struct image *other_image(struct session *s, bool is_full)
{
	struct image *m = s->set->image;
	struct image *other = m == s->set->images ? m + 1 : s->set->images;
	uint32_t room = m->layout.room;

	if (!s->evaluator.has_thread || s->n_sets > 1) {
		return NULL;
	}
	room = is_full && 2 * m->bytes <= IMAGE_MAX_BYTES ? 2 * room : room;
	if (other->layout.room < room) {
		(void)make_image(s, other, room);
	}
	return other->data ? other : NULL;
}

/* Configures the enabled object for the set whose turn it is. *ret_call: the call that failed. */
static CUptiResult configure(struct session *s, const char **ret_call)
{
	CUptiResult result =
		pm_configure(&s->pm, &s->set->metrics.config, buffer_bytes(s), s->set->interval_ns);

	*ret_call = "cuptiPmSamplingSetConfig";
	if (result == CUPTI_SUCCESS) {
		*ret_call = "the counter data image";
		result = prepare_images(s);
	}
	return result;
}

/* Unless the user gave an interval, chooses one by the size of a sample. */
static CUptiResult choose_interval(struct session *s, struct session_set *set)
{
	struct image_layout layout;
	CUptiResult result = CUPTI_SUCCESS;

	set->interval_ns = s->options->interval_ns;
	if (set->interval_ns == 0) {
		result = pm_layout(&s->pm, &set->metrics, SIZED_SAMPLES, &layout);
	}
	if (set->interval_ns == 0 && result == CUPTI_SUCCESS) {
		set->interval_ns =
			layout.sample * (layout.sample < SMALL_SAMPLE_BYTES ? SMALL_NS_PER_BYTE
									    : DECODED_NS_PER_BYTE);
		if (set->interval_ns < USUAL_INTERVAL_NS) {
			set->interval_ns = USUAL_INTERVAL_NS;
		}
	}
	return result;
}

static int split(struct session *s, struct refusal *r)
{
	const struct session_options *o = s->options;
	struct metrics_set *sets, *one = &s->sets[0].metrics;
	int code;

	s->n_sets = 1;
	if (o->turn_ns == 0) {
		memcpy(one->v, o->metrics, o->n_metrics * sizeof(*o->metrics));
		one->n = o->n_metrics;
		return metrics_configure(&s->host, one->v, one->n, &one->config, r);
	}
	sets = calloc(SAMPLER_SETS_MAX, sizeof(*sets));
	if (!sets) {
		refusal_set(r, SAMPLER_FAILED, "", "out of memory");
		return r->code;
	}
	code = metrics_split(&s->host, o->metrics, o->n_metrics, o->interval_ns == 0, sets,
			     &s->n_sets, s->numbers, r);
	for (size_t i = 0; i < s->n_sets; i++) {
		s->sets[i].metrics = sets[i];
	}
	free(sets);
	return code;
}

static int prepare(struct session *s, struct refusal *r)
{
	const char *call = "cuptiPmSamplingGetCounterDataSize";
	CUptiResult result = pm_enable(&s->pm);

	if (result != CUPTI_SUCCESS) {
		return refuse(s, result, "cuptiPmSamplingEnable", r);
	}
	for (size_t i = 0; result == CUPTI_SUCCESS && i < s->n_sets; i++) {
		result = choose_interval(s, &s->sets[i]);
	}
	result = result == CUPTI_SUCCESS ? configure(s, &call) : result;
	return result == CUPTI_SUCCESS ? 0 : refuse(s, result, call, r);
}

int session_open(struct session *s, const struct session_options *o, struct refusal *r)
{
	int code;

	*s = (struct session){ .options = o };
	s->set = s->sets;
	code = open_libraries(s, r);
	code = code ? code : split(s, r);
	return code ? code : prepare(s, r);
}

/* --- sampling --- */

static CUptiResult start(struct session *s)
{
	s->behind_ns = 0;
	s->skips = true;
	return pm_start(&s->pm);
}

/* Sets when the turn ends: at random, after half to one and a half times turn_ns. */
static void time_turn(struct session *s)
{
	uint64_t turn = s->options->turn_ns, random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0) {
		random = turn / 2;
	}
	s->turn_at_ns = clock_now_ns() + turn / 2 + (turn > 0 ? random % turn : 0);
}

int session_start(struct session *s, struct refusal *r)
{
	CUptiResult result = start(s);

	evaluator_start(&s->evaluator, &s->host);
	s->drained_ns = s->progress_ns = clock_now_ns();
	time_turn(s);
	return result == CUPTI_SUCCESS ? 0 : refuse(s, result, "cuptiPmSamplingStart", r);
}

/* How many samples are missing since the last one, besides those that were counted already. */
static uint64_t missing(const struct session *s, int64_t start_ns)
{
	uint64_t gap = (uint64_t)(start_ns - s->end_ns), interval = s->set->interval_ns;
	uint64_t n = (gap + interval / 2) / interval;

	return s->set_back ? gap / interval : n > 0 ? n : 1;
}

/* Does a sample that begins at start_ns follow the last one? CUPTI sets its clock right every 4 s,
 * so a sample may seem to begin some 0.1 us before the last one has ended, or after. */
static bool follows(const struct session *s, int64_t start_ns)
{
	int64_t most_ns = (int64_t)s->set->interval_ns / 4;

	return !s->turned && s->end_ns != 0 && start_ns > s->end_ns - most_ns &&
	       start_ns < s->end_ns + most_ns;
}

static void tell_sample(struct session *s, struct sampler_writer *w, const int64_t times[2],
			const double *values)
{
	int64_t start_ns = follows(s, times[0]) ? s->end_ns : times[0], end_ns = times[1];

	if (end_ns <= start_ns || start_ns < s->end_ns) {
		sampler_writer_lost(w, 1);
		s->set_back = true;
		return;
	}
	if (s->end_ns != 0 && start_ns > s->end_ns && !s->turned) {
		sampler_writer_lost(w, missing(s, start_ns));
	}
	s->turned = s->set_back = false;
	sampler_writer_sample(w, start_ns, end_ns, values);
	s->end_ns = end_ns;
}

/* Writes the samples that have values. */
static void tell_samples(struct session *s, struct sampler_writer *w, struct image *m)
{
	bool any = false;

	for (; m->taken < m->evaluated; m->taken++) {
		if (s->skips) {
			s->skips = false;
			continue;
		}
		tell_sample(s, w, m->times[m->taken], m->values + m->taken * m->n_metrics);
		any = true;
	}
	if (any) {
		s->progress_ns = clock_now_ns();
	}
}

/* Writes the samples of the image that the evaluator has, when it is done. */
static CUptiResult collect(struct session *s, struct sampler_writer *w)
{
	struct image *m = s->given;
	CUptiResult result;

	if (!m) {
		return CUPTI_SUCCESS;
	}
	s->given = NULL;
	result = evaluator_wait(&s->evaluator);
	tell_samples(s, w, m);
	return result;
}

/* The thread evaluates the image while CUPTI decodes into another; without one, it is done here. */
static CUptiResult give_image(struct session *s, struct sampler_writer *w, bool is_full)
{
	struct image *m = s->set->image, *other = other_image(s, is_full);
	CUptiResult result;

	if (other) {
		s->given = m;
		evaluator_give(&s->evaluator, m, &s->set->metrics);
		return use_image(s, other);
	}
	result = evaluate_image(&s->host, m, &s->set->metrics);
	tell_samples(s, w, m);
	if (result == CUPTI_SUCCESS && is_full && 2 * m->bytes <= IMAGE_MAX_BYTES) {
		(void)make_image(s, m, 2 * m->layout.room);
	}
	return result == CUPTI_SUCCESS ? use_image(s, m) : result;
}

static bool is_used_up(const struct image *m)
{
	return m->all > 0 && (m->n == m->all || m->all > m->layout.room / 4 * 3);
}

/* Takes the samples that are complete. */
static CUptiResult take_image(struct session *s, struct sampler_writer *w, bool is_full)
{
	struct image *m = s->set->image;
	CUptiResult result = pm_count(&s->pm, m, &m->n, &m->all), earlier;

	if (result == CUPTI_SUCCESS && (m->n > m->layout.room || m->all > m->layout.room)) {
		result = CUPTI_ERROR_UNKNOWN;
	}
	while (m->timed < m->n && result == CUPTI_SUCCESS) {
		result = pm_times(&s->pm, m, m->timed, m->times[m->timed]);
		m->timed += result == CUPTI_SUCCESS;
	}
	earlier = collect(s, w);
	result = result == CUPTI_SUCCESS ? earlier : result;
	s->has_incomplete = false;
	if (result == CUPTI_SUCCESS && (is_full || is_used_up(m))) {
		return give_image(s, w, is_full);
	}
	if (result == CUPTI_SUCCESS) {
		result = evaluate_image(&s->host, m, &s->set->metrics);
		tell_samples(s, w, m);
		s->has_incomplete = m->n < m->all && m->all > m->layout.room / 2;
	}
	return result;
}

/* Starts sampling, which was stopped, in a new object, for the set whose turn it is. */
static CUptiResult go_on(struct session *s, const char **ret_call)
{
	CUptiResult result = s->pm.object ? pm_disable(&s->pm) : CUPTI_SUCCESS;

	*ret_call = "cuptiPmSamplingDisable";
	if (result == CUPTI_SUCCESS) {
		*ret_call = "cuptiPmSamplingEnable";
		result = pm_enable(&s->pm);
	}
	result = result == CUPTI_SUCCESS ? configure(s, ret_call) : result;
	if (result == CUPTI_SUCCESS) {
		*ret_call = "cuptiPmSamplingStart";
		result = start(s);
	}
	return result;
}

static void tell_set(const struct session *s, struct sampler_writer *w, uint64_t since_ns)
{
	const struct sampler_set told = { .set = (size_t)(s->set - s->sets),
					  .interval_ns = s->set->interval_ns,
					  .change_ns = clock_now_ns() - since_ns };

	sampler_writer_set(w, &told);
}

/* Changes to a new object. The time since change_ns is no silence: no samples could come. */
static int change(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	const char *call;
	CUptiResult result = go_on(s, &call);
	uint64_t now = clock_now_ns();

	if (result == CUPTI_SUCCESS) {
		s->progress_ns += now - s->change_ns;
		/* The last samples of the old turn came after the change began. */
		s->progress_ns = s->progress_ns < now ? s->progress_ns : now;
		tell_set(s, w, s->change_ns);
		time_turn(s);
		return 0;
	}
	cut_off(s, result, call, &s->trouble);
	if (now - s->change_ns < CHANGE_NS) {
		s->turn_at_ns = now + CHANGE_AGAIN_NS;
		return 0;
	}
	*r = s->trouble;
	return r->code;
}

static int begin_anew(struct session *s, struct sampler_writer *w, bool was_held_up,
		      struct refusal *r)
{
	uint64_t now = clock_now_ns();
	bool is_longer = s->options->interval_ns == 0 && !was_held_up;
	CUptiResult result = collect(s, w), stopped;

	s->overflows++;
	s->in_a_row = now < s->overflow_ns + OVERFLOWS_APART_NS ? s->in_a_row + 1 : 1;
	s->overflow_ns = s->change_ns = now;
	s->behind_ns = 0;
	if (is_longer ? s->set->interval_ns > LONGEST_INTERVAL_NS : s->in_a_row > OVERFLOWS_MAX) {
		return refuse_interval("cuptiPmSamplingDecodeData", r);
	}
	stopped = pm_stop(&s->pm);
	result = result == CUPTI_SUCCESS ? stopped : result;
	if (result == CUPTI_SUCCESS && is_longer) {
		s->set->interval_ns *= 2;
		return change(s, w, r);
	}
	s->set->image->all = s->set->image->layout.room; /* the failed call may have written any */
	result = result == CUPTI_SUCCESS ? use_image(s, s->set->image) : result;
	result = result == CUPTI_SUCCESS ? start(s) : result;
	return result == CUPTI_SUCCESS ? 0
				       : cut_off(s, result, "beginning anew after an overflow", r);
}

static bool is_silent(const struct session *s)
{
	uint64_t patience = s->set->interval_ns * SILENT_INTERVALS;

	patience = patience > SILENT_NS ? patience : SILENT_NS;
	return clock_now_ns() - s->progress_ns > patience;
}

/* At the end: has no sample come in a time in which some should have? */
static bool was_silent(const struct session *s)
{
	uint64_t patience = CLOCK_NS_PER_S + FIRST_INTERVALS * s->set->interval_ns;

	return s->end_ns == 0 && clock_now_ns() - s->progress_ns > patience;
}

/* Takes samples from before stopped_ns. Those that CUPTI does not give are counted as lost. */
static CUptiResult take_rest(struct session *s, struct sampler_writer *w, int64_t stopped_ns)
{
	uint64_t give_up_ns = clock_now_ns() + LAST_DRAIN_NS;
	bool is_full = true, overflows = false;
	CUptiResult result = CUPTI_SUCCESS, evaluated;

	while (result == CUPTI_SUCCESS && is_full && !overflows && clock_now_ns() < give_up_ns) {
		result = pm_decode(&s->pm, s->set->image, &is_full, &overflows);
		if (result == CUPTI_SUCCESS || overflows) {
			result = take_image(s, w, is_full);
		}
	}
	evaluated = collect(s, w);
	s->overflows += overflows;
	/* No sample has come since sampling began anew, or CUPTI does not give all. */
	if ((is_full || overflows || (s->skips && !s->turned)) && s->end_ns != 0 &&
	    stopped_ns > s->end_ns) {
		sampler_writer_lost(w, missing(s, stopped_ns));
	}
	return result == CUPTI_SUCCESS ? evaluated : result;
}

static int turn(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	const char *call = "cuptiPmSamplingStop";
	int64_t stopped_ns = (int64_t)clock_wall_ns(); /* samples have this clock */
	CUptiResult result;

	s->change_ns = clock_now_ns();
	result = pm_stop(&s->pm);
	if (result == CUPTI_SUCCESS) {
		call = "cuptiPmSamplingDecodeData";
		result = take_rest(s, w, stopped_ns);
	}
	if (result != CUPTI_SUCCESS) {
		return cut_off(s, result, call, r);
	}
	s->set = s->set + 1 < s->sets + s->n_sets ? s->set + 1 : s->sets;
	s->turned = true;
	return change(s, w, r);
}

/* Time from the beginning of a drain to that of the next. */
static uint64_t period_ns(const struct session *s)
{
	uint64_t ms = s->set->interval_ns * DRAIN_SAMPLES / CLOCK_NS_PER_MS;

	ms = ms < DRAIN_MIN_MS ? DRAIN_MIN_MS : ms > DRAIN_MAX_MS ? DRAIN_MAX_MS : ms;
	return s->behind_ns != 0 ? 0 : ms * CLOCK_NS_PER_MS;
}

uint64_t session_next_ns(const struct session *s)
{
	return s->began_ns + period_ns(s);
}

/* Have samples come faster than they are decoded for too long? A user who gave the interval gets
 * samples until the buffer overflows. */
static bool falls_behind(struct session *s, bool is_full)
{
	uint64_t now = clock_now_ns();

	s->behind_ns = !is_full ? 0 : s->behind_ns ? s->behind_ns : now;
	return s->behind_ns != 0 && now > s->behind_ns + BEHIND_NS && s->options->interval_ns == 0;
}

/* After n looks of a drain: should it look again at once? */
static bool goes_on(const struct session *s, unsigned n, bool is_full, uint64_t by_ns)
{
	return n == 0 || (is_full ? clock_now_ns() < by_ns : s->has_incomplete && n < LOOKS);
}

static int drain(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	uint64_t by_ns = clock_now_ns() + DRAIN_MOST_NS;
	uint64_t due_ns = session_next_ns(s) > s->drained_ns ? session_next_ns(s) : s->drained_ns;
	bool was_held_up = clock_now_ns() > due_ns + HELD_UP_NS;
	bool is_full = true, overflows = false;

	s->began_ns = clock_now_ns();
	if (!s->pm.is_started) {
		return clock_now_ns() >= s->turn_at_ns ? change(s, w, r) : 0;
	}
	for (unsigned i = 0; goes_on(s, i, is_full, by_ns); i++) {
		CUptiResult result;

		if (!is_full) {
			nanosleep(&(struct timespec){ 0, LOOK_PAUSE_NS }, NULL);
		}
		result = pm_decode(&s->pm, s->set->image, &is_full, &overflows);
		if (result != CUPTI_SUCCESS && !overflows) {
			return cut_off(s, result, "cuptiPmSamplingDecodeData", r);
		}
		result = take_image(s, w, is_full);
		if (result != CUPTI_SUCCESS) {
			return cut_off(s, result, "evaluation", r);
		}
		if (overflows) {
			return begin_anew(s, w, was_held_up, r);
		}
	}
	if (falls_behind(s, is_full)) {
		return begin_anew(s, w, false, r);
	}
	if (!s->given && is_silent(s)) {
		return cut_off(s, CUPTI_SUCCESS, "cuptiPmSamplingDecodeData", r);
	}
	return s->n_sets > 1 && clock_now_ns() >= s->turn_at_ns ? turn(s, w, r) : 0;
}

int session_drain(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	int code = drain(s, w, r);

	s->drained_ns = clock_now_ns();
	return code;
}

int session_stop(struct session *s, struct sampler_writer *w, struct refusal *r)
{
	int64_t stopped_ns = (int64_t)clock_wall_ns(); /* samples have this clock */
	const char *call = "cuptiPmSamplingStop";
	CUptiResult result, evaluated;

	if (!s->pm.is_started) { /* a change of sets is under way, or sampling never began */
		*r = s->trouble;
		return r->code;
	}
	result = pm_stop(&s->pm);
	if (result == CUPTI_SUCCESS) {
		call = "cuptiPmSamplingDecodeData";
		result = take_rest(s, w, stopped_ns);
	}
	evaluated = collect(s, w); /* take_rest() may have failed before */
	result = result == CUPTI_SUCCESS ? evaluated : result;
	return result == CUPTI_SUCCESS && !was_silent(s) ? 0 : cut_off(s, result, call, r);
}

void session_close(struct session *s)
{
	CUpti_Profiler_DeInitialize_Params deinit = {
		.structSize = CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE,
	};

	evaluator_end(&s->evaluator);
	if (s->pm.is_started) {
		pm_stop(&s->pm);
	}
	if (s->pm.object) {
		(void)pm_disable(&s->pm);
	}
	if (s->host.object) {
		host_deinit(&s->host);
		s->vendor.cuptiProfilerDeInitialize(&deinit);
	}
	for (size_t i = 0; i < s->n_sets; i++) {
		host_config_deinit(&s->sets[i].metrics.config);
		image_deinit(&s->sets[i].images[0]);
		image_deinit(&s->sets[i].images[1]);
	}
}
