/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An array that grows by doubling: the caller has the pointer, the number of items and *max, the
 * number of items that have room; all three are 0 at first. */

#include <stdbool.h>
#include <stddef.h>

/* Makes room for item n in the array that *(T **)items points to; an item has size bytes. False:
 * out of memory, and the array is unchanged. */
bool array_make_room(void *items, size_t size, size_t n, size_t *max);

/* The index of the first item whose member is at least key, or n; items must be sorted by this
 * member. */
#define ARRAY_FIND_INDEX(items, n, member, key)                     \
	({                                                          \
		size_t low_ = 0, high_ = (n);                       \
                                                                    \
		while (low_ < high_) {                              \
			size_t middle_ = low_ + (high_ - low_) / 2; \
                                                                    \
			if ((items)[middle_].member < (key)) {      \
				low_ = middle_ + 1;                 \
			} else {                                    \
				high_ = middle_;                    \
			}                                           \
		}                                                   \
		low_;                                               \
	})
