/* SPDX-License-Identifier: Apache-2.0 */
#define __CUDA_API_VERSION_INTERNAL /* as arguments.c */

#include "client/agent/apart.h"

#include <cupti_driver_cbid.h>
#include <generated_cuda_meta.h>
#include <stdio.h>

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/other_work.h"
#include "client/agent/section.h"

/* Of cuLaunch() and cuLaunchGrid() CUDA does not tell the shape of a block, which other calls have
 * set before. cuLaunchCooperativeKernelMultiDevice() launches on several GPUs at once, and its
 * kernels wait for each other, so that ranges around them would hang. */

static unsigned count_launches(CUpti_CallbackId id, const void *params)
{
	const cuLaunchCooperativeKernelMultiDevice_params *p = params;

	return id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice ? p->numDevices
										  : 1;
}

/* The calling thread's context is current in the call, the others are not. */
static void disturb_others(struct capture *c, CUcontext current)
{
	struct ranges *contexts[CONTEXTS_MAX];
	size_t n = contexts_list(c, contexts);

	for (size_t i = 0; i < n; i++) {
		if (contexts[i]->context != current) {
			guard_disturb(contexts[i], &(struct guard_work){ .launch = true });
		}
	}
}

void apart_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data)
{
	unsigned n = count_launches(id, data->functionParams);
	bool several = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice;

	if (data->callbackSite == CUPTI_API_ENTER && capture_is_measuring(c) && !v->launching) {
		atomic_fetch_add(&c->counters.seen, n);
		atomic_fetch_add(&c->counters.unready, n);
		atomic_fetch_add(&c->n_apart, n);
	}
	other_work_on_call(c, v, id, data);
	if (several && !c->method->beside) { /* before and after: the time is not known */
		disturb_others(c, data->context);
	}
}

bool apart_describe(struct capture *c, char *text, size_t bytes)
{
	unsigned long long launches = atomic_load(&c->n_apart);
	bool contexts = atomic_load(&c->has_too_many);
	int n = 0;

	if (launches > 0) {
		n = snprintf(
			text, bytes,
			"%llu launches by cuLaunch(), cuLaunchGrid() or "
			"cuLaunchCooperativeKernelMultiDevice() are counted as not ready: CUDA "
			"does not tell their shape, or they are of several GPUs at once",
			launches);
	}
	if (contexts) {
		snprintf(
			text + n, bytes - (size_t)n,
			"%sthe program has more than %d CUDA contexts at a time: launches in those "
			"that came later are counted as not ready",
			n > 0 ? "; " : "", CONTEXTS_MAX);
	}
	return launches > 0 || contexts;
}
