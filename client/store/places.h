/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Attributions that were written to the file. Texts are compared by their pointers. */

#include <stdbool.h>
#include <stddef.h>

#include "client/store/store.h"
#include "proto/base/map.h"

enum { PLACES_KNOWN = 1 << 12 };

struct place {
	unsigned id;
	struct store_attribution what;
};

struct places {
	struct map places;
	/* The place last written for a range: direct-mapped by (process, range); range 0: empty. */
	struct {
		unsigned process, range;
		struct store_attribution what;
	} known[PLACES_KNOWN];
};

/* Zero-initialised by the caller. */
void places_deinit(struct places *p);

/* Was this place the last one written for the range? If not, notes it as written. A range that the
 * cache has lost is written once more. */
bool places_is_known(struct places *p, unsigned process, unsigned range,
		     const struct store_attribution *what);

/* Finds or adds the number of this combination of op, sizes, dir and layer, from 1; *ret_new: it
 * was added. 0 or -ENOMEM. */
int places_find(struct places *p, const struct store_attribution *what, unsigned *ret_id,
		bool *ret_new);
