/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/copies.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/map.h"

enum { COPIES_MAX = 1 << 20 }; /* 40 bytes each; a file may claim any number */

static bool add(struct copies *c, const struct pack_copy *copy)
{
	if (c->n == COPIES_MAX || !array_make_room(&c->v, sizeof(*c->v), c->n, &c->max)) {
		return false;
	}
	c->v[c->n++] = *copy;
	return true;
}

static bool add_recorded(struct copies *c, const struct gpuctr_copy *copy)
{
	return add(c, &(struct pack_copy){ .kind = (uint8_t)copy->kind,
					   .device = copy->device,
					   .context = copy->context,
					   .stream = (uint32_t)copy->stream,
					   .bytes = copy->bytes,
					   .start_ns = (uint64_t)copy->start_ns,
					   .duration_ns = (uint64_t)copy->duration_ns });
}

int copies_load(struct copies *c, struct store_reader *reader, unsigned process, struct refusal *r)
{
	const struct gpuctr_copy *v;
	struct store_blocks *blocks = NULL;
	bool all = true;
	size_t n;
	int e = store_copies(reader, process, &blocks);

	r->code = 0;
	while (e == 0 && all && (e = store_next_copies(blocks, &v, &n)) == 0 && v) {
		for (size_t i = 0; all && i < n; i++) {
			all = add_recorded(c, &v[i]);
		}
	}
	store_blocks_free(blocks);
	if (e != 0) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING, store_reader_error(reader)->remedy, "%s",
			    store_reader_error(reader)->message);
	} else if (!all) {
		refusal_set(r, GPUCTR_E_BAD_RECORDING, "Record a shorter run.",
			    c->n == COPIES_MAX ? "the recording holds more than %d copies of memory"
					       : "out of memory for %d copies of the recording",
			    COPIES_MAX);
	}
	return r->code;
}

bool copies_add_launch(struct copies *c, const struct launch *l, const char *name)
{
	uint64_t shape = map_hash(name, strlen(name));

	for (int i = 0; i < 3; i++) {
		shape = map_mix(shape, (uint64_t)l->grid[i] << 32 | l->block[i]);
	}
	return l->clock != GPUCTR_CLOCK_GPU ||
	       add(c, &(struct pack_copy){ .kind = GPUCTR_COPY_KERNEL,
					   .device = l->device,
					   .context = l->context,
					   .stream = (uint32_t)l->stream,
					   .bytes = shape,
					   .start_ns = l->start_ns,
					   .duration_ns = l->duration_ns });
}

void copies_deinit(struct copies *c)
{
	free(c->v);
	*c = (struct copies){ 0 };
}
