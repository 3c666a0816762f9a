/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/functions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/agent.h"
#include "daemon/base/clean.h"

/* Names and attributes of a kernel are asked once for each function handle. A handle may be used
 * again after its module was unloaded, so the name is compared as well. */

/* Per thread: small, direct-mapped, no lock. */
struct cache {
	struct function v[256];
};

static __thread struct cache *cache;
static pthread_key_t cache_key;
static bool has_cache_key; /* without one a thread's cache outlives it */
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

/* At the end of a thread. */
static void cache_free(void *p)
{
	struct cache *c = p;

	for (size_t i = 0; i < ARRAY_SIZE(c->v); i++) {
		free(c->v[i].name);
	}
	free(c);
	cache = NULL;
}

static void make_key(void)
{
	has_cache_key = pthread_key_create(&cache_key, cache_free) == 0;
}

static bool cache_make(void)
{
	cache = calloc(1, sizeof(*cache));
	if (cache) {
		pthread_once(&cache_once, make_key);
		if (has_cache_key) {
			pthread_setspecific(cache_key, cache);
		}
	}
	return cache != NULL;
}

static uint32_t attribute(struct agent *a, CUfunction f, CUfunction_attribute which)
{
	int value = 0;

	return f && a->profiler.cuFuncGetAttribute(&value, which, f) == CUDA_SUCCESS && value >= 0
		       ? (uint32_t)value
		       : WIRE_UNKNOWN_ATTRIBUTE;
}

static void define(struct agent *a, struct function *f, uint32_t generation)
{
	f->id = intern_function(&a->intern, f->name,
				attribute(a, f->handle, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
				attribute(a, f->handle, CU_FUNC_ATTRIBUTE_NUM_REGS));
	f->generation = generation;
}

const struct function *functions_find(struct agent *a, CUfunction handle, const char *name)
{
	uint32_t generation = intern_generation(&a->intern);
	struct function *f;

	if (!cache && !cache_make()) {
		return NULL;
	}
	f = &cache->v[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 12) % ARRAY_SIZE(cache->v)];
	if (!f->name || f->handle != handle || strcmp(f->name, name) != 0) {
		free(f->name);
		*f = (struct function){ .handle = handle, .name = strdup(name) };
		if (!f->name) {
			return NULL;
		}
		f->selected = filter_selects(&a->filter, name);
	}
	if (f->id == 0 || f->generation != generation) {
		define(a, f, generation);
	}
	return f;
}
