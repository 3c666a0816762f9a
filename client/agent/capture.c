/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/activity_flush.h"
#include "client/agent/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/launches.h"
#include "client/agent/contexts.h"
#include "client/agent/control.h"
#include "client/agent/devices.h"
#include "client/agent/guard.h"
#include "client/agent/nvtx.h"
#include "client/agent/permission.h"
#include "client/agent/section.h"
#include "client/agent/trace.h"
#include "client/agent/trace_graphs.h"
#include "client/agent/watch.h"
#include "proto/base/clock.h"

/* One thread makes and starts a capture; the delivering thread runs and ends it. Only the
 * delivering thread calls CUPTI at the end: the thread that asks for the end may hold CUPTI's
 * locks, or, in a signal handler that exits, ours, and Stop waits for kernels that may never end.
 *
 * At the end the contexts release the counters, new threads are kept out, and the delivering thread
 * waits for launches under way. It delivers the queue, leaves CUPTI and then sends goodbye: so when
 * the daemon hears of the end, CUPTI is free and the totals are final. If a launch has not
 * returned, or running kernels keep a context from releasing the counters, it sends goodbye all the
 * same, and the capture lingers, inactive, until they have ended. */

enum { SECTIONS_PATIENCE_MS = 2000, LINGER_MS = 250 };

static atomic_uint last_number;

/* --- events of the delivering thread --- */

/* True: no thread is inside the capture or may enter it, and no context holds objects of CUPTI.
 * False: threads may still enter, so that their callbacks report the end of contexts. */
static bool close_sections(struct capture *c)
{
	if (sections_are_open(c) && sections_close(c)) {
		if (contexts_retire(c)) {
			sections_closed();
		} else {
			sections_open(c);
		}
	}
	return !sections_are_open(c);
}

static void close_soon(struct capture *c)
{
	const struct timespec pause = { 0, CLOCK_NS_PER_MS };
	uint64_t by_ns = clock_now_ns() + SECTIONS_PATIENCE_MS * CLOCK_NS_PER_MS;

	while (!close_sections(c) && clock_now_ns() < by_ns && !state_is_exiting()) {
		nanosleep(&pause, NULL);
	}
}

static void tell_copies(struct capture *c)
{
	size_t n;
	struct pack_copy *v = activity_take_copies(c->activity, &n);

	deliver_send_copies(&c->deliver, v, n);
	free(v);
}

/* Reports other users of CUPTI's records, once in a capture. */
static void tell_others(struct capture *c)
{
	const struct others *o = &c->activity->others;

	if (c->reported_others || (!o->were_first && !o->are_there)) {
		return;
	}
	c->reported_others = true;
	deliver_notice_now(
		&c->deliver, GPUCTR_E_CUPTI_IN_USE,
		o->were_first ? "the program uses CUPTI's activity records itself, and CUPTI "
				"gives them to one user in a process: the measurement has them "
				"from now on, and the program lacks them"
			      : "the program has begun to use CUPTI's activity records itself, "
				"and CUPTI gives them to one user in a process: later kernels "
				"have no time of their own, or are in no record",
		TIMES_OTHERS_REMEDY);
}

#define STEPS_REMEDY "Name by --step what begins a step: an NVTX range, say."

static void tell_steps(struct capture *c)
{
	struct recurrence *s = &c->recurrence;
	enum recurrence_state state = recurrence_check(s, clock_now_ns());

	if (state == c->reported_steps ||
	    (state == RECURRENCE_LOST && phase_is_finished(&c->filter.phase))) {
		return;
	}
	c->reported_steps = state;
	if (state == RECURRENCE_FOUND) {
		deliver_tell(&c->deliver, GPUCTR_OK, "",
			     "a step: %u launch%s that recur%s, %.3g ms long at first", s->period,
			     s->period == 1 ? "" : "es", s->period == 1 ? "s" : "",
			     (double)s->period_ns / CLOCK_NS_PER_MS);
	} else if (state == RECURRENCE_ABSENT) {
		phase_without_steps(&c->filter.phase);
		deliver_tell(&c->deliver, GPUCTR_OK, STEPS_REMEDY,
			     "no sequence of launches recurred for %u s, so that each launch is "
			     "measured from now on, until the capture ends",
			     (unsigned)(RECURRENCE_PATIENCE_NS / CLOCK_NS_PER_S));
	} else if (state == RECURRENCE_LOST) {
		phase_lost_steps(&c->filter.phase);
		deliver_tell(&c->deliver, GPUCTR_OK, STEPS_REMEDY,
			     "the sequence of %u launches that was a step recurs no more, so that "
			     "nothing is measured any more; %llu steps had begun",
			     s->period, (unsigned long long)atomic_load(&c->filter.phase.steps));
	}
}

/* Releases the counters and queues the last batches. False: a stream capture is under way, which
 * this would invalidate; the next tick tries again. */
static bool stop_now(struct capture *c)
{
	bool exiting = state_is_exiting();
	struct refusal missed;
	char text[384];

	if (!c->method->beside && stream_captures_any(&c->stream_captures) && !exiting) {
		return false;
	}
	tell_others(c);
	tell_steps(c);
	if (c->welcome.trace) { /* records of copies, which no batch waits for */
		activity_flush(c->activity);
	}
	tell_copies(c);
	if (filter_missed_all(&c->filter, &missed)) {
		deliver_refusal(&c->deliver, &missed);
	}
	if (apart_describe(c, text, sizeof(text))) {
		deliver_notice(&c->deliver, GPUCTR_OK, text, "");
	}
	if (nvtx_filter_missed(&c->filter.nvtx, &c->welcome.selection, &missed)) {
		deliver_refusal(&c->deliver, &missed);
	}
	if (phase_missed(&c->filter.phase, &missed)) {
		deliver_refusal(&c->deliver, &missed);
	}
	contexts_let_go(c);
	if (!exiting) {
		close_soon(c);
	}
	trace_flush(c, true);
	trace_graphs_finish(c);
	return true;
}

static bool on_idle(void *userdata)
{
	struct capture *c = userdata;

	tell_steps(c);
	/* A capture that began with the program counts launches to the program's end. A late one
	 * ends as soon as all requested launches were measured. */
	if (state_is_exiting() || !capture_is_measuring(c) ||
	    (c->late && (phase_is_finished(&c->filter.phase) || filter_is_finished(&c->filter)))) {
		state_move(&c->deliver.state, CAPTURE_STOPPING);
		return stop_now(c);
	}
	if (activity_hear(c->activity)) {
		activity_look_for_others(c->activity, true, OTHERS_FLUSHES);
	}
	tell_others(c);
	if (!deliver_is_full(&c->deliver)) { /* a full queue takes no batches */
		contexts_flush_old(c);
		trace_flush(c, activity_is_crowded(c->activity));
		trace_graphs_flush(c);
	}
	watch_look(c);
	tell_copies(c); /* a filter may exclude all launches, so that no batch comes */
	return false;
}

static bool while_quiet(void *userdata, void (*act)(void *argument), void *argument)
{
	return contexts_while_quiet(userdata, "cuptiActivityFlushAll", act, argument);
}

static void on_wait(void *userdata)
{
	struct capture *c = userdata;

	deliver_tell_progress(&c->deliver);
}

static bool is_ending(void *userdata)
{
	const struct capture *c = userdata;

	return state_is_exiting() || !capture_is_measuring(c);
}

static void on_batch(void *userdata, struct batch *b)
{
	struct capture *c = userdata;

	activity_fill(c->activity, b);
	tell_others(c);
	trace_graphs_split(c, b);
	tell_copies(c);
	if (!c->reported_drops && activity_drops(c->activity)) {
		c->reported_drops = true;
		deliver_notice(&c->deliver, GPUCTR_E_PROFILER,
			       "CUPTI has lost records of when kernels began and ended; these have "
			       "no time of their own, and kernels of CUDA graphs among them are in "
			       "no record",
			       "");
	}
}

static void on_drop(void *userdata, struct batch *b)
{
	trace_graphs_leave_out(userdata, b);
}

/* Undoes what the capture has set up in CUPTI and libcuda, unless the program exits. */
static void leave_cupti(struct capture *c)
{
	if (!state_is_exiting()) {
		activity_look_for_others_at_end(c->activity, OTHERS_PATIENCE_MS);
		activity_trace(c->activity, false);
		callbacks_unsubscribe(c);
		activity_stop(c->activity);
		permission_remove();
	}
}

static void tell_repeats(struct capture *c)
{
	struct repeated r = activity_repeated(c->activity);
	uint64_t made_ns = clock_wall_ns() - (clock_now_ns() - c->made_ns);
	char text[192];

	if (r.n > 0) {
		snprintf(text, sizeof(text),
			 "at least %zu of CUPTI's records, from %.1f s on, have the correlation id "
			 "of another launch; while launches are watched, theirs have no time",
			 r.n, ((double)r.since_ns - (double)made_ns) / CLOCK_NS_PER_S);
		deliver_notice_now(&c->deliver, GPUCTR_E_PROFILER, text,
				   "Start the program again: it stays so in that thread.");
	}
}

static void on_end(void *userdata)
{
	struct capture *c = userdata;

	trace_flush(c, true); /* late launches are dropped */
	if (!sections_are_open(c)) {
		leave_cupti(c);
	} else if (c->welcome.trace && !state_is_exiting()) {
		activity_flush(c->activity);
	}
	tell_others(c);
	tell_repeats(c);
	tell_copies(c);
	trace_graphs_end(c);
}

/* The daemon ended the capture, or the connection broke: launches are ignored from now on. */
static void on_stop(void *userdata)
{
	struct capture *c = userdata;

	state_move(&c->deliver.state, CAPTURE_STOPPING);
}

/* --- start --- */

static int start_measuring(struct capture *c, const char *socket_path, const char *token,
			   struct refusal *r)
{
	c->method = c->welcome.trace ? &method_trace : &method_ranges;
	if (c->welcome.trace) {
		c->passes.n = 1; /* one pass, without metrics */
	} else if (passes_init(&c->passes, &c->arena, &c->welcome.plan, r) != 0) {
		return r->code;
	}
	recurrence_init(&c->recurrence, phase_steps_recur(&c->welcome.selection));
	if (filter_init(&c->filter, &c->welcome.selection, r) != 0 ||
	    (!c->welcome.trace && permission_install(socket_path, token, r) != 0) ||
	    callbacks_subscribe(c, r) != 0) {
		return r->code;
	}
	/* The subscription has shown that nobody else in the process subscribes to CUPTI. */
	c->activity->while_quiet = c->welcome.trace ? NULL : while_quiet;
	c->activity->userdata = c;
	c->activity->is_ending = is_ending;
	c->activity->on_wait = on_wait;
	c->activity->patient = c->welcome.trace;
	c->activity->copies = c->welcome.trace && c->welcome.plan.columns.n > 0;
	trace_graphs_begin(c);
	times_init(c);
	if (c->late && c->welcome.trace) {
		times_begin(c);
	}
	return callbacks_enable(c, r);
}

int capture_start(struct capture *c, const char *socket_path, const char *token, struct refusal *r)
{
	int code = start_measuring(c, socket_path, token, r);

	if (code != 0) {
		deliver_refusal(&c->deliver, r);
		return code;
	}
	capture_announce(c);
	nvtx_watch(c->filter.nvtx.n > c->filter.nvtx.n_select);
	state_move(&c->deliver.state, CAPTURE_MEASURING);
	sections_open(c);
	return 0;
}

static void init_deliver(struct capture *c, struct connection *connection)
{
	deliver_init(&c->deliver);
	c->deliver.connection = connection;
	c->deliver.intern = &c->intern;
	c->deliver.counters = &c->counters;
	c->deliver.welcome = &c->welcome;
	c->deliver.on_stop = on_stop;
	c->deliver.on_idle = on_idle;
	c->deliver.on_batch = on_batch;
	c->deliver.on_drop = on_drop;
	c->deliver.on_end = on_end;
	c->deliver.userdata = c;
}

struct capture *capture_new(const struct profiler *p, struct activity *activity,
			    struct connection *connection, bool late)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (!c || intern_init(&c->intern) < 0) {
		free(c);
		return NULL;
	}
	c->number = atomic_fetch_add(&last_number, 1) + 1;
	c->late = late;
	c->made_ns = clock_now_ns();
	c->profiler = p;
	c->activity = activity;
	c->connection = connection;
	c->method = &method_ranges;
	stream_captures_init(&c->stream_captures);
	lock_init(&c->lock, LOCK_LEAF);
	lock_init(&c->devices_lock, LOCK_PART);
	lock_init(&c->times_lock, LOCK_PART);
	trace_init(&c->trace);
	arena_init(&c->arena, LIMIT_UNPACKED_BYTES);
	init_deliver(c, connection);
	return c;
}

/* --- run and end --- */

static void watch(void *userdata)
{
	watch_calls(userdata);
}

void capture_run(struct capture *c)
{
	const struct timespec pause = { 0, LINGER_MS * CLOCK_NS_PER_MS };

	if (!c->method->beside) { /* a trace makes no call that waits */
		control_watch(watch, c);
	}
	deliver_run(&c->deliver);
	while (sections_are_open(c) && !state_is_exiting()) {
		nanosleep(&pause, NULL);
		if (close_sections(c)) {
			leave_cupti(c);
		}
	}
	if (!state_is_exiting()) { /* control's lock may never be released */
		control_end();
	}
}

void capture_request_end(struct capture *c, uint64_t by_ns)
{
	state_move(&c->deliver.state, CAPTURE_STOPPING);
	deliver_kick(&c->deliver, by_ns);
}

bool capture_free(struct capture *c)
{
	trace_flush(c, true);
	if (!deliver_deinit(&c->deliver)) {
		return false;
	}
	trace_deinit(&c->trace);
	contexts_free(c);
	devices_free(c);
	filter_deinit(&c->filter);
	recurrence_deinit(&c->recurrence);
	intern_deinit(&c->intern);
	arena_deinit(&c->arena);
	stream_captures_deinit(&c->stream_captures);
	lock_deinit(&c->times_lock);
	lock_deinit(&c->devices_lock);
	lock_deinit(&c->lock);
	free(c);
	return true;
}
