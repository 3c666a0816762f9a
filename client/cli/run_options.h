/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "client/cli/launch_filter.h"
#include "client/cli/recording.h"
#include "client/cli/select.h"
#include "client/cli/verb.h"

enum run_mode { MODE_UNSAID, MODE_SAMPLE, MODE_RANGE, MODE_TRACE };

enum run_graphs { GRAPHS_UNSAID, GRAPHS_NODES, GRAPHS_WHOLE };

/* The command line of "run", "capture", "follow" or "permit", checked. */
struct run_options {
	uint64_t given; /* bits of the given options, see options_bit() */
	struct strings metrics, devices;
	struct launch_filter filter;
	const char *capture_path; /* -o, a pattern of expand.h; NULL: none */
	const char *late; /* letters of -o's pattern whose values are known only when a process
			     attaches */
	const char *stream_path; /* --stream; NULL: none */
	const char *chip;	 /* of a recording; NULL: not known */
	const char *socket, *agent;
	const char *torch;  /* for run: "operators" or "modules", see torch.h; NULL: PyTorch is left
			       as it is */
	enum run_mode mode; /* --mode */
	bool may_fall_back; /* from MODE_SAMPLE, which nobody asked for, to MODE_RANGE */
	unsigned whole_steps;	/* number of steps that the fallback measures; 0: all launches */
	bool usual_metrics;	/* `metrics` are the default */
	enum run_graphs graphs; /* --graphs */
	bool devices_visible;	/* `devices` are from $CUDA_VISIBLE_DEVICES, not from --devices */
	bool force, recorded, raw, quiet, verbose, fail_if_none;
	bool no_summary;	  /* follow prints no summary if it writes files */
	char **command;		  /* NULL-terminated, in argv: the program; for capture empty */
	const char *program;	  /* the last part of command[0] */
	struct selector selector; /* for capture; empty: a program is started */
	uint64_t duration_ns;	  /* --duration; 0: none */
	bool here;		  /* for capture: measures on this node alone */
	const char *part; /* for capture: the job, if slurm.c started this client on one of many
			     nodes */
	struct run_timeline {
		bool is_wanted;
		uint64_t interval_ns;
	} timeline; /* for capture: samples a GPU over time; MODE_SAMPLE uses its interval too */
	int ready_fd, until_fd;	    /* of follow; -1: none */
	enum gpuctr_permit permit;  /* of permit, which measures nothing */
	struct recording recording; /* of run; `chip` may point into it */
};

/* Bits of the verbs that share one table. */
enum { VERB_RUN = 1, VERB_CAPTURE = 2, VERB_FOLLOW = 4 };

extern const struct option_def run_option_defs[];

/* Zero-initialises the options and reads the command line; check is one of the functions below.
 * Returns -1 if the verb goes on, else its exit status. Deinit in any case. */
int run_options_read(struct run_options *o, const struct verb *verb, int argc, char **argv,
		     bool (*check)(struct run_options *o, char **command));
/* Fills in defaults. command: the arguments behind the options, borrowed; command[-1] exists.
 * False: options that do not go together were reported. */
bool run_options_check(struct run_options *o, char **command);
bool capture_options_check(struct run_options *o, char **command);
bool follow_options_check(struct run_options *o, char **command);
void run_options_deinit(struct run_options *o);

/* Changes o from MODE_SAMPLE to MODE_RANGE. Programs that run already are then measured for some
 * whole steps, unless a duration is given. usual: gets the default metrics, which o borrows. */
void run_options_fall_back(struct run_options *o, struct strings *usual);

/* Opens the capture, starts the program when the lease is granted, takes the records, prints the
 * summary. path: the file of o->command[0]; NULL: the programs run already and match o->selector,
 * or another program starts them (verb_capture.c). Returns the exit status. */
int run_capture(const struct run_options *o, const char *path);
