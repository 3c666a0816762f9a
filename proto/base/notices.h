/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A notice of an agent with numbers in it that a client adds up. */

#include <stdint.h>
#include <stdio.h>

#define NOTICE_BEYOND_LIMIT                                                                   \
	"of the filtered launches, %llu came when there were %llu records already (--record-" \
	"limit)"

/* How many launches the limit of records left out; 0: it is another notice. */
static inline uint64_t notice_beyond_limit(const char *message)
{
	unsigned long long beyond, limit;

	return sscanf(message, NOTICE_BEYOND_LIMIT, &beyond, &limit) == 2 ? beyond : 0;
}
