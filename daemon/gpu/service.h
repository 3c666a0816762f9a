/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GPU_SERVICE_H
#define GPUCTR_GPU_SERVICE_H

/* What the gpu process and the planner have in common: a link on which the front asks, in frames,
 * and NVIDIA's host library. A plain blocking loop: one question after the other, the front keeps
 * the time. */

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/nvidia/vendor.h"
#include "proto/wire/wire.h"

struct service;

/* Answers m with service_reply() or service_refuse(). -errno: the link is over. */
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
	struct refusal no_vendor; /* code 0: vendor is usable */
	struct buffer in, out;
	struct arena request, answer; /* of one question */
};

/* Forgets what libraries would take from the environment, and opens CUPTI's host half. link is
 * consumed. */
void service_init(struct service *s, int link, const struct service_handler *handlers, size_t n);

/* Until the front goes away. The exit status. */
int service_run(struct service *s);
void service_deinit(struct service *s); /* but for the library, which stays */

int service_reply(struct service *s, const struct wire_message *m);
int service_refuse(struct service *s, uint32_t request, const struct refusal *refusal);

#endif
