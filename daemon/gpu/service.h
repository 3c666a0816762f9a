/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The common part of the gpu process and the planner: a link on which the front sends requests in
 * frames, and NVIDIA's host library. A plain blocking loop answers one request after the other; the
 * front watches the time. */

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/nvidia/vendor.h"
#include "proto/wire/wire.h"

struct service;

/* Answers m with service_reply() or service_refuse(). -errno: the link is broken or closed. */
typedef int (*service_handle)(struct service *s, const struct wire_message *m);

struct service_handler {
	enum wire_type type;
	service_handle handle;
};

struct service {
	int link;
	const struct service_handler *handlers;
	size_t n_handlers;
	struct vendor_host vendor;
	struct refusal no_vendor; /* code 0: vendor can be used */
	struct buffer in, out;
	struct arena request, answer; /* memory for one request */
};

/* Removes settings of NVIDIA's libraries from the environment, and opens CUPTI's host half.
 * Consumes link. */
void service_init(struct service *s, int link, const struct service_handler *handlers, size_t n);

/* Serves until the front closes the link. Returns the exit status. */
int service_run(struct service *s);
void service_deinit(struct service *s); /* keeps the library, which is never unloaded */

int service_reply(struct service *s, const struct wire_message *m);
int service_refuse(struct service *s, uint32_t request, const struct refusal *refusal);
