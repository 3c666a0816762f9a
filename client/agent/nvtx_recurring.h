/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Ranges whose names come again: "forward", "layer 7", and not "iteration 17" or "aten::add, seq =
 * 4711". The former divide launches into useful kinds; with the latter each launch would be a kind
 * of its own. A range's name is noted when a thread first asks within the range; it recurs if it
 * was noted in another range before, of any thread. A name that comes again only after thousands of
 * others may count as new again, and so may any name if thousands recur.
 *
 * Of the calling thread's push/pop ranges; safe from any thread. */

#include <stdint.h>

#include "client/agent/intern.h"

/* A hash of the domain and message of the innermost range that recurs, which stays the same; 0:
 * there is none. */
uint64_t nvtx_recurring_name(void);

/* The same range, with all ranges around it, as a number of in; 0: none. */
uint32_t nvtx_recurring_range(struct intern *in);
