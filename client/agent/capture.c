/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/agent/contexts.h"
#include "client/agent/devices.h"
#include "client/agent/guard.h"
#include "client/agent/nvtx.h"
#include "client/agent/nvtx_select.h"
#include "client/agent/permission.h"
#include "client/agent/section.h"
#include "client/agent/times.h"
#include "client/agent/trace_graphs.h"
#include "client/agent/unwatched.h"
#include "client/agent/watch.h"
#include "proto/base/clock.h"

/* A capture in this process: new -> started -> running -> stopping -> over, and freed.
 *
 * It is made and started by one thread, and run by the one that delivers, which is also the one
 * that ends it: everything that calls CUPTI at the end happens there, because whoever asks for the
 * end may hold CUPTI's locks, or ours when it is a signal handler that exits, and Stop waits for
 * kernels that may never end.
 *
 * At the end nobody is let in any more, launches that are under way are waited for, contexts let go
 * of the counters, the queue is delivered, and only then CUPTI is left and goodbye is said: so who
 * hears of the end finds CUPTI free, and the totals are final. While a launch has not come back, or
 * kernels under way keep a context from letting go, goodbye is said all the same, and the capture
 * lingers, inactive, until they have ended. */

enum {
	SECTIONS_PATIENCE_MS = 2000,
	LINGER_MS = 250,
	STRATA_EVERY_MS = 1000,
};

static atomic_uint last_number;

/* --- events of the delivering thread --- */

/* Reports the number of launches of each stratum to the client. */
static void tell_strata(struct capture *c)
{
	size_t n = c->choosing.on ? strata_n(&c->choosing.strata) : 0;
	struct pack_stratum *v = n > 0 ? calloc(n, sizeof(*v)) : NULL;

	c->reported_strata_ns = clock_now_ns();
	if (v && (n = choosing_tell(&c->choosing, v, n)) > 0) {
		pack_send_strata(c->connection, &c->welcome, &c->intern, v, n,
				 c->deliver.next_index);
	}
	free(v);
}

static void tell_strata_now_and_then(struct capture *c)
{
	if (c->choosing.on &&
	    clock_now_ns() - c->reported_strata_ns >= STRATA_EVERY_MS * CLOCK_NS_PER_MS) {
		tell_strata(c);
	}
}

/* Reports what was spent, and how the costs are known. */
static void tell_spent(struct capture *c)
{
	const char *remedy =
		c->passes.n > 1 ? "This was too short for its budget. Give it more, or measure "
				  "metrics of one pass with --budget 100%."
				: "This was too short for its budget. With --budget 100% "
				  "everything is measured.";
	char text[1024], overhead[384];
	bool too_short = choosing_describe(&c->choosing, text, sizeof(text));

	choosing_describe_overhead(&c->choosing, overhead, sizeof(overhead));
	if (text[0] != '\0') {
		deliver_notice(&c->deliver, GPUCTR_OK, text, too_short && !*overhead ? remedy : "");
	}
	if (*overhead) {
		deliver_notice(&c->deliver, GPUCTR_OK, overhead,
			       "Give it a larger --budget; CUDA graphs have fewer launches, and "
			       "so fewer callbacks.");
	}
}

static void on_values(void *userdata, const struct launch *launches, size_t n, const double *values)
{
	struct capture *c = userdata;

	choosing_note_values(&c->choosing, launches, n, values, c->welcome.plan.columns.n);
}

/* True: no thread is inside the capture, none may enter it, and no context has anything of CUPTI's.
 * False: threads may still enter, so that their callbacks tell of contexts that end. */
static bool close_sections(struct capture *c)
{
	state_move(&c->deliver.state, CAPTURE_CLOSING);
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

	if (n > 0) {
		pack_send_copies(c->connection, &c->welcome, v, n, c->deliver.next_index);
	}
	free(v);
}

/* Lets go of the counters and has the rest delivered. While a stream is captured into a graph this
 * is put off to the next tick, because it would invalidate that stream capture. */
static void stop_now(struct capture *c)
{
	bool exiting = state_is_exiting();
	struct refusal missed;
	char text[256];

	if (!c->method->beside && stream_captures_any(&c->stream_captures) && !exiting) {
		return;
	}
	deliver_lend_connection(&c->deliver);
	unwatched_end(c);
	rests_end(c);
	if (c->welcome.trace) { /* what no launch waits for */
		activity_flush(c->activity);
	}
	deliver_take_connection(&c->deliver);
	tell_copies(c);
	if (filter_missed_all(&c->filter, &missed)) {
		deliver_notice(&c->deliver, missed.code, missed.message, missed.remedy);
	}
	if (filter_describe(&c->filter, text, sizeof(text))) {
		deliver_notice(&c->deliver, GPUCTR_OK, text, "");
	}
	if (filter_describe_limit(&c->filter, text, sizeof(text))) {
		deliver_notice(&c->deliver, GPUCTR_OK, text, "");
	}
	if (nvtx_filter_missed(&c->filter.nvtx, &c->welcome.selection, &missed)) {
		deliver_notice(&c->deliver, missed.code, missed.message, missed.remedy);
	}
	if (phase_missed(&c->filter.phase, &missed)) {
		deliver_notice(&c->deliver, missed.code, missed.message, missed.remedy);
	}
	deliver_lend_connection(&c->deliver);
	contexts_let_go(c);
	if (!exiting) {
		close_soon(c);
	}
	deliver_take_connection(&c->deliver);
	trace_flush(c, true);
	trace_graphs_finish(c);
	tell_spent(c);
	deliver_request_finish(&c->deliver);
}

static void on_idle(void *userdata)
{
	struct capture *c = userdata;

	/* If the capture began with the program, launches are counted to the program's end.
	 * Otherwise the capture leaves the program alone as soon as all requested launches were
	 * measured. */
	if (state_is_exiting() || !capture_is_measuring(c) ||
	    (c->late && (phase_is_finished(&c->filter.phase) || filter_is_full(&c->filter)))) {
		state_move(&c->deliver.state, CAPTURE_STOPPING);
		stop_now(c);
	} else {
		deliver_lend_connection(&c->deliver);
		contexts_flush_old(c);
		unwatched_look(c);
		rests_look(c);
		if (!deliver_is_full(&c->deliver)) { /* else they wait where they are bounded */
			trace_flush(c, activity_is_crowded(c->activity));
			trace_graphs_flush(c);
		}
		watch_look(c);
		deliver_take_connection(&c->deliver);
		tell_copies(c); /* there may be no batch for long, where a filter leaves out all */
		tell_strata_now_and_then(c);
	}
}

static bool while_quiet(void *userdata, void (*act)(void *argument), void *argument)
{
	return contexts_while_quiet(userdata, "cuptiActivityFlushAll", act, argument);
}

static bool is_ending(void *userdata)
{
	const struct capture *c = userdata;

	return state_is_exiting() || !capture_is_measuring(c);
}

static void on_batch(void *userdata, struct batch *b)
{
	struct capture *c = userdata;

	deliver_lend_connection(&c->deliver);
	rests_look(c); /* a range's launches wait for records that a rest withholds */
	activity_fill(c->activity, b);
	deliver_take_connection(&c->deliver);
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

	tell_strata(c);
	trace_flush(c, true); /* what came too late is dropped */
	deliver_lend_connection(&c->deliver);
	if (!sections_are_open(c)) {
		leave_cupti(c);
	} else if (c->welcome.trace && !state_is_exiting()) {
		activity_flush(c->activity);
	}
	tell_repeats(c);
	deliver_take_connection(&c->deliver);
	tell_copies(c);
	trace_graphs_end(c);
}

/* The daemon ended the capture, or the connection broke: launches are ignored from now on. */
static void on_stop(void *userdata, uint32_t code, const char *message)
{
	struct capture *c = userdata;

	state_move(&c->deliver.state, CAPTURE_STOPPING);
}

/* --- start --- */

/* Processes that share a capture get different seeds. */
static int init_choosing(struct capture *c, struct refusal *r)
{
	const struct wire_selection *s = &c->welcome.selection;
	struct choosing_options options = {
		.ppm = s->budget_ppm,
		.seed = s->seed + c->welcome.process * UINT64_C(0x9e3779b97f4a7c15),
		.columns = c->welcome.plan.columns.n,
		.passes = c->passes.n,
		.late = c->late,
	};

	memcpy(options.may_block, c->passes.may_block, sizeof(options.may_block));
	if (choosing_init(&c->choosing, &options) == 0) {
		return 0;
	}
	refusal_set(r, GPUCTR_E_PROFILER, "Measure without --budget, or give it more memory.",
		    "the program has no memory for what a budget has to keep");
	return r->code;
}

static int start_measuring(struct capture *c, const char *socket_path, const char *token,
			   struct refusal *r)
{
	c->method = c->welcome.trace ? &method_trace : &method_ranges;
	if (c->welcome.trace) {
		trace_begin(c);
	} else if (passes_init(&c->passes, &c->arena, &c->welcome.plan, r) != 0) {
		return r->code;
	}
	if (init_choosing(c, r) != 0) {
		return r->code;
	}
	if (filter_init(&c->filter, &c->welcome.selection, r) != 0 ||
	    (!c->welcome.trace && permission_install(socket_path, token, r) != 0) ||
	    callbacks_subscribe(c, r) != 0) {
		return r->code;
	}
	nvtx_scope_init(&c->scope, c->welcome.selection.nvtx_process_scope, &c->filter.nvtx);
	/* Of a CUPTI that nobody else uses. */
	c->activity->while_quiet = c->welcome.trace ? NULL : while_quiet;
	c->activity->userdata = c;
	c->activity->is_ending = is_ending;
	c->activity->patient = c->welcome.trace;
	c->activity->copies = c->welcome.trace && c->welcome.plan.columns.n > 0;
	trace_graphs_begin(c);
	unwatched_begin(c);
	rests_begin(c);
	times_init(c);
	if (c->late && c->welcome.trace) {
		times_begin(c); /* before callbacks: none of a launch need ever be on */
		unwatched_start(c);
	}
	return callbacks_enable(c, r);
}

int capture_start(struct capture *c, const char *socket_path, const char *token, struct refusal *r)
{
	int code = start_measuring(c, socket_path, token, r);

	if (code != 0) {
		deliver_notice(&c->deliver, r->code, r->message, r->remedy);
		return code;
	}
	capture_announce(c);
	nvtx_watch(c->scope.on || c->filter.nvtx.n > c->filter.nvtx.n_select);
	nvtx_adopt_stack(&c->scope, c->number);
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
	c->deliver.on_values = on_values;
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
	c->method = &method_none;
	list_init(&c->contexts);
	stream_captures_init(&c->stream_captures);
	lock_init(&c->lock, LOCK_LEAF);
	lock_init(&c->devices_lock, LOCK_SETUP);
	lock_init(&c->times_lock, LOCK_SETUP);
	trace_init(&c->trace);
	arena_init(&c->arena, LIMIT_UNPACKED_BYTES);
	init_deliver(c, connection);
	return c;
}

/* --- run and end --- */

void capture_run(struct capture *c)
{
	const struct timespec pause = { 0, LINGER_MS * CLOCK_NS_PER_MS };

	watch_begin(c);
	deliver_run(&c->deliver);
	while (sections_are_open(c) && !state_is_exiting()) {
		nanosleep(&pause, NULL);
		if (close_sections(c)) {
			leave_cupti(c);
		}
	}
	watch_end(c);
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
	nvtx_scope_deinit(&c->scope);
	filter_deinit(&c->filter);
	choosing_deinit(&c->choosing);
	intern_deinit(&c->intern);
	arena_deinit(&c->arena);
	stream_captures_deinit(&c->stream_captures);
	lock_deinit(&c->times_lock);
	lock_deinit(&c->devices_lock);
	lock_deinit(&c->lock);
	free(c);
	return true;
}
