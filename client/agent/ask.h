/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_ASK_H
#define GPUCTR_AGENT_ASK_H

/* The one request of the driver that needs a permission which the user does not have: what it looks
 * like, and how the daemon is asked for it. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"

enum { ASK_TIMEOUT_S = 15 };

/* With what the daemon is asked. */
struct question {
	char socket_path[108];
	char token[LIMIT_TOKEN_BYTES + 1];
};

/* An allocation of a profiler object, as the driver was to be asked for it. */
struct allocation {
	int fd; /* of the driver's control device */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;
};

/* Is this ioctl such a request? */
bool ask_is_allocation(int fd, unsigned long request, const void *argument, struct allocation *ret);

/* Asks over a connection of its own, which may take ASK_TIMEOUT_S for each half. 0 with the
 * driver's status, and in *r what the daemon says, code 0 when it agrees; -errno: it could not be
 * asked. */
int ask_daemon(const struct question *q, const struct allocation *a, uint32_t *ret_status,
	       struct refusal *r);

/* Puts the driver's answer where the caller of ioctl reads it. */
void ask_answer(unsigned long request, void *argument, uint32_t status);

#endif
