/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/deliver_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire/limits.h"

/* Any thread leaves a message, encoded at once, and goes on; the delivering thread sends it. What
 * waits is bounded, and what does not fit is counted. */

enum { NOTICE_TIMEOUT_S = 60 }; /* for one that must not wait for the delivering thread */

/* Consumes n. */
static void put_note(struct deliver *d, struct note *n)
{
	LOCK_SCOPE(&d->lock);
	if (d->notes_bytes + n->bytes > DELIVER_NOTES_BYTES) {
		d->notes_dropped++;
		free(n);
		return;
	}
	d->notes_bytes += n->bytes;
	list_append(&d->notes, &n->link);
	pthread_cond_signal(&d->wake);
}

void deliver_note(struct deliver *d, const struct wire_message *m)
{
	struct arena scratch;
	struct buffer b = { 0 };
	struct note *n = NULL;

	arena_init(&scratch, LIMIT_UNPACKED_BYTES);
	if (wire_encode(&scratch, &b, m) == 0) {
		n = malloc(sizeof(*n) + buffer_length(&b));
	}
	if (n) {
		n->bytes = buffer_length(&b);
		memcpy(n->frame, b.data + b.start, n->bytes);
		put_note(d, n);
	}
	buffer_deinit(&b);
	arena_deinit(&scratch);
}

static struct wire_message make_notice(const struct deliver *d, int code, const char *message,
				       const char *remedy)
{
	return (struct wire_message){
		.type = WIRE_NOTICE,
		.notice = { d->welcome->capture, d->welcome->process, (uint32_t)code, message,
			    remedy },
	};
}

void deliver_notice(struct deliver *d, int code, const char *message, const char *remedy)
{
	const struct wire_message m = make_notice(d, code, message, remedy);

	deliver_note(d, &m);
}

void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy)
{
	const struct wire_message m = make_notice(d, code, message, remedy);

	LOCK_SCOPE(&d->connection_lock);
	if (d->lent) {
		connection_send(d->connection, &m, -1, NOTICE_TIMEOUT_S * CLOCK_NS_PER_S);
	} else {
		deliver_note(d, &m);
	}
}

void deliver_send_note(struct deliver *d, struct note *n)
{
	struct frame f;
	struct wire_message m;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	if (frame_parse(n->frame, n->bytes, &f) == 0 &&
	    wire_decode(&a, f.type, f.payload, f.size, &m) == 0) {
		connection_send(d->connection, &m, -1, CONNECTION_NO_LIMIT);
	}
	arena_deinit(&a);
	free(n);
}

struct note *deliver_take_note(struct deliver *d)
{
	struct note *n = NULL;

	if (!list_is_empty(&d->notes)) {
		n = list_entry(d->notes.next, struct note, link);
		list_remove(&n->link);
		d->notes_bytes -= n->bytes;
	}
	return n;
}

static void tell_quota(struct deliver *d, const char *message, const char *remedy)
{
	struct wire_message m = make_notice(d, GPUCTR_E_QUOTA, message, remedy);

	connection_send(d->connection, &m, -1, CONNECTION_NO_LIMIT);
}

static size_t count_dropped_notes(struct deliver *d)
{
	LOCK_SCOPE(&d->lock);
	return d->notes_dropped;
}

void deliver_tell_left_out(struct deliver *d)
{
	struct intern_left_out n = intern_left_out(d->intern);
	size_t notes = count_dropped_notes(d);
	char text[192];

	if (n.marks > 0) {
		snprintf(text, sizeof(text),
			 "%llu NVTX marks were left out: more than %d would have waited to be "
			 "sent",
			 (unsigned long long)n.marks, INTERN_MARKS_MAX);
		tell_quota(d, text,
			   "Set fewer marks, or use ranges, which cost nothing without a kernel "
			   "in them.");
	}
	if (n.digits > 0) {
		snprintf(text, sizeof(text),
			 "the digits of %llu NVTX ranges were left out, which are told as one: the "
			 "process has more than %d different ones",
			 (unsigned long long)n.digits, INTERN_DIGITS_MAX);
		tell_quota(d, text,
			   "Use fewer names: numbers belong into the payload, and steps are best "
			   "called \"step 1\", \"step 2\".");
	}
	if (n.ranges > 0) {
		snprintf(text, sizeof(text),
			 "at %llu launches an NVTX range was left out, and their kernels are told "
			 "in one around it: %s",
			 (unsigned long long)n.ranges,
			 n.waits > 0 ? "too many names would have waited to be sent"
				     : "the process has too many different ones");
		tell_quota(d, text,
			   n.waits > 0 ? "Keep the client reading, or use fewer names."
				       : "Use fewer names: text that changes each time belongs "
					 "into the payload.");
	}
	if (notes > 0) {
		snprintf(text, sizeof(text),
			 "%zu notices were left out: more than %d KiB of them would have waited "
			 "to be sent",
			 notes, DELIVER_NOTES_BYTES >> 10);
		tell_quota(d, text, "Keep the client reading.");
	}
}
