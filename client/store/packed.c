/* SPDX-License-Identifier: Apache-2.0 */
#include "client/store/packed.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum {
	IMAGE_BYTES_MAX = 1 << 30, /* libgpuctr takes no larger images */
	LEVEL = 1,	   /* 8.9 times shorter; level 9: 10.0 times, in five times the time */
	RATIO_MOST = 1032, /* zlib's largest ratio, according to its documentation */
};

void packed_deinit(struct packed *p)
{
	free(p->room);
	*p = (struct packed){ 0 };
}

static bool make_room(struct packed *p, size_t size)
{
	if (p->size < size) {
		packed_deinit(p);
		p->room = malloc(size);
		p->size = p->room ? size : 0;
	}
	return p->size >= size;
}

const uint8_t *packed_pack(struct packed *p, const uint8_t *image, size_t size, size_t *ret_size)
{
	uLongf n = compressBound(size);

	if (!make_room(p, n)) {
		return NULL;
	}
	if (compress2(p->room, &n, image, size, LEVEL) != Z_OK || n >= size) {
		*ret_size = size;
		return image;
	}
	*ret_size = n;
	return p->room;
}

int packed_unpack(struct packed *p, const uint8_t *data, size_t data_size, size_t size,
		  const uint8_t **ret)
{
	uLongf n = size;

	*ret = data;
	if (data_size == size) {
		return 0;
	}
	if (data_size > size || size / RATIO_MOST > data_size) {
		return -EBADMSG;
	}
	if (size > IMAGE_BYTES_MAX) {
		return -EFBIG;
	}
	if (!make_room(p, size)) {
		return -ENOMEM;
	}
	*ret = p->room;
	return uncompress(p->room, &n, data, data_size) == Z_OK && n == size ? 0 : -EBADMSG;
}
