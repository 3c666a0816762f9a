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
	bool recorded;	       /* no GPU was leased: only a recording could answer */
	bool has_totals;       /* false: the connection broke, what is known is what came */
	int error;	       /* why it ended early, GPUCTR_OK: it did not */
	bool refused;	       /* a process said why it cannot be measured */
	const char *unmatched; /* what --kernel might have been meant for; NULL: not known */
	const char *driver;    /* of the machine; "": none */
	uint64_t unsaved;      /* records that are not in the capture file */
	size_t width, rows;
};

enum summary_outcome {
	SUMMARY_MEASURED,
	SUMMARY_NOTHING, /* was measured, because nothing ran or nothing that was asked for */
	SUMMARY_FAILED,	 /* nothing was measured, though it should have been */
};
enum summary_outcome summary_outcome(const struct summary *s, const struct summary_end *end);

/* Appends why nothing was measured, and what became of the kernels; nothing when something was. */
void summary_print_nothing(const struct summary *s, const struct summary_end *end, struct buf *b);

/* Appends the table and the lines below it. */
void summary_print(struct summary *s, const struct summary_end *end, struct buf *b);

#endif
