/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TRACKS_H
#define CLIENT_REPORT_TRACKS_H

/* The tracks of one process in a trace: its threads, with the ranges that are open there, and the
 * streams of its devices. Zero-initialised by the caller. */

#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"
#include "proto/base/map.h"

/* The range itself is gone when it is closed. */
struct track_range {
	unsigned id;
	int64_t begin;	 /* in the unit of the trace's times */
	struct buf text; /* what its event says, once the caller has written it */
};

enum track_kind { TRACK_THREAD, TRACK_STREAM, TRACK_COUNTERS };

struct track {
	enum track_kind kind;
	unsigned device;	  /* of a stream, and of counters */
	uint64_t id;		  /* of the thread or stream */
	struct track_range *open; /* max_open of them, with texts that are used again */
	size_t n_open, max_open;
	int64_t end; /* of the last launch, in the unit of the trace's times */
};

/* A file may say anything; what is nested deeper is shown without its outermost ranges. */
enum { TRACK_MAX_DEPTH = 512 };

/* The ranges around a launch, outermost first. */
struct track_path {
	const struct gpuctr_range *ranges[TRACK_MAX_DEPTH];
	size_t n, n_same; /* the first of them are open already */
};

struct tracks {
	struct track **items;
	size_t n, max;
	struct map known; /* a program may start a thread for each of many tasks */
};

void tracks_deinit(struct tracks *t);

/* The track, made when there is none; *ret_fresh says so. NULL: out of memory. */
struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh);
/* With an empty text; NULL: out of memory. */
struct track_range *track_push(struct track *track, unsigned id, int64_t begin);
void track_find_path(const struct track *thread, const struct gpuctr_range *innermost,
		     struct track_path *path);

#endif
