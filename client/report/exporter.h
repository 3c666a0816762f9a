/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_EXPORTER_H
#define CLIENT_REPORT_EXPORTER_H

/* A capture as something that another program reads. An exporter appends to a buffer that its
 * caller writes and empties, so memory does not grow with the records. */

#include <stdbool.h>

#include "client/cli/buf.h"
#include "client/report/attribution.h"
#include "client/store/reader.h"

struct exporter_options {
	const char *weight;  /* folded: "time" or a part of a counter's name; NULL: time */
	unsigned rank;	     /* chrome: distributedInfo.rank */
	unsigned process;    /* the only one to be exported; 0: all */
	const char *columns; /* pyprof: names with commas, or "all"; NULL: PyProf's own choice */
	unsigned width;	     /* pyprof: of a line; 0: no columns */
	bool csv;	     /* pyprof */
	const char *trace;   /* merge: what the counters are put into */
};

/* Why there is no export. code NULL: the options are wrong, or memory ran out where why is empty.
 */
struct exporter_refusal {
	const char *code;
	struct buf why;
	const char *remedy;
};

enum {
	EXPORTER_REFUSES = 1, /* the refusal says why */
	EXPORTER_MORE,	      /* of end(): to be called again when the buffer was emptied */
};

/* Calls come as those of struct reading_handler. NULL members are skipped. One that returns other
 * than 0 ends the export: -ENOMEM or EXPORTER_REFUSES. */
struct exporter {
	const char *name;
	unsigned without; /* parts of records that it does not read: enum store_part */
	bool attributes;  /* it needs the attribution of records */
	/* It writes nothing before end(), so it may read while the file is still being checked. */
	bool only_at_end;
	/* NULL: refused. info lives until the capture has been read, which is before close() and
	 * tell() are called; the refusal as long as the exporter. */
	void *(*open)(const struct store_info *info, const struct exporter_options *options,
		      struct exporter_refusal *refusal);
	void (*close)(void *e);
	int (*process)(void *e, struct buf *b, const struct store_process *process);
	/* what: NULL unless it attributes. */
	int (*record)(void *e, struct buf *b, const struct gpuctr_record *record,
		      const struct attribution *what);
	int (*mark)(void *e, struct buf *b, const struct gpuctr_mark *mark);
	int (*stratum)(void *e, const struct gpuctr_stratum *stratum);
	int (*process_end)(void *e, struct buf *b, const struct store_process *process);
	int (*notice)(void *e, struct buf *b, const struct gpuctr_notice *notice);
	int (*end)(void *e, struct buf *b);
	/* Appends lines for the user: what the output lacks, or shows otherwise than the capture.
	 */
	void (*tell)(void *e, struct buf *b);
};

extern const struct exporter exporter_chrome; /* for HTA, Perfetto and chrome://tracing */
extern const struct exporter exporter_folded; /* for flame graphs */
extern const struct exporter exporter_pyprof; /* for what read the lines of PyProf's prof */
extern const struct exporter exporter_merge;  /* another profiler's trace, with counters */

#endif
