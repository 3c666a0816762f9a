/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/wanted.h"

#include <string.h>

#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/functions.h"
#include "client/agent/nvtx_recurring.h"
#include "client/agent/nvtx_select.h"
#include "client/agent/section.h"

/* Which launches are measured: those that pass the filter (kernel, NVTX ranges, phase, skip and
 * count), and of these, with a budget, those that are chosen. Thread-safe. */

/* --- by the filter --- */

static bool is_in_ranges(struct capture *c)
{
	nvtx_filter_note_launch(&c->filter.nvtx);
	if (!phase_is_on(&c->filter.phase)) {
		return false;
	}
	return !nvtx_filter_is_used(&c->filter.nvtx) ||
	       nvtx_selects(&c->filter.nvtx, &c->scope, c->number);
}

/* The device of the calling thread's context, on which the launch will run; UINT32_MAX: there is no
 * context. */
static uint32_t current_device(const struct capture *c)
{
	CUdevice current;

	return c->profiler->cuCtxGetDevice(&current) == CUDA_SUCCESS ? (uint32_t)current
								     : UINT32_MAX;
}

/* The key by which launches are counted in groups. */
static struct stratum_key key_of(uint64_t kernel, const struct arguments *g, uint32_t device)
{
	struct stratum_key key = {
		.kernel = kernel,
		.shared_bytes = g->dynamic_shared_bytes,
		.device = device,
	};

	memcpy(key.grid, g->grid, sizeof(key.grid));
	memcpy(key.block, g->block, sizeof(key.block));
	return key;
}

static bool filter_takes_launch(struct capture *c, const struct function *f,
				const struct arguments *g)
{
	struct stratum_key key;

	if (!filter_is_grouped(&c->filter)) {
		return filter_takes(&c->filter, NULL);
	}
	key = key_of(f->hash, g, c->filter.mode == GPUCTR_FILTER_PER_GPU ? current_device(c) : 0);
	return filter_takes(&c->filter, &key);
}

/* By its kernels' names, once they are known, where these are told each for itself. */
static bool is_selected(const struct capture *c, const struct function *f,
			const struct arguments *g)
{
	return f->selected || (g->kind == GPUCTR_LAUNCH_GRAPH && c->activity->name_kernel);
}

bool wanted_by_filter(struct capture *c, const struct function *f, const struct arguments *g)
{
	if (is_selected(c, f, g) && filter_has_room(&c->filter) && is_in_ranges(c) &&
	    filter_takes_launch(c, f, g)) {
		return true;
	}
	atomic_fetch_add(&c->counters.filtered, 1);
	return false;
}

/* --- with a budget --- */

struct met {
	struct capture *capture;
	const struct function *function;
};

/* By a number that the function has already, or by its name alone. */
static uint32_t name_function(void *userdata)
{
	const struct met *m = userdata;
	const struct function *f = m->function;

	if (f->id != 0 && f->generation == intern_generation(&m->capture->intern)) {
		return f->id;
	}
	return intern_function(&m->capture->intern, f->name, WIRE_UNKNOWN_ATTRIBUTE,
			       WIRE_UNKNOWN_ATTRIBUTE);
}

static uint32_t name_range(void *userdata)
{
	const struct met *m = userdata;

	return nvtx_recurring_range(&m->capture->intern);
}

/* Known before the context is set up, so that a launch is of one stratum from the first one on. */
static uint32_t find_device(struct capture *c, struct ranges *r)
{
	uint32_t device = atomic_load_explicit(&r->device, memory_order_relaxed);

	return device == UINT32_MAX ? current_device(c) : device;
}

bool wanted_by_budget(struct capture *c, struct section *v, struct ranges *r, struct function *f,
		      const struct arguments *g)
{
	struct met met = { c, f };
	struct stratum_key key;
	uint64_t launch;

	if (!c->choosing.on) {
		v->chosen = (struct chosen){ .stratum = 0 };
		return true;
	}
	key = key_of(f->hash ^ (uintptr_t)g->graph, g, find_device(c, r));
	launch = strata_hash_launch(&key);
	key.path = path_hash(&v->path);
	path_add(&v->path, launch);
	key.range = nvtx_recurring_name();
	v->chosen = choosing_take(&c->choosing, &key,
				  atomic_load_explicit(&r->pass, memory_order_relaxed), &f->stratum,
				  name_function, name_range, &met);
	if (!v->chosen.choice.measure) {
		atomic_fetch_add(&c->counters.unchosen, 1);
	}
	return v->chosen.choice.measure;
}
