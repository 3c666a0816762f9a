/* SPDX-License-Identifier: Apache-2.0 */

/* "job": what a scheduler's prolog and epilog say to the daemon, as root. */

#include "client/cli/verb.h"

#include <pwd.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/say.h"

enum { OPTION_JOB = 256, OPTION_USER, OPTION_TIME, OPTION_DEVICES };

static const struct option_def defs[] = {
	{ OPTION_JOB, "job", "NAME", "the scheduler's name for it, at most 63 bytes" },
	{ OPTION_USER, "user", "USER", "begin: whose it is, by name or number" },
	{ OPTION_DEVICES, "devices", "LIST", "begin: its GPUs, by index or UUID" },
	{ OPTION_TIME, "time", "SECONDS", "begin: forget it after this time" },
	{ OPTION_SOCKET, "socket", "PATH", "of the daemon" },
	{ 'h', "help", NULL, "show this" },
	{ 0, NULL, NULL, NULL },
};

struct job_options {
	const char *job, *user, *socket;
	struct strings gpus;
	uint64_t time_ns;
	bool help;
};

static bool take_time(struct job_options *o, const char *value)
{
	if (!options_parse_seconds(value, &o->time_ns)) {
		say_usage("--time wants a number of seconds, not '%s'", value);
		return false;
	}
	return true;
}

static bool take_option(void *userdata, int id, const char *value)
{
	struct job_options *o = userdata;

	switch (id) {
	case OPTION_JOB:
		o->job = value;
		return true;
	case OPTION_USER:
		o->user = value;
		return true;
	case OPTION_DEVICES:
		return strings_add_list(&o->gpus, value);
	case OPTION_TIME:
		return take_time(o, value);
	case OPTION_SOCKET:
		o->socket = value;
		return true;
	default:
		o->help = true;
		return true;
	}
}

static bool find_user(const char *name, unsigned *ret)
{
	const struct passwd *pw = getpwnam(name);
	uint64_t uid = 0;

	if (!pw && (!options_parse_u64(name, &uid) || uid >= UINT32_MAX)) {
		return false;
	}
	*ret = pw ? pw->pw_uid : (unsigned)uid;
	return true;
}

static void on_done(const struct gpuctr_error *error, void *userdata)
{
	request_answer(userdata, error);
}

static int begin(const struct job_options *o)
{
	struct gpuctr_job_options job = GPUCTR_INIT(gpuctr_job_options);
	struct request request;

	if (!o->job || !o->user || o->gpus.n == 0) {
		say_usage("job begin needs --job, --user and --devices");
		return EXIT_VERB_USAGE;
	}
	if (!find_user(o->user, &job.uid)) {
		say_usage("there is no user '%s' on this machine: give a number", o->user);
		return EXIT_VERB_USAGE;
	}
	job.job = o->job;
	job.gpus = strings_items(&o->gpus);
	job.n_gpus = o->gpus.n;
	job.time_ns = o->time_ns;
	if (!request_open(&request, o->socket)) {
		return request.status;
	}
	return request_finish(&request, gpuctr_begin_job(request.g, &job, on_done, &request));
}

static int end(const struct job_options *o)
{
	struct request request;

	if (!o->job) {
		say_usage("job end needs --job");
		return EXIT_VERB_USAGE;
	}
	if (!request_open(&request, o->socket)) {
		return request.status;
	}
	return request_finish(&request, gpuctr_end_job(request.g, o->job, on_done, &request));
}

/* 0, or the exit status of wrong usage. */
static int read_options(struct job_options *o, int argc, char **argv)
{
	int rest;
	enum options_result result = options_parse(defs, argc, argv, take_option, o, &rest);

	if (result == OPTIONS_END && rest < argc) {
		say_usage("job wants 'begin' or 'end' and options, not '%s'", argv[rest]);
		return EXIT_VERB_USAGE;
	}
	return result == OPTIONS_END ? 0 : EXIT_VERB_USAGE;
}

static int exec_job(const struct verb *const *verbs, int argc, char **argv)
{
	bool begins = argc > 1 && strcmp(argv[1], "begin") == 0;
	bool ends = argc > 1 && strcmp(argv[1], "end") == 0;
	struct job_options o = { 0 };
	int status = read_options(&o, begins || ends ? argc - 1 : argc,
				  begins || ends ? argv + 1 : argv);

	(void)verbs;
	if (o.help) {
		verb_print_help(&verb_job);
		status = 0;
	} else if (status == 0 && begins) {
		status = begin(&o);
	} else if (status == 0 && ends) {
		status = end(&o);
	} else if (status == 0) {
		say_usage("job wants 'begin' or 'end'");
		status = EXIT_VERB_USAGE;
	}
	strings_deinit(&o.gpus);
	return status;
}

const struct verb verb_job = {
	.name = "job",
	.usage = "job begin --job NAME --user USER --devices LIST [--time SECONDS] | job end --job "
		 "NAME",
	.summary = "state whose job a GPU belongs to (schedulers, as root)",
	.details = "While a GPU belongs to a job nobody else may measure it, and its owner need "
		   "not be\n"
		   "alone on it. The last statement about a GPU counts.\n",
	.examples = "  sudo gpuctr-client job begin --job 4711 --user 1000 --devices 0\n"
		    "  sudo gpuctr-client job end --job 4711\n",
	.takes = "begin|end",
	.options = defs,
	.exec = exec_job,
};
