/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_ATTACHED_H
#define GPUCTR_FRONT_ATTACHED_H

#include "daemon/broker/process.h"

struct front;

/* Tells p, which has begun in its capture, what to measure, and tells the client of p. */
void attached_welcome(struct process *p, const char *recorded_from,
		      const struct wire_strings *claims);

/* Of the notices of a process in one capture as many are passed on. */
enum { ATTACHED_NOTICES_MAX = 256 };

/* Tells the client, in place of a notice of p's, that what it says is left out. */
void attached_tell_left_out(const struct process *p, const char *message);

/* Completes p's totals and tells them to its client. */
void attached_tell_end(struct front *f, struct process *p);

#endif
