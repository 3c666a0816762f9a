/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_TRACKS_H
#define CLIENT_REPORT_TRACKS_H

/* The tracks of one process in a trace: its threads, with the ranges that are open there, and the
 * streams of its devices. Zero-initialised by the caller. */

#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

struct track_range {
	const struct gpuctr_range *range;
	int64_t begin_us;
};

enum track_kind { TRACK_THREAD, TRACK_STREAM, TRACK_COUNTERS };

struct track {
	enum track_kind kind;
	unsigned device; /* of a stream, and of counters */
	uint64_t id;	 /* of the thread or stream */
	struct track_range *open;
	size_t n_open, max_open;
	int64_t end_us; /* of the last launch */
};

struct tracks {
	struct track **items;
	size_t n, max;
	struct track **slots; /* open addressing, a power of two */
	size_t n_slots;
};

void tracks_deinit(struct tracks *t);

/* The track, made when there is none; *ret_fresh says so. NULL: out of memory. */
struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh);
/* 0 or -ENOMEM. */
int track_push(struct track *track, const struct gpuctr_range *range, int64_t begin_us);

#endif
