/* SPDX-License-Identifier: Apache-2.0 */

/* "job": by this verb a scheduler's prolog and epilog, as root, report to the daemon that a job
 * begins or ends. */

#include "client/cli/verb.h"

#include <pwd.h>
#include <string.h>

#include "client/cli/request.h"
#include "client/cli/say.h"

struct job_options {
	const char *job, *user, *socket;
	struct strings gpus;
	uint64_t time_ns;
};

/* 0 is no limit. */
static bool take_time(void *ns, const char *value)
{
	return options_parse_time(value, ns) ||
	       options_refuse("duration", value, "a time, such as 600s or 2h");
}

static const struct option_def defs[] = {
	{ 0, "job", "NAME", "the scheduler's name for it, at most 63 bytes",
	  OPTION_AT(TEXT, struct job_options, job) },
	{ 0, "user", "USER", "begin: whose it is, by name or number",
	  OPTION_AT(TEXT, struct job_options, user) },
	{ 0, "devices", "LIST", "begin: its GPUs, by index or UUID",
	  OPTION_AT(LIST, struct job_options, gpus) },
	{ 'd', "duration", "TIME", "begin: forget it after this time",
	  OPTION_TAKEN(take_time, struct job_options, time_ns) },
	{ 0, "socket", "PATH", "of the daemon", OPTION_AT(TEXT, struct job_options, socket) },
	OPTION_HELP_ROW,
	OPTION_END_ROW,
};

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

static int exec_job(const struct verb *const *verbs, int argc, char **argv)
{
	bool begins = argc > 1 && strcmp(argv[1], "begin") == 0;
	bool ends = argc > 1 && strcmp(argv[1], "end") == 0;
	struct job_options o = { 0 };
	int word = begins || ends, rest;
	int status = verb_read(&verb_job, argc - word, argv + word, &o, &rest);

	if (status < 0 && (!word || rest < argc - word)) {
		say_usage("job wants 'begin' or 'end', and options%s%s",
			  rest < argc - word ? ", not " : "",
			  rest < argc - word ? argv[rest + word] : "");
		status = EXIT_VERB_USAGE;
	}
	if (status < 0) {
		status = begins ? begin(&o) : end(&o);
	}
	strings_deinit(&o.gpus);
	return status;
}

const struct verb verb_job = {
	.name = "job",
	.unlisted = true,
	.usage =
		"job begin --job NAME --user USER --devices LIST [--duration TIME] | job end --job "
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
