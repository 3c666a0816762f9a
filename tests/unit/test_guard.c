/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guard_fixture.h"

/* When ranges are opened and closed, and how long a program is kept waiting for that. */

/* --- who is asked --- */

/* Of several passes some wait for the GPU when a range begins and ends: r.pass is
 * the next launch's, and differs from r.measured_pass, the batch's, once the batch is full. */
GUARD_TEST(each_pass_is_asked_for_as_it_waits)
{
	uint64_t began_ns = made_clock.now_ns;

	c.passes.may_block[1] = true;
	r.pass = 0;
	r.measured_pass = 1;
	assert_true(may_open(0, 1));
	assert_int_equal(gpu.n_asked, 0);
	r.pass = 1;
	r.measured_pass = 0;
	assert_true(may_close(0, 1, 5 * MS)); /* the batch is full now */
	assert_int_equal(gpu.n_asked, 0);
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns >= began_ns + 5 * MS);
	r.pass = 0;
	r.measured_pass = 1;
	for (unsigned i = 0; i < 10; i++) { /* however often it has ended */
		began_ns = made_clock.now_ns;
		assert_true(may_close(0, 1, 5 * MS));
		assert_true(made_clock.now_ns >= began_ns + 5 * MS);
	}
}

/* Its own stream's work comes before it anyway, unless that may wait for another stream's. */
GUARD_TEST(work_of_its_own_stream_is_waited_for_where_there_are_several)
{
	uint64_t began_ns;

	streams_add(&r.guard.streams, STREAM(1));
	gpu.ends_ns[0] = made_clock.now_ns + 300 * US;
	streams_touch(&r.guard.streams, STREAM(0));
	began_ns = made_clock.now_ns;
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns < began_ns + 100 * US);
	guard_disturb(&r, &(struct guard_work){ STREAM(1), false }); /* a copy */
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns < began_ns + 100 * US);
	guard_disturb(&r, &(struct guard_work){ STREAM(1), true });
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns >= began_ns + 300 * US);
}

/* --- who is let in --- */

/* A call that waits for the GPU would wait for what is let in, and that for the next launch. */
GUARD_TEST(nobody_insists_while_the_profiler_waits)
{
	const struct guard_work work = { STREAM(1), true };
	struct guard *g = &r.guard;

	gate_shut(&r.gate);
	assert_true(guard_may_block(&c, &r, false));
	assert_false(gate_other_begins(&r.gate, true));
	gate_unblock(&r.gate);
	assert_true(gate_other_begins(&r.gate, true));
	assert_false(guard_may_block(&c, &r, true)); /* it may give its work at any time */
	guard_disturb(&r, &work);
	gate_other_ends(&r.gate);
	assert_false(guard_may_block(&c, &r, true)); /* so may others, since then */
	gate_shut(&r.gate);
	assert_true(guard_may_block(&c, &r, true));
	gate_unblock(&r.gate);
	gpu.ends_ns[1] = made_clock.now_ns + 60000 * MS;
	streams_touch(&g->streams, STREAM(1));
	assert_false(guard_may_block(&c, &r, false));
	assert_true(
		gate_other_begins(&r.gate, true)); /* who did not come to wait keeps nobody out */
	guard_disturb(&r, &work);
	gate_other_ends(&r.gate);
}

/* At the end of a capture calls may go unnoticed, one that seems to be under way for ever too. */
GUARD_TEST(what_goes_unnoticed_at_the_end_is_not_waited_for)
{
	assert_true(gate_other_begins(&r.gate, false));
	assert_false(guard_may_block(&c, &r, true));
	gate_unwatch(&r.gate);
	assert_true(guard_may_block(&c, &r, true));
}

/* What was let in beside a range may wait for what is launched after it, which would wait for the
 * range's end, and that for what was let in. */
GUARD_TEST(a_range_is_not_closed_beside_what_was_let_in)
{
	const struct guard_work work = { STREAM(1), true };
	struct guard *g = &r.guard;

	for (int launched = 0; launched < 2; launched++) {
		const struct guard_launch l = launch(0, 1);

		gate_shut(&r.gate);
		assert_true(may_open(0, 1));
		assert_true(gate_other_begins(&r.gate, true));
		gpu.ends_ns[1] = made_clock.now_ns + 60000 * MS;
		guard_disturb(&r, &work);
		gate_other_ends(&r.gate);
		assert_false(guard_may_close(&c, &r, &l, launched));
		assert_true(g->holds);
		assert_true(atomic_load(&r.gate.shut));
		assert_false(guard_may_release(&c, &r, true));
		made_clock.now_ns += 60000 * MS;
		assert_true(guard_may_release(&c, &r, true));
		g->holds = r.gate.disturbed = false;
		gate_let_in(&r.gate);
	}
	assert_int_equal(count_notices(), 0); /* the kernel itself was never late */
}

GUARD_TEST(calls_under_way_are_waited_for_briefly)
{
	const struct guard_work work = { STREAM(0), false };
	uint64_t began_ns = made_clock.now_ns;

	assert_true(gate_other_begins(&r.gate, false));
	assert_false(may_open(0, 1));
	assert_in_range(made_clock.now_ns - began_ns, MS / 10, MS);
	guard_disturb(&r, &work);
	gate_other_ends(&r.gate);
	assert_true(may_open(0, 1));
}

static void give_work_of(unsigned stream, uint64_t takes_ns, unsigned work)
{
	gpu.ends_ns[stream] = made_clock.now_ns + takes_ns;
	guard_disturb(&r, &(struct guard_work){ STREAM(stream), true, WORK(work) });
}

static void give_work(unsigned stream, uint64_t takes_ns)
{
	give_work_of(stream, takes_ns, 0);
}

/* The capture is over, and others are shut out. */
GUARD_TEST(what_is_under_way_is_drained_with_patience)
{
	uint64_t began_ns = made_clock.now_ns;

	c.deliver.state = CAPTURE_STOPPING;
	give_work(0, 5 * MS);
	guard_drain(&c, &r);
	assert_in_range(made_clock.now_ns - began_ns, 5 * MS, 6 * MS);
	c.stream_captures.n = 1; /* nobody may ask */
	give_work(0, 60000 * MS);
	began_ns = made_clock.now_ns;
	guard_drain(&c, &r);
	assert_in_range(made_clock.now_ns - began_ns, 0, MS);
	c.stream_captures.n = 0;
	guard_drain(&c, &r);
	assert_in_range(made_clock.now_ns - began_ns, 2000 * MS, 2010 * MS);
	assert_int_equal(gate_patience_ns(&c.patience), 10 * MS);
}

/* --- what does not end --- */

static void use_several(void)
{
	streams_add(&r.guard.streams, STREAM(1));
	r.guard.several = true;
}

static uint64_t time_close(unsigned work, uint64_t takes_ns, bool expected)
{
	uint64_t began_ns = made_clock.now_ns;

	assert_true(may_close(0, work, takes_ns) == expected);
	return made_clock.now_ns - began_ns;
}

static uint64_t time_open(unsigned stream, unsigned work, bool expected)
{
	uint64_t began_ns = made_clock.now_ns;

	assert_true(may_open(stream, work) == expected);
	return made_clock.now_ns - began_ns;
}

static uint64_t time_release(bool expected)
{
	uint64_t began_ns = made_clock.now_ns;

	assert_true(guard_may_release(&c, &r, true) == expected);
	if (expected) {
		r.guard.holds = r.gate.disturbed = false;
		gate_let_in(&r.gate);
	}
	return made_clock.now_ns - began_ns;
}

#define MOMENT_NS (400 * US)
#define LATER_NS (120 * US) /* until the clock is looked at */

/* A kernel that spins until the CPU sets a flag, and what is launched behind it: the CPU goes on
 * after a moment each, and after two such kernels at once. */
GUARD_TEST(the_cpu_is_kept_for_a_moment_only)
{
	use_several();
	for (unsigned i = 0; i < 20; i++) {
		uint64_t most_ns = i < 2 ? MOMENT_NS + LATER_NS : LATER_NS;

		assert_true(time_open(0, 1, true) < LATER_NS);
		streams_touch(&r.guard.streams, STREAM(0));
		assert_true(time_close(1, 100 * MS, false) < most_ns);
		assert_true(r.guard.holds);
		assert_true(r.guard.held_waited == (i < 2)); /* else its time holds no wait */
		guard_disturb(&r, &(struct guard_work){ STREAM(1), true, WORK(2) });
		assert_true(time_release(false) < most_ns);
		made_clock.now_ns += 20 * US;
		gpu.ends_ns[0] = made_clock.now_ns; /* the flag is set */
		gpu.passes_ns[1] = made_clock.now_ns;
		made_clock.now_ns += 20 * US;
		assert_true(time_release(true) < LATER_NS);
	}
	assert_int_equal(count_notices(), 1);
}

/* The same where that kernel has no range, and one behind it would have. */
GUARD_TEST(the_cpu_is_kept_for_a_moment_behind_what_has_no_range)
{
	use_several();
	for (unsigned i = 0; i < 20; i++) {
		uint64_t most_ns = i < 2 ? MOMENT_NS + LATER_NS : LATER_NS;

		gpu.ends_ns[0] = made_clock.now_ns + 100 * MS;
		guard_disturb(&r, &(struct guard_work){ STREAM(0), true, WORK(1) });
		guard_tell(&c, WORK(1), "kernel");
		assert_true(time_open(i % 2, 2, false) < most_ns);
		made_clock.now_ns += 20 * US;
		gpu.ends_ns[0] = gpu.passes_ns[1] = made_clock.now_ns;
	}
	assert_int_equal(count_notices(), 1);
}

/* With launches into one stream only it suffices that the kernel ends before another stream gets
 * work: then it is not asked any more. */
GUARD_TEST(who_ends_without_other_streams_is_believed)
{
	unsigned asked;

	streams_add(&r.guard.streams, STREAM(1)); /* another one, which is not used */
	for (unsigned i = 0; i < 4; i++) {
		assert_true(may_open(0, 1));
		assert_true(time_close(1, 100 * MS, false) < MOMENT_NS + LATER_NS);
		gpu.ends_ns[0] = gpu.passes_ns[1] = made_clock.now_ns;
		guard_disturb(&r, &(struct guard_work){ STREAM(0), true, WORK(2) });
		assert_true(time_release(true) < LATER_NS);
	}
	asked = gpu.n_asked;
	assert_true(time_close(1, 100 * MS, true) < LATER_NS);
	assert_int_equal(gpu.n_asked, asked);
	assert_int_equal(count_notices(), 0);
}

/* Another stream may have let it go. */
GUARD_TEST(who_ends_beside_other_streams_is_not)
{
	streams_add(&r.guard.streams, STREAM(1));
	for (unsigned i = 0; i < 10; i++) {
		assert_true(may_open(0, 1));
		assert_false(may_close(0, 1, 100 * MS));
		guard_disturb(&r, &(struct guard_work){ STREAM(1), false }); /* a fill */
		gpu.ends_ns[0] = gpu.passes_ns[1] = made_clock.now_ns;
		time_release(true);
	}
}

/* The time of a believed one contains the wait for another one all the same. */
GUARD_TEST(who_waits_for_the_cpu_is_not_counted_where_it_was_kept)
{
	who_ends_without_other_streams_is_believed(state);
	batch.n = 2;
	batch.launches = calloc(2, sizeof(*batch.launches));
	assert_true(may_close(0, 1, 100 * MS));
	assert_false(may_close(0, 3, 200 * MS));
	assert_int_equal(batch.launches[1].fate, LAUNCH_DISTURBED);
	free(batch.launches);
	batch.launches = NULL;
}

/* A kernel that ends while another launch waits has not waited for that launch's thread. */
GUARD_TEST(who_does_not_wait_for_the_cpu_is_counted_where_it_was_kept)
{
	who_ends_without_other_streams_is_believed(state);
	batch.n = 2;
	batch.launches = calloc(2, sizeof(*batch.launches));
	assert_true(may_close(0, 1, 100 * US));
	assert_true(may_close(0, 3, 300 * US));
	assert_int_equal(batch.launches[1].fate, LAUNCH_DONE);
	free(batch.launches);
	batch.launches = NULL;
}

/* One whose kernel ended while a launch waited has let nobody wait: the GPU had only paused. */
GUARD_TEST(who_ended_by_itself_is_counted)
{
	streams_add(&r.guard.streams, STREAM(1));
	assert_true(may_open(0, 1));
	streams_touch(&r.guard.streams, STREAM(0));
	assert_false(may_close(0, 1, 700 * US));
	gpu.passes_ns[1] = gpu.ends_ns[0];
	assert_true(time_release(true) > 100 * US);
	proofs = 4;
	batch.n = 2;
	batch.launches = calloc(2, sizeof(*batch.launches));
	assert_true(may_close(0, 1, 100 * MS));
	proofs = 0;
	assert_false(may_close(0, 3, 200 * MS));
	assert_int_equal(batch.launches[1].fate, LAUNCH_DONE);
	free(batch.launches);
	batch.launches = NULL;
}

/* A GPU that has work for long, of which launches ask again and again, ends it by itself. */
GUARD_TEST(who_asks_again_waits_for_longer)
{
	uint64_t waited_ns = 0;
	unsigned n = 0;

	use_several();
	give_work_of(1, 300 * MS, 5);
	gpu.passes_ns[1] = gpu.ends_ns[1];
	while (!may_open(0, 1)) {
		made_clock.now_ns += 100 * US;
		assert_true(++n < 15);
	}
	give_work_of(1, 300 * MS, 5);
	assert_in_range(time_open(0, 1, true), 290 * MS, 310 * MS);
	waited_ns = time_open(0, 1, true);
	assert_true(waited_ns < LATER_NS);
}

/* With metrics that wait within CUPTI, a function that has kept two launches gets no range. */
GUARD_TEST(within_cupti_a_suspect_gets_no_range)
{
	c.passes.may_block[0] = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_true(may_open(0, 1));
		assert_in_range(time_close(1, 100 * MS, false), 20 * MS, 21 * MS);
		gpu.ends_ns[0] = gpu.passes_ns[1] = made_clock.now_ns;
		time_release(true);
	}
	assert_int_equal(count_notices(), 0);
	assert_true(time_open(0, 1, false) < LATER_NS);
	assert_int_equal(count_notices(), 1);
	assert_true(time_open(0, 2, true) < LATER_NS);
}

static uint64_t time_quiet(void)
{
	uint64_t began_ns = made_clock.now_ns;

	assert_false(guard_is_quiet(&c, &r, true));
	return made_clock.now_ns - began_ns;
}

/* Of a GPU that always has work a launch asks, and goes on; once a second it waits a moment. */
GUARD_TEST(who_has_waited_in_vain_looks_from_then_on)
{
	uint64_t all_ns = 0;

	gpu.ends_ns[0] = made_clock.now_ns + 60000 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	for (int i = 0; i < 20; i++) {
		all_ns += time_quiet();
	}
	assert_in_range(all_ns, 500 * MS, 2000 * MS);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 5; k++) {
			assert_in_range(time_quiet(), 0, LATER_NS);
			made_clock.now_ns += 100 * MS;
		}
		made_clock.now_ns += 600 * MS;
		assert_in_range(time_quiet(), MOMENT_NS, 10 * MS);
	}
	gpu.ends_ns[0] = 0;
	assert_true(guard_is_quiet(&c, &r, true));
	gpu.ends_ns[0] = made_clock.now_ns + 300 * US;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(guard_is_quiet(&c, &r, true)); /* that is waited for again */
}

/* Of one that does not end for long the user hears without a second one. */
GUARD_TEST(a_held_kernel_that_does_not_end_is_a_suspect)
{
	struct guard_launch l = launch(0, 1);
	char name[] = "kernel";
	unsigned n = 0;

	c.n_contexts = 2;
	c.stream_captures.n = 1;
	l.name = name;
	gpu.ends_ns[0] = gpu.passes_ns[1] = made_clock.now_ns + 10000 * MS;
	assert_false(guard_may_close(&c, &r, &l, true));
	name[0] = 0; /* whose it is */
	assert_string_equal(r.guard.held.name, "kernel");
	assert_int_equal(count_notices(), 0);
	c.stream_captures.n = 0;
	assert_false(guard_may_release(&c, &r, false)); /* who does not launch does not wait */
	assert_int_equal(r.guard.in_vain, 0);
	r.guard.other = WORK(1); /* none was recorded behind it */
	r.guard.other_stream = STREAM(0);
	while (count_notices() == 0) {
		assert_false(guard_may_release(&c, &r, true));
		assert_true(++n < 20);
	}
	made_clock.now_ns += 10000 * MS;
	assert_true(guard_may_release(&c, &r, true));
	r.guard.holds = false;
}

/* --- marks --- */

static void mark_launches(unsigned n)
{
	const struct guard_launch l = launch(0, 1);

	r.size = 2 * GUARD_MARKS;
	for (batch.n = 1; batch.n <= n; batch.n++) {
		guard_mark(&c, &r, &l);
	}
	batch.n = n;
}

/* The GPU works off what it was given, which takes longer than anybody would wait for one kernel.
 */
GUARD_TEST(patience_begins_anew_while_the_gpu_moves)
{
	mark_launches(2 * GUARD_MARKS);
	assert_int_equal(gpu.n_recorded, GUARD_MARKS);
	gpu.begin_ns = made_clock.now_ns + 1000 * MS; /* what was launched before the first mark */
	gpu.moves_each_us = 300;
	gpu.ends_ns[0] = gpu.begin_ns + 33 * 300 * US;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(guard_is_quiet(&c, &r, true));
}

GUARD_TEST(each_batch_has_its_marks)
{
	for (unsigned i = 1; i <= 3; i++) {
		mark_launches(2 * GUARD_MARKS);
		assert_int_equal(gpu.n_recorded, i * GUARD_MARKS);
		assert_int_equal(gpu.n_events, GUARD_MARKS);
	}
}

/* --- names --- */

TEST(collectives_are_known_by_their_names)
{
	static const char *const names[] = {
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		"ncclKernel_Broadcast_RING_LL_Sum_int8_t",
		"nvshmemi_proxy_channels",
		"void vllm::cross_device_reduce_1stage<float, 2>",
		"one_shot_all_reduce_kernel",
		"two_shot_all_reduce_kernel",
		"multimem_all_reduce_kernel",
		"void deep_ep::internode::dispatch<8>",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(guard_name_is_collective(names[i]));
	}
	assert_false(guard_name_is_collective("void gemm<float>"));
	assert_false(guard_name_is_collective("reduce_kernel"));
}

/* --- what stands still --- */

/* The last launch for long that is measured. */
static void measure_last(uint64_t takes_ns)
{
	lock_init(&r.gate.lock, LOCK_CONTEXT);
	r.object = (void *)&r;
	batch.n = 1;
	r.last_launch_ns = made_clock.now_ns;
	assert_true(may_open(0, 1));
	assert_true(may_close(0, 1, takes_ns));
}

/* Few launches are wanted of a program whose GPU always has work, in the stream of
 * that launch as well. */
GUARD_TEST(a_gpu_at_work_does_not_stand_still)
{
	measure_last(50 * MS);
	for (int i = 0; i < 600; i++) {
		made_clock.now_ns += 100 * MS;
		gpu.ends_ns[0] = made_clock.now_ns + 300 * MS;
		gpu.ends_ns[1] = made_clock.now_ns + 1000 * MS;
		watch_look(&c);
		assert_int_equal(count_notices(), 0);
	}
	assert_int_equal(gpu.n_recorded, 1);
}

GUARD_TEST(what_does_not_end_is_told_once)
{
	measure_last(1000 * CLOCK_NS_PER_S);
	for (int i = 0; i < 300; i++) {
		made_clock.now_ns += 100 * MS;
		watch_look(&c);
		assert_true(i > 95 || count_notices() == 0);
		assert_true(i < 105 || count_notices() == 1);
	}
}

static bool is_told(const char *text)
{
	const struct buffer *b = &c.deliver.notes;

	return memmem(b->data + b->start, buffer_length(b), text, strlen(text)) != NULL;
}

/* A range that has not begun waits for what nobody told of, and everything waits for it; a kernel
 * in a range that has begun only runs on. */
GUARD_TEST(a_range_that_does_not_begin_stands_still)
{
	const struct guard_launch l = launch(0, 1);

	for (int begun = 0; begun < 2; begun++) {
		use_several();
		lock_init(&r.gate.lock, LOCK_CONTEXT);
		r.object = (void *)&r;
		batch.n = 1;
		r.last_launch_ns = made_clock.now_ns;
		assert_true(may_open(0, 1));
		gpu.ends_ns[0] = begun ? 0 : made_clock.now_ns + 1000 * CLOCK_NS_PER_S;
		guard_note_begin(&c, &r, &l);
		streams_touch(&r.guard.streams, STREAM(0));
		assert_false(may_close(0, 1, 1000 * CLOCK_NS_PER_S));
		for (int i = 0; i < 120; i++) {
			made_clock.now_ns += 100 * MS;
			watch_look(&c);
		}
		assert_true(is_told("a kernel has not ended") == begun);
		assert_true(is_told("the range of a kernel has not begun") == !begun);
		if (begun == 0) {
			end(state);
			begin(state);
		}
	}
}

/* What is closed waits with all others for a stream that seems to be idle. */
GUARD_TEST(streams_are_all_asked_before_it_is_told)
{
	streams_add(&r.guard.streams, STREAM(1));
	measure_last(100 * US);
	proofs = 4;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(may_close(0, 1, 1000 * CLOCK_NS_PER_S));
	gpu.ends_ns[1] = made_clock.now_ns + 1000 * CLOCK_NS_PER_S; /* nobody told of it */
	for (int i = 0; i < 120; i++) {
		made_clock.now_ns += 100 * MS;
		watch_look(&c);
	}
	assert_true(is_told("streams have waited for each other"));
}

/* It is let go of, since it may wait for the program's next launch: the capture is over. */
GUARD_TEST(a_call_that_does_not_return_is_told_once)
{
	gate_shut(&r.gate);
	assert_true(guard_may_block(&c, &r, false));
	r.gate.call_since_ns = made_clock.now_ns;
	for (int i = 0; i < 300; i++) {
		made_clock.now_ns += 100 * MS;
		r.gate.call = i < 50 ? NULL : "cuptiRangeProfilerStop";
		r.gate.call_since_ns = i == 50 ? made_clock.now_ns : r.gate.call_since_ns;
		watch_calls(&c);
		assert_int_equal(count_notices(), i >= 150);
		assert_int_equal(capture_is_measuring(&c), i < 150);
		assert_int_equal(atomic_load(&r.gate.shut), i < 150);
		assert_int_equal(atomic_load(&r.gate.blocking), i < 150);
	}
}

/* SIGSTOP, a debugger: its thread could not go on. */
GUARD_TEST(a_call_is_not_lost_by_a_stop_of_the_process)
{
	watch_calls(&c);
	made_clock.now_ns += 100 * MS;
	r.gate.call_since_ns = made_clock.now_ns;
	r.gate.call = "cuptiRangeProfilerStop";
	watch_calls(&c);
	made_clock.now_ns += 40 * CLOCK_NS_PER_S;
	for (int i = 0; i < 90; i++) {
		watch_calls(&c);
		assert_true(capture_is_measuring(&c));
		made_clock.now_ns += 100 * MS;
	}
	made_clock.now_ns += CLOCK_NS_PER_S;
	watch_calls(&c);
	assert_int_equal(count_notices(), 1);
}
