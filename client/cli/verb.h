/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"

/* One verb of gpuctr-client: a file verb_<name>.c and a line in main.c. */
struct verb {
	const char *name;
	const char *usage;    /* after "gpuctr-client " */
	const char *summary;  /* one line */
	const char *details;  /* more lines for help, or NULL */
	const char *examples; /* command lines, each indented by two, or NULL. The test `help` runs
				 them in a folder that has the files they name */
	const struct option_def *options;
	const struct option_rule *rules; /* that hold in all modes; NULL: none */
	unsigned bit;  /* of this verb in a shared table of options; 0: the table is its own */
	bool unlisted; /* gpuctr-client --help does not show it: for programs and administrators */
	bool runs; /* wrong usage is EXIT_REFUSED, because the verb starts a program or measures;
		      options end at the first argument */
	const char *takes; /* kind of arguments, for completion: "PROGRAM", "FILE", "METRIC"
			      (without rollup) or "VERB"; NULL: none */
	/* verbs: all of them, ended by NULL. argv[0] is the verb. Returns the exit status. */
	int (*exec)(const struct verb *const *verbs, int argc, char **argv);
};

/* Exit statuses of the verbs that run no program. */
enum { EXIT_VERB_FAILED = 1, EXIT_VERB_USAGE = 2 };

extern const struct verb verb_run;
extern const struct verb verb_capture;
extern const struct verb verb_standby;
extern const struct verb verb_permit;
extern const struct verb verb_follow;
extern const struct verb verb_completion;
extern const struct verb verb_metrics;
extern const struct verb verb_report;
extern const struct verb verb_export;
extern const struct verb verb_merge;
extern const struct verb verb_status;
extern const struct verb verb_job;
extern const struct verb verb_version;
extern const struct verb verb_help;

/* NULL: no verb has this name. */
const struct verb *verb_find(const struct verb *const *verbs, const char *name);
/* Reads the verb's options into its struct. Returns -1 if the verb goes on with argv[*ret_rest],
 * else the exit status: help was printed, or an error. */
int verb_read(const struct verb *verb, int argc, char **argv, void *options, int *ret_rest);
/* The same; ret_given as of options_read(). */
int verb_read_given(const struct verb *verb, int argc, char **argv, void *options,
		    uint64_t *ret_given, int *ret_rest);
/* The exit status of a wrong command line. */
int verb_usage(const struct verb *verb);
void verb_print_help(const struct verb *verb);
/* Prints what the client is for, and what to type, in ten lines. */
void verb_print_first_use(void);
