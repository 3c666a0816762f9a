/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Asks name services which name a uid has, for the front. They load code into who asks and may take
 * any time, so a child asks, without a capability, and for a few seconds at most. */

#include <stdint.h>

struct supervisor;

/* Asks for one at a time: what is asked for meanwhile gives up the one before. */
void namer_ask(struct supervisor *s, uint32_t uid);

/* Its descriptor is readable: tells the front. */
void namer_answer(struct supervisor *s);
