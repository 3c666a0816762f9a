/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STORE_PACKED_H
#define CLIENT_STORE_PACKED_H

/* Images as the file has them: zlib's stream where that is shorter than the image, which it nearly
 * always is by much, because most counters of most units are 0; else the image itself. So the
 * length tells which it is, as in SQLite's own archives (sqlar). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packed {
	uint8_t *room; /* owned, and used again */
	size_t size;
};

void packed_deinit(struct packed *p);

/* What is to be written; valid until the next call. NULL: out of memory. */
const uint8_t *packed_pack(struct packed *p, const uint8_t *image, size_t size, size_t *ret_size);

/* The image of size bytes that was packed into data; valid until the next call. -EBADMSG: it was
 * not, and zlib cannot even have packed so much into it; -EFBIG: it is larger than images are;
 * -ENOMEM. */
int packed_unpack(struct packed *p, const uint8_t *data, size_t data_size, size_t size,
		  const uint8_t **ret);

#endif
