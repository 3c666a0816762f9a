/* SPDX-License-Identifier: Apache-2.0 */

/* One connection, one command, signals.
 *
 *	WAITING ──on_ready──► RUNNING ──command ends──► ENDING ──on_end──► OVER
 *	   │                     │ on_end (revoked, daemon gone)            ▲
 *	   │ refused             └──► ALONE ──command ends─────────────────┤
 *	   └────────────────────────────────────────────────────────────────┘
 *
 * The command comes first: once it runs, nothing that happens to the lease ends it, and its exit
 * status is ours. What it leaves behind becomes our child (PR_SET_CHILD_SUBREAPER), so that we can
 * tell of it: the lease ends with the command. */

#include "client/cli/permit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress.h"
#include "client/cli/request.h"
#include "client/cli/say.h"

enum { TICK_MS = 250, ENDING_TICKS = 60 };

enum permit_state { PERMIT_WAITING, PERMIT_RUNNING, PERMIT_ALONE, PERMIT_ENDING, PERMIT_OVER };

struct permit {
	const struct permit_options *options;
	const char *path;
	enum permit_state state;
	int status;
	int ticks; /* in ENDING */
	bool connected;
	struct gpuctr *g;
	struct gpuctr_capture *capture; /* NULL: not open */
	struct child child;
	struct signals signals;
	struct interrupt interrupt; /* its thread goes on if it cannot be told to end */
	struct progress progress;
};

static void refuse(struct permit *p, int status)
{
	p->status = status;
	p->state = PERMIT_OVER;
}

/* --- the lease ------------------------------------------------------------------------------- */

static void on_opened(struct gpuctr_capture *c, const struct gpuctr_opened *opened, void *userdata)
{
	struct permit *p = userdata;
	struct buf b = { 0 };

	(void)c;
	for (size_t i = 0; i < opened->n_gpus; i++) {
		buf_printf(&b, "%s %u", i > 0 ? "," : "", opened->gpus[i].index);
	}
	if (!p->options->quiet) {
		say("permit for GPU%s", buf_string(&b));
	}
	buf_deinit(&b);
}

static void on_queued(struct gpuctr_capture *c, const struct gpuctr_queued *queued, void *userdata)
{
	struct permit *p = userdata;

	(void)c;
	if (p->state == PERMIT_WAITING && progress_refuse_own_holder(queued)) {
		refuse(p, EXIT_REFUSED);
	} else if (p->state == PERMIT_WAITING) {
		progress_queued(&p->progress, queued);
	}
}

static void on_ready(struct gpuctr_capture *c, void *userdata)
{
	struct permit *p = userdata;
	const char *const *added;
	int r;

	if (p->state != PERMIT_WAITING) {
		return;
	}
	say_clear();
	added = gpuctr_capture_environment(c, p->options->agent);
	if (!added) {
		say_gpuctr_error(gpuctr_last_error(p->g));
		refuse(p, EXIT_REFUSED);
		return;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	r = child_start(&p->child, p->path, p->options->command, added, &p->signals.inherited);
	if (r < 0) {
		say_usage("%s: cannot be run: %s", p->options->command[0], strerror(-r));
		refuse(p, r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC);
		return;
	}
	p->state = PERMIT_RUNNING;
}

static void on_notice(struct gpuctr_capture *c, const struct gpuctr_notice *notice, void *userdata)
{
	(void)c;
	(void)userdata;
	say_warning(gpuctr_error_name(notice->error.code), notice->error.message,
		    notice->error.remedy);
}

/* Nothing of the command's asked: what was measured, if anything was, needed no permission, or the
 * library did not come into the program that asked the driver. */
static void tell_unused(const struct permit *p, const struct gpuctr_end *end)
{
	if (end->processes > 0 || p->options->quiet) {
		return;
	}
	say("no process was given the counters: none asked for them, or what asked was statically "
	    "linked, set-uid, started with an environment of its own, or shut in by a seccomp "
	    "filter%s",
	    p->options->inject ? "; or it called the driver before cuInit() was over" : "");
}

static void tell_early_end(const struct gpuctr_error *error)
{
	if (error->code == GPUCTR_E_DISCONNECTED) {
		say("the daemon is gone, and the permit with it: the command runs on, and its "
		    "profiler is refused from now on");
		return;
	}
	if (error->code != GPUCTR_OK) {
		say_gpuctr_error(error);
	}
	say("the permit is over: the command runs on, and its profiler is refused from now on");
}

static void on_end(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata)
{
	struct permit *p = userdata;

	(void)c;
	p->capture = NULL;
	switch (p->state) {
	case PERMIT_WAITING:
		say_clear();
		if (end->error.code != GPUCTR_OK) {
			say_gpuctr_error(&end->error);
		}
		if (end->error.code == GPUCTR_E_DISCONNECTED) {
			say("the command was not started: run it again once the daemon is back");
		}
		refuse(p, EXIT_REFUSED);
		break;
	case PERMIT_RUNNING:
		tell_early_end(&end->error);
		p->state = PERMIT_ALONE;
		break;
	case PERMIT_ENDING:
		if (end->error.code == GPUCTR_OK) {
			tell_unused(p, end);
		} else {
			say_gpuctr_error(&end->error);
		}
		p->state = PERMIT_OVER;
		break;
	case PERMIT_ALONE:
	case PERMIT_OVER:
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

static void tell_left_behind(const struct permit *p)
{
	pid_t pid;

	do {
		pid = waitpid(-1, NULL, WNOHANG);
	} while (pid > 0 || (pid < 0 && errno == EINTR));
	if (pid == 0 && !p->options->quiet) {
		say("the command has ended, and with it the permit; what it started and left "
		    "running is refused from now on (wait for it in the command: sh -c '...; "
		    "wait')");
	}
}

static void on_command_end(struct permit *p)
{
	p->status = p->child.status;
	tell_left_behind(p);
	if (p->state == PERMIT_ALONE || !p->capture || gpuctr_capture_close(p->capture) != 0) {
		p->state = PERMIT_OVER;
	} else {
		p->state = PERMIT_ENDING;
	}
}

/* What a terminal sends reaches the command by itself, unless it has left our process group. */
static void pass_on(const struct permit *p, const struct signal_event *event)
{
	if (event->from_process || getpgid(p->child.pid) != getpgrp()) {
		kill(p->child.pid, event->signo);
	}
}

static void handle_signal(struct permit *p, const struct signal_event *event)
{
	if (event->signo == SIGCHLD) {
		return; /* looked at in each round */
	}
	switch (p->state) {
	case PERMIT_WAITING:
		say_clear();
		say("interrupted: the command was not started");
		refuse(p, 128 + event->signo);
		break;
	case PERMIT_RUNNING:
	case PERMIT_ALONE:
		pass_on(p, event);
		break;
	case PERMIT_ENDING:
		p->state = PERMIT_OVER;
		break;
	case PERMIT_OVER:
		break;
	}
}

/* --- the loop -------------------------------------------------------------------------------- */

static void dispatch(struct permit *p)
{
	if (p->connected && gpuctr_dispatch(p->g, 0) != 0) {
		p->connected = false; /* the capture has had its on_end */
		if (p->state == PERMIT_WAITING) {
			refuse(p, EXIT_REFUSED);
		} else if (p->state == PERMIT_ENDING) {
			p->state = PERMIT_OVER;
		}
	}
}

static void wait_once(struct permit *p)
{
	struct pollfd fds[2] = { { .fd = p->signals.fd, .events = POLLIN },
				 { .fd = p->connected ? gpuctr_fd(p->g) : -1,
				   .events = p->connected ? gpuctr_events(p->g) : 0 } };
	struct signal_event event;
	int n = poll(fds, 2, TICK_MS);

	while (p->state != PERMIT_OVER && signals_next(&p->signals, &event)) {
		handle_signal(p, &event);
	}
	dispatch(p);
	if ((p->state == PERMIT_RUNNING || p->state == PERMIT_ALONE) && child_reap(&p->child)) {
		on_command_end(p);
	}
	p->ticks += p->state == PERMIT_ENDING && n == 0;
	if (p->state == PERMIT_ENDING && p->ticks > ENDING_TICKS) {
		say("the daemon does not answer: the lease ends when it sees us gone");
		p->state = PERMIT_OVER;
	}
}

/* "ncu --set full ./a.out", as those who wait see it. */
static void describe_command(char *const *command, struct buf *b)
{
	for (size_t i = 0; command[i]; i++) {
		buf_printf(b, "%s%s", i > 0 ? " " : "", command[i]);
	}
}

static int open_capture(struct permit *p)
{
	const struct permit_options *o = p->options;
	struct gpuctr_capture_options options = GPUCTR_INIT(gpuctr_capture_options);
	struct buf b = { 0 };
	int r;

	describe_command(o->command, &b);
	options.permit = o->inject ? GPUCTR_PERMIT_BY_INJECTION : GPUCTR_PERMIT_BY_PRELOAD;
	options.gpus = strings_items(&o->devices);
	options.n_gpus = o->devices.n;
	options.no_wait = o->no_wait;
	options.timeout_ns = o->timeout_ns;
	options.lease_ns = o->lease_ns;
	options.program = buf_string(&b);
	r = gpuctr_capture_open(p->g, &options, &handler, p, &p->capture);
	buf_deinit(&b);
	return r;
}

/* False: told why. */
static bool begin(struct permit *p)
{
	int r;

	interrupt_begin(&p->interrupt, &p->signals, &p->child, INTERRUPT_PATIENCE_MS);
	r = request_connect(p->options->socket, &p->g);
	interrupt_end(&p->interrupt);

	r = r ? r : open_capture(p);
	if (r == 0) {
		p->connected = true;
		return true;
	}
	if (r > 0 && p->g) {
		say_gpuctr_error(gpuctr_last_error(p->g));
	} else {
		say_usage("%s", strerror(r < 0 ? -r : EIO));
	}
	return false;
}

int permit_run(const struct permit_options *o, const char *path)
{
	struct permit p = {
		.options = o,
		.path = path,
		.status = EXIT_REFUSED,
		.signals = { .fd = -1 },
		.progress = { .quiet = o->quiet },
	};
	int r = signals_open(&p.signals);

	if (r < 0) {
		say_usage("signals: %s", strerror(-r));
	} else if (begin(&p)) {
		while (p.state != PERMIT_OVER) {
			wait_once(&p);
		}
	}
	gpuctr_disconnect(p.g);
	signals_close(&p.signals);
	return p.status;
}
