/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The processes for whom objects were made, each watched by one pidfd, however many it has: what is
 * polled grows with the programs that are measured, and not with what they ask for. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/list.h"
#include "daemon/granter/granter.h"

enum { CALLERS = 2 * GRANTER_OBJECTS_MAX }; /* one for each object, if it comes to that */

struct caller {
	struct list link; /* in the list of watched callers, or of unused ones */
	uint32_t pid;
	int pidfd;
	unsigned objects;
};

struct callers {
	struct list watched, unused;
	struct caller all[CALLERS];
};

void callers_init(struct callers *s);

/* The process that has this pid now, counted with one more object. Returns 0, -ESRCH if there is
 * none, -ENOSPC, or what pidfd_open() says. */
int caller_add(struct callers *s, uint32_t pid, struct caller **ret);

/* Counts one object less; a process without objects is no longer watched. p may be NULL. */
void caller_release(struct callers *s, struct caller *p);
