/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/report/view.h"
#include "proto/base/buf.h"
#include "proto/base/map.h"

/* Counters of captures added up by keys, and facts of the captures. */

/* Devices that differ in nothing but their UUID. */
struct summary_devices {
	char chip[32], name[96];
	unsigned clock_sm_mhz, clock_mem_mhz, n;
};

/* Different texts, such as versions, as many as fit. more: others did not fit. */
struct summary_texts {
	char *items[8];
	unsigned n;
	bool more;
};

struct summary {
	struct groups *groups;
	bool failed; /* memory ran out: the rows are not whole */
	struct summary_texts chips;
	char chip_here[32]; /* of the present capture */
	unsigned passes;
	unsigned turns;		 /* groups of metrics that took turns; 0: there was one group */
	unsigned processes;	 /* number of processes of earlier captures */
	unsigned processes_here; /* number of processes of the present capture */
	char *recorded_from;
	struct summary_texts cuptis, drivers;
	struct summary_devices *devices; /* one for each kind */
	size_t n_kinds, max_kinds;
	struct map seen; /* devices counted so far, as "UUID of kind N" */
};

/* For a row of an options table: reads the value of --by into a struct keys. False: the reason was
 * reported. */
bool summary_take_keys(void *keys, const char *value);

struct summary *summary_new(const struct keys *keys); /* NULL: out of memory */
struct summary *summary_free(struct summary *s);      /* takes NULL, returns NULL */

/* Begins a capture, before its processes are added. Parameters and result as of groups_begin(). */
int summary_begin(struct summary *s, const struct gpuctr_plan *plan, const char *name,
		  struct buf *why);
void summary_process(struct summary *s, const struct gpuctr_process *process);
/* what: the record's attribution; NULL if the keys need none. */
void summary_record(struct summary *s, const struct gpuctr_record *record,
		    const struct attribution *what);
unsigned summary_processes(const struct summary *s);
/* The groups of all records until now, finished. NULL: out of memory. */
struct groups *summary_groups(struct summary *s);

struct summary_end {
	struct gpuctr_totals totals;
	bool recorded;	 /* no GPU was leased: only a recording could answer */
	bool unanswered; /* no process has reported a kernel */
	bool speechless; /* a process ended, or was cut off, before it had reported everything */
	bool has_totals; /* false: the connection broke, and only what came until then is known */
	bool unfinished; /* the file has no totals: it is still being written, or was cut short */
	int error;	 /* why the capture ended early; GPUCTR_OK: it did not */
	bool refused;	 /* a process said why it cannot be measured */
	bool program_refused;  /* the program ended with the status of a refused client */
	const char *unmatched; /* kernels that --kernel may have been meant for; NULL: not known */
	const char *driver;    /* of the machine; "": none */
	uint64_t unsaved;      /* records that are not in the capture file */
	bool verbose;	       /* print how it was measured, and what the figures mean */
	uint64_t sampled_ns;   /* the length of a sample; 0: not known */
	const char *
		unsampled; /* how many kernels have no value, by reason, as text; NULL: not known */
};

/* Did the daemon report the end that has this code, and with the end all totals? */
static inline bool summary_has_totals(int code)
{
	return code != GPUCTR_E_DISCONNECTED && code != GPUCTR_E_PROTOCOL;
}

/* Appends why nothing was measured. */
void summary_add_nothing(const struct summary *s, const struct summary_end *end, struct buf *b);
/* Appends the lines below a table. One line has the totals, the machine, and a few words on what
 * could make a reader misjudge the numbers. If end->verbose, the machine comes first, and sentences
 * explain the numbers. view: the columns that are shown; NULL: all. */
void summary_print_tail(const struct summary *s, const struct summary_end *end,
			const struct view *view, struct buf *b);
/* Appends warnings about a comparison of two captures, if there are any. Both have finished groups.
 * clocks_differ: the times of some row come from different clocks. */
void summary_print_against(const struct summary *now, const struct summary_end *end,
			   const struct summary *before, const struct summary_end *end_before,
			   bool clocks_differ, struct buf *b);

/* --- shared by the files summary*.c */
/* "GH100, NVIDIA H200 x 2; clocks not locked (...); driver ..., CUPTI ..." */
void summary_add_machine(const struct summary *s, const struct summary_end *end, struct buf *b);
