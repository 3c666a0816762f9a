/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/functions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/capture.h"
#include "proto/base/map.h"

/* Caches names and attributes of kernels by function handle. The driver may reuse a handle after
 * its module was unloaded, so the cache compares the name as well.
 *
 * The driver loads modules when a kernel is first launched in a context, which takes up to 19 ms.
 * The kernel's range would include that time, so the agent loads the module before. During a stream
 * capture, which loading could break, it leaves this to a later launch or to the driver. */

enum { SETS = 128, WAYS = 8 };

/* Each thread has a cache, which needs no lock. Its pages take memory only as they fill up. */
struct cache {
	struct function v[SETS][WAYS];
	uint64_t clock; /* counts uses */
};

static __thread struct cache *cache;
static pthread_key_t cache_key;
static bool has_cache_key; /* without a key, the cache of a thread that ends is not freed */
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

/* Called when a thread ends. */
static void cache_free(void *p)
{
	struct cache *c = p;

	for (size_t i = 0; i < SETS * (size_t)WAYS; i++) {
		free(c->v[i / WAYS][i % WAYS].name);
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

/* The function behind the handle, with its module loaded; NULL: the driver does not find it. CUDA's
 * runtime launches CUkernels of the library API: for such a handle cuFuncGetAttribute() fails, and
 * each context has a function of its own. */
static CUfunction load_function(const struct profiler *p, CUfunction handle)
{
	CUfunction f = handle;
	int registers;

	if (p->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, handle) ==
		    CUDA_ERROR_INVALID_HANDLE &&
	    p->cuKernelGetFunction(&f, (CUkernel)handle) != CUDA_SUCCESS) {
		return NULL;
	}
	p->cuFuncLoad(f);
	return f;
}

static uint32_t attribute(const struct profiler *p, CUfunction f, CUfunction_attribute which)
{
	int value = 0;

	return f && p->cuFuncGetAttribute(&value, which, f) == CUDA_SUCCESS && value >= 0
		       ? (uint32_t)value
		       : WIRE_UNKNOWN_ATTRIBUTE;
}

void functions_prepare(struct capture *c, struct function *f)
{
	uint32_t generation = c->intern.generation;
	bool is_numbered = f->id != 0 && f->generation == generation, may_load;
	CUfunction loaded = f->handle;

	if (is_numbered && f->is_loaded) {
		return;
	}
	may_load = f->handle && !stream_captures_any(&c->stream_captures);
	if (is_numbered && !may_load) {
		return;
	}
	if (may_load) {
		loaded = load_function(c->profiler, f->handle);
		f->is_loaded = true;
	}
	f->id = intern_function(&c->intern, f->name,
				attribute(c->profiler, loaded, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
				attribute(c->profiler, loaded, CU_FUNC_ATTRIBUTE_NUM_REGS));
	f->generation = generation;
}

/* The handle's entry, or the least recently used one of its set. */
static struct function *find_slot(CUfunction handle, uint32_t context)
{
	uintptr_t n = (uintptr_t)handle;
	struct function *set = cache->v[(n >> 4 ^ n >> 12 ^ context) % SETS], *oldest = set;

	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].name && set[i].handle == handle && set[i].context == context) {
			return &set[i];
		}
		oldest = set[i].used < oldest->used ? &set[i] : oldest;
	}
	return oldest;
}

struct function *functions_find(struct capture *c, CUfunction handle, uint32_t context,
				const char *name)
{
	struct function *f;

	if (!cache && !cache_make()) {
		return NULL;
	}
	f = find_slot(handle, context);
	f->used = ++cache->clock;
	if (!f->name || f->handle != handle || f->context != context ||
	    strcmp(f->name, name) != 0) {
		free(f->name);
		*f = (struct function){ .handle = handle,
					.context = context,
					.used = cache->clock,
					.name = strdup(name) };
		if (!f->name) {
			return NULL;
		}
		f->collective = guard_name_is_collective(name);
		f->hash = map_hash(name, strlen(name)) | 1;
	}
	if (f->capture != c->number) {
		f->capture = c->number;
		f->selected = filter_selects(&c->filter, name);
		f->proofs = 0;
	}
	return f;
}
