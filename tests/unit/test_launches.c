/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/launches_fixture.h"

/* --- one launch --- */

/* The lock is held until the outer one is over, however many there are in it. */
LAUNCHES_TEST(a_launch_within_a_launch_is_a_part_of_it)
{
	for (unsigned i = 1; i <= 3; i++) {
		enter(LAUNCH);
		assert_false(lock_try(&r->gate.lock));
		for (unsigned k = 0; k < i; k++) {
			enter(LAUNCH);
		}
		for (unsigned k = 0; k < i; k++) {
			leave(LAUNCH, CUDA_SUCCESS);
			assert_int_equal(n_closed, i - 1);
		}
		leave(LAUNCH, CUDA_SUCCESS);
		assert_int_equal(n_opened, i);
		assert_int_equal(n_closed, i);
		expect_unlocked();
	}
	assert_int_equal(atomic_load(&c->counters.seen), 3);
}

LAUNCHES_TEST(a_launch_that_failed_is_told)
{
	enter(LAUNCH);
	leave(LAUNCH, CUDA_ERROR_INVALID_VALUE);
	enter(LAUNCH);
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(n_closed, 2);
	assert_int_equal(n_failed, 1);
}

static int cancel_state(void)
{
	int now;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &now);
	pthread_setcancelstate(now, NULL);
	return now;
}

/* With the lock it would leave all others waiting; after it, it is what it was. */
LAUNCHES_TEST(a_thread_is_not_cancelled_within_a_launch)
{
	static const int before[] = { PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE };

	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		pthread_setcancelstate(before[i], NULL);
		enter(LAUNCH);
		assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
		enter(LAUNCH);
		leave(LAUNCH, CUDA_SUCCESS);
		assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
		leave(LAUNCH, CUDA_SUCCESS);
		assert_int_equal(cancel_state(), before[i]);
		enter(CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
		assert_int_equal(cancel_state(), before[i]);
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/* --- streams --- */

static void launch_into(CUcontext context, CUstream stream, bool per_thread)
{
	const cuLaunchKernel_params params = {
		.f = (CUfunction)(uintptr_t)0x20, .gridDimX = 1, .blockDimX = 32, .hStream = stream
	};
	CUresult result = CUDA_SUCCESS;
	CUpti_CallbackData data = {
		.callbackSite = CUPTI_API_ENTER,
		.functionParams = &params,
		.functionReturnValue = &result,
		.context = context,
		.contextUid = (uint32_t)(uintptr_t)context,
		.symbolName = "kernel",
	};
	CUpti_CallbackId id = per_thread ? CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz : LAUNCH;

	callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
	data.callbackSite = CUPTI_API_EXIT;
	callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

/* The thread's last stream is known; any other one, of whatever difference, is asked for. */
LAUNCHES_TEST(a_launch_has_the_number_of_its_stream)
{
	enum { CASES = 8, CONTEXT_BIT = 1, STREAM_BIT = 2, PER_THREAD_BIT = 4 };

	for (int before = 0; before < CASES; before++) {
		for (int after = 0; after < CASES; after++) {
			const int both[] = { before, after, after };

			for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
				CUcontext context = both[i] & CONTEXT_BIT
							    ? CONTEXT
							    : (CUcontext)(uintptr_t)0x11;
				CUstream stream =
					both[i] & STREAM_BIT ? (CUstream)(uintptr_t)0x40 : NULL;
				bool per_thread = (both[i] & PER_THREAD_BIT) != 0;

				launch_into(context, stream, per_thread);
				assert_int_equal(noted.stream,
						 number_of(context, stream, per_thread));
			}
		}
	}
}

/* --- captures of graphs --- */

/* One too many, and nothing would be measured any more; one too few, and it would be spoilt. */
LAUNCHES_TEST(captures_of_graphs_are_counted)
{
	enter(BEGIN);
	assert_int_equal(atomic_load(&c->stream_captures.n), 1); /* before it begins */
	leave(BEGIN, CUDA_ERROR_ILLEGAL_STATE);
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
	enter(BEGIN);
	leave(BEGIN, CUDA_SUCCESS);
	enter(BEGIN);
	leave(BEGIN, CUDA_SUCCESS);
	enter(END);
	assert_int_equal(atomic_load(&c->stream_captures.n), 2);
	leave(END, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD); /* it goes on */
	assert_int_equal(atomic_load(&c->stream_captures.n), 2);
	enter(END);
	leave(END, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED); /* this one too: it began elsewhere */
	assert_int_equal(atomic_load(&c->stream_captures.n), 2);
	enter(END);
	leave(END, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED); /* it does not */
	enter(END);
	leave(END, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
	enter(END);
	leave(END, CUDA_SUCCESS); /* that began before */
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
}

/* The call that begins or ends one may have been made before the capture of ours began. */
LAUNCHES_TEST(a_stream_capture_that_was_seen_in_part_is_counted)
{
	leave(BEGIN, CUDA_ERROR_ILLEGAL_STATE);
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
	leave(BEGIN, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&c->stream_captures.n), 1);
	leave(END, CUDA_SUCCESS); /* by the stream it is known which one */
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
}

static void end_context(CUcontext context)
{
	const CUpti_ResourceData data = { .context = context };

	callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		 &data);
}

LAUNCHES_TEST(a_stream_capture_ends_with_its_stream_or_context)
{
	enter(BEGIN);
	leave(BEGIN, CUDA_SUCCESS);
	enter(DESTROY);
	leave(DESTROY, CUDA_ERROR_ILLEGAL_STATE);
	assert_int_equal(atomic_load(&c->stream_captures.n), 1);
	enter(DESTROY);
	assert_int_equal(atomic_load(&c->stream_captures.n), 1);
	leave(DESTROY, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
	leave(DESTROY, CUDA_SUCCESS);
	enter(BEGIN);
	leave(BEGIN, CUDA_SUCCESS);
	end_context((CUcontext)(uintptr_t)0x11);
	assert_int_equal(atomic_load(&c->stream_captures.n), 1);
	end_context(CONTEXT);
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
}

static void *open_again(void *unused)
{
	const struct timespec pause = { 0, 30 * MS };

	(void)unused;
	nanosleep(&pause, NULL);
	sections_open(c);
	return NULL;
}

/* The doors are closed, and then a context does not let go: what ends meanwhile has ended. */
LAUNCHES_TEST(nothing_that_was_counted_is_missed_while_the_doors_are_closed)
{
	static const CUpti_CallbackId calls[] = { BEGIN, END, COPY };
	pthread_t thread;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		enter(calls[i]);
		assert_true(sections_close(c));
		assert_int_equal(pthread_create(&thread, NULL, open_again, NULL), 0);
		leave(calls[i], CUDA_SUCCESS);
		pthread_join(thread, NULL);
		assert_int_equal(atomic_load(&c->stream_captures.n), i == 0);
		assert_int_equal(atomic_load(&r->gate.others), 0);
	}
}

static atomic_bool entered, closed, came_back;

static void *end_while_closed(void *unused)
{
	const struct timespec pause = { 0, MS };
	int cancel;

	(void)unused;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	enter(END);
	atomic_store(&entered, true);
	while (!atomic_load(&closed)) {
		nanosleep(&pause, NULL);
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	leave(END, CUDA_SUCCESS);
	atomic_store(&came_back, true);
	return NULL;
}

/* It would leave the driver, in whose call it is, with the locks that are held there. */
LAUNCHES_TEST(who_waits_at_closed_doors_is_not_cancelled)
{
	pthread_t thread;

	atomic_store(&entered, false);
	atomic_store(&closed, false);
	atomic_store(&came_back, false);
	enter(BEGIN);
	leave(BEGIN, CUDA_SUCCESS);
	assert_int_equal(pthread_create(&thread, NULL, end_while_closed, NULL), 0);
	while (!atomic_load(&entered)) {
	}
	assert_true(sections_close(c));
	pthread_cancel(thread);
	atomic_store(&closed, true);
	open_again(NULL);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&came_back));
	assert_int_equal(atomic_load(&c->stream_captures.n), 0);
}

static CUresult stop_meanwhile(CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id)
{
	state_move(&c->deliver.state, CAPTURE_STOPPING);
	return capture_info(stream, ret, id);
}

/* What has begun when it stops is not one that it could not measure. */
LAUNCHES_TEST(a_launch_that_meets_the_end_is_beyond_it)
{
	struct profiler stopping = profiler;

	stopping.stream_capture_info = stop_meanwhile;
	c->profiler = &stopping;
	c->late = true; /* asks each stream once */
	enter(LAUNCH);
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(n_opened, 0);
	assert_int_equal(atomic_load(&c->counters.seen), 0);
	assert_int_equal(atomic_load(&c->counters.unready), 0);
	expect_unlocked();
	c->late = false;
	c->profiler = &profiler;
}

/* --- looking on --- */

static uint64_t time_launch(void)
{
	uint64_t begin_ns = clock_now_ns();

	enter(LAUNCH);
	leave(LAUNCH, CUDA_SUCCESS);
	return clock_now_ns() - begin_ns;
}

/* The first launch that a late capture sees waits, for stream captures that are to be met, and no
 * other one does. */
LAUNCHES_TEST(a_late_capture_looks_on_first)
{
	enum { LATER = 5 };
	unsigned before = n_opened;
	uint64_t first_ns, least_ns = UINT64_MAX;

	c->late = true;
	first_ns = time_launch();
	assert_true(first_ns >= 50 * MS);
	for (int i = 0; i < LATER; i++) {
		uint64_t ns = time_launch();

		least_ns = ns < least_ns ? ns : least_ns;
	}
	assert_true(least_ns < 50 * MS);
	assert_int_equal(n_opened, before + 1 + LATER);
	c->late = false;
}

/* --- the lock --- */

static struct {
	const char *call; /* what its holder is in */
	uint64_t ns;	  /* so long */
	atomic_bool held, gone;
} holder;

static void *hold(void *unused)
{
	const struct timespec t = clock_timespec(holder.ns);

	(void)unused;
	lock_acquire(&r->gate.lock);
	atomic_store(&r->gate.call, holder.call);
	atomic_store(&holder.held, true);
	nanosleep(&t, NULL);
	atomic_store(&holder.gone, true);
	atomic_store(&r->gate.call, NULL);
	lock_release(&r->gate.lock);
	return NULL;
}

/* Until it is locked. */
static pthread_t begin_hold(const char *where, uint64_t ns)
{
	const struct timespec pause = { 0, MS };
	pthread_t thread;

	holder.call = where;
	holder.ns = ns;
	holder.held = holder.gone = false;
	assert_int_equal(pthread_create(&thread, NULL, hold, NULL), 0);
	while (!atomic_load(&holder.held)) {
		nanosleep(&pause, NULL);
	}
	return thread;
}

/* A Start that is under way when a graph is captured would spoil it. */
LAUNCHES_TEST(a_capture_waits_for_a_turn)
{
	pthread_t thread = begin_hold("cuptiRangeProfilerStart", 50 * MS);

	enter(BEGIN);
	assert_true(atomic_load(&holder.gone));
	leave(BEGIN, CUDA_ERROR_ILLEGAL_STATE);
	pthread_join(thread, NULL);
}

/* However long that takes. */
LAUNCHES_TEST(a_launch_waits_for_a_turn)
{
	pthread_t thread;

	atomic_store(&c->patience.spent_ns, PATIENCE_NS);
	thread = begin_hold("cuptiRangeProfilerStart", 200 * MS);
	enter(LAUNCH);
	assert_true(atomic_load(&holder.gone));
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(n_closed, 1);
	assert_int_equal(atomic_load(&c->patience.spent_ns), PATIENCE_NS);
	pthread_join(thread, NULL);
}

/* But not for a launch that does not return: all together for so long, and then for moments. */
LAUNCHES_TEST(a_launch_that_hangs_is_not_waited_for)
{
	const uint64_t left_ns = 30 * MS;
	pthread_t thread;

	atomic_store(&c->patience.spent_ns, PATIENCE_NS - left_ns);
	thread = begin_hold(NULL, CLOCK_NS_PER_S);
	for (uint64_t i = 1; i <= 3 && !atomic_load(&holder.gone); i++) {
		enter(LAUNCH);
		leave(LAUNCH, CUDA_SUCCESS);
		if (!atomic_load(&holder.gone)) {
			assert_int_equal(n_opened, 0);
			assert_int_equal(atomic_load(&c->counters.unready), i);
			assert_true(atomic_load(&c->patience.spent_ns) >= PATIENCE_NS);
		}
	}
	pthread_join(thread, NULL);
	assert_true(atomic_load(&c->counters.unready) > 0);
}

/* --- work that is not measured --- */

static void *measure_for_long(void *unused)
{
	const struct timespec t = clock_timespec(holder.ns);

	(void)unused;
	enter(LAUNCH);
	atomic_store(&holder.held, true);
	nanosleep(&t, NULL);
	atomic_store(&holder.gone, true);
	leave(LAUNCH, CUDA_SUCCESS);
	return NULL;
}

/* It would be counted with another thread's launch: so it waits for the end of that. */
LAUNCHES_TEST(a_copy_waits_for_a_launch)
{
	const struct timespec pause = { 0, MS };
	pthread_t thread;

	holder.ns = 50 * MS;
	holder.held = holder.gone = false;
	assert_int_equal(pthread_create(&thread, NULL, measure_for_long, NULL), 0);
	while (!atomic_load(&holder.held)) {
		nanosleep(&pause, NULL);
	}
	enter(COPY);
	assert_true(atomic_load(&holder.gone));
	assert_true(gate_is_disturbed(&r->gate)); /* by a range that is opened now */
	leave(COPY, CUDA_SUCCESS);
	pthread_join(thread, NULL);
	assert_int_equal(n_closed, 1);
	assert_int_equal(atomic_load(&c->patience.spent_ns), 0);
}

/* Its own launch is over only after it. */
LAUNCHES_TEST(a_copy_within_a_launch_waits_for_nobody)
{
	enter(LAUNCH);
	enter(COPY);
	leave(COPY, CUDA_SUCCESS);
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&c->patience.spent_ns), 0);
	assert_int_equal(n_closed, 1);
	assert_true(gate_is_disturbed(&r->gate));
	expect_unlocked();
}

/* But not for one that does not return: it may wait for this. Then nobody waits for that one. */
LAUNCHES_TEST(a_copy_does_not_wait_for_a_launch_that_hangs)
{
	const struct timespec pause = { 0, MS };
	pthread_t thread;

	atomic_store(&c->patience.spent_ns, PATIENCE_NS);
	holder.ns = CLOCK_NS_PER_S;
	holder.held = holder.gone = false;
	assert_int_equal(pthread_create(&thread, NULL, measure_for_long, NULL), 0);
	while (!atomic_load(&holder.held)) {
		nanosleep(&pause, NULL);
	}
	enter(COPY);
	if (!atomic_load(&holder.gone)) {
		assert_false(atomic_load(&r->gate.shut));
		assert_true(atomic_load(&c->patience.spent_ns) >= PATIENCE_NS + 10 * MS);
	}
	leave(COPY, CUDA_SUCCESS);
	pthread_join(thread, NULL);
	assert_int_equal(n_closed, 1);
}

/* A launch without a configuration fails, and nobody can tell where it would have gone. */
LAUNCHES_TEST(a_launch_without_arguments_is_over_at_its_end)
{
	const cuLaunchKernelEx_params params = { .config = NULL };
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	CUpti_CallbackData data = {
		.callbackSite = CUPTI_API_ENTER,
		.functionParams = &params,
		.functionReturnValue = &result,
		.context = CONTEXT,
		.contextUid = 1,
		.symbolName = "kernel",
	};

	callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH_EX, &data);
	data.callbackSite = CUPTI_API_EXIT;
	callback(NULL, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH_EX, &data);
	assert_int_equal(atomic_load(&r->gate.others), 0);
	assert_int_equal(n_opened, 0);
}

LAUNCHES_TEST(a_copy_within_a_copy_is_a_part_of_it)
{
	enter(COPY);
	enter(COPY);
	leave(COPY, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&r->gate.others), 1);
	leave(COPY, CUDA_SUCCESS);
	assert_int_equal(atomic_load(&r->gate.others), 0);
	assert_false(atomic_load(&r->gate.untracked)); /* all have been seen from their beginning */
	enter(LAUNCH);
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(n_closed, 1);
}

/* --- contexts --- */

static void destroy_context(void)
{
	const CUpti_ResourceData data = { .context = CONTEXT };

	callback(NULL, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		 &data);
}

/* What is measured of it must be let go of before; a new one may have its handle. */
LAUNCHES_TEST(a_context_that_ends_lets_go)
{
	enter(LAUNCH);
	destroy_context(); /* by who launches into it: nothing to wait for */
	leave(LAUNCH, CUDA_SUCCESS);
	assert_int_equal(n_closed, 1);
	r->object = (void *)r;
	destroy_context();
	r->object = NULL;
	assert_int_equal(n_disabled, 1);
	assert_null(atomic_load(&r->context));
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_int_equal(atomic_load(&c->n_contexts), 0);
	assert_null(contexts_known(c, CONTEXT));
	assert_ptr_not_equal(contexts_find(c, CONTEXT), r);
	assert_int_equal(atomic_load(&c->n_contexts), 1);
}

/* Its lock may be held over a call that waits for what the driver holds just now. */
LAUNCHES_TEST(a_context_does_not_wait_for_ever_for_its_end)
{
	pthread_t thread = begin_hold("cuptiRangeProfilerStop", 6 * CLOCK_NS_PER_S);

	r->object = (void *)r;
	destroy_context();
	assert_false(atomic_load(&holder.gone));
	assert_int_equal(n_disabled, 0);
	assert_int_equal(atomic_load(&c->n_contexts), 0);
	assert_ptr_not_equal(contexts_find(c, CONTEXT), r);
	pthread_join(thread, NULL);
	r->object = NULL;
}

static void note_act(void *unused)
{
	(void)unused;
	assert_string_equal(atomic_load(&r->gate.call),
			    "a call"); /* for who waits, and for the watcher */
	assert_true(atomic_load(&r->gate.shut));
}

/* Until all have, and no thread is at one of them, the capture is not over. */
LAUNCHES_TEST(a_capture_is_over_when_all_contexts_are)
{
	struct ranges *other = contexts_find(c, (CUcontext)(uintptr_t)0x30);
	pthread_t thread;

	r->object = other->object = (void *)r;
	r->guard.marks[0] = r->guard.marks[1] = (CUevent)(uintptr_t)1;
	stubborn = r;
	assert_false(contexts_retire(c));
	assert_int_equal(n_disabled, 1);
	assert_int_equal(n_destroyed, 0);
	stubborn = other;
	assert_false(contexts_retire(c));
	stubborn = NULL;
	thread = begin_hold(NULL, 300 * MS);
	if (contexts_while_quiet(c, "a call", note_act, NULL) || contexts_retire(c)) {
		assert_true(atomic_load(&holder.gone));
	}
	pthread_join(thread, NULL);
	assert_true(contexts_while_quiet(c, "a call", note_act, NULL));
	assert_true(contexts_retire(c));
	assert_int_equal(n_destroyed, 2);
	r->object = other->object = NULL;
}

/* What does not end is not waited for, and what was measured is counted. */
LAUNCHES_TEST(who_does_not_let_go_is_left)
{
	r->object = (void *)r;
	r->state = RANGES_STARTED;
	r->batch = deliver_new_batch(&c->deliver, 5);
	r->batch->n = 3;
	stubborn = r;
	contexts_let_go(c);
	assert_int_equal(atomic_load(&c->counters.failed), 3);
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_null(r->batch);
	r->object = NULL;
}

static bool disable_if_it_may_block(struct capture *capture, struct ranges *ranges)
{
	bool may = guard_may_block(capture, ranges, false);

	n_disabled += may;
	return may;
}

/* Its thread was ended in it, or has left it by a signal's handler that exits. */
LAUNCHES_TEST(a_call_that_never_returns_costs_no_batch)
{
	const struct method careful = { open_one, close_one, end_all, disable_if_it_may_block };

	c->method = &careful;
	enter(COPY);
	r->object = (void *)r;
	r->state = RANGES_STARTED;
	assert_true(state_move(&c->deliver.state, CAPTURE_STOPPING));
	contexts_let_go(c);
	assert_int_equal(n_disabled, 1);
	assert_int_not_equal(r->state, RANGES_BROKEN);
	r->object = NULL;
	r->state = RANGES_OFF;
	leave(COPY, CUDA_SUCCESS);
	c->method = &method;
}

/* The handler exits, and its thread holds the lock for ever. */
LAUNCHES_TEST(what_is_queued_goes_out_though_a_lock_is_never_released)
{
	uint64_t begin_ns = clock_now_ns();

	lock_acquire(&c->trace.lock);
	trace_flush(c, true);
	assert_true(clock_now_ns() - begin_ns < 30 * CLOCK_NS_PER_S);
	lock_release(&c->trace.lock);
}
