/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "client/cli/sampled.h"
#include "client/cli/summary.h"
#include "client/cli/timeline_table.h"
#include "client/report/hints.h"
#include "client/report/page.h"
#include "client/report/reading.h"
#include "client/report/where.h"

/* The captures that the user named, added up, or the capture to compare with. */
struct report_source {
	struct summary *summary;
	struct summary_end end;
	char *driver, *recorded_from, *unmatched, *end_message;
	struct store_reader *open; /* reader of the present capture, if the caller opened it */
	struct buf why, unsampled;
	struct buf timelines; /* tables of captures that hold only samples, in `form` */
	enum timeline_form form;
	size_t width;
	bool styled;
	unsigned lacks[STORE_LACKS]; /* number of captures, by what they lack */
	size_t speechless;	     /* processes that ended without reporting their last counts */
	unsigned captures;
	uint64_t before;     /* records of the captures before the present one */
	struct hints *hints; /* NULL: none are wanted */
	struct where *where;
	struct scopes scopes;
	uint64_t records;  /* number of records read, with those that --where leaves out */
	struct page *page; /* gets the selected records too; NULL: no page is made */
	bool attributes;   /* values are attributed again, from samples that the files keep */
	struct store_reader *attributed; /* second reader of the present file, for `sampled` */
	struct sampled *sampled;
	size_t next;	       /* index of the next record in `sampled` */
	unsigned unattributed; /* captures whose values are not known */
};

/* where: conditions that where_add() has accepted. False: an error was printed. The caller closes
 * the source in any case. */
bool report_source_open(struct report_source *s, const struct keys *keys, bool hints,
			const struct strings *where);
bool report_source_read(struct report_source *s, const char *path);
/* Reads the capture of a run that ends, by the reader of store_read_back(). sampled: has the values
 * of the records; NULL: the file has them. */
bool report_source_read_open(struct report_source *s, struct store_reader *reader,
			     struct sampled *sampled);
/* Appends the lines below a table, unwrapped. view: as for summary_print_tail(). */
void report_source_print_tail(struct report_source *s, const struct view *view, struct buf *b);
/* If no launch is shown: appends why, and what to do. */
void report_source_print_nothing(struct report_source *s, struct buf *b);
void report_source_close(struct report_source *s);

/* --- verb_report.c */
/* What `report` without options prints, at the source's width. False: out of memory. */
bool report_print_run(struct report_source *s, struct buf *b);
