/* SPDX-License-Identifier: Apache-2.0 */

/* A capture of "top": the records until now as a table, at each interval. */

#include "client/cli/run_internal.h"

#include <errno.h>
#include <string.h>

#include "client/cli/say.h"
#include "client/cli/text.h"

static void add_head(struct run *run, struct buf *b)
{
	const struct gpuctr_totals *t = &run->sinks.totals;
	unsigned n = summary_processes(run->sinks.summary);

	buf_text(b, run->state == RUN_RUNNING ? "measuring: " : "measured: ");
	live_add_records(&run->live, run->sinks.summary, run->state == RUN_RUNNING, b);
	if (t->seen > summary_records(run->sinks.summary)) {
		buf_text(b, ", of ");
		text_count(b, t->seen);
		buf_text(b, " launches");
	}
	buf_printf(b, ", %u process%s\n", n, n == 1 ? "" : "es");
}

static int show(struct run *run, bool is_last, struct buf *why)
{
	CLEAN_BUF struct buf b = { 0 };
	int r;

	add_head(run, &b);
	r = live_add_table(&run->live, run->sinks.summary, &b, why);
	if (!is_last) { /* messages are printed after the last update */
		say_add_held(&b);
	}
	return r ? r : live_show(&run->live, &b);
}

/* Reports why an update was not shown. A reader that has gone away is no failure. */
static void report(struct run *run, int r, struct buf *why)
{
	if (r == 0 || r == -EPIPE) {
		return;
	}
	say_usage("top: %s", why->n > 0 ? buf_string(why) : strerror(-r));
	run->status = why->n > 0 ? EXIT_VERB_USAGE : EXIT_REFUSED;
}

static void on_update(uv_timer_t *timer)
{
	struct run *run = timer->data;
	CLEAN_BUF struct buf why = { 0 };
	int r;

	if (run->state != RUN_RUNNING) {
		return;
	}
	r = show(run, false, &why);
	report(run, r, &why);
	if (r || live_is_done(&run->live)) {
		uv_timer_stop(&run->updates);
		run->live.updates = ++run->live.shown; /* no other one */
		run_drain(run);
	}
}

void run_begin_updates(struct run *run)
{
	uint64_t ms;

	if (!run->options->is_live) {
		return;
	}
	run->live = run->options->live;
	live_begin(&run->live);
	say_hold(run->live.redraws);
	ms = run->live.interval_ns / 1000000;
	uv_update_time(&run->loop);
	uv_timer_start(&run->updates, on_update, ms, ms);
}

void run_end_updates(struct run *run)
{
	CLEAN_BUF struct buf why = { 0 };

	if (run->options->is_live && !live_is_done(&run->live)) {
		report(run, show(run, true, &why), &why);
	}
	say_hold(false);
}
