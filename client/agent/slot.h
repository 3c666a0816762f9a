/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The slot of libcuda's global offset table through which it calls ioctl. */

#include <stdbool.h>

struct slot {
	void **slot;	/* NULL: none */
	bool read_only; /* the slot's page is read-only after relocation */
};

/* False: no libcuda is loaded, or it imports no ioctl. */
bool slot_find(struct slot *ret);

/* Writes the slot, and restores the protection of its page. -errno. */
int slot_write(const struct slot *s, void *value);
