/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of slurm.c need of each other; nobody else includes this. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/cli/clocks.h"
#include "client/cli/ranks.h"
#include "client/cli/run_options.h"
#include "client/cli/slurm_causes.h"
#include "proto/base/buf.h"

/* An output of a program; fd -1: there is none, or it has ended. */
struct slurm_output {
	int fd;
	struct buf b; /* what is not taken yet */
};

/* One that ends with us. */
struct slurm_program {
	pid_t pid;
	struct slurm_output out, errors;
};

enum { SLURM_WORDS = 26, SLURM_JOBS_MAX = 64 };

struct job {
	char id[32], name[64], state[32], reason[128]; /* name: as Slurm shows it, 12_3 or 5+1 */
	unsigned nodes;

	struct slurm_program srun; /* the step beside it */
};

/* The jobs that a name stands for. */
struct jobs {
	struct job items[SLURM_JOBS_MAX];
	size_t n;
	unsigned nodes;
	bool more; /* than there is room for */
};

struct gathering {
	const struct run_options *options;
	struct jobs *jobs;
	struct ranks ranks;
	struct clocks clocks;
	struct slurm_causes causes;
};

/* A command line: its words, and those of them that were made for it. */
struct words {
	char *items[SLURM_WORDS];
	size_t n;
	char text[7][96];
	char client[PATH_MAX];
};

/* --- slurm_programs.c --- */

void slurm_add_word(struct words *w, const char *word);
/* Where the step is to run. */
void slurm_add_target(struct words *w, const struct job *job);
/* Starts a program that is killed when this one ends. 0 or an errno. */
int slurm_start(char *const *argv, struct slurm_program *ret);
/* Reads what has come, and appends it to what was not taken yet. */
void slurm_read(struct slurm_output *out);
/* The exit status, or 128 + the signal. */
int slurm_wait_status(pid_t pid);
/* Runs a short command and keeps both of its outputs; tells the user what is waited for. Returns
 * its exit status, or 127. */
int slurm_ask(char *const *argv, struct slurm_program *ret);
void slurm_program_deinit(struct slurm_program *p);

/* --- slurm_jobs.c --- */

/* JOB of JOB.STEP. */
void slurm_job_part(const char *name, char *ret, size_t size);
enum slurm_found { SLURM_FOUND, SLURM_NO_JOB, SLURM_NO_ANSWER };
/* SLURM_NO_ANSWER: why was reported. */
enum slurm_found slurm_find_jobs(const char *name, struct jobs *ret);
/* Keeps the jobs that run now and reports the others. False: none runs. */
bool slurm_keep_running(const char *name, struct jobs *jobs);
/* Refuses a pattern of -o by which several nodes would write one file. False: the remedy was
 * reported. */
bool slurm_check_output(const struct run_options *o, const struct jobs *jobs);
