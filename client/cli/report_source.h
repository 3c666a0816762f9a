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
	struct store_reader *open; /* of the present capture, where the caller has opened it */
	struct buf why, unsampled;
	struct buf
		timelines; /* of captures of samples alone, in this form; tables: of this width */
	enum timeline_form form;
	size_t width;
	bool styled;
	unsigned lacks[STORE_LACKS]; /* captures by what they lack */
	size_t speechless;	     /* processes that ended without reporting their last counts */
	unsigned captures;
	uint64_t before;     /* records of the captures before the present one */
	struct hints *hints; /* NULL: none are wanted */
	struct where *where;
	struct scopes scopes;
	uint64_t records;  /* read, with those that --where leaves out */
	struct page *page; /* gets the selected records too; NULL: no page is made */
	bool attributes;   /* values are attributed again, from samples that the files keep */
	struct store_reader *attributed; /* of the present file */
	struct sampled *sampled;
	size_t next;	       /* record of it */
	unsigned unattributed; /* captures whose values are not known */
};

/* where: conditions that where_add() has accepted. False: an error was printed. The caller closes
 * the source in any case. */
bool report_source_open(struct report_source *s, const struct keys *keys, bool hints,
			const struct strings *where);
bool report_source_read(struct report_source *s, const char *path);
/* Of a run that ends: what its writer has written (store_read_back()). sampled: what has the
 * values of its records; NULL: the file has them. */
bool report_source_read_open(struct report_source *s, struct store_reader *reader,
			     struct sampled *sampled);
/* The lines below a table of it, unwrapped; view as summary_print_tail() has it. */
void report_source_print_tail(struct report_source *s, const struct view *view, struct buf *b);
/* Where no launch is shown: appends why, and what to do. */
void report_source_print_nothing(struct report_source *s, struct buf *b);
void report_source_close(struct report_source *s);

/* --- verb_report.c */
/* What `report` without options prints, at the source's width. False: out of memory. */
bool report_print_run(struct report_source *s, struct buf *b);
