/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GRANTER_HAND_H
#define GPUCTR_GRANTER_HAND_H

/* Who calls the driver: threads that do one errand at a time, each for one lease, so that a call
 * that does not return holds up nobody else's. */

#include <stdbool.h>

#include "daemon/granter/granter.h"
#include "daemon/granter/errand.h"

enum { HANDS = GRANTER_LEASES_MAX };

/* Starts the threads, once in a process. -errno. */
int hands_start(void);

/* Readable when an errand is done. */
int hands_fd(void);
void hands_acknowledge(void);

/* To a hand that has none. */
void hand_give(unsigned hand, const struct errand *errand);

/* True when the errand is done: *ret is it, and the hand is free. */
bool hand_take(unsigned hand, struct errand *ret);

#endif
