/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GRANTER_HAND_H
#define GPUCTR_GRANTER_HAND_H

/* The threads that call the driver. Each does one errand at a time and serves one lease, so a call
 * that does not return holds up no other lease. */

#include <stdbool.h>

#include "daemon/granter/granter.h"
#include "daemon/granter/errand.h"

enum { HANDS = GRANTER_LEASES_MAX };

/* Starts the threads, once in a process. -errno. */
int hands_start(void);

/* Readable when an errand is done. */
int hands_fd(void);
void hands_acknowledge(void);

/* Gives an errand to a hand that has none. */
void hand_give(unsigned hand, const struct errand *errand);

/* True when the errand is done: *ret is the errand with its result, and the hand has none. */
bool hand_take(unsigned hand, struct errand *ret);

#endif
