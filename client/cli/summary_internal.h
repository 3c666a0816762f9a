/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SUMMARY_INTERNAL_H
#define CLIENT_CLI_SUMMARY_INTERNAL_H

#include "client/cli/summary.h"

struct summary {
	struct groups *groups;
	bool failed; /* memory ran out: the rows are not whole */
	char *chip;
	unsigned passes;
	unsigned turns;		 /* groups of metrics that took turns; 0: none did */
	unsigned processes;	 /* of the captures before */
	unsigned processes_here; /* of this capture */
	char *recorded_from, *device, *cupti, *driver;
	unsigned n_devices; /* distinct, by UUID of the first few */
	char uuids[16][64];
	unsigned clock_sm_mhz, clock_mem_mhz;
	bool clocks_differ;
};

/* summary_end.c: what stands in place of a table. */
void summary_add_nothing(const struct summary *s, const struct summary_end *end, struct buf *b);

#endif
