/* SPDX-License-Identifier: Apache-2.0 */

/* The loop of a run: one connection, one program, signals and a timer. A capture of processes that
 * run already starts no program. It ends at Ctrl-C, after its duration, or with the last process.
 *
 *	OPENING ──on_ready──► RUNNING ──program ends──► DRAINING ──on_end──► OVER
 *	   │                     │ on_end (revoked, daemon gone)              ▲
 *	   │ refused             └──► ALONE ──program ends────────────────────┤
 *	   └──────────────────────────────────────────────────────────────────┘
 *
 * The program comes first: once it runs, no error of the capture, the files or the stream ends the
 * program. Its exit status is ours, but --fail-if-none replaces a 0 when nothing was measured.
 * run_capture.c has the handlers of the capture. */

#include "client/cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/expand.h"
#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/slurm.h"
#include "client/cli/visible.h"
#include "proto/base/clock.h"

/* The daemon ends a capture within 10 s. If the connection brings no data for 15 s (DRAIN_SILENT),
 * the daemon hangs. */
enum {
	TICK_MS = 250,
	LOOK_TICKS = 2,
	SILENT_TICKS = 40,
	DRAIN_TOLD = 6,
	DRAIN_SILENT = 60,
	LOOP_DESCRIPTORS = 8,
};

/* --- events ---------------------------------------------------------------------------------- */

static void dispatch(struct run *run)
{
	if (run->state != RUN_OVER && run->g && gpuctr_dispatch(run->g, 0) != 0) {
		/* The library has called on_end() of every capture. */
		uv_poll_stop(&run->connection);
		run->watched = -1;
		if (run->state == RUN_OPENING || run->state == RUN_DRAINING) {
			run->state = RUN_OVER;
		}
	}
	sinks_flush(&run->sinks);
}

static void on_connection(uv_poll_t *handle, int status, int events)
{
	struct run *run = handle->loop->data;

	if ((events & UV_READABLE) != 0) {
		run->silent_ticks = 0;
	}
	dispatch(run);
}

/* Each call of the library may change the events that the library waits for. */
static void on_prepare(uv_prepare_t *handle)
{
	struct run *run = handle->loop->data;
	short events = run->watched < 0 ? 0 : gpuctr_events(run->g);
	int wanted = (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0);

	if (run->state == RUN_OVER) {
		uv_stop(&run->loop);
	} else if (run->watched >= 0 && wanted != run->watched) {
		uv_poll_start(&run->connection, wanted, on_connection);
		run->watched = wanted;
	}
}

static void on_program_end(struct run *run)
{
	run->status = run->child.status;
	if (run_is_permit(run)) {
		permit_program_end(run);
	}
	run_programs_end(run);
}

/* The user interrupts the calculation of values: the remaining kernels are written without values.
 */
static void give_up(struct run *run, int signo)
{
	if (!run->is_given_up) {
		say("interrupted: kernels whose values are not calculated yet have none");
		run->status = run_is_on_demand(run) ? 128 + signo : run->status;
	}
	run->is_given_up = true;
}

/* Acts on the first signal that no program of ours gets; the next signal has its default action. */
static void handle_ending(struct run *run, int signo)
{
	signals_release(&run->signals);
	if (run->is_finishing) {
		give_up(run, signo);
		return;
	}
	switch (run->state) {
	case RUN_OPENING:
		say(run->path ? "interrupted: the program was not started"
			      : "interrupted: nothing was measured");
		run->status = 128 + signo;
		run->state = RUN_OVER;
		break;
	case RUN_RUNNING:
	case RUN_ALONE:
		run_drain(run);
		break;
	case RUN_DRAINING:
		if (!run_is_permit(run)) {
			say("interrupted: what was still on its way is lost");
		}
		run->status = run_is_on_demand(run) ? 128 + signo : run->status;
		run->state = RUN_OVER;
		break;
	case RUN_OVER:
		give_up(run, signo);
		break;
	}
}

static void handle_signal(struct run *run, int signo)
{
	if (signo == SIGCHLD) {
		if (run->child.pid != 0 && child_reap(&run->child)) {
			on_program_end(run);
		}
	} else if (run->child.pid != 0) {
		kill(run->child.pid, signo); /* the signal came before the program began */
	} else {
		handle_ending(run, signo);
	}
}

static void take_signals(struct run *run)
{
	int signo;

	while (signals_next(&run->signals, &signo)) {
		handle_signal(run, signo);
	}
}

static void on_signal(uv_poll_t *handle, int status, int events)
{
	take_signals(handle->loop->data);
}

static void drain_tick(struct run *run)
{
	if (++run->drain_ticks == DRAIN_TOLD && !run->progress.quiet && !run_is_permit(run)) {
		say_status(run->path ? "the program has ended, waiting for the last records "
				       "(Ctrl-C gives up)"
				     : "waiting for the last records (Ctrl-C gives up)");
	}
	if (++run->silent_ticks == DRAIN_SILENT) {
		say("the daemon does not answer: %s",
		    run_is_permit(run) ? "the lease ends when it sees us gone"
				       : "what was still on its way is lost");
		run->status = run_is_on_demand(run) ? EXIT_REFUSED : run->status;
		run->state = RUN_OVER;
	}
}

/* How many launches of a process are measured at most; 0: any number. */
static uint64_t launches_wanted(const struct gpuctr_capture_options *s)
{
	return s->filter_mode == GPUCTR_FILTER_GLOBAL ? s->launch_count : 0;
}

/* Are there as many records as --count allows for all processes of the capture? */
static bool has_all_records(const struct run *run)
{
	uint64_t count = launches_wanted(&run->options->filter.chosen);

	return run_is_on_demand(run) && count > 0 && run->n_begun == run->selected.n &&
	       run->sinks.records >= count * run->n_begun;
}

/* Ends the capture when it has its last record; the programs run on. */
static void end_at_limit(struct run *run)
{
	if (run->state == RUN_RUNNING && !run->is_enough && has_all_records(run)) {
		run_end_capture(run);
	}
}

static void on_stopped(unsigned pid, const char *program, void *userdata)
{
	const struct run *run = userdata;

	say("process %u (%s) is stopped, by a signal or a debugger: %s", pid, program,
	    run->state == RUN_DRAINING
		    ? "its last records come only if it goes on within 10 s (Ctrl-C gives up)"
		    : "nothing of it is measured until it goes on");
}

static void on_silent(unsigned pid, const char *program, void *userdata)
{
	say("process %u (%s) has not answered for 10 s: nothing of it is measured until it does",
	    pid, program);
}

/* Reports captured processes that are stopped by a signal or a debugger, or hang, and so do not
 * answer. */
static void look_at_processes(struct run *run)
{
	if (!run_is_on_demand(run) || (run->state != RUN_RUNNING && run->state != RUN_DRAINING)) {
		return;
	}
	if (++run->n_ticks % LOOK_TICKS == 0) {
		ranks_look(&run->sinks.ranks, on_stopped, run);
	}
	if (run->n_ticks == SILENT_TICKS && run->state == RUN_RUNNING) {
		ranks_look_for_silent(&run->sinks.ranks, on_silent, run);
	}
}

/* In a capture of running processes: has the last process ended? */
static bool have_ended(const struct run *run)
{
	return run_is_on_demand(run) && run->state == RUN_RUNNING && run->n_begun > 0 &&
	       run->n_ended >= run->n_begun;
}

/* Dispatches also when nothing arrives, so that a broken connection is noticed. */
static void on_tick(uv_timer_t *handle)
{
	struct run *run = handle->loop->data;

	if (run->watched >= 0) {
		dispatch(run);
	}
	if (run->state == RUN_RUNNING && !run_is_permit(run)) {
		progress_kernels(&run->progress, run->sinks.records, run->sinks.processes);
	}
	if (run->sampling) {
		sampling_tick(run->sampling);
	}
	end_at_limit(run);
	look_at_processes(run);
	if (have_ended(run)) {
		run_drain(run);
	} else if (run->state == RUN_DRAINING) {
		drain_tick(run);
	}
	if (run->started && run->child.pid != 0 && child_reap(&run->child)) {
		on_program_end(run);
	}
}

/* --- the loop -------------------------------------------------------------------------------- */

/* libuv aborts when it gets no descriptor for its first pipe: looks first whether some are free. */
static int init_loop(struct run *run)
{
	int fds[LOOP_DESCRIPTORS], n = 0, r = 0;

	while (n < LOOP_DESCRIPTORS && r == 0) {
		fds[n] = fcntl(run->signals.fd, F_DUPFD_CLOEXEC, 0);
		r = fds[n] < 0 ? uv_translate_sys_error(errno) : 0;
		n += r == 0;
	}
	while (n > 0) {
		close(fds[--n]);
	}
	return r ? r : uv_loop_init(&run->loop);
}

static int start_loop(struct run *run)
{
	int r = uv_poll_init(&run->loop, &run->connection, gpuctr_fd(run->g));

	r = r ? r : uv_poll_init(&run->loop, &run->signal_poll, run->signals.fd);
	r = r ? r : uv_timer_init(&run->loop, &run->timer);
	r = r ? r : uv_timer_init(&run->loop, &run->duration);
	r = r ? r : uv_prepare_init(&run->loop, &run->prepare);
	if (r) {
		return r;
	}
	run->loop.data = run;
	uv_prepare_start(&run->prepare, on_prepare);
	uv_timer_start(&run->timer, on_tick, 0, TICK_MS);
	r = uv_poll_start(&run->signal_poll, UV_READABLE, on_signal);
	return r || !run_is_following(run) ? r : run_watch_followed(run);
}

static void close_handle(uv_handle_t *handle, void *userdata)
{
	if (!uv_is_closing(handle)) {
		uv_close(handle, NULL);
	}
}

static void stop_loop(struct run *run)
{
	uv_walk(&run->loop, close_handle, NULL);
	uv_run(&run->loop, UV_RUN_DEFAULT);
	uv_loop_close(&run->loop);
}

static void open_capture(struct run *run)
{
	const struct run_options *o = run->options;
	struct gpuctr_capture_options options = launch_filter_capture(&o->filter);
	int r;

	options.metrics = strings_items(&o->metrics);
	options.n_metrics = o->metrics.n;
	options.gpus = strings_items(&o->devices);
	options.n_gpus = o->devices.n;
	options.gpus_allowed = o->devices_visible;
	options.chip = o->chip;
	options.raw_images = o->raw && o->mode != MODE_SAMPLE;
	options.recorded = o->recorded;
	options.trace = o->mode == MODE_TRACE || o->mode == MODE_SAMPLE;
	options.whole_graphs = o->graphs == GRAPHS_WHOLE;
	options.program = o->program;
	options.permit = o->permit;
	options.processes = run->selected.ids;
	options.n_processes = run->selected.n;
	r = gpuctr_capture_open(run->g, &options, &run_handler, run, &run->capture);
	if (r) {
		say_failure(run->g, r);
		run_refuse(run, EXIT_REFUSED);
	}
}

/* --- samples --------------------------------------------------------------------------------- */

static void on_samplers_begun(void *user)
{
	struct run *run = user;

	if (run_is_timeline(run)) {
		timeline_begin(run);
	} else if (run->state == RUN_OPENING) {
		open_capture(run);
	}
}

/* Measures ranges instead of samples, where the user asked for neither. */
static void fall_back(struct run *run, const char *why)
{
	run->own = *run->options;
	run_options_fall_back(&run->own, &run->usual_metrics);
	run->options = &run->own;
	run->refused = run->sampling;
	run->sampling = NULL;
	snprintf(run->why, sizeof(run->why), "%s", why);
	open_capture(run);
}

static void on_sampling_refused(void *user, const char *why)
{
	struct run *run = user;

	if (run->state != RUN_OPENING) {
		return;
	}
	if (why && run->options->may_fall_back) {
		fall_back(run, why);
		return;
	}
	if (why) {
		say_usage("%s: %s", run_is_timeline(run) ? "--timeline" : "--mode sample", why);
	}
	run_refuse(run, EXIT_REFUSED);
}

/* The samples broke off: ends the capture, and the records until now get their values. */
static void on_sampling_cut(void *user)
{
	struct run *run = user;

	if (run->state == RUN_OPENING) {
		run_refuse(run, EXIT_REFUSED);
	} else if (run->state == RUN_RUNNING && !run->is_enough) {
		run_end_capture(run);
	}
}

static void on_sampling_queued(void *user, const struct gpuctr_queued *queued)
{
	run_note_queued(user, queued);
}

static bool on_pause(void *user)
{
	struct run *run = user;

	take_signals(run);
	return run->is_given_up;
}

static bool is_sampled(const struct run *run)
{
	return run_is_timeline(run) || run->options->mode == MODE_SAMPLE;
}

/* False: the reason was reported. */
static bool begin_capture(struct run *run)
{
	static const struct sampling_user user = { timeline_on_opened, on_samplers_begun,
						   on_sampling_refused, on_sampling_cut,
						   on_sampling_queued };
	struct sampling *s;

	if (is_sampled(run)) {
		s = sampling_begin(run->g, &run->loop, run->options, &run->selected,
				   &run->signals.inherited, &run->sinks, &user, run);
		/* The handlers may have refused sampling meanwhile, and fallen back to ranges. */
		*(is_sampled(run) ? &run->sampling : &run->refused) = s;
		return s && run->state == RUN_OPENING;
	}
	open_capture(run);
	return run->state == RUN_OPENING;
}

static void run_loop(struct run *run)
{
	int r = init_loop(run);

	if (r) {
		say_usage("event loop: %s", uv_strerror(r));
		return;
	}
	r = start_loop(run);
	if (r) {
		say_usage("event loop: %s", uv_strerror(r));
	} else if (begin_capture(run)) {
		uv_run(&run->loop, UV_RUN_DEFAULT);
	}
	stop_loop(run);
}

/* Reports that --torch saw no operator: torch was not imported, or Python ignores PYTHONPATH. */
static void report_operators(const struct run *run)
{
	if (run->options->torch && !run->has_operators && !run->options->quiet &&
	    run->sinks.records > 0) {
		say("--torch: no operator of PyTorch was seen around what was measured");
	}
}

/* The exit status is the program's. With --fail-if-none it becomes EXIT_UNMEASURED where the
 * program's is 0 and there is no record. For one of many nodes slurm.c decides that. */
static void conclude(struct run *run)
{
	const struct run_options *o = run->options;
	bool written;

	report_operators(run);
	run->sinks.program_refused = run->child.status == EXIT_REFUSED;
	written = sinks_conclude(&run->sinks,
				 !o->quiet && !(o->part && o->capture_path) && !o->no_summary);
	/* A capture of running processes has a status of its own: it fails when what was asked for
	 * is incomplete. */
	if (run_is_on_demand(run) && run->status == 0 && !written) {
		say("not all that was measured could be written");
		run->status = EXIT_REFUSED;
	}
	if (o->fail_if_none && !o->part && run->status == 0 && run->sinks.records == 0) {
		run->status = EXIT_UNMEASURED;
	}
}

/* False: the reason was reported. */
static bool choose(struct run *run)
{
	const struct selected *s = &run->selected;

	if (!select_some(run->g, &run->options->selector, &run->selected)) {
		return false;
	}
	for (size_t i = 0; i < s->n; i++) {
		ranks_expect(&run->sinks.ranks, &s->items[i]);
	}
	return true;
}

/* A program that we start sees only the GPUs of $CUDA_VISIBLE_DEVICES: asks for no others. */
static void take_visible(struct run *run)
{
	if (run_is_on_demand(run) || run_is_following(run) || run->options->devices.n > 0 ||
	    run->options->recorded || run->options->mode == MODE_TRACE) {
		return;
	}
	visible_find(run->g, &run->visible);
	if (run->visible.n > 0) {
		run->own = *run->options;
		run->own.devices = run->visible;
		run->own.devices_visible = true;
		run->options = &run->own;
	}
}

/* False: the run is over, with a message. */
static bool begin_asking(struct run *run)
{
	const struct run_options *o = run->options;
	int r;

	r = request_connect(o->socket, &run->g);
	if (r) {
		say_failure(run->g, r);
		return false;
	}
	take_visible(run);
	return !run_is_on_demand(run) || run_is_timeline(run) || choose(run);
}

static int run_whole(struct run *run)
{
	const struct run_options *o = run->options;
	int r = signals_open(&run->signals, &run->child, run_is_following(run));

	run->status = EXIT_REFUSED;
	run->progress.wanted = launches_wanted(&o->filter.chosen);
	run->progress.duration_ns = o->duration_ns;
	run->progress.samples = run_is_timeline(run);
	run->progress.quiet = o->quiet || o->part || run_is_following(run);
	say_set_node(o->part ? expand_node() : NULL);
	if (r < 0) {
		say_usage("signals: %s", strerror(-r));
		return EXIT_REFUSED;
	}
	if (begin_asking(run)) {
		run_loop(run);
	}
	/* The daemon has not reported the capture's end. The records until now get their values. */
	if (run->started && run_is_timeline(run)) {
		timeline_finish(run);
	} else if (run->started && run->sampling && run->capture) {
		run_finish_sampling(run);
	}
	/* From here on a signal ends the client, which may wait for the reader of the stream. */
	signals_release(&run->signals);
	say_clear();
	gpuctr_disconnect(run->g);
	if (run->started && !run_is_permit(run)) {
		conclude(run);
	} else if (o->part) {
		run->status = EXIT_UNMEASURED; /* other nodes may have all that was asked for */
	}
	if (o->part) {
		slurm_write_node(run->status, run->started ? run->sinks.records : 0);
	}
	sinks_close(&run->sinks);
	run->sampling = sampling_free(run->sampling);
	run->refused = sampling_free(run->refused);
	strings_deinit(&run->usual_metrics);
	strings_deinit(&run->visible);
	strings_deinit(&run->sampled_metrics);
	signals_close(&run->signals);
	selected_deinit(&run->selected);
	return run->status;
}

int run_capture(const struct run_options *o, const char *path)
{
	struct run run = { .options = o, .path = path, .on_pause = on_pause };

	return run_whole(&run);
}
