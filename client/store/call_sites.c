/* SPDX-License-Identifier: Apache-2.0 */

/* A program has few different operators, sizes, directions and layers, but many ranges, because
 * PyTorch numbers each. So a range refers to a call site by number, and the call site has
 * the texts. The table of the file is named place. */

#include "client/store/call_sites.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void call_sites_deinit(struct call_sites *p)
{
	map_deinit_items(&p->sites);
	memset(p, 0, sizeof(*p));
}

static bool same_site(const struct store_attribution *a, const struct store_attribution *b)
{
	return a->op == b->op && a->sizes == b->sizes && a->dir == b->dir && a->layer == b->layer;
}

static bool is_site(const void *item, const void *key)
{
	return same_site(&((const struct call_site *)item)->what, key);
}

bool call_sites_is_known(struct call_sites *p, unsigned process, unsigned range,
			 const struct store_attribution *what)
{
	size_t slot = (range + process * 1021u) % SITES_KNOWN;

	if (p->known[slot].process == process && p->known[slot].range == range &&
	    p->known[slot].what.seq == what->seq && same_site(&p->known[slot].what, what)) {
		return true;
	}
	p->known[slot].process = process;
	p->known[slot].range = range;
	p->known[slot].what = *what;
	return false;
}

static uint64_t hash_site(const struct store_attribution *what)
{
	uint64_t hash = map_mix(map_mix(0, (uintptr_t)what->op), (uintptr_t)what->sizes);

	return map_mix(map_mix(hash, (uintptr_t)what->dir), (uintptr_t)what->layer);
}

int call_sites_find(struct call_sites *p, const struct store_attribution *what, unsigned *ret_id,
		    bool *ret_new)
{
	uint64_t hash = hash_site(what);
	struct call_site *site = map_find(&p->sites, hash, is_site, what);

	*ret_new = !site;
	if (*ret_new) {
		site = malloc(sizeof(*site));
		if (!site || map_add(&p->sites, hash, site)) {
			free(site);
			return -ENOMEM;
		}
		*site = (struct call_site){ .id = (unsigned)p->sites.n, .what = *what };
	}
	*ret_id = site->id;
	return 0;
}
