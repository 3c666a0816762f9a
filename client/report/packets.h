/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_PACKETS_H
#define CLIENT_REPORT_PACKETS_H

/* Packets of Perfetto's trace format, appended to a buffer one by one. Names of events are written
 * once and then by number; when many have come, numbers begin anew, so memory is bounded. */

#include <gpuctr/gpuctr.h>

#include "client/cli/buf.h"

/* What is told with an event; those of the counters follow. */
enum packets_note {
	NOTE_INDEX,
	NOTE_KIND,
	NOTE_GRID,
	NOTE_BLOCK,
	NOTE_SHARED,
	NOTE_DEVICE,
	NOTE_CONTEXT,
	NOTE_STREAM,
	NOTE_CORRELATION,
	NOTE_THREAD,
	NOTE_CLOCK,
	NOTE_ACTIVE,
	NOTE_CHANCE,
	NOTE_SEQ,
	NOTE_OP_ID,
	NOTE_SIZES,
	NOTE_COUNTERS
};

enum packets_type { PACKETS_BEGIN = 1, PACKETS_END, PACKETS_INSTANT };

struct packets;

struct packets *packets_new(const struct gpuctr_plan *plan); /* NULL: out of memory */
struct packets *packets_free(struct packets *p);	     /* takes NULL, returns NULL */

/* Tracks, before their events. parent 0: none. Texts are made safe for UTF-8. */
void packets_process(struct buf *b, uint64_t track, unsigned pid, const char *name);
void packets_thread(struct buf *b, uint64_t track, unsigned pid, unsigned tid);
void packets_track(struct buf *b, uint64_t track, uint64_t parent, const char *name);
void packets_counter_track(struct buf *b, uint64_t track, uint64_t parent, const char *name,
			   const char *unit);

/* Of the next event.  */
void packets_note(struct packets *p, unsigned note, uint64_t value);
void packets_note_double(struct packets *p, unsigned note, double value);
void packets_note_text(struct packets *p, unsigned note, const char *value);

/* name NULL: none, as at an end. flow: 0, or what events of the same number are joined by. */
void packets_event(struct packets *p, struct buf *b, enum packets_type type, uint64_t track,
		   int64_t at_ns, const char *name, uint64_t flow);
void packets_count(struct packets *p, struct buf *b, uint64_t track, int64_t at_ns, double value);

#endif
