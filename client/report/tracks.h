/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tracks of one process in a trace: its threads, with the ranges that are open there, and the
 * streams of its devices. Zero-initialised by the caller. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/buf.h"
#include "proto/base/map.h"

/* Perfetto drops events that overlap on one track and do not lie within each other. So what may
 * overlap has several lanes, and each event goes to the first that is free, of which each is a
 * track. Zero-initialised by the caller. */
enum { LANES_MAX = 64 };

/* Tracks of lanes have numbers from here on, which no stream has. */
#define LANES_TID (UINT64_C(1) << 30)

struct lanes {
	int64_t ends[LANES_MAX];
	unsigned n;
	uint64_t crowded; /* events for which none was free */
};

/* An open range. It keeps its text, because the record's range no longer exists when the range is
 * closed. */
struct track_range {
	unsigned id;
	int64_t begin;	 /* in the unit of the trace's times */
	struct buf text; /* text of the range's event, once the caller has written it */
};

enum track_kind { TRACK_THREAD, TRACK_STREAM, TRACK_COUNTERS /* of a stream */ };

struct track {
	enum track_kind kind;
	unsigned device;	  /* device of the stream */
	uint64_t id;		  /* number of the thread or stream */
	struct track_range *open; /* array of max_open ranges, whose texts are reused */
	size_t n_open, max_open;
	int64_t end;	    /* end of the last launch, in the unit of the trace's times */
	size_t number;	    /* of the track, from 0 */
	struct lanes lanes; /* of a stream or of counters */
};

/* Limits the depth, because a file may be hostile; ranges nested deeper are shown without the
 * outermost ones. */
enum { TRACK_MAX_DEPTH = 512 };

/* The ranges around a launch, outermost first. */
struct track_path {
	const struct gpuctr_site *sites[TRACK_MAX_DEPTH];
	size_t n, n_same; /* ranges, and how many of the first ones are open already */
};

struct tracks {
	struct track **items;
	size_t n, max;
	struct map known; /* a program may start a thread for each of many tasks */
};

/* The lane of an event; the last, though it is not free, if there are too many. *ret_fresh: it is
 * the first event there. */
unsigned lanes_take(struct lanes *l, int64_t begin, int64_t length, bool *ret_fresh);

void tracks_deinit(struct tracks *t);

/* The track, made when there is none; *ret_fresh says so. NULL: out of memory. */
struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh);
/* With an empty text; NULL: out of memory. */
struct track_range *track_push(struct track *track, unsigned id, int64_t begin);
void track_find_path(const struct track *thread, const struct gpuctr_record *record,
		     struct track_path *path);
