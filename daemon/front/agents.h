/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_AGENTS_H
#define GPUCTR_FRONT_AGENTS_H

#include "daemon/broker/process.h"

struct front;

/* Tells p, which has begun in its capture, what to measure, and tells the client of p. */
void agents_welcome(struct process *p, const char *recorded_from,
		    const struct wire_strings *claims);

/* Completes p's totals and tells them to its client. */
void agents_tell_end(struct front *f, struct process *p);

#endif
