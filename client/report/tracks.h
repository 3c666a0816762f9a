/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tracks of one process in a trace: its threads, with their open ranges, and the streams of its
 * devices. Zero-initialised by the caller. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"
#include "proto/base/map.h"

/* Perfetto drops events that overlap on one track unless one contains the other. So a stream, whose
 * events may overlap, gets several lanes, each of which is a track; an event goes to the first free
 * lane. Zero-initialised by the caller. */
enum { LANES_MAX = 64 };

/* First number of the tracks of lanes; no stream has a number this high. */
#define LANES_TID (UINT64_C(1) << 30)

struct lanes {
	int64_t ends[LANES_MAX];
	unsigned n;
	uint64_t crowded; /* events for which no lane was free */
};

/* An open range. It keeps its text, because the record is gone when the range closes. */
struct track_range {
	unsigned id;
	int64_t begin;	 /* in the unit of the trace's times */
	struct buf text; /* text of the range's event, once the caller has written it */
};

enum track_kind { TRACK_THREAD, TRACK_STREAM, TRACK_COUNTERS /* counters of a stream */ };

struct track {
	enum track_kind kind;
	unsigned device;	  /* device of the stream */
	uint64_t id;		  /* number of the thread or stream */
	struct track_range *open; /* array of max_open ranges; their texts are reused */
	size_t n_open, max_open;
	int64_t end;	    /* end of the last launch, in the unit of the trace's times */
	size_t number;	    /* number of the track, from 0 */
	struct lanes lanes; /* lanes of a stream or of its counters */
};

/* Limits the depth, because files may be hostile. Beyond it, outermost ranges are left out. */
enum { TRACK_MAX_DEPTH = 512 };

/* The ranges around a launch, outermost first. */
struct track_path {
	const struct gpuctr_site *sites[TRACK_MAX_DEPTH];
	size_t n, n_same; /* ranges; how many of them, from the outermost, are already open */
};

struct tracks {
	struct track **items;
	size_t n, max;
	struct map known; /* index of items: a program may start a thread for each of many tasks */
};

/* Returns the lane of an event: the first free one, or the last lane if none is free. *ret_fresh:
 * the event is the first on its lane. */
unsigned lanes_take(struct lanes *l, int64_t begin, int64_t length, bool *ret_fresh);

void tracks_deinit(struct tracks *t);

/* Finds the track, or makes it and sets *ret_fresh. NULL: out of memory. */
struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh);
/* Opens a range, with an empty text. NULL: out of memory. */
struct track_range *track_push(struct track *track, unsigned id, int64_t begin);
void track_find_path(const struct track *thread, const struct gpuctr_record *record,
		     struct track_path *path);
