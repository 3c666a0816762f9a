/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns the columns of one process's batches into records. */

#include <stdbool.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/quota.h"
#include "proto/wire/wire.h"

/* Deepest nesting of ranges; the innermost range within it stands for deeper ones. */
enum { DECODER_DEPTH_MAX = 4096 };

/* A growing array of pointers; identifier i is at v[i - 1]. */
struct table {
	void **v;
	size_t n, room;
};

struct site_set {
	size_t n;
	const struct gpuctr_site **v;
};

/* Limits for all processes of a capture together. */
struct decoder_memory {
	struct quota objects; /* bytes of strings, kernels, sites; no more are kept */
	struct quota tables;  /* bytes of tables; beyond the limit messages are not read */
	struct quota images;  /* bytes of images that are not complete yet */
	size_t objects_most;  /* records raise the limit of objects up to this; 0: they do not */
};

struct decoder {
	uint32_t process;
	struct decoder_memory *memory;
	struct arena objects; /* strings, kernels, sites: they live as long as the capture */
	struct arena columns; /* memory of one batch */
	struct table strings, kernels, sites, sets;
	/* Stand in the tables for definitions that are not kept. */
	struct gpuctr_site nowhere; /* no site at all */
	struct gpuctr_kernel other;
	struct site_set no_set;
	bool is_deep;	     /* some ranges were nested deeper than DECODER_DEPTH_MAX */
	bool is_full;	     /* something was not kept */
	bool lost_image;     /* an image was dropped for lack of memory */
	struct buffer image; /* pieces of the present image */
	uint64_t next_index; /* index of the next record, so that no record comes twice */
	int64_t numbers[DECODER_DEPTH_MAX]; /* numbers of one record */
	uint64_t image_first, image_size;
	uint32_t image_count;
};

/* Limits for this machine: a quarter of its memory, within bounds. */
void decoder_memory_init(struct decoder_memory *m);

/* Limits for programs of another user: lower, and in proportion to their records. */
void decoder_memory_bound(struct decoder_memory *m);

/* memory is borrowed. */
struct decoder *decoder_new(uint32_t process, struct decoder_memory *memory);
struct decoder *decoder_free(struct decoder *d);

/* Calls on_record of the handler for each record in order, then on_mark for each mark, and on_copy
 * for each copy; each handler may be NULL. False: malformed, or is_full (records before the fault
 * were delivered). */
bool decoder_feed(struct decoder *d, const struct wire_records *r, size_t n_columns,
		  const struct gpuctr_capture_handler *handler, struct gpuctr_capture *c,
		  void *userdata);

/* Adds a piece. *ret: the image when it is complete; its data is NULL while pieces are missing.
 * False: malformed, or lost_image. */
bool decoder_feed_image(struct decoder *d, const struct wire_raw_image *piece,
			struct gpuctr_image *ret);
/* Frees the pieces, and the image to which *ret has pointed. */
void decoder_drop_image(struct decoder *d);
