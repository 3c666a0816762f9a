/* SPDX-License-Identifier: Apache-2.0 */

/* "permit": a profiler of the user's own, with our lease. What can be refused before anybody waits
 * is refused here; permit.c is the rest. */

#include "client/cli/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/child.h"
#include "client/cli/permit.h"
#include "client/cli/say.h"

enum {
	OPTION_AGENT = 256,
	OPTION_DEVICES,
	OPTION_INJECT,
	OPTION_LEASE,
	OPTION_NO_WAIT,
	OPTION_TIMEOUT,
};

static const struct option_def defs[] = {
	{ OPTION_DEVICES, "devices", "LIST", "GPUs by index or UUID (default: all)" },
	{ OPTION_LEASE, "lease", "SECONDS", "hold the GPUs this long at a time" },
	{ OPTION_NO_WAIT, "no-wait", NULL, "give up at once when a GPU is taken" },
	{ OPTION_TIMEOUT, "timeout", "SECONDS", "wait in the queue no longer than this" },
	{ OPTION_INJECT, "inject", NULL, "by CUDA_INJECTION64_PATH in place of LD_PRELOAD" },
	{ 'q', "quiet", NULL, "say nothing but errors" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ OPTION_AGENT, "agent", "PATH",
	  "of libgpuctr-agent.so; libgpuctr-permit.so is beside it" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

static bool take_seconds(const char *name, const char *value, uint64_t *ret)
{
	if (!options_parse_seconds(value, ret)) {
		say_usage("--%s: '%s' is not a number of seconds", name, value);
		return false;
	}
	return true;
}

static bool take_option(void *userdata, int id, const char *value)
{
	struct permit_options *o = userdata;

	switch (id) {
	case OPTION_DEVICES:
		return strings_add_list(&o->devices, value);
	case OPTION_LEASE:
		return take_seconds("lease", value, &o->lease_ns);
	case OPTION_TIMEOUT:
		return take_seconds("timeout", value, &o->timeout_ns);
	case OPTION_NO_WAIT:
		o->no_wait = true;
		return true;
	case OPTION_INJECT:
		o->inject = true;
		return true;
	case OPTION_SOCKET:
		o->socket = value;
		return true;
	case OPTION_AGENT:
		o->agent = value;
		return true;
	case 'q':
		o->quiet = true;
		return true;
	default:
		o->help = true;
		return true;
	}
}

/* False: it is not run, which was told. */
static bool check_program(const char *name, const char *path)
{
	switch (permit_look_at(path)) {
	case PERMIT_PROGRAM_SETUID:
		say_error("not-allowed",
			  "the program gets other rights than yours as it starts (set-uid, set-gid "
			  "or file capabilities): nothing can be loaded into it, and what runs as "
			  "another user gets no counters",
			  "Run the profiler itself, as yourself.");
		return false;
	case PERMIT_PROGRAM_STATIC:
		say("%s is statically linked: it gets no counters itself, what it starts may",
		    name);
		return true;
	case PERMIT_PROGRAM_OTHER_MACHINE:
		say("%s is no 64-bit program of this processor: it gets no counters itself, what "
		    "it starts may",
		    name);
		return true;
	case PERMIT_PROGRAM_GOOD:
		break;
	}
	return true;
}

static int check_and_run(const struct permit_options *o)
{
	int error, status = EXIT_REFUSED;
	char *path;

	if (!o->command[0]) {
		say_usage("no command given: gpuctr-client permit -- COMMAND [ARG...]");
		return EXIT_REFUSED;
	}
	if (o->inject && getenv("CUDA_INJECTION64_PATH")) {
		say_usage("--inject: CUDA_INJECTION64_PATH is set already: leave out --inject");
		return EXIT_REFUSED;
	}
	path = child_find(o->command[0], &error);
	if (!path) {
		say_usage("%s: %s", o->command[0],
			  error == ENOENT ? "no such program" : strerror(error));
		return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
	}
	if (check_program(o->command[0], path)) {
		status = permit_run(o, path);
	}
	free(path);
	return status;
}

static int exec_permit(const struct verb *const *verbs, int argc, char **argv)
{
	struct permit_options o = { 0 };
	int rest, status = EXIT_REFUSED;
	enum options_result result =
		options_parse_leading(defs, argc, argv, take_option, &o, &rest);

	(void)verbs;
	if (o.help) {
		verb_print_help(&verb_permit);
		status = 0;
	} else if (result == OPTIONS_END) {
		o.command = argv + rest;
		status = check_and_run(&o);
	}
	strings_deinit(&o.devices);
	return status;
}

const struct verb verb_permit = {
	.name = "permit",
	.usage = "permit [OPTION...] [--] COMMAND [ARG...]",
	.summary = "run COMMAND, whose own profiler may use the counters",
	.details = "Waits for the GPUs like any capture, then COMMAND and what it starts may have "
		   "the\n"
		   "counters from the driver, by ncu, nsys, CUPTI or whatever asks, until COMMAND "
		   "ends.\n"
		   "Its output and exit status are its own; 125, 126 and 127 as for run.\n",
	.examples = "  gpuctr-client permit true\n",
	.options = defs,
	.exec = exec_permit,
};
