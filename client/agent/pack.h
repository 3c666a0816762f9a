/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/deliver.h"

/* Sends the pending definitions of the intern table, then n records with their values (record by
 * record, one for each column of the plan), in frames within the protocol's limits. first is the
 * index of the first record. -errno of the connection. */
int pack_send(struct connection *l, const struct wire_agent_welcome *welcome, struct intern *in,
	      const struct launch *launches, size_t n, const double *values, uint64_t first);

/* A copy, a fill, or a kernel without a record of its own. */
struct pack_copy {
	uint8_t kind; /* enum gpuctr_copy_kind */
	uint32_t device, context, stream;
	uint64_t bytes, start_ns, duration_ns;
};

int pack_send_copies(struct connection *l, const struct wire_agent_welcome *welcome,
		     const struct pack_copy *v, size_t n, uint64_t first);
