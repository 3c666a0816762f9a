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
	size_t width;	     /* pyprof: of a line; 0: no columns */
	bool csv;	     /* pyprof */
};

/* Calls come as those of struct reading_handler. NULL members are skipped. One that returns other
 * than 0, always -ENOMEM, ends the export. */
struct exporter {
	const char *name;
	unsigned without; /* what of a record it does not look at: enum store_part */
	bool attributes;  /* it tells what a record belongs to */
	/* It writes nothing before end(), so it may read while the file is still being checked. */
	bool only_at_end;
	/* NULL: why says what is wrong with the options, or nothing when memory ran out. info lives
	 * until the capture has been read, which is before close() and tell() are called. */
	void *(*open)(const struct store_info *info, const struct exporter_options *options,
		      struct buf *why);
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
	/* Lines for the user on what is not in the output as it was. */
	void (*tell)(void *e, struct buf *b);
};

extern const struct exporter exporter_chrome; /* for HTA, Perfetto and chrome://tracing */
extern const struct exporter exporter_folded; /* for flame graphs */
extern const struct exporter exporter_pyprof; /* for what read the lines of PyProf's prof */

#endif
