/* SPDX-License-Identifier: Apache-2.0 */

/* The part of "follow" in the loop of run.c: writes the variables to one descriptor and waits
 * for the end of another. */

#include "client/cli/run_internal.h"

#include <string.h>
#include <unistd.h>

#include "client/cli/say.h"

/* The variables fit into an empty pipe, so that write() does not block. */
static bool hand_out(int fd, const char *const *variables)
{
	CLEAN_BUF struct buf b = { 0 };

	for (; *variables; variables++) {
		buf_add(&b, *variables, strlen(*variables) + 1);
	}
	return !b.failed && write(fd, b.data, b.n) == (ssize_t)b.n;
}

static void on_until(uv_poll_t *handle, int status, int events)
{
	struct run *run = handle->data;
	char ignored[64];

	if (status == 0 && read(run->options->until_fd, ignored, sizeof(ignored)) > 0) {
		return;
	}
	uv_poll_stop(handle);
	if (run->state == RUN_OPENING) {
		run_refuse(run,
			   EXIT_REFUSED); /* the programs have ended before the lease was granted */
	}
	run_programs_end(run);
}

int run_watch_followed(struct run *run)
{
	int r = uv_poll_init(&run->loop, &run->until, run->options->until_fd);

	run->until.data = run;
	return r ? r : uv_poll_start(&run->until, UV_READABLE, on_until);
}

void run_begin_followed(struct run *run, struct gpuctr_capture *c)
{
	const char *const *variables = gpuctr_capture_environment(c, run->options->agent);

	if (!variables) {
		say_gpuctr_error(gpuctr_last_error(run->g));
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	if (!hand_out(run->options->ready_fd, variables)) {
		say("nobody waits for this capture any more: nothing is measured");
		run_refuse(run, EXIT_REFUSED);
		return;
	}
	close(run->options->ready_fd);
	run->started = true;
	run->status = 0;
	run->state = RUN_RUNNING;
}
