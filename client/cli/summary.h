/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SUMMARY_H
#define CLIENT_CLI_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"

/* Counters added up by kernel name, for the table at the end. */
struct summary;

/* NULL: out of memory. The plan is copied. */
struct summary *summary_new(const struct gpuctr_plan *plan);
struct summary *summary_free(struct summary *s); /* takes NULL, returns NULL */

void summary_process(struct summary *s, const struct gpuctr_process *process);
void summary_record(struct summary *s, const struct gpuctr_record *record);
uint64_t summary_records(const struct summary *s);
unsigned summary_processes(const struct summary *s);

struct summary_end {
	struct gpuctr_totals totals;
	bool recorded;	    /* no GPU was leased: only a recording could answer */
	bool has_totals;    /* false: the connection broke, what is known is what came */
	const char *driver; /* of the machine; "": none */
	uint64_t unsaved;   /* records that are not in the capture file */
	size_t width, rows;
};

/* Appends the table and the lines below it. */
void summary_print(struct summary *s, const struct summary_end *end, struct buf *b);

#endif
