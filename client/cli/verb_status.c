/* SPDX-License-Identifier: Apache-2.0 */

/* "status": shows the daemon, its GPUs, who measures, who waits, and the programs in standby. */

#include "client/cli/verb.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/cli/registered.h"
#include "client/cli/request.h"
#include "client/cli/status.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"

struct status_options {
	const char *socket; /* NULL: the default */
	bool json, watch;
};

static const struct option_def defs[] = {
	{ 0, "json", NULL, "one JSON object, see gpuctr-status(5)",
	  OPTION_AT(FLAG, struct status_options, json) },
	{ 0, "watch", NULL, "again each second, until Ctrl-C",
	  OPTION_AT(FLAG, struct status_options, watch) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct status_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

/* One answer of the daemon: first the processes, then the rest. */
struct look {
	struct request request;
	const struct status_options *options;
	bool redraws;		   /* this look replaces the one before, on a terminal */
	bool again;		   /* there was a look before */
	struct grid processes;	   /* for people */
	struct buf processes_json; /* for programs */
	struct json list;	   /* writes processes_json */
};

static void add_processes(const struct look *l, struct buf *b)
{
	bool styled = terminal_has_style(STDOUT_FILENO), any = grid_rows(&l->processes) > 0;

	buf_char(b, '\n');
	terminal_bold(b, styled, any ? "programs in standby" : "no programs in standby");
	buf_text(b, any ? "\n" : "; `gpuctr-client standby -- PROGRAM` starts one\n");
	if (any) {
		grid_print(&l->processes,
			   terminal_is(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : SIZE_MAX,
			   styled, b);
	}
}

/* Appends as many lines as the terminal has room for. The last row stays empty, because a newline
 * there would scroll. Each line clears the rest of its row, so that nothing flickers. */
static void add_screen(const struct buf *text, struct buf *b)
{
	const char *line = text->data, *end = text->data + text->n;
	size_t width = terminal_width(STDOUT_FILENO);
	struct winsize size;
	size_t rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;

	buf_text(b, "\033[H");
	for (size_t row = 1; line < end && (rows == 0 || row < rows); row++) {
		size_t n = (size_t)((const char *)memchr(line, '\n', (size_t)(end - line)) - line);

		buf_add(b, line, text_fit(line, n, width));
		buf_text(b, "\033[m\033[K\n");
		line += n + 1;
	}
	buf_text(b, "\033[J");
}

/* With --watch on a terminal, shows the error in place of the status until the next look. */
static void tell_error(struct look *l, const struct gpuctr_error *error)
{
	CLEAN_BUF struct buf text = { 0 };

	if (!l->redraws || !l->again) {
		request_answer(&l->request, error);
		return;
	}
	text_printf(&text, "%s; trying again\n", error->message);
	add_screen(&text, &l->request.b);
	l->request.b.failed |= text.failed;
	request_answer(&l->request, NULL);
}

static void on_status(const struct gpuctr_status *status, const struct gpuctr_error *error,
		      void *userdata)
{
	struct look *l = userdata;
	CLEAN_BUF struct buf text = { 0 };

	if (error) {
		tell_error(l, error);
		return;
	}
	if (l->options->json) {
		status_json(&text, status, &l->processes_json);
	} else {
		buf_text(&text, l->again && !l->redraws ? "\n" : "");
		status_text(&text, status, terminal_has_style(STDOUT_FILENO));
		add_processes(l, &text);
	}
	if (l->redraws) {
		add_screen(&text, &l->request.b);
	} else {
		buf_add(&l->request.b, text.data, text.n);
	}
	l->request.b.failed |= text.failed || l->processes_json.failed;
	request_answer(&l->request, NULL);
}

static void on_process(const struct gpuctr_registered_process *p, void *userdata)
{
	struct look *l = userdata;

	if (l->options->json) {
		registered_json(&l->list, p);
	} else {
		registered_row(&l->processes, p);
	}
}

static void on_processes(const struct gpuctr_error *error, void *userdata)
{
	struct look *l = userdata;

	if (!error && gpuctr_get_status(l->request.g, on_status, l) != 0) {
		error = gpuctr_last_error(l->request.g);
	}
	if (error) {
		tell_error(l, error);
	}
}

/* Prints the answer and returns the exit status. */
static int look_at_daemon(const struct status_options *o, bool again)
{
	struct look l = { .options = o,
			  .redraws = o->watch && !o->json && terminal_is(STDOUT_FILENO),
			  .again = again };
	const struct gpuctr_error *why = request_try(&l.request, o->socket);
	int status;

	if (why) {
		tell_error(&l, why);
		return request_finish(&l.request, 0);
	}
	registered_table(&l.processes);
	l.list = (struct json){ .b = &l.processes_json };
	status = request_finish(&l.request,
				gpuctr_list_processes(l.request.g, on_process, on_processes, &l));
	grid_deinit(&l.processes);
	buf_deinit(&l.processes_json);
	return status;
}

/* The daemon must answer the first look. If the daemon goes away later, the client tries again. */
static int watch(const struct status_options *o)
{
	int status = look_at_daemon(o, false);

	while (status == 0 && fflush(stdout) == 0) {
		sleep(1);
		(void)look_at_daemon(o, true);
	}
	return status;
}

static int exec_status(const struct verb *const *verbs, int argc, char **argv)
{
	struct status_options o = { 0 };
	int rest, status = verb_read(&verb_status, argc, argv, &o, &rest);

	if (status >= 0) {
		return status;
	}
	return o.watch ? watch(&o) : look_at_daemon(&o, false);
}

const struct verb verb_status = {
	.name = "status",
	.usage = "status [--json] [--watch]",
	.summary = "show the daemon, its GPUs, captures, queue and programs in standby",
	.details =
		"Programs in standby can be captured: your own; for root and operators others' as "
		"well. JOB, RANK and\n"
		"POD are what a process says of itself. CGROUP is what the kernel says; CONTAINER "
		"is read out of that\n"
		"name, where it is one that Docker, containerd, CRI-O or Podman give. On a "
		"terminal "
		"columns that do\n"
		"not fit are left out.\n",
	.examples = "  gpuctr-client status\n"
		    "  gpuctr-client status --json | jq '.gpus[].name'\n"
		    "  gpuctr-client status --json | jq '.processes[].pid'\n",
	.options = defs,
	.exec = exec_status,
};
