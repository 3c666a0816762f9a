/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_NVTX_RECURRING_H
#define GPUCTR_AGENT_NVTX_RECURRING_H

/* Ranges whose names come again: "forward", "layer 7", and not "iteration 17" or "aten::add, seq =
 * 4711". Launches may be told apart by the former; by the latter each would be of a kind of its
 * own. A range's name is met when the thread first asks within the range, and recurs when it was
 * met in another range before, of any thread of the process. What comes again only after thousands
 * of other names may be taken for new once more, and so may any where the process has thousands
 * that recur.
 *
 * Of the calling thread's push/pop ranges; safe from any thread. */

#include <stdint.h>

#include "client/agent/intern.h"

/* A hash of the domain and message of the innermost range that recurs, which stays the same; 0:
 * there is none. */
uint64_t nvtx_recurring_name(void);

/* The same range, with all around it, as a number of in; 0: none. */
uint32_t nvtx_recurring_range(struct intern *in);

#endif
