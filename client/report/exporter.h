/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An exporter writes a capture in the format of another program. It appends to a buffer that the
 * caller writes out and empties, so memory does not grow with the number of records. */

#include <stdbool.h>

#include "client/report/attribution.h"
#include "client/store/reader.h"
#include "proto/base/buf.h"

struct exporter_options {
	const char *weight;  /* folded: "time", or a part of a counter's name; NULL: time */
	unsigned rank;	     /* chrome: distributedInfo.rank */
	unsigned process;    /* number of the process to export; 0: all processes */
	const char *columns; /* pyprof: names with commas, or "all"; NULL: PyProf's own choice */
	unsigned width;	     /* pyprof: width of a line; 0: fields are not aligned */
	bool csv;	     /* pyprof */
	const char *trace;   /* merge: path of the trace that gets the counters */
};

/* Why an export was refused. code NULL: the options are wrong, or with empty why: out of memory. */
struct exporter_refusal {
	const char *code;
	struct buf why;
	const char *remedy;
};

enum {
	EXPORTER_REFUSES = 1, /* the refusal says why */
	EXPORTER_MORE,	      /* returned by end(): call end() again once the buffer was emptied */
};

/* The caller calls the members in the order of struct reading_handler. NULL members are skipped. A
 * function that returns other than 0 ends the export: -ENOMEM or EXPORTER_REFUSES. */
struct exporter {
	const char *name;
	bool brief;	  /* it makes sums, for which brief records suffice */
	bool attributes;  /* it needs the attribution of records */
	bool needs_first; /* it needs to know when the first kernel began */
	/* The exporter writes nothing before end(), so it may read while the file is still being
	 * checked. */
	bool only_at_end;
	/* Returns NULL if the export is refused. info lives until the capture has been read, which
	 * is before close() and tell() are called; the refusal lives as long as the exporter. */
	void *(*open)(const struct store_info *info, const struct exporter_options *options,
		      struct exporter_refusal *refusal);
	void (*close)(void *e);
	int (*process)(void *e, struct buf *b, const struct store_process *process);
	/* what is NULL unless `attributes` is set. */
	int (*record)(void *e, struct buf *b, const struct gpuctr_record *record,
		      const struct attribution *what);
	int (*mark)(void *e, struct buf *b, const struct gpuctr_mark *mark);
	int (*process_end)(void *e, struct buf *b, const struct store_process *process);
	int (*samples)(void *e, struct buf *b, const struct store_samples *samples);
	int (*notice)(void *e, struct buf *b, const struct gpuctr_notice *notice);
	int (*end)(void *e, struct buf *b);
	/* Appends lines for the user: data that the output lacks, or shows differently from the
	 * capture. */
	void (*tell)(void *e, struct buf *b);
};

extern const struct exporter exporter_chrome; /* for HTA, Perfetto and chrome://tracing */
extern const struct exporter exporter_folded; /* for flame graphs */
extern const struct exporter
	exporter_pyprof;		     /* for scripts that read the output of PyProf's prof */
extern const struct exporter exporter_merge; /* adds counters to another profiler's trace */
