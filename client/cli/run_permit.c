/* SPDX-License-Identifier: Apache-2.0 */

/* "permit": a run that measures nothing itself. Its lease ends with the command, whose own profiler
 * may use the counters until then. Processes that the command leaves behind become our children
 * (PR_SET_CHILD_SUBREAPER), so that we can report them. */

#include "client/cli/run_internal.h"

#include <errno.h>
#include <sys/wait.h>

#include "client/cli/say.h"

void permit_opened(const struct run *run, const struct gpuctr_opened *opened)
{
	CLEAN_BUF struct buf b = { 0 };

	for (size_t i = 0; i < opened->n_gpus; i++) {
		buf_printf(&b, "%s %u", i > 0 ? "," : "", opened->gpus[i].index);
	}
	if (!run->options->quiet) {
		say("permit for GPU%s", buf_string(&b));
	}
}

/* Reports that no process of the command asked for the counters. Either its profiler needed no
 * permission, or our library was not loaded into the program that asked the driver. */
void permit_closed(const struct run *run, const struct gpuctr_end *end)
{
	if (end->processes > 0 || run->options->quiet) {
		return;
	}
	say("no process was given the counters: none asked for them, or what asked was statically "
	    "linked, set-uid, started with an environment of its own, or shut in by a seccomp "
	    "filter%s",
	    run->options->permit == GPUCTR_PERMIT_BY_INJECTION
		    ? "; or it called the driver before cuInit() was over"
		    : "");
}

void permit_revoked(const struct gpuctr_error *error)
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

void permit_program_end(const struct run *run)
{
	pid_t pid;

	do {
		pid = waitpid(-1, NULL, WNOHANG);
	} while (pid > 0 || (pid < 0 && errno == EINTR));
	if (pid == 0 && !run->options->quiet) {
		say("the command has ended, and with it the permit; what it started and left "
		    "running is refused from now on (wait for it in the command: sh -c '...; "
		    "wait')");
	}
}
