/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/guard_fixture.h"

/* When ranges are opened and closed, and how long a program is kept waiting for that. */

/* --- who is asked --- */

static void one_stream_of_one_context_is_not_asked(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		assert_true(may_open(0, i));
		assert_true(may_close(0, i, 1000 * MS));
	}
	assert_int_equal(gpu.n_asked, 0);
}

/* Kernels on two GPUs may wait for each other. */
static void with_two_contexts_a_kernel_is_waited_for(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	c.n_contexts = 2;
	assert_true(may_open(0, 1));
	assert_true(may_close(0, 1, 5 * MS));
	assert_true(made_clock.now_ns >= began_ns + 5 * MS);
	assert_int_equal(count_notices(), 0);
}

static void who_has_ended_often_enough_is_believed(void **state)
{
	unsigned asked;

	(void)state;
	streams_add(&r.guard.streams, STREAM(1)); /* another one, which is not used */
	for (unsigned i = 0; i < 4; i++) {
		asked = gpu.n_asked;
		assert_true(may_close(0, 1, MS));
		assert_true(gpu.n_asked > asked);
	}
	asked = gpu.n_asked;
	assert_true(may_close(0, 1, 1000 * MS));
	assert_int_equal(gpu.n_asked, asked);
}

/* Of several passes some wait for the GPU when a range begins and ends: a launch is chosen for
 * r.pass, and measured in r.measured_pass, from which the next one differs once a batch is full. */
static void each_pass_is_asked_for_as_it_waits(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
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

static void a_range_is_not_opened_beside_other_streams_work(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	assert_true(may_open(0, 1));
	gpu.ends_ns[1] = made_clock.now_ns + 3 * MS;
	guard_disturb(&r, &(struct guard_work){ STREAM(1), true });
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns >= began_ns + 3 * MS);
}

/* Its own stream's work comes before it anyway, unless that may wait for another stream's. */
static void work_of_its_own_stream_is_waited_for_where_there_are_several(void **state)
{
	uint64_t began_ns;

	(void)state;
	streams_add(&r.guard.streams, STREAM(1));
	gpu.ends_ns[0] = made_clock.now_ns + 5 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	began_ns = made_clock.now_ns;
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns < began_ns + MS);
	guard_disturb(&r, &(struct guard_work){ STREAM(1), false }); /* a copy */
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns < began_ns + MS);
	guard_disturb(&r, &(struct guard_work){ STREAM(1), true });
	assert_true(may_open(0, 1));
	assert_true(made_clock.now_ns >= began_ns + 5 * MS);
}

static void streams_that_capture_a_graph_are_not_asked(void **state)
{
	(void)state;
	c.n_contexts = 2;
	c.stream_captures.n = 1;
	assert_false(may_open(0, 1));
	assert_false(may_close(0, 1, 0));
	assert_false(guard_may_release(&c, &r));
	assert_false(guard_is_quiet(&c, &r, true));
	assert_int_equal(gpu.n_asked, 0);
}

/* --- who is let in --- */

static void who_is_shut_out_has_not_begun(void **state)
{
	const struct guard_work work = { STREAM(1), true };

	(void)state;
	gate_shut(&r.gate);
	assert_false(gate_other_begins(&r.gate, false));
	assert_true(may_open(0, 1));
	assert_false(gate_is_disturbed(&r.gate));
	gate_let_in(&r.gate);
	assert_true(gate_other_begins(&r.gate, false));
	assert_true(gate_is_disturbed(&r.gate));
	guard_other_ends(&r, &work);
}

/* What was begun anyway spoils the range, and then everybody else may as well. */
static void who_insists_opens_the_door(void **state)
{
	const struct guard_work work = { STREAM(1), true };

	(void)state;
	gate_shut(&r.gate);
	assert_true(gate_other_begins(&r.gate, true));
	assert_true(gate_other_begins(&r.gate, false));
	guard_other_ends(&r, &work);
	guard_other_ends(&r, &work);
	gate_shut(&r.gate);
	assert_false(gate_other_begins(&r.gate, false));
}

/* A call that waits for the GPU would wait for what is let in, and that for the next launch. */
static void nobody_insists_while_the_profiler_waits(void **state)
{
	const struct guard_work work = { STREAM(1), true };
	struct guard *g = &r.guard;

	(void)state;
	gate_shut(&r.gate);
	assert_true(guard_may_block(&c, &r, false));
	assert_false(gate_other_begins(&r.gate, true));
	gate_unblock(&r.gate);
	assert_true(gate_other_begins(&r.gate, true));
	assert_false(guard_may_block(&c, &r, true)); /* it may give its work at any time */
	guard_other_ends(&r, &work);
	assert_false(guard_may_block(&c, &r, true)); /* so may others, since then */
	gate_shut(&r.gate);
	assert_true(guard_may_block(&c, &r, true));
	gate_unblock(&r.gate);
	gpu.ends_ns[1] = made_clock.now_ns + 60000 * MS;
	streams_touch(&g->streams, STREAM(1));
	assert_false(guard_may_block(&c, &r, false));
	assert_true(
		gate_other_begins(&r.gate, true)); /* who did not come to wait keeps nobody out */
	guard_other_ends(&r, &work);
}

/* At the end of a capture calls may go unnoticed, one that seems to be under way for ever too. */
static void what_goes_unnoticed_at_the_end_is_not_waited_for(void **state)
{
	(void)state;
	assert_true(gate_other_begins(&r.gate, false));
	assert_false(guard_may_block(&c, &r, true));
	c.deliver.state = CAPTURE_CLOSING;
	assert_true(guard_may_block(&c, &r, true));
}

/* What was let in beside a range may wait for what is launched after it, which would wait for the
 * range's end, and that for what was let in. */
static void a_range_is_not_closed_beside_what_was_let_in(void **state)
{
	const struct guard_work work = { STREAM(1), true };
	struct guard *g = &r.guard;

	(void)state;
	for (int launched = 0; launched < 2; launched++) {
		const struct guard_launch l = launch(0, 1);

		gate_shut(&r.gate);
		assert_true(may_open(0, 1));
		assert_true(gate_other_begins(&r.gate, true));
		gpu.ends_ns[1] = made_clock.now_ns + 60000 * MS;
		guard_other_ends(&r, &work);
		assert_false(guard_may_close(&c, &r, &l, launched));
		assert_true(g->holds);
		assert_true(atomic_load(&r.gate.shut));
		assert_false(guard_may_release(&c, &r));
		made_clock.now_ns += 60000 * MS;
		assert_true(guard_may_release(&c, &r));
		g->holds = r.gate.disturbed = false;
		gate_let_in(&r.gate);
	}
	assert_int_equal(count_notices(), 0); /* the kernel itself was never late */
}

static void calls_under_way_are_waited_for_briefly(void **state)
{
	const struct guard_work work = { STREAM(0), false };
	struct guard *g = &r.guard;
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	assert_true(gate_other_begins(&r.gate, false));
	assert_false(may_open(0, 1));
	assert_in_range(made_clock.now_ns - began_ns, MS / 10, MS);
	assert_true(guard_take_wait(g).waited_ns > MS / 10);
	guard_other_ends(&r, &work);
	assert_true(may_open(0, 1));
}

/* --- what waiting costs --- */

static void expect_wait(uint64_t waited_ns, uint64_t stalled_ns)
{
	const uint64_t look_ns = MS / 4; /* it is asked now and then */
	struct guard_wait wait = guard_take_wait(&r.guard);

	assert_in_range(wait.waited_ns, waited_ns, waited_ns + look_ns);
	assert_in_range(wait.stalled_ns, stalled_ns, stalled_ns + look_ns);
	wait = guard_take_wait(&r.guard);
	assert_int_equal(wait.waited_ns, 0);
	assert_int_equal(wait.stalled_ns, 0);
}

static void give_work(unsigned stream, uint64_t takes_ns)
{
	gpu.ends_ns[stream] = made_clock.now_ns + takes_ns;
	guard_disturb(&r, &(struct guard_work){ STREAM(stream), true });
}

/* One stream works off what it has, and nothing is lost but the time until somebody looks. */
static void one_stream_does_not_stand_while_it_is_waited_for(void **state)
{
	(void)state;
	c.passes.may_block[0] = true;
	assert_true(may_open(0, 1));
	expect_wait(0, 0);
	give_work(0, 5 * MS);
	assert_true(may_open(0, 1));
	assert_true(may_close(0, 1, 3 * MS));
	expect_wait(8 * MS, 0);
}

static void streams_that_are_done_stand_until_all_are(void **state)
{
	(void)state;
	assert_true(may_open(0, 1)); /* and then they are several */
	give_work(0, 2 * MS);
	give_work(1, 7 * MS);
	give_work(2, 4 * MS);
	assert_true(may_open(0, 1));
	expect_wait(7 * MS, 5 * MS);
	assert_true(may_close(0, 1, 3 * MS)); /* which the others stand as well */
	expect_wait(3 * MS, 3 * MS);
	assert_true(may_open(0, 1)); /* nobody had anything to do */
	assert_true(may_close(0, 1, 3 * MS));
	expect_wait(3 * MS, 0);
}

/* Who comes with work and is not let in stands as well, if there is none under way in that stream.
 */
static void who_is_not_let_in_stands(void **state)
{

	(void)state;
	c.passes.may_block[0] = true;
	assert_true(may_open(0, 1));
	give_work(0, 5 * MS);
	assert_false(guard_begin_stall(&r, STREAM(0)));
	assert_true(may_open(0, 1));
	expect_wait(5 * MS, 0);
	give_work(0, 5 * MS);
	assert_true(guard_begin_stall(&r, STREAM(1)));
	assert_true(may_open(0, 1));
	expect_wait(5 * MS, 5 * MS);
	assert_true(may_close(0, 1, 3 * MS));
	expect_wait(3 * MS, 3 * MS);
	guard_end_stall(&r);
	give_work(0, 5 * MS);
	assert_true(may_open(0, 1));
	expect_wait(5 * MS, 0);
	assert_true(guard_begin_stall(&r, NULL)); /* it is not known which */
	guard_end_stall(&r);
	assert_int_equal(atomic_load(&r.gate.stalled), 0);
}

/* Default streams of threads can only be asked all together. */
static void streams_that_cannot_be_told_apart_stand_all_the_time(void **state)
{
	(void)state;
	assert_true(may_open(0, 1));
	streams_add(&r.guard.streams, CU_STREAM_PER_THREAD);
	give_work(0, 4 * MS);
	assert_true(may_open(0, 1));
	expect_wait(4 * MS, 4 * MS);
}

static void what_was_waited_for_in_vain_is_told_as_well(void **state)
{
	(void)state;
	assert_true(may_open(0, 1));
	give_work(0, MS);
	give_work(1, 60000 * MS);
	assert_false(may_open(0, 1));
	expect_wait(2000 * MS, 2000 * MS);
	gpu.ends_ns[1] = 0;
	assert_true(may_open(0, 1));
	guard_take_wait(&r.guard);
	assert_false(may_close(0, 2, 60000 * MS)); /* alone, but the thread cannot go on */
	expect_wait(10 * MS, 10 * MS);
}

/* The capture is over, and others are shut out. */
static void what_is_under_way_is_drained_with_patience(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
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

static void patience_is_long_once_and_short_then(void **state)
{
	uint64_t began_ns = made_clock.now_ns, waited_ns;

	(void)state;
	c.n_contexts = 2;
	assert_false(may_close(0, 1, 60000 * MS));
	waited_ns = made_clock.now_ns - began_ns;
	assert_true(waited_ns > 1900 * MS && waited_ns < 2100 * MS);
	assert_int_equal(count_notices(), 1);
	assert_true(r.guard.holds);
	began_ns = made_clock.now_ns;
	assert_false(may_close(0, 2, 60000 * MS)); /* another one */
	waited_ns = made_clock.now_ns - began_ns;
	assert_true(waited_ns > 5 * MS && waited_ns < 20 * MS);
	assert_int_equal(count_notices(), 2);
	began_ns = made_clock.now_ns;
	assert_false(may_close(0, 1, 60000 * MS)); /* it is not waited for again */
	assert_true(made_clock.now_ns - began_ns < MS);
	assert_int_equal(count_notices(), 2);
}

/* What is left of the first ones is less by what was waited in vain. */
static void patience_is_spent(void **state)
{
	(void)state;
	assert_int_equal(gate_patience_ns(&c.patience), 2000 * MS);
	gate_spend(&c.patience, 1500 * MS);
	assert_int_equal(gate_patience_ns(&c.patience), 500 * MS);
	gate_spend(&c.patience, 495 * MS);
	assert_int_equal(gate_patience_ns(&c.patience), 10 * MS);
	gate_spend(&c.patience, 1000 * MS);
	assert_int_equal(gate_patience_ns(&c.patience), 10 * MS);
}

static void a_collective_is_not_waited_for_where_there_are_several_gpus(void **state)
{
	struct guard_launch l = launch(0, 1);
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	c.n_contexts = 2;
	l.collective = true;
	gpu.ends_ns[0] = made_clock.now_ns + 100 * MS;
	assert_false(guard_may_close(&c, &r, &l, true));
	assert_true(made_clock.now_ns - began_ns < MS);
	assert_int_equal(count_notices(), 0);
}

static uint64_t time_quiet(void)
{
	uint64_t began_ns = made_clock.now_ns;

	assert_false(guard_is_quiet(&c, &r, true));
	return made_clock.now_ns - began_ns;
}

/* Of a GPU that always has work a launch asks, and goes on; once a second it waits a moment. */
static void who_has_waited_in_vain_looks_from_then_on(void **state)
{
	(void)state;
	gpu.ends_ns[0] = made_clock.now_ns + 60000 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_in_range(time_quiet(), 1900 * MS, 2100 * MS);
	assert_in_range(time_quiet(), 9 * MS, 12 * MS); /* that was more than a second */
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 5; k++) {
			assert_in_range(time_quiet(), 0, MS);
			made_clock.now_ns += 100 * MS;
		}
		made_clock.now_ns += 600 * MS;
		assert_in_range(time_quiet(), 9 * MS, 12 * MS);
	}
	gpu.ends_ns[0] = 0;
	assert_true(guard_is_quiet(&c, &r, true));
	gpu.ends_ns[0] = made_clock.now_ns + 5 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(guard_is_quiet(&c, &r, true)); /* that is waited for again */
}

/* One that was left open while a graph was captured is told of when it is to be closed. */
static void a_held_kernel_that_does_not_end_is_a_suspect(void **state)
{
	struct guard_launch l = launch(0, 1);
	char name[] = "kernel";

	(void)state;
	c.n_contexts = 2;
	c.stream_captures.n = 1;
	l.name = name;
	gpu.ends_ns[0] = made_clock.now_ns + 1000 * MS;
	assert_false(guard_may_close(&c, &r, &l, true));
	name[0] = 0; /* whose it is */
	assert_string_equal(r.guard.held.name, "kernel");
	assert_int_equal(count_notices(), 0);
	c.stream_captures.n = 0;
	assert_false(guard_may_release(&c, &r));
	assert_int_equal(count_notices(), 1);
	made_clock.now_ns += 1000 * MS;
	assert_true(guard_may_release(&c, &r));
	r.guard.holds = false;
}

/* It ends after all: it was late. When something else was given to the GPU meanwhile, that may have
 * been what it had waited for. */
static void hold_and_release(bool disturbed)
{
	c.n_contexts = 2;
	assert_false(may_close(0, 1, 10000 * MS));
	if (disturbed) {
		guard_disturb(&r, &(struct guard_work){ STREAM(0), false });
	}
	assert_false(guard_may_release(&c, &r));
	made_clock.now_ns += 20000 * MS;
	assert_true(guard_may_release(&c, &r));
	r.guard.holds = r.gate.disturbed = false;
}

static void who_was_late_is_waited_for_again(void **state)
{
	(void)state;
	hold_and_release(false);
	assert_true(may_close(0, 1, 5 * MS));
	assert_int_equal(count_notices(), 1);
}

static void who_may_have_waited_for_other_work_stays_a_suspect(void **state)
{
	(void)state;
	hold_and_release(true);
	assert_false(may_close(0, 1, 5 * MS));
	assert_int_equal(count_notices(), 1);
}

/* --- marks --- */

static void mark_launches(unsigned n)
{
	const struct guard_launch l = launch(0, 1);

	r.room = 2 * GUARD_MARKS;
	for (batch.n = 1; batch.n <= n; batch.n++) {
		guard_mark(&c, &r, &l);
	}
}

/* The GPU works off what it was given, which takes longer than anybody would wait for one kernel.
 */
static void patience_begins_anew_while_the_gpu_moves(void **state)
{
	(void)state;
	mark_launches(20);
	assert_int_equal(gpu.n_recorded, 10);
	gpu.begin_ns = made_clock.now_ns;
	gpu.moves_each_ms = 1000;
	gpu.ends_ns[0] = made_clock.now_ns + 11500 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_true(guard_is_quiet(&c, &r, true));
}

static void patience_ends_when_the_gpu_stands_still(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	mark_launches(20);
	gpu.ends_ns[0] = made_clock.now_ns + 11500 * MS;
	streams_touch(&r.guard.streams, STREAM(0));
	assert_false(guard_is_quiet(&c, &r, true));
	assert_true(made_clock.now_ns - began_ns < 2500 * MS);
}

static void each_batch_has_its_marks(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		mark_launches(2 * GUARD_MARKS);
		assert_int_equal(gpu.n_recorded, i * GUARD_MARKS);
		assert_int_equal(gpu.n_events, GUARD_MARKS);
	}
}

/* --- names --- */

static void collectives_are_known_by_their_names(void **state)
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

	(void)state;
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
	r.context = (CUcontext)&r;
	batch.n = 1;
	r.last_launch_ns = made_clock.now_ns;
	assert_true(may_open(0, 1));
	assert_true(may_close(0, 1, takes_ns));
}

/* Few launches are paid for, or wanted, of a program whose GPU always has work, in the stream of
 * that launch as well. */
static void a_gpu_at_work_does_not_stand_still(void **state)
{
	(void)state;
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

static void what_does_not_end_is_told_once(void **state)
{
	(void)state;
	measure_last(1000 * CLOCK_NS_PER_S);
	for (int i = 0; i < 300; i++) {
		made_clock.now_ns += 100 * MS;
		watch_look(&c);
		assert_true(i > 95 || count_notices() == 0);
		assert_true(i < 105 || count_notices() == 1);
	}
}

/* It is let go of, since it may wait for the program's next launch: the capture is over. */
static void a_call_that_does_not_return_is_told_once(void **state)
{
	(void)state;
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
static void a_call_is_not_lost_by_a_stop_of_the_process(void **state)
{
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		GUARD_TEST(one_stream_of_one_context_is_not_asked),
		GUARD_TEST(with_two_contexts_a_kernel_is_waited_for),
		GUARD_TEST(who_has_ended_often_enough_is_believed),
		GUARD_TEST(each_pass_is_asked_for_as_it_waits),
		GUARD_TEST(a_range_is_not_opened_beside_other_streams_work),
		GUARD_TEST(work_of_its_own_stream_is_waited_for_where_there_are_several),
		GUARD_TEST(streams_that_capture_a_graph_are_not_asked),
		GUARD_TEST(who_is_shut_out_has_not_begun),
		GUARD_TEST(who_insists_opens_the_door),
		GUARD_TEST(nobody_insists_while_the_profiler_waits),
		GUARD_TEST(what_goes_unnoticed_at_the_end_is_not_waited_for),
		GUARD_TEST(a_range_is_not_closed_beside_what_was_let_in),
		GUARD_TEST(calls_under_way_are_waited_for_briefly),
		GUARD_TEST(one_stream_does_not_stand_while_it_is_waited_for),
		GUARD_TEST(streams_that_are_done_stand_until_all_are),
		GUARD_TEST(who_is_not_let_in_stands),
		GUARD_TEST(streams_that_cannot_be_told_apart_stand_all_the_time),
		GUARD_TEST(what_was_waited_for_in_vain_is_told_as_well),
		GUARD_TEST(what_is_under_way_is_drained_with_patience),
		GUARD_TEST(patience_is_long_once_and_short_then),
		GUARD_TEST(patience_is_spent),
		GUARD_TEST(a_collective_is_not_waited_for_where_there_are_several_gpus),
		GUARD_TEST(who_has_waited_in_vain_looks_from_then_on),
		GUARD_TEST(a_held_kernel_that_does_not_end_is_a_suspect),
		GUARD_TEST(who_was_late_is_waited_for_again),
		GUARD_TEST(who_may_have_waited_for_other_work_stays_a_suspect),
		GUARD_TEST(patience_begins_anew_while_the_gpu_moves),
		GUARD_TEST(patience_ends_when_the_gpu_stands_still),
		GUARD_TEST(each_batch_has_its_marks),
		GUARD_TEST(a_gpu_at_work_does_not_stand_still),
		GUARD_TEST(what_does_not_end_is_told_once),
		GUARD_TEST(a_call_that_does_not_return_is_told_once),
		GUARD_TEST(a_call_is_not_lost_by_a_stop_of_the_process),
		cmocka_unit_test(collectives_are_known_by_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
