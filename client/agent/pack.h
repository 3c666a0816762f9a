/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/deliver.h"

/* Sends what is pending in the intern table, then n records with their values (columns of the plan,
 * record by record), in frames within the protocol's limits. first is the index of the first
 * record. -errno of the connection. */
int pack_send(struct connection *l, const struct wire_agent_welcome *welcome, struct intern *in,
	      const struct launch *launches, size_t n, const double *values, uint64_t first);

/* The launches of a stratum, with a budget. */
struct pack_stratum {
	uint32_t id, function, range;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes, device;
	bool merged;
	uint64_t seen;
};

/* What moves bytes beside kernels. */
struct pack_copy {
	uint8_t kind; /* enum gpuctr_copy_kind */
	uint32_t device, context, stream;
	uint64_t bytes, start_ns, duration_ns;
};

int pack_send_copies(struct connection *l, const struct wire_agent_welcome *welcome,
		     const struct pack_copy *v, size_t n, uint64_t first);

/* As pack_send(), for strata: the numbers that they name must have been assigned before. */
int pack_send_strata(struct connection *l, const struct wire_agent_welcome *welcome,
		     struct intern *in, const struct pack_stratum *v, size_t n, uint64_t first);
