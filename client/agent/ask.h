/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Recognises allocations of profiler objects, the only request to the driver for which the user
 * lacks a permission, and forwards them to the daemon. */

#include <stdbool.h>
#include <stdint.h>

#include "proto/nvidia/rm.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"

enum { ASK_TIMEOUT_S = 15 };

/* The parameters of a request to the daemon. */
struct question {
	char socket_path[108];
	char token[LIMIT_TOKEN_BYTES + 1];
};

/* An allocation of a profiler object, as libcuda requested it from the driver. */
struct allocation {
	int fd; /* descriptor of the driver's control device */
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;
};

/* Is this ioctl an allocation of a profiler object? */
bool ask_is_allocation(int fd, unsigned long request, const void *argument, struct allocation *ret);

/* Asks the daemon over a connection of its own, which may take ASK_TIMEOUT_S in each direction.
 * Returns 0 with the driver's status, and the daemon's answer in *r, code 0 if it agreed; -errno:
 * the daemon could not be asked. */
int ask_daemon(const struct question *q, const struct allocation *a, uint32_t *ret_status,
	       struct refusal *r);

/* Writes the driver's answer into the argument of the caller's ioctl. */
void ask_answer(unsigned long request, void *argument, uint32_t status);
