/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Descriptors that users make the front hold: their connections, and what they send over them. */

#include "daemon/broker/account.h"

struct front;
struct refusal;

/* -errno */
int descriptors_init(struct front *f);

/* Is there room for another connection, and for what it may send? */
bool descriptors_may_accept(const struct front *f);

/* Is there room for one message with as many descriptors as one can bring? A peer that is not
 * admitted yet needs room for two, so it cannot take the room that admitted peers need. */
bool descriptors_may_receive(const struct front *f, bool let_in);

/* May this user send more? False with r filled while too many of the user's descriptors wait to be
 * closed. */
bool descriptors_may_send(const struct account *a, struct refusal *r);

/* Charges a for descriptors until they are really closed, which may be long after the front has
 * handed them to the reaper. For a connection a may be NULL: there was no memory for an
 * account. */
void descriptors_add_connection(struct front *f, struct account *a);
void descriptors_add_received(struct front *f, struct account *a, size_t n);
void descriptors_close_connection(struct front *f, struct account *a, int fd);
void descriptors_close_received(struct front *f, struct account *a, const int *fds, size_t n);
