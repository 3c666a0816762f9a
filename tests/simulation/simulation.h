/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A run of a program that is not there, measured by the agent's own strata, chooser and budget, at
 * the costs that were seen on an H200. All that comes out is simulated. */

#include <stdbool.h>
#include <stdint.h>

#include "client/agent/budget.h"
#include "client/agent/chooser.h"
#include "client/agent/path.h"
#include "client/agent/strata.h"
#include "client/agent/turns.h"
#include "client/estimate/total.h"
#include "tests/simulation/programs.h"

enum simulation_choice {
	CHOICE_REAL,
	/* Wrong ones, which tests have to notice. */
	CHOICE_EVERY_NTH, /* every 100th launch */
	CHOICE_BY_VALUE,  /* large values twice as often, at the chances of the real one */
};

/* How a range changes what it measures. Zeros: not at all. */
struct simulation_cache {
	double spill; /* part of the launch before that is counted with this one, unless that was
			 measured as well */
	double hits;  /* part of its bytes that a launch in plain flow finds in the cache */
	double lost;  /* part of what is in there that a range's beginning costs */
};

enum { SIMULATION_WINDOW_MAX = 16, SIMULATION_NUMBERS = 4096 };

struct simulation_options {
	const struct program *program;
	double share, seconds;
	uint64_t seed;
	uint32_t passes;       /* 0: one */
	double range_gpu_ns;   /* 0: as memory metrics */
	uint32_t cheap_passes; /* the first ones, which are as memory metrics in any case */
	uint32_t judged;       /* the pass whose values are estimated */
	double first_fixed_ns; /* of a first Start, beside what each range takes */
	double overhead_share; /* part of the time that seeing the launches takes */
	enum simulation_choice choice;
	struct simulation_cache cache;
	/* Launches that are measured one after the other where one is chosen, the first of which is
	 * only to bring the cache into the state of the others. 0: one, which counts. */
	unsigned window;
	bool without_paths; /* strata are by kernel, shape and range alone */
};

/* Of a stratum. */
struct simulation_truth {
	double total[PROGRAM_VALUES]; /* of the program as it runs unmeasured */
	double full;		      /* of the first value, had everything been measured */
	uint64_t seen, measured;
	uint64_t first_ns, hundredth_ns, measured_ns; /* when it came, and was first measured */
	struct estimate_sample sample;
};

/* Strata of one kernel and shape: those of which something was measured, and the others. */
struct simulation_kind {
	struct estimate_class measured;
	struct estimate_lacking lacking;
	double total;
};

struct simulation_record {
	uint32_t stratum, pass;
	uint64_t turn;
	float chance;
	double values[PROGRAM_VALUES];
	bool counts; /* not of a window's first launch */
};

struct simulation {
	struct simulation_options options;
	struct strata strata;
	uint32_t numbers[SIMULATION_NUMBERS]; /* of strata that were found lately; 0: none */
	struct path path;
	struct chooser chooser;
	struct budget budget;
	struct program_state program;
	struct simulation_truth *strata_truth; /* [number] */
	struct simulation_kind *kinds;	       /* [number], when it is over */
	struct estimate_prior prior;	       /* what strata have in common, when it is over */
	struct estimate_among among;	       /* the same of kinds */
	uint64_t now_ns, ticked_ns, random;
	struct turns turns;
	struct turn_shares shares;
	uint32_t pass;
	uint64_t turn;
	bool started;
	struct simulation_record *batch;
	size_t n_batch;
	double *spent; /* in each 10 ms */
	size_t n_spent;
	/* Of windows. */
	unsigned left,
		in_row; /* launches to come in this one; measured ones without a gap before */
	double opened[SIMULATION_WINDOW_MAX]; /* chances that the last launches had to open one */
	double before_bytes;		      /* of the launch before */
	uint64_t launches, measured, refused; /* refused: chosen, but a batch could not be turned */
};

/* Runs it. -errno. */
int simulation_run(struct simulation *s, const struct simulation_options *options);
void simulation_deinit(struct simulation *s);

/* The largest part of any ten seconds after the first one that was spent. */
double simulation_worst_window(const struct simulation *s);

/* One of its strata; those of a kernel and shape of which nothing was measured, by the number of
 * the stratum that has no more in its key; and all of them. */
struct estimate_total simulation_stratum(const struct simulation *s, uint32_t number);
struct estimate_total simulation_unmeasured(const struct simulation *s, uint32_t number);
struct estimate_total simulation_total(const struct simulation *s);
double simulation_true_total(const struct simulation *s, int value);
double simulation_full_total(const struct simulation *s); /* of the first value */
