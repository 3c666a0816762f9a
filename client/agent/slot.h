/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The slot of libcuda's global offset table through which it calls ioctl. */

#include <stdbool.h>

struct slot {
	void **slot;	/* NULL: none */
	bool read_only; /* its page, once the library was relocated */
};

/* False: no libcuda is loaded, or it imports no ioctl. */
bool slot_find(struct slot *ret);

/* Its page is as it was afterwards. -errno. */
int slot_write(const struct slot *s, void *value);
