/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/summary.h"

/* Devices that differ in nothing but their UUID. */
struct summary_devices {
	char chip[32], name[96];
	unsigned clock_sm_mhz, clock_mem_mhz, n;
	bool more; /* there may be more than n: `seen` was full when further devices came */
};

/* Versions and other texts: the different ones, as many as fit. */
struct summary_texts {
	char *items[8];
	unsigned n;
	bool more;
};

struct summary {
	struct groups *groups;
	bool failed; /* memory ran out: the rows are not whole */
	struct summary_texts chips;
	char chip_here[32]; /* of this capture */
	unsigned passes;
	unsigned turns; /* groups of metrics that took turns (docs/internals/budget.md); 0: there
			   was one group */
	unsigned processes;	 /* of the captures before */
	unsigned processes_here; /* of this capture */
	char *recorded_from;
	struct summary_texts cuptis, drivers;
	struct summary_devices devices[8]; /* the first few kinds */
	unsigned n_kinds;
	unsigned more_kinds; /* devices of others */
	bool more_of_those;  /* as more of struct summary_devices */
	unsigned n_devices;  /* different devices, of the first few kinds */
	struct {
		char uuid[64];
		unsigned kind;
	} seen[32];
};

/* "GH100, NVIDIA H200 x 2; clocks not locked (...); driver ..., CUPTI ..." */
void summary_add_machine(const struct summary *s, const struct summary_end *end, struct buf *b);
