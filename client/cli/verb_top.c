/* SPDX-License-Identifier: Apache-2.0 */

/* "top": shows at an interval the daemon's status, or the kernels of a capture of its own, which
 * run.c measures. No mode of the terminal is changed, so any signal may end the former. */

#include "client/cli/verb.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/ps_table.h"
#include "client/cli/request.h"
#include "client/cli/run.h"
#include "client/cli/say.h"
#include "client/cli/status_text.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"
#include "proto/base/clock.h"

static void sleep_until(uint64_t until_ns)
{
	struct timespec ts = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
	}
}

/* add appends an update and returns 0, or an exit status after it has said why. */
static int repeat(struct live *l, int (*add)(void *source, struct live *l, struct buf *b),
		  void *source)
{
	uint64_t next_ns = clock_now_ns();
	int status = 0, r = 0;

	live_begin(l);
	for (;;) {
		CLEAN_BUF struct buf b = { 0 };

		status = add(source, l, &b);
		r = status ? 0 : live_show(l, &b);
		if (status != 0 || r != 0 || live_is_done(l)) {
			break;
		}
		next_ns += l->interval_ns;
		sleep_until(next_ns);
	}
	if (r != 0 && r != -EPIPE) {
		say_usage("standard output: %s", strerror(-r));
	}
	return r != 0 && r != -EPIPE ? EXIT_VERB_FAILED : status;
}

/* --- the daemon ------------------------------------------------------------------------------ */

struct watched {
	const char *socket;
	struct gpuctr *g; /* NULL: not connected */
	struct buf *b;	  /* the update */
	struct grid programs;
	unsigned waiting; /* answers */
	bool refused;
};

static void note_answer(struct watched *w, const struct gpuctr_error *error)
{
	w->waiting--;
	w->refused |= error != NULL;
	if (error) {
		buf_char(w->b, '\n');
		text_terminal(w->b, error->message);
		buf_char(w->b, '\n');
	}
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct watched *w = userdata;

	if (status) {
		status_text(w->b, status, terminal_has_style(STDOUT_FILENO));
	}
	note_answer(w, error);
}

static void on_program(const struct gpuctr_registered_process *p, void *userdata)
{
	ps_add(&((struct watched *)userdata)->programs, p);
}

static void on_programs(const struct gpuctr_error *error, void *userdata)
{
	note_answer(userdata, error);
}

static int ask(struct watched *w)
{
	int r = w->g ? 0 : request_connect(w->socket, &w->g);

	w->waiting = 2;
	r = r ? r : gpuctr_get_status(w->g, on_status, w);
	r = r ? r : gpuctr_list_processes(w->g, on_program, on_programs, w);
	while (r == 0 && w->waiting > 0) {
		r = gpuctr_dispatch(w->g, -1);
	}
	return r;
}

static void add_programs(const struct watched *w, const struct live *l, struct buf *b)
{
	bool styled = terminal_has_style(STDOUT_FILENO), any = grid_rows(&w->programs) > 0;

	buf_char(b, '\n');
	terminal_bold(b, styled, any ? "programs in standby" : "no programs in standby");
	buf_char(b, '\n');
	if (any) {
		grid_print(&w->programs, live_width(l), styled, b);
	}
}

/* The daemon must be there at the start; if it goes away later, the client looks for it again. */
static int add_daemon(void *source, struct live *l, struct buf *b)
{
	struct watched *w = source;
	int r, status = 0;

	w->b = b;
	ps_init(&w->programs);
	r = ask(w);
	if (r == 0) {
		add_programs(w, l, b);
	} else if (l->shown == 0 || r < 0) {
		say_failure(w->g, r);
		status = EXIT_VERB_FAILED;
	} else {
		text_terminal(b, gpuctr_last_error(w->g)->message);
		buf_text(b, "; trying again\n");
		w->g = gpuctr_disconnect(w->g);
	}
	grid_deinit(&w->programs);
	return status;
}

static int watch_daemon(struct live *l, const char *socket)
{
	struct watched w = { .socket = socket };
	int status = repeat(l, add_daemon, &w);

	gpuctr_disconnect(w.g);
	return status;
}

/* --- the verb -------------------------------------------------------------------------------- */

static int watch(struct run_options *o)
{
	int status;

	if (selector_is_empty(&o->selector)) {
		return watch_daemon(&o->live, o->socket);
	}
	status = run_capture(o, NULL);
	return status == EXIT_REFUSED ? EXIT_VERB_FAILED : status;
}

static bool check(struct run_options *o, char **command)
{
	if (command[0]) {
		say_usage("top: it takes no file, such as '%s': `watch gpuctr-client report FILE` "
			  "shows a "
			  "capture while it is written",
			  command[0]);
		return false;
	}
	return top_options_check(o, command);
}

static int exec_top(const struct verb *const *verbs, int argc, char **argv)
{
	struct run_options o;
	int status = run_options_read(&o, &verb_top, argc, argv, check);

	if (status < 0) {
		status = watch(&o);
	}
	run_options_deinit(&o);
	return status;
}

const struct verb verb_top = {
	.name = "top",
	.usage = "top [--pid LIST|--job LIST|--program GLOB|--all] [OPTION...]",
	.summary = "watch the daemon, or the hottest kernels of programs in standby",
	.details = "Alone: what status and ps print. With processes in standby: these are measured "
		   "until top ends. A\n"
		   "terminal is redrawn at each interval until Ctrl-C; elsewhere one update is "
		   "printed.\n",
	.examples = "  gpuctr-client top\n"
		    "  gpuctr-client top --program python --once\n"
		    "  gpuctr-client top --batch 3 --interval 0.5\n",
	.options = top_option_defs,
	.exec = exec_top,
};
