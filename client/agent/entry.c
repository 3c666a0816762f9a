/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/agent/agent.h"
#include "client/agent/hello.h"
#include "client/agent/lock.h"
#include "client/agent/nvtx.h"
#include "client/agent/permission.h"
#include "client/agent/watch.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/utf8.h"
#include "daemon/gpu/device.h"

/* Where the program's libraries enter the agent, and where it leaves.
 *
 * libcuda calls InitializeInjection() once, within the program's first cuInit(). NVTX calls
 * InitializeInjectionNvtx2() from each library that uses it, often earlier; ranges are followed
 * from then on, because the ones open now may enclose launches later.
 *
 * Nothing here prints, and nothing that fails changes what the program does: without a daemon, a
 * token, or CUPTI, the program runs unmeasured and the client is told why, if it can be. */

enum {
	EXIT_PATIENCE_S = 10,
	LOCK_PATIENCE_MS = 500,
	STOP_PATIENCE_MS = 2000,
	FLUSH_AFTER_MS = 1000,
};

struct agent *agent_self;

#define AGENT_EXPORT __attribute__((visibility("default")))

AGENT_EXPORT int InitializeInjection(void);
AGENT_EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));

/* --- devices --- */

static void read_attributes(struct agent *a, CUdevice device, struct device_info *d)
{
	const struct profiler *p = &a->profiler;
	int khz = 0;
	CUuuid uuid;

	d->index = (uint32_t)device;
	p->cuDeviceGetName(d->name, sizeof(d->name), device);
	if (p->cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
		device_uuid_format(&uuid, d->uuid, sizeof(d->uuid));
	}
	if (p->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device) == CUDA_SUCCESS) {
		d->clock_sm_mhz = (uint32_t)khz / 1000;
	}
	if (p->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) ==
	    CUDA_SUCCESS) {
		d->clock_mem_mhz = (uint32_t)khz / 1000;
	}
}

static bool is_leased(const struct agent *a, const char *uuid)
{
	for (size_t i = 0; i < a->welcome.gpus.n; i++) {
		if (strcmp(a->welcome.gpus.v[i], uuid) == 0) {
			return true;
		}
	}
	return false;
}

static void check_device(struct agent *a, struct device_info *d)
{
	if (!is_leased(a, d->uuid)) {
		refusal_set(&d->trouble, GPUCTR_E_NOT_ALLOWED,
			    "Name it with --devices; a refusal then says why it is not yours to "
			    "measure.",
			    "GPU %u (%s) is not part of this capture's lease; its kernels run "
			    "unmeasured",
			    d->index, d->uuid);
	} else if (strcmp(d->chip, a->welcome.plan.chip) != 0) {
		refusal_set(&d->trouble, GPUCTR_E_CHIP_MISMATCH,
			    "Name the GPUs of one kind with --devices.",
			    "GPU %u is a %s, the metrics were planned for %s", d->index, d->chip,
			    a->welcome.plan.chip);
	} else if (host_init(&d->host, &a->profiler.host, d->chip, &d->trouble) == 0) {
		host_init(&d->evaluator, &a->profiler.host, d->chip, &d->trouble);
	}
	if (d->trouble.code != 0) {
		deliver_notice(&a->deliver, d->trouble.code, d->trouble.message, d->trouble.remedy);
	}
}

struct device_info *agent_device(struct agent *a)
{
	struct device_info *d = NULL;
	CUdevice device;
	bool fresh = false;

	if (a->profiler.cuCtxGetDevice(&device) != CUDA_SUCCESS) {
		return NULL;
	}
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->n_devices; i++) {
		d = a->devices[i]->index == (uint32_t)device ? a->devices[i] : d;
	}
	if (!d && a->n_devices < ARRAY_SIZE(a->devices) && (d = calloc(1, sizeof(*d))) != NULL) {
		fresh = true;
		read_attributes(a, device, d);
		vendor_chip_name(&a->profiler.host, d->index, d->chip, sizeof(d->chip));
		pthread_mutex_init(&d->lock, NULL);
		check_device(a, d);
		a->devices[a->n_devices++] = d;
	}
	pthread_mutex_unlock(&a->lock);
	if (fresh) {
		agent_announce(a);
	}
	return d;
}

void agent_announce(struct agent *a)
{
	struct wire_device devices[LIMIT_GPUS];
	char cupti[32], driver[32] = "";
	size_t n;
	int version = 0;
	struct wire_message m = { .type = WIRE_PROCESS };

	vendor_version_format(a->profiler.host.version, cupti, sizeof(cupti));
	if (a->profiler.cuDriverGetVersion(&version) == CUDA_SUCCESS) {
		snprintf(driver, sizeof(driver), "CUDA %d.%d", version / 1000, version % 1000 / 10);
	}
	pthread_mutex_lock(&a->lock);
	n = a->n_devices;
	for (size_t i = 0; i < n; i++) {
		const struct device_info *d = a->devices[i];

		devices[i] = (struct wire_device){ d->index, d->uuid,	      d->name,
						   d->chip,  d->clock_sm_mhz, d->clock_mem_mhz };
	}
	pthread_mutex_unlock(&a->lock);
	m.process = (struct wire_process){
		.capture = a->welcome.capture,
		.process = a->welcome.process,
		.cupti = cupti,
		.driver = driver,
		.devices = { n, devices },
	};
	deliver_note(&a->deliver, &m);
}

/* --- end --- */

size_t agent_contexts(struct agent *a, struct ranges **ret)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	list_for_each(l, &a->contexts) {
		struct ranges *r = list_entry(l, struct ranges, link);

		if (n < AGENT_CONTEXTS_MAX && r->context) {
			ret[n++] = r;
		}
	}
	pthread_mutex_unlock(&a->lock);
	return n;
}

/* A launch may hang with its context's lock held, or be interrupted for good by the signal handler
 * that exits: such a context is left alone after patience_ns, and counted in *ret_busy. False: some
 * act was not possible. */
static bool for_each_context(struct agent *a, uint64_t patience_ns,
			     bool (*act)(struct agent *, struct ranges *), unsigned *ret_busy)
{
	struct ranges *contexts[AGENT_CONTEXTS_MAX];
	size_t n = agent_contexts(a, contexts);
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		struct ranges *r = contexts[i];
		CUcontext popped;

		if (!lock_until(&r->lock, clock_now_ns() + patience_ns)) {
			++*ret_busy;
			continue;
		}
		if (r->object && r->context &&
		    a->profiler.cuCtxPushCurrent(r->context) == CUDA_SUCCESS) {
			all = act(a, r) && all;
			a->profiler.cuCtxPopCurrent(&popped);
		}
		pthread_mutex_unlock(&r->lock);
	}
	return all;
}

/* Everything that calls CUPTI happens on the delivering thread: the caller may hold CUPTI's locks,
 * or ours, when it is a signal handler that exits, and Stop waits for kernels that may never end.
 */
void agent_finish(struct agent *a, uint64_t timeout_ns)
{
	atomic_store(&a->active, false);
	atomic_store(&a->stop_requested, true);
	deliver_wait(&a->deliver, timeout_ns);
}

static void on_exit_of_program(void)
{
	if (agent_self) {
		agent_finish(agent_self, EXIT_PATIENCE_S * CLOCK_NS_PER_S);
	}
}

/* In a child that was forked without exec CUDA does not work, and the socket is the parent's. */
static void on_fork_in_child(void)
{
	nvtx_detach_after_fork();
	if (agent_self) {
		atomic_store(&agent_self->active, false);
		if (agent_self->link.fd >= 0) {
			close(agent_self->link.fd);
			agent_self->link.fd = -1;
		}
		agent_self = NULL;
	}
}

/* --- events of the delivering thread --- */

static bool flush_old(struct agent *a, struct ranges *r)
{
	return r->state != RANGES_STARTED || r->batch->n == 0 ||
	       clock_now_ns() - r->batch_begin_ns <= FLUSH_AFTER_MS * CLOCK_NS_PER_MS ||
	       ranges_flush(a, r);
}

static bool abandon(struct agent *a, struct ranges *r)
{
	ranges_abandon(a, r);
	return true;
}

/* Kernels that are under way end in a moment, or they wait for something and may never end. */
static void let_go(struct agent *a)
{
	const struct timespec pause = { 0, 1000 * 1000 };
	uint64_t by_ns = clock_now_ns() + STOP_PATIENCE_MS * CLOCK_NS_PER_MS;
	unsigned busy = 0;

	while (!for_each_context(a, LOCK_PATIENCE_MS * CLOCK_NS_PER_MS, ranges_disable, &busy)) {
		if (clock_now_ns() >= by_ns) {
			for_each_context(a, 0, abandon, &busy);
			return;
		}
		nanosleep(&pause, NULL);
	}
}

/* Lets go of the counters and has the rest delivered. A graph capture under way must not be
 * disturbed: it is over soon, and this is tried again at the next tick. */
static void stop_now(struct agent *a)
{
	struct refusal missed;

	if (atomic_load(&a->capturing) > 0 && !atomic_load(&a->stop_requested)) {
		return;
	}
	nvtx_attach(NULL);
	if (filter_missed_all(&a->filter, &missed)) {
		deliver_notice(&a->deliver, missed.code, missed.message, missed.remedy);
	}
	let_go(a);
	deliver_request_finish(&a->deliver);
}

static void on_idle(void *userdata)
{
	struct agent *a = userdata;
	unsigned busy = 0;

	if (atomic_load(&a->stop_requested) || !atomic_load(&a->active)) {
		stop_now(a);
	} else {
		for_each_context(a, 0, flush_old, &busy);
		watch_look(a);
	}
}

static bool look_whether_quiet(struct agent *a, struct ranges *r)
{
	return guard_is_quiet(a, r, false);
}

static bool is_quiet(void *userdata)
{
	unsigned busy = 0;

	return for_each_context(userdata, 0, look_whether_quiet, &busy) && busy == 0;
}

static void on_batch(void *userdata, struct batch *b)
{
	struct agent *a = userdata;

	activity_fill(&a->activity, b);
	if (!a->told_drops && activity_drops(&a->activity)) {
		a->told_drops = true;
		deliver_notice(&a->deliver, GPUCTR_E_PROFILER,
			       "CUPTI has lost records of when kernels began and ended; these have "
			       "no time of their own",
			       "");
	}
}

/* When the program exits as well, CUPTI is left in peace. */
static void on_end(void *userdata)
{
	struct agent *a = userdata;

	if (!atomic_load(&a->stop_requested)) {
		activity_stop(&a->activity);
	}
}

/* The daemon ends the capture, or is gone: no launch is looked at from now on. */
static void on_stop(void *userdata, uint32_t code, const char *message)
{
	struct agent *a = userdata;

	(void)code;
	(void)message;
	atomic_store(&a->active, false);
}

/* --- start --- */

/* A file's name may be any bytes. */
static void program_name(char *name, size_t size)
{
	snprintf(name, size, "%s",
		 program_invocation_short_name ? program_invocation_short_name : "");
	utf8_repair(name);
}

/* In place of the kernels' own times, the lengths of their ranges, where they cost nothing. */
static void measure_ranges(struct agent *a)
{
	struct wire_plan *plan = &a->welcome.plan;
	size_t n = plan->metrics.n;
	const char **v;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(plan->metrics.v[i], "gpu__time_duration.sum") == 0) {
			return;
		}
	}
	if (!plan->fits_duration || n == LIMIT_PLAN_METRICS) {
		return;
	}
	v = arena_alloc(&a->arena, (n + 1) * sizeof(*v));
	if (v) {
		memcpy(v, plan->metrics.v, n * sizeof(*v));
		v[n] = "gpu__time_duration.sum";
		plan->metrics = (struct wire_strings){ n + 1, v };
	}
}

static void start_activity(struct agent *a)
{
	CUptiResult result;
	char text[160];

	/* Tracing adds instructions to each warp: sm__inst_executed of a copy was 44 % too high,
	 * and SASS metrics read 0 (H200, CUPTI 2025.3). */
	if (a->blocks) {
		measure_ranges(a);
		return;
	}
	a->activity.may_flush = is_quiet;
	a->activity.userdata = a;
	result = activity_start(&a->activity, &a->profiler);
	if (result != CUPTI_SUCCESS) {
		snprintf(text, sizeof(text),
			 "CUPTI does not tell when kernels begin and end (%s, %d); their times are "
			 "those of the ranges around them",
			 host_result_name(&a->profiler.host, result), (int)result);
		deliver_notice(&a->deliver, GPUCTR_E_PROFILER, text, "");
		measure_ranges(a);
	}
}

static int start_measuring(struct agent *a, const char *socket_path, const char *token,
			   struct refusal *r)
{
	a->blocks = guard_blocks(a->welcome.plan.metrics.v, a->welcome.plan.metrics.n);
	if (filter_init(&a->filter, &a->welcome, r) != 0 || profiler_open(&a->profiler, r) != 0 ||
	    permission_install(socket_path, token, r) != 0 || launches_subscribe(a, r) != 0) {
		return r->code;
	}
	/* Of a CUPTI that nobody else uses, and before a launch that needs the plan. */
	start_activity(a);
	return launches_enable(a, r);
}

static int agent_init(struct agent *a)
{
	list_init(&a->contexts);
	pthread_mutex_init(&a->lock, NULL);
	arena_init(&a->arena, LIMIT_UNPACKED_BYTES);
	if (intern_init(&a->intern) < 0) {
		return -ENOMEM;
	}
	deliver_init(&a->deliver);
	a->deliver.link = &a->link;
	a->deliver.intern = &a->intern;
	a->deliver.counters = &a->counters;
	a->deliver.welcome = &a->welcome;
	a->deliver.on_stop = on_stop;
	a->deliver.on_idle = on_idle;
	a->deliver.on_batch = on_batch;
	a->deliver.on_end = on_end;
	a->deliver.userdata = a;
	return 0;
}

static void begin(const char *socket_path, const char *token)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct refusal why = { 0 };
	char program[LIMIT_NAME_BYTES];
	struct wire_agent_hello hello = { .token = token, .program = program };

	program_name(program, sizeof(program));
	if (!a || agent_init(a) < 0) {
		free(a);
		return;
	}
	if (hello_say(&a->link, socket_path, &hello, &a->arena, &a->welcome, &why) != 0) {
		return; /* nobody to tell: the client knows by itself that no process came */
	}
	/* Active before the thread's first look; no callback comes before launches_subscribe(). */
	atomic_store(&a->active, true);
	if (deliver_start(&a->deliver) < 0) {
		link_close(&a->link);
		return;
	}
	agent_self = a;
	if (start_measuring(a, socket_path, token, &why) != 0) {
		launches_unsubscribe(a);
		/* Before the thread can see that it is over, and ends. */
		deliver_notice(&a->deliver, why.code, why.message, why.remedy);
		atomic_store(&a->active, false);
		deliver_finish(&a->deliver, CLOCK_NS_PER_S);
		return;
	}
	agent_announce(a);
	nvtx_attach(&a->intern);
	pthread_atfork(NULL, NULL, on_fork_in_child);
	/* After CUPTI was opened: handlers run in reverse order, and this one needs CUPTI alive. */
	atexit(on_exit_of_program);
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] ? value : NULL;
}

int InitializeInjection(void)
{
	const char *socket_path = environment("GPUCTR_SOCKET"),
		   *token = environment("GPUCTR_TOKEN");
	int saved = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (socket_path && token && !agent_self) {
		begin(socket_path, token);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return 1;
}

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
	int saved = errno;
	int r = environment("GPUCTR_TOKEN") ? nvtx_initialize(export_table) : 0;

	errno = saved;
	return r;
}
