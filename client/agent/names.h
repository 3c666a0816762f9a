/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Hashes of names, which stay the same as long as the process lives; intern's numbers do not. */

#include <stdint.h>

/* Never 0. FNV-1a. */
static inline uint64_t names_hash(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++) {
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	}
	return hash ? hash : 1;
}
