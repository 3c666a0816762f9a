/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/* Writes only if the flag changes, so that not every launch writes to a shared cache line. */
static inline void flag_raise(atomic_bool *flag)
{
	if (!atomic_load(flag)) {
		atomic_store(flag, true);
	}
}
