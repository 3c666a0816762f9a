/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Attributions that were written to the file. Texts are compared by their pointers. */

#include <stdbool.h>
#include <stddef.h>

#include "client/store/store.h"
#include "proto/base/map.h"

enum { SITES_KNOWN = 1 << 12 };

struct call_site {
	unsigned id;
	struct store_attribution what;
};

struct call_sites {
	struct map sites;
	/* The site last written for a range: direct-mapped by (process, range); range 0: empty. */
	struct {
		unsigned process, range;
		struct store_attribution what;
	} known[SITES_KNOWN];
};

/* Zero-initialised by the caller. */
void call_sites_deinit(struct call_sites *p);

/* Was this site the last one written for the range? If not, notes it as written. A range that the
 * cache has lost is written once more. */
bool call_sites_is_known(struct call_sites *p, unsigned process, unsigned range,
			 const struct store_attribution *what);

/* Finds or adds the number of this combination of op, sizes, dir and layer, from 1; *ret_new: it
 * was added. 0 or -ENOMEM. */
int call_sites_find(struct call_sites *p, const struct store_attribution *what, unsigned *ret_id,
		    bool *ret_new);
