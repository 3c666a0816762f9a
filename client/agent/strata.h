/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A stratum is a set of launches with the same key. Every launch that may be measured belongs to
 * exactly one stratum, which counts it whether it is measured or not.
 *
 * Memory is bounded: strata_init() allocates all of it. If a kernel has more ranges, paths or
 * shapes than the limits below, further ones share a stratum whose key has fewer fields, and
 * launches without room in any of these belong to STRATA_REST; the agent reports both to the user.
 * Paths, and ranges below a path, take at most half of the room, so that a program that never
 * repeats itself still has strata by shape and range.
 *
 * Thread-safe but for init and deinit. Finding a stratum that is there takes no lock. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/agent/lock.h"

enum {
	STRATA_REST = 0, /* the stratum of launches that found no room in another */
	STRATA_DEFAULT_MAX = 16384,
	STRATA_PASSES_MAX = 64,
	STRATA_RANGES_MAX = 64, /* per path, and per shape for launches without a path */
	STRATA_PATHS_OF_A_SHAPE_MAX = 128,
	STRATA_SHAPES_OF_A_KERNEL_MAX = 256,
};

/* Keys must keep their meaning as long as the strata exist: kernel and range are hashes of names
 * and not numbers of intern.h, which are assigned anew now and then. The structure has no padding.
 */
struct stratum_key {
	uint64_t kernel;
	uint64_t path;	/* the launches of its thread before it (path.h); 0: not part of the key */
	uint64_t range; /* the innermost NVTX range whose name recurs; 0: none */
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	uint32_t device;
};

enum stratum_level {
	STRATUM_REST,	/* any launch that found no room */
	STRATUM_KERNEL, /* kernel and device: for shapes above the limit */
	STRATUM_SHAPE,	/* kernel, device and shape: for paths or ranges above the limit */
	STRATUM_PATH,	/* and the path: without a range, or for ranges above the limit */
	STRATUM_RANGE,	/* all fields; without the path for paths above the limit */
};

struct stratum {
	struct stratum_key key; /* fields that the level does not use are 0 */
	uint64_t hash;
	enum stratum_level level;
	uint32_t parent; /* STRATA_REST for a kernel's stratum and for STRATA_REST itself */
	_Atomic uint32_t children; /* strata whose parent this is */
	atomic_bool merged;	   /* it holds launches with different keys */
};

struct strata {
	struct lock lock; /* held while a stratum is added */
	struct stratum *v;
	_Atomic uint64_t *seen;	 /* [number * passes + pass] */
	_Atomic uint32_t *slots; /* hash table of numbers; 0: free slot */
	size_t n_slots, max;
	uint32_t passes;
	_Atomic uint32_t n; /* strata, STRATA_REST included */
};

/* Allocates room for max strata and for counts in each pass; both are at least 1. -ENOMEM, -EINVAL.
 */
int strata_init(struct strata *s, size_t max, uint32_t passes);
void strata_deinit(struct strata *s);

/* The number of the launch's stratum, below strata_n(). A key with a stratum of its own keeps that
 * number; once there is no room, a key without one may be assigned to another stratum than before.
 */
uint32_t strata_find(struct strata *s, const struct stratum_key *key);

/* As strata_find(), faster if the launch is of the stratum that the caller found last (before; 0:
 * none). */
static inline uint32_t strata_find_again(struct strata *s, const struct stratum_key *key,
					 uint32_t before)
{
	if (before != STRATA_REST && memcmp(&s->v[before].key, key, sizeof(*key)) == 0) {
		return before;
	}
	return strata_find(s, key);
}

/* The hash of a launch's kernel and shape, of which paths are made (path.h). */
uint64_t strata_hash_launch(const struct stratum_key *key);

/* Counts a launch that the program makes while this pass is configured. Returns its number among
 * these launches, from 1. */
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
