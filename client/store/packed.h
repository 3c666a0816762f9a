/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The form of images in the file: a zlib stream if that is shorter than the image, else the image
 * itself. The stream is nearly always much shorter, because most counters of most units are 0. The
 * length shows which form it is, as in SQLite's own archives (sqlar). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packed {
	uint8_t *room; /* owned, and reused */
	size_t size;
};

void packed_deinit(struct packed *p);

/* Returns the bytes for the file; valid until the next call. NULL: out of memory. */
const uint8_t *packed_pack(struct packed *p, const uint8_t *image, size_t size, size_t *ret_size);

/* Returns the image of size bytes that was packed into data; valid until the next call. -EBADMSG:
 * data is no such image, or size is more than zlib can reach; -EFBIG: the image is larger than
 * allowed; -ENOMEM. */
int packed_unpack(struct packed *p, const uint8_t *data, size_t data_size, size_t size,
		  const uint8_t **ret);
