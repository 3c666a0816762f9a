/* SPDX-License-Identifier: Apache-2.0 */

/* One connection, one command, signals.
 *
 *	WAITING ──on_ready──► RUNNING ──command ends──► ENDING ──on_end──► OVER
 *	   │                     │ on_end (revoked, daemon gone)            ▲
 *	   │ refused             └──► ALONE ──command ends─────────────────┤
 *	   └────────────────────────────────────────────────────────────────┘
 *
 * The command comes first: once it runs, nothing that happens to the lease ends it here. The lease
 * ends with the command. */

#include "client/cli/leased.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/say.h"
#include "client/cli/visible.h"

enum { TICK_MS = 250, ENDING_TICKS = 60 };

static void refuse(struct leased *l, int status)
{
	l->status = status;
	l->state = LEASED_OVER;
}

/* --- the lease ------------------------------------------------------------------------------- */

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened, void *userdata)
{
	struct leased *l = userdata;

	l->user->on_opened(l, opened);
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *queued, void *userdata)
{
	struct leased *l = userdata;

	if (l->state == LEASED_WAITING && progress_refuse_own_holder(queued)) {
		refuse(l, EXIT_REFUSED);
	} else if (l->state == LEASED_WAITING) {
		progress_queued(&l->progress, queued);
	}
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	struct leased *l = userdata;
	const char *const *added;
	int status = EXIT_REFUSED;

	if (l->state != LEASED_WAITING) {
		return;
	}
	say_clear();
	added = gpuctr_capture_environment(c, l->options.agent);
	if (!added) {
		say_gpuctr_error(gpuctr_last_error(l->g));
		refuse(l, EXIT_REFUSED);
		return;
	}
	if (l->user->start(l, added, &status)) {
		l->state = LEASED_RUNNING;
	} else {
		refuse(l, status);
	}
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice, void *userdata)
{
	say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
		    notice->error.remedy);
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct leased *l = userdata;

	l->capture = NULL;
	switch (l->state) {
	case LEASED_WAITING:
		say_clear();
		if (end->error.code != GPUCTR_OK) {
			say_gpuctr_error(&end->error);
		}
		if (end->error.code == GPUCTR_E_DISCONNECTED) {
			say("%s", l->user->disconnected);
		}
		refuse(l, EXIT_REFUSED);
		break;
	case LEASED_RUNNING:
		l->state = LEASED_ALONE;
		l->user->on_early_end(l, &end->error);
		break;
	case LEASED_ENDING:
		if (end->error.code == GPUCTR_OK) {
			l->user->on_closed(l, end);
		} else {
			say_gpuctr_error(&end->error);
		}
		l->state = LEASED_OVER;
		break;
	case LEASED_ALONE:
	case LEASED_OVER:
		break;
	}
}

static const struct gpuctr_capture_handler handler = {
	.size = sizeof(struct gpuctr_capture_handler),
	.on_opened = on_opened,
	.on_queued = on_queued,
	.on_ready = on_ready,
	.on_notice = on_notice,
	.on_end = on_end,
};

/* --- the command ----------------------------------------------------------------------------- */

static void on_command_end(struct leased *l)
{
	l->status = l->child.status;
	signals_drop(&l->signals); /* SIGCHLD is looked at in each round */
	l->user->on_command_end(l);
	if (l->state == LEASED_ALONE || !l->capture || gpuctr_capture_close(l->capture) != 0) {
		l->state = LEASED_OVER;
	} else {
		l->state = LEASED_ENDING;
	}
}

static bool runs(const struct leased *l)
{
	return l->state == LEASED_RUNNING || l->state == LEASED_ALONE;
}

static void handle_signal(struct leased *l, const struct signal_event *event)
{
	if (event->signo == SIGCHLD) {
		return; /* looked at in each round */
	}
	if (runs(l)) {
		kill(l->child.pid, event->signo); /* which came before the command began */
		return;
	}
	signals_release(&l->signals); /* the next one has its default action */
	switch (l->state) {
	case LEASED_WAITING:
		say_clear();
		say("%s", l->user->interrupted);
		refuse(l, 128 + event->signo);
		break;
	case LEASED_ENDING:
		l->state = LEASED_OVER;
		break;
	case LEASED_RUNNING:
	case LEASED_ALONE:
	case LEASED_OVER:
		break;
	}
}

/* --- the loop -------------------------------------------------------------------------------- */

static void dispatch(struct leased *l)
{
	if (l->connected && gpuctr_dispatch(l->g, 0) != 0) {
		l->connected = false; /* the capture has had its on_end */
		if (l->state == LEASED_WAITING) {
			refuse(l, EXIT_REFUSED);
		} else if (l->state == LEASED_ENDING) {
			l->state = LEASED_OVER;
		}
	}
}

static void wait_once(struct leased *l)
{
	struct pollfd fds[2] = { { .fd = l->signals.fd, .events = POLLIN },
				 { .fd = l->connected ? gpuctr_fd(l->g) : -1,
				   .events = l->connected ? gpuctr_events(l->g) : 0 } };
	struct signal_event event;
	int n = poll(fds, 2, TICK_MS);

	while (l->state != LEASED_OVER && signals_next(&l->signals, &event)) {
		handle_signal(l, &event);
	}
	dispatch(l);
	if (runs(l) && child_reap(&l->child)) {
		on_command_end(l);
	}
	l->ticks += l->state == LEASED_ENDING && n == 0;
	if (l->state == LEASED_ENDING && l->ticks > ENDING_TICKS) {
		say("the daemon does not answer: the lease ends when it sees us gone");
		l->state = LEASED_OVER;
	}
}

static int open_capture(struct leased *l)
{
	const struct leased_options *o = &l->options;
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);

	options.permit = o->inject ? GPUCTR_PERMIT_BY_INJECTION : GPUCTR_PERMIT_BY_PRELOAD;
	options.gpus = strings_items(l->visible.n > 0 ? &l->visible : o->devices);
	options.n_gpus = l->visible.n > 0 ? l->visible.n : o->devices->n;
	options.gpus_allowed = l->visible.n > 0;
	options.no_wait = o->no_wait;
	options.timeout_ns = o->timeout_ns;
	options.program = o->program;
	return gpuctr_capture_open(l->g, &options, &handler, l, &l->capture);
}

/* False: told why. */
static bool begin(struct leased *l)
{
	int r;

	r = request_connect(l->options.socket, &l->g);
	if (r == 0 && l->options.may_hide && l->options.devices->n == 0) {
		visible_find(l->g, &l->visible);
	}
	r = r ? r : open_capture(l);
	if (r == 0) {
		l->connected = true;
		return true;
	}
	if (r > 0 && l->g) {
		say_gpuctr_error(gpuctr_last_error(l->g));
	} else {
		say_usage("%s", strerror(r < 0 ? -r : EIO));
	}
	return false;
}

int leased_run(struct leased *l)
{
	int r;

	l->status = EXIT_REFUSED;
	l->signals.fd = -1;
	l->progress.quiet = l->options.quiet;
	r = signals_open(&l->signals, &l->child);
	if (r < 0) {
		say_usage("signals: %s", strerror(-r));
	} else if (begin(l)) {
		while (l->state != LEASED_OVER) {
			wait_once(l);
		}
	}
	gpuctr_disconnect(l->g);
	strings_deinit(&l->visible);
	signals_close(&l->signals);
	return l->status;
}
