/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/broker/process.h"

struct front;

/* Sends the plan to p, which the capture has begun to measure, and reports p to the client. */
void attached_welcome(struct process *p, const char *recorded_from,
		      const struct wire_strings *labels);

/* The most notices that the front passes on for each process in a capture. */
enum { ATTACHED_NOTICES_MAX = 256 };

/* Sends the client, instead of a notice from p, that this notice is left out. */
void attached_report_left_out(const struct process *p, const char *message);

/* Completes p's totals and sends them to the client. */
void attached_report_end(struct front *f, struct process *p);
