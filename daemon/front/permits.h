/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Permits: captures that measure nothing. Lease, queue, end and audit lines work as for any
 * capture. Under the lease another profiler gets the permissions that it asks for, in the programs
 * that the client starts. No agent takes part, so nothing is planned and no process attaches. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/wire/status.h"
#include "proto/wire/wire.h"

struct capture;
struct front;

/* Texts that describe a permit. */
struct permits_texts {
	char program[256];
	const char *metrics[2];
};

/* Refuses options that a permit cannot have. 0, or a code with r filled. */
int permits_check(const struct wire_open_capture *o, struct refusal *r);

/* Describes the request: everybody sees "permit: ncu" as the program; its owner and the log see
 * "permit" and the whole command in place of metrics. *texts must last as long as *o does. */
void permits_describe(struct wire_open_capture *o, struct permits_texts *texts);

/* May objects that count a whole GPU be made under c's lease? False with r filled, unless that is
 * NULL. */
bool permits_device(const struct front *f, const struct capture *c, struct refusal *r);

/* A process was granted a permission under c's lease, or was refused one for which it used c's
 * token. Both functions do nothing if c is not a permit, or NULL. */
void permits_note_granted(struct capture *c, pid_t pid);
void permits_report_refused(struct capture *c, uid_t uid, pid_t pid, const struct refusal *r);
