/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_PACK_H
#define GPUCTR_AGENT_PACK_H

#include "client/agent/deliver.h"

/* Sends what is pending in the intern table, then n records with their values (columns of the plan,
 * record by record), in frames within the protocol's limits. first is the index of the first
 * record. -errno of the link. */
int pack_send(struct link *l, const struct wire_agent_welcome *welcome, struct intern *in,
	      const struct launch *launches, size_t n, const double *values, uint64_t first);

#endif
