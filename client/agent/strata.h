/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_STRATA_H
#define GPUCTR_AGENT_STRATA_H

/* Which launches are of a kind, and how many of each kind there were. Every launch that may be
 * measured is of exactly one stratum, and is counted there, whether it is measured or not.
 *
 * Memory is bounded whatever the program does: strata_init() takes all of it. Where a kernel has
 * more ranges, paths or shapes than a bound, the further ones share a stratum with less in its key,
 * and what finds no room at all is of stratum STRATA_REST; both are told. Paths, and ranges by
 * path, take half of the room at most, so that a program that never repeats itself still has
 * strata by shape and range.
 *
 * Thread-safe but for init and deinit. Finding a stratum that is there takes no lock. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/agent/lock.h"

enum {
	STRATA_REST = 0, /* the number of the stratum for what finds no room */
	STRATA_DEFAULT_MAX = 16384,
	STRATA_PASSES_MAX = 64,
	STRATA_RANGES_MAX = 64, /* of a path, and of a shape without one */
	STRATA_PATHS_OF_A_SHAPE_MAX = 128,
	STRATA_SHAPES_OF_A_KERNEL_MAX = 256,
};

/* Numbers must mean the same for as long as the strata live: kernel and range are hashes of names,
 * not numbers of intern.h, which are given anew now and then. There is no padding. */
struct stratum_key {
	uint64_t kernel;
	uint64_t path;	/* what its thread launched before it (path.h); 0: that does not count */
	uint64_t range; /* the innermost NVTX range whose name recurs; 0: none */
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	uint32_t device;
};

enum stratum_level {
	STRATUM_REST,	/* anything */
	STRATUM_KERNEL, /* kernel and device; shapes that were too many */
	STRATUM_SHAPE,	/* kernel, device and shape; paths or ranges that were too many */
	STRATUM_PATH,	/* and the path; no range, or ranges that were too many */
	STRATUM_RANGE,	/* all of the key, or all but the path, if paths were too many */
};

struct stratum {
	struct stratum_key key; /* what the level leaves out is 0 */
	uint64_t hash;
	enum stratum_level level;
	uint32_t parent;	   /* STRATA_REST of a kernel's, and its own */
	_Atomic uint32_t children; /* strata that have more in their key */
	atomic_bool merged;	   /* it stands for launches whose keys differ */
};

struct strata {
	struct lock lock; /* of adding */
	struct stratum *v;
	_Atomic uint64_t *seen;	 /* [number * passes + pass] */
	_Atomic uint32_t *slots; /* numbers, found by hash; 0: free */
	size_t n_slots, max;
	uint32_t passes;
	_Atomic uint32_t n; /* with the rest */
};

/* For max strata and so many passes, each at least 1. -ENOMEM, -EINVAL. */
int strata_init(struct strata *s, size_t max, uint32_t passes);
void strata_deinit(struct strata *s);

/* The number of the launch's stratum, below strata_n(). It stays the same, but that a launch with a
 * key that was not there may get another one once there is no room. */
uint32_t strata_find(struct strata *s, const struct stratum_key *key);

/* The same for a caller that has found one before (0: none), which is mostly the same again. */
static inline uint32_t strata_find_again(struct strata *s, const struct stratum_key *key,
					 uint32_t before)
{
	if (before != STRATA_REST && memcmp(&s->v[before].key, key, sizeof(*key)) == 0) {
		return before;
	}
	return strata_find(s, key);
}

/* What a path knows of a launch: its kernel and shape. */
uint64_t strata_hash_launch(const struct stratum_key *key);

/* Counts a launch made while this pass was configured. Its place among those, from 1. */
static inline uint64_t strata_see(struct strata *s, uint32_t number, uint32_t pass)
{
	return atomic_fetch_add_explicit(&s->seen[(size_t)number * s->passes + pass], 1,
					 memory_order_relaxed) +
	       1;
}

static inline uint32_t strata_n(struct strata *s)
{
	return atomic_load_explicit(&s->n, memory_order_acquire);
}

/* Launches of the stratum, all passes together. */
uint64_t strata_seen(struct strata *s, uint32_t number);

/* Launches of all strata. */
uint64_t strata_total(struct strata *s);

/* Is there no room for another stratum? */
static inline bool strata_are_full(struct strata *s)
{
	return strata_n(s) == s->max;
}

#endif
