/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of a peer need of each other, lower files first. Only these files include it. */

#include "daemon/front/peer.h"

/* --- peer.c --- */

/* Has the poll wait for what p can do now: to be called when any of that has changed. */
void peer_update_poll(struct peer *p);

/* False while another connection of the user may complete its frame first. */
static inline bool peer_is_waiting(const struct peer *p)
{
	return !list_is_empty(&p->waiting_link);
}

/* Is there room for the descriptors that may come with p's bytes? */
bool peer_has_room(const struct peer *p);
/* Lets waiting connections of a be read: the next one while the account is high, else all of them.
 */
void peer_wake_waiting(struct account *a);
/* A frame is whole: a sibling may be read. */
void peer_stop_being_reader(struct peer *p);
/* Time counts while part of a frame is here and the rest may come: to be called when any of that
 * has changed. */
void peer_note_half(struct peer *p);

/* --- peer_output.c --- */

/* Sends what is queued, as far as the socket takes it. p may be closed afterwards. */
void peer_flush(struct peer *p);
/* Discards what is queued and all further output. */
void peer_mute(struct peer *p);
/* Sends the sentence and closes when it is sent. */
void peer_refuse_and_close(struct peer *p, const struct refusal *r);

/* --- peer_input.c --- */

/* Handles what p has sent, within what is left of its user's time in this round. p may be closed
 * afterwards. */
void peer_work(struct peer *p);
