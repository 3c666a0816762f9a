/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/unwatched.h"

#include "client/agent/activity_flush.h"
#include "client/agent/arguments.h"
#include "client/agent/capture.h"
#include "client/agent/nvtx_stack.h"
#include "client/agent/section.h"
#include "proto/base/clock.h"

#include <cupti_driver_cbid.h>

/* CUPTI's record of a kernel has all that a trace tells of a launch, but for the thread and its
 * NVTX ranges. So in a program that opens no range, and where no filter asks, nobody calls us at
 * launches: CUPTI takes 0.25 us for two callbacks and we 0.6 us within them, of launches that
 * take a program 10 to 25 us, beside 1 us for CUPTI's record (H100, CUPTI 2025.3; ours on the
 * fakes).
 *
 * A capture of a program that runs begins so. One that begins with the program watches its launches
 * at first, because the first one turns tracing on. Then they are left alone, but CUPTI goes on to
 * call us: if a launch's callback is turned off while a thread is within the launch, CUPTI loses
 * count of that thread's calls, and all its records have the id of that launch until the program
 * ends, in later captures as well. Of a program that decodes tokens, turning them off and on 16
 * times was enough, also while kernels were not traced; turning tracing off and on 2,400 times,
 * subscribing anew 2,300 times and unsubscribing with callbacks on did nothing of the kind (H200,
 * CUPTI 2025.3). So launches' callbacks are never turned off within a capture.
 *
 * Launches of graphs stay watched: they are few, and their kernels' records do not say which launch
 * they are of. Correlation ids grow, so those between the last launch that was watched and the
 * first one that is watched again are of kernels that nobody has noted. */

enum {
	BEGIN_MS = 250, /* of a capture, in which launches are watched */
	/* For kernels that have not ended. One that runs for longer has no time. */
	END_PATIENCE_MS = 600,
	EXIT_PATIENCE_MS = 2000,
};

void unwatched_begin(struct capture *c)
{
	c->trace.may_leave =
		c->method->beside && c->activity->name_kernel && filter_takes_all(&c->filter);
}

bool unwatched_concerns(CUpti_CallbackId id)
{
	uint8_t kind;

	return arguments_kind(id, &kind) && kind != GPUCTR_LAUNCH_GRAPH;
}

void unwatched_start(struct capture *c)
{
	if (c->trace.may_leave && !nvtx_is_used() && activity_is_started(c->activity)) {
		activity_unwatch(c->activity);
		atomic_store(&c->trace.launches, LAUNCHES_UNWATCHED);
	}
}

static void watch(struct capture *c)
{
	for (uint32_t id = 1; id < CUPTI_DRIVER_TRACE_CBID_SIZE; id++) {
		if (unwatched_concerns(id)) {
			c->profiler->cuptiEnableCallback(1, c->subscriber,
							 CUPTI_CB_DOMAIN_DRIVER_API, id);
		}
	}
}

void unwatched_watch_again(struct capture *c)
{
	enum watched unwatched = LAUNCHES_UNWATCHED, left = LAUNCHES_LEFT;

	if (atomic_compare_exchange_strong(&c->trace.launches, &unwatched, LAUNCHES_WATCHED)) {
		watch(c);
		activity_watch(c->activity);
	} else if (atomic_compare_exchange_strong(&c->trace.launches, &left, LAUNCHES_WATCHED)) {
		activity_watch(c->activity);
	}
}

static void leave(struct capture *c)
{
	enum watched watched = LAUNCHES_WATCHED;

	activity_unwatch(c->activity);
	atomic_compare_exchange_strong(&c->trace.launches, &watched, LAUNCHES_LEFT);
}

static void note_that_all_are_left(struct capture *c)
{
	enum watched left = LAUNCHES_LEFT;

	if (sections_are_empty(c)) {
		atomic_compare_exchange_strong(&c->trace.launches, &left, LAUNCHES_UNWATCHED);
	}
}

static bool may_leave(struct capture *c)
{
	return c->trace.may_leave && !nvtx_is_used() &&
	       clock_now_ns() > c->made_ns + BEGIN_MS * CLOCK_NS_PER_MS &&
	       activity_expects(c->activity);
}

/* Of what CUPTI drops we know nothing but how much, where launches are not watched. A range may
 * have been opened when nobody could be told of it yet. */
void unwatched_look(struct capture *c)
{
	enum watched state = atomic_load(&c->trace.launches);
	bool drops = activity_drops(c->activity);

	if (drops || nvtx_is_used()) {
		unwatched_watch_again(c);
	} else if (state == LAUNCHES_WATCHED && may_leave(c)) {
		leave(c);
	} else if (state == LAUNCHES_LEFT) {
		note_that_all_are_left(c);
	}
	activity_hear(c->activity);
}

void unwatched_end(struct capture *c)
{
	activity_hear_all(c->activity, state_is_exiting() ? EXIT_PATIENCE_MS : END_PATIENCE_MS);
}
