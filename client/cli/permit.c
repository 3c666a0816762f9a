/* SPDX-License-Identifier: Apache-2.0 */

/* The user's command under a lease: its exit status is ours. Processes that it leaves behind become
 * our children (PR_SET_CHILD_SUBREAPER), so that we can report them: the lease ends with the
 * command. */

#include "client/cli/permit.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/buf.h"
#include "client/cli/leased.h"
#include "client/cli/say.h"

struct permit {
	const struct permit_options *options;
	const char *path;
};

static void on_opened(struct leased *l, const struct gpuctr_opened *opened)
{
	CLEAN_BUF struct buf b = { 0 };

	for (size_t i = 0; i < opened->n_gpus; i++) {
		buf_printf(&b, "%s %u", i > 0 ? "," : "", opened->gpus[i].index);
	}
	if (!l->options.quiet) {
		say("permit for GPU%s", buf_string(&b));
	}
}

static bool start(struct leased *l, const char *const *added, int *ret_status)
{
	const struct permit *p = l->data;
	int r;

	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	r = child_start(&l->child, p->path, p->options->command, added, &l->signals.inherited);
	if (r < 0) {
		say_usage("%s: cannot be run: %s", p->options->command[0], strerror(-r));
		*ret_status = r == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	return r == 0;
}

/* No process of the command asked: either what was measured needed no permission, or the library
 * was not loaded into the program that asked the driver. */
static void on_closed(struct leased *l, const struct gpuctr_end *end)
{
	if (end->processes > 0 || l->options.quiet) {
		return;
	}
	say("no process was given the counters: none asked for them, or what asked was statically "
	    "linked, set-uid, started with an environment of its own, or shut in by a seccomp "
	    "filter%s",
	    l->options.inject ? "; or it called the driver before cuInit() was over" : "");
}

static void on_early_end(struct leased *l, const struct gpuctr_error *error)
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

static void on_command_end(struct leased *l)
{
	pid_t pid;

	do {
		pid = waitpid(-1, NULL, WNOHANG);
	} while (pid > 0 || (pid < 0 && errno == EINTR));
	if (pid == 0 && !l->options.quiet) {
		say("the command has ended, and with it the permit; what it started and left "
		    "running is refused from now on (wait for it in the command: sh -c '...; "
		    "wait')");
	}
}

static const struct leased_user user = {
	.interrupted = "interrupted: the command was not started",
	.disconnected = "the command was not started: run it again once the daemon is back",
	.on_opened = on_opened,
	.start = start,
	.on_early_end = on_early_end,
	.on_command_end = on_command_end,
	.on_closed = on_closed,
};

/* "ncu --set full ./a.out", as those who wait see it. */
static void describe_command(char *const *command, struct buf *b)
{
	for (size_t i = 0; command[i]; i++) {
		buf_printf(b, "%s%s", i > 0 ? " " : "", command[i]);
	}
}

int permit_run(const struct permit_options *o, const char *path)
{
	struct permit p = { .options = o, .path = path };
	CLEAN_BUF struct buf b = { 0 };
	struct leased l = {
		.user = &user,
		.data = &p,
		.options = { .devices = &o->devices,
			     .socket = o->socket,
			     .agent = o->agent,
			     .timeout_ns = o->timeout_ns,
			     .no_wait = o->no_wait,
			     .inject = o->inject,
			     .may_hide = true,
			     .quiet = o->quiet },
	};

	describe_command(o->command, &b);
	l.options.program = buf_string(&b);
	return leased_run(&l);
}
