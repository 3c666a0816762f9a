/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by chrome.c, which decides when to write an event, and chrome_events.c, which writes one.
 */

#include "client/report/exporter.h"
#include "client/report/tracks.h"
#include "proto/base/json.h"

struct chrome {
	const struct store_info *info;
	const struct exporter_options *options;
	const struct store_process *process; /* the current process */
	struct tracks tracks;		     /* tracks of the current process */
	bool several;			     /* more than one process is exported */
	bool has_event; /* an event was written, so the next one begins with a comma */
	int64_t base_ns;
	int64_t last_us; /* when the latest launch of the current process begins */
	uint64_t records, ranges, delayed, crowded;
	int64_t most_delayed_us;
};

/* Begins the event of a span, {"ph":"X",... The caller adds name and arguments. */
void chrome_begin_span(struct json *m, const char *category, uint64_t pid, uint64_t tid,
		       int64_t at_us, int64_t us);

/* Adds the known values as members, whose names begin with prefix. errors may be NULL. */
void chrome_add_values(struct json *m, const char *prefix, const struct gpuctr_plan *plan,
		       const double *values, const double *errors);

/* Appends a line about the number of events that overlap others on their track, if any do. */
void chrome_tell_crowded(uint64_t events, struct buf *b);

void chrome_write_head(struct chrome *c, struct buf *b);
void chrome_write_tail(struct chrome *c, struct buf *b);
void chrome_write_names(struct chrome *c, struct buf *b, const struct track *track, unsigned lane);
void chrome_write_process(struct chrome *c, struct buf *b);

/* Formats the event of a range; the caller writes the event when the range has ended. */
void chrome_format_range(struct buf *text, const struct gpuctr_site *site,
			 const struct gpuctr_occurrence *at);
/* Writes nothing if text is NULL. */
void chrome_write_range(struct chrome *c, struct buf *b, uint64_t thread, const struct buf *text,
			int64_t begin_us, int64_t end_us);
void chrome_write_launch(struct chrome *c, struct buf *b, const struct gpuctr_record *record,
			 int64_t at_us);
/* Both write on the first free lane of the track. */
void chrome_write_counters(struct chrome *c, struct buf *b, struct track *track,
			   const struct gpuctr_record *record, int64_t at_us);
void chrome_write_kernel(struct chrome *c, struct buf *b, struct track *track,
			 const struct gpuctr_record *record);
void chrome_write_samples(struct chrome *c, struct buf *b, const struct store_samples *samples);
void chrome_write_mark(struct chrome *c, struct buf *b, const struct gpuctr_mark *mark);
