/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The messages beside records, for deliver.c. deliver.h has what others call. */

#include "client/agent/deliver.h"

struct note {
	struct list link;
	size_t bytes;
	uint8_t frame[];
};

/* With the lock held. NULL: none waits. Free with free(), or deliver_send_note(). */
struct note *deliver_take_note(struct deliver *d);

/* Consumes n. */
void deliver_send_note(struct deliver *d, struct note *n);

/* Reports what the client could not notice, because it is not numbered. */
void deliver_tell_left_out(struct deliver *d);
