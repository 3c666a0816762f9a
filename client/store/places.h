/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STORE_PLACES_H
#define CLIENT_STORE_PLACES_H

/* What the file has of attributions. Texts are compared by their pointers. */

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
	/* What was written last of a range: direct-mapped by (process, range); range 0: empty. */
	struct {
		unsigned process, range;
		struct store_attribution what;
	} known[PLACES_KNOWN];
};

/* Zero-initialised by the caller. */
void places_deinit(struct places *p);

/* Is this what was written last of the range? If not, it is from now on. What was forgotten is
 * written once more. */
bool places_is_known(struct places *p, unsigned process, unsigned range,
		     const struct store_attribution *what);

/* The number of op, sizes, dir and layer together, from 1; *ret_new tells whether it has just been
 * made. 0 or -ENOMEM. */
int places_find(struct places *p, const struct store_attribution *what, unsigned *ret_id,
		bool *ret_new);

#endif
