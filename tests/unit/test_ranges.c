/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/permission.h"
#include "client/agent/ranges.h"
#include "client/agent/ranges_setup.h"
#include "client/agent/slowdown.h"
#include "client/agent/times.h"
#include "tests/unit/ranges_gpu.h"

/* Batches, passes and images of contexts, by what CUPTI (ranges_gpu.h) is asked for, and by what is
 * handed over to be delivered. */

/* --- a capture of some contexts --- */

static struct capture c;
static struct ranges contexts[CONTEXTS];
static struct device_info devices[CONTEXTS];
static struct ranges *const r = &contexts[0];
static uint64_t n_launched;

static struct {
	size_t last_size[PASSES_MAX]; /* of batches, by pass */
	unsigned n_batches[PASSES_MAX];
	uint64_t n, n_disturbed;
	unsigned n_flushed; /* times that CUPTI was asked for kernels' times */
} delivered;

size_t contexts_list(struct capture *capture, struct ranges **ret)
{
	size_t n = atomic_load(&capture->n_contexts);

	for (size_t i = 0; i < n; i++) {
		ret[i] = &contexts[i];
	}
	return n;
}

struct device_info *devices_find(struct capture *capture)
{
	(void)capture;
	fail_msg("a device is looked for");
	return NULL;
}

bool times_begin(struct capture *capture)
{
	(void)capture;
	return true;
}

void activity_flush(struct activity *v)
{
	(void)v;
	delivered.n_flushed++;
}

void permission_last_refusal(struct refusal *ret)
{
	ret->code = 0;
}

static int begin(void **state)
{
	(void)state;
	gpu_begin();
	memset(&delivered, 0, sizeof(delivered));
	n_launched = 0;
	slowdown_forget();
	return 0;
}

static void add_context(uint32_t device)
{
	uint32_t i = atomic_load(&c.n_contexts);
	struct ranges *new = &contexts[i];

	memset(new, 0, sizeof(*new));
	lock_init(&new->gate.lock, LOCK_CONTEXT);
	guard_init(&new->guard);
	streams_add(&new->guard.streams, STREAM);
	ranges_init_turns(&c, new);
	new->context = (CUcontext)(uintptr_t)(i + 1);
	new->device = gpu.object[i].device = device;
	devices[i] = (struct device_info){ .index = device, .host.v = &gpu_profiler.host };
	lock_init(&devices[i].lock, LOCK_LEAF);
	new->info = &devices[i];
	list_append(&c.contexts, &new->link);
	atomic_store(&c.n_contexts, i + 1);
}

static uint32_t name(void *userdata)
{
	(void)userdata;
	return 1;
}

/* With a budget of so many millionths, which begins now; 0: without. */
static void capture(uint32_t passes, uint32_t ppm)
{
	static const char *names[PASSES_MAX] = { "m0",	"m1",  "m2",  "m3", "m4",  "m5",
						 "m6",	"m7",  "m8",  "m9", "m10", "m11",
						 "m12", "m13", "m14", "m15" };
	static const struct wire_agent_welcome welcome;
	const struct stratum_key key = { .kernel = 1 };
	struct choosing_options options = { .ppm = ppm, .passes = passes, .columns = 1 };
	uint32_t before = 0;

	memset(&c, 0, sizeof(c));
	c.profiler = &gpu_profiler;
	c.deliver.state = CAPTURE_MEASURING;
	gpu.n_passes = c.passes.n = passes;
	for (uint32_t i = 0; i < passes; i++) {
		c.passes.v[i].metrics = (struct wire_strings){ 1, &names[i] };
		options.may_block[i] = c.passes.may_block[i] = gpu.dear[i];
	}
	list_init(&c.contexts);
	lock_init(&c.lock, LOCK_LEAF);
	deliver_init(&c.deliver);
	c.deliver.welcome = &welcome;
	c.deliver.counters = &c.counters;
	assert_int_equal(choosing_init(&c.choosing, &options), 0);
	choosing_take(&c.choosing, &key, 0, &before, name, name, NULL);
	add_context(0);
}

/* What CUPTI has counted is of the pass by whose plan it will be evaluated, and all of it. */
static void check_batch(const struct batch *b)
{
	const struct image *image = (const void *)b->image;
	uint64_t pass = image->pass;

	assert_int_equal(image->n, b->n);
	assert_ptr_equal(b->plan, &c.passes.v[pass]);
	assert_int_equal(b->image_size, sizeof(*image) + image->capacity * gpu.bytes_a_range[pass]);
	for (size_t i = 0; i < b->n; i++) {
		assert_int_equal(b->launches[i].pass, pass);
		delivered.n_disturbed += b->launches[i].fate == LAUNCH_DISTURBED;
	}
	delivered.last_size[pass] = b->n;
	delivered.n_batches[pass]++;
	assert_true(delivered.n_flushed > 0);
	delivered.n_flushed--;
	delivered.n += b->n;
}

static void deliver(void)
{
	list_for_each_safe(l, &c.deliver.queue) {
		struct batch *b = list_entry(l, struct batch, link);

		list_remove(&b->link);
		check_batch(b);
		deliver_free_batch(&c.deliver, b);
	}
	c.deliver.queued_bytes = 0;
}

/* What another thread gives the GPU between a launch and the end of its range. */
static const struct guard_work *beside;

/* True: it was measured. */
static bool launch_in(struct ranges *where)
{
	static uint8_t proofs;
	const struct guard_launch g = {
		.stream = STREAM, .work = 2, .name = "kernel", .proofs = &proofs
	};
	uint32_t pass = where->pass;
	struct launch *l;
	bool measured;

	n_launched++;
	made_clock.now_ns += MS;
	measured = ranges_open(&c, where, &g, &l);
	if (measured) {
		*l = (struct launch){ .pass = (uint8_t)pass };
		gpu.at_work = gpu.at_work || gpu.gets_launched;
		gpu.gets_launched = false;
		if (beside) {
			assert_true(gate_other_begins(&where->gate, true));
			guard_other_ends(where, beside);
		}
		ranges_close(&c, where, &g, true);
	}
	deliver();
	return measured;
}

static bool launch(void)
{
	return launch_in(r);
}

static void launch_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(launch());
	}
}

/* Each launch has a record, or a reason why not. */
static void finish(void)
{
	size_t n = atomic_load(&c.n_contexts);

	for (size_t i = 0; i < n; i++) {
		assert_true(contexts[i].state == RANGES_BROKEN || ranges_disable(&c, &contexts[i]));
	}
	deliver();
	assert_int_equal(gpu.n_pushed, 0);
	assert_int_equal(delivered.n + atomic_load(&c.counters.unready) +
				 atomic_load(&c.counters.failed),
			 n_launched);
}

static int end(void **state)
{
	size_t n = atomic_load(&c.n_contexts);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		ranges_forget_images(&contexts[i]);
		guard_deinit(&contexts[i].guard);
		lock_deinit(&contexts[i].gate.lock);
		lock_deinit(&devices[i].lock);
	}
	choosing_deinit(&c.choosing);
	lock_deinit(&c.lock);
	return deliver_deinit(&c.deliver) ? 0 : -1;
}

static unsigned count_notices(void)
{
	unsigned n = 0;

	list_for_each(l, &c.deliver.notes) {
		n++;
	}
	return n;
}

/* --- images --- */

/* The first one is what the object is configured with: what has no room there is lost. */
static void images_have_room_for_the_batches_of_their_pass(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	launch_many(64 + 256 + 64 + 1);
	assert_int_equal(r->size, 256);
	assert_int_equal(r->images[0].ranges, 256);
	assert_int_equal(r->images[1].ranges, 256);
	assert_int_equal(r->images[2].ranges, 64);
	assert_int_equal(delivered.last_size[0], 64);
	assert_int_equal(delivered.last_size[1], 256);
	assert_int_equal(delivered.last_size[2], 64);
	finish();
}

static void a_pass_that_was_dear_keeps_its_image(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	gpu.dear[0] = gpu.dear[2] = false; /* as it turns out */
	launch_many(64);
	while (delivered.n_batches[2] < 2) {
		launch_many(1);
	}
	assert_int_equal(choosing_batch_size(&c.choosing, 2, r->size), r->size);
	assert_int_equal(r->size, 256);
	assert_int_equal(delivered.last_size[0], 256);
	assert_int_equal(delivered.last_size[2], 64);
	finish();
}

/* And what is told of the budget is what there is room for. */
static void the_budget_knows_how_long_a_batch_is(void **state)
{
	(void)state;
	gpu.dear[0] = gpu.dear[2] = true;
	capture(3, 500000);
	gpu.dear[0] = gpu.dear[2] = false;
	while (delivered.n_batches[1] < 2) {
		launch_many(1);
	}
	launch_many(1);
	assert_int_equal(r->measured_pass, 2);
	assert_int_equal(c.choosing.budget.room, 64);
	assert_int_equal(c.choosing.budget.pass, 2);
	finish();
}

static size_t bytes_of_all_images(size_t *ret_largest)
{
	size_t sum = 0;

	*ret_largest = 0;
	for (uint32_t i = 0; i < c.passes.n; i++) {
		sum += r->images[i].size;
		*ret_largest = r->images[i].size > *ret_largest ? r->images[i].size : *ret_largest;
	}
	return sum;
}

/* Of dear passes batches begin larger, if images are not too large for that. */
static void expect_first_size(size_t least, size_t most)
{
	size_t largest;

	launch_many(2 * 64);
	assert_in_range(r->size, least, most);
	assert_int_equal(r->images[0].ranges, r->size);
	if (r->size > BUDGET_SIZE_FIRST) {
		assert_true(bytes_of_all_images(&largest) <= RANGES_IMAGES_BYTES_MAX);
		assert_true(largest <= RANGES_IMAGE_BYTES_MAX);
	}
	finish();
}

static void large_images_make_first_batches_smaller(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	gpu.bytes_a_range[1] = 64 << 10;
	capture(3, 500000);
	expect_first_size(105, 112);
}

static void many_images_make_first_batches_smaller(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	for (size_t i = 0; i < PASSES_MAX; i++) {
		gpu.bytes_a_range[i] = 16 << 10;
	}
	capture(PASSES_MAX, 500000);
	expect_first_size(105, 112);
}

static void first_batches_have_a_least_size(void **state)
{
	(void)state;
	gpu.dear[0] = true;
	gpu.bytes_a_range[2] = 200 << 10;
	capture(3, 500000);
	expect_first_size(BUDGET_SIZE_FIRST, BUDGET_SIZE_FIRST);
}

/* A new object has another image, and begins with the first pass again. */
static void expect_growth(size_t first, size_t last)
{
	uint64_t until_ns = made_clock.now_ns + 4000 * CLOCK_NS_PER_S;
	size_t largest, size = 0;
	unsigned n = 0;

	while (made_clock.now_ns < until_ns) {
		made_clock.now_ns += 9 * MS;
		launch();
		assert_true(r->size >= size);
		n += r->size > size;
		size = r->size;
		assert_true(r->images[0].ranges == size);
		assert_true(size == first ||
			    (bytes_of_all_images(&largest) <= RANGES_IMAGES_BYTES_MAX &&
			     largest <= RANGES_IMAGE_BYTES_MAX));
	}
	assert_true(n > 1);
	assert_int_equal(gpu.n_enabled, n); /* one object each */
	assert_int_equal(size, last);
	for (uint32_t i = 0; i < c.passes.n; i++) {
		assert_int_equal(delivered.last_size[i], last);
		assert_in_range(delivered.n_batches[i] * c.passes.n * 10,
				8 * (delivered.n_batches[0] * c.passes.n),
				12 * (delivered.n_batches[0] * c.passes.n));
	}
	finish();
}

static void batches_of_several_passes_grow(void **state)
{
	(void)state;
	capture(3, 500000);
	expect_growth(64, 2048);
}

static void batches_grow_as_long_as_images_have_room(void **state)
{
	(void)state;
	gpu.bytes_a_range[1] = 32 << 10;
	capture(2, 500000);
	expect_growth(64, 223); /* of a head and 7 MiB */
}

static void without_a_budget_batches_grow_too(void **state)
{
	(void)state;
	gpu.bytes_a_range[0] = 32 << 10;
	capture(1, 0);
	expect_growth(64, 223);
}

/* --- turns --- */

/* From the last launch of a batch on they are chosen for the next one's pass; what that one has
 * cost is its own pass's. */
static void a_full_batch_gives_the_turn_away(void **state)
{
	(void)state;
	capture(3, 500000);
	for (uint32_t i = 0; i < 6; i++) {
		launch_many(63);
		assert_int_equal(r->pass, i % 3);
		assert_int_equal(c.choosing.budget.next, i % 3);
		launch_many(1);
		assert_int_equal(r->measured_pass, i % 3);
		assert_int_equal(r->pass, (i + 1) % 3);
		assert_int_equal(c.choosing.budget.next, (i + 1) % 3);
		assert_int_equal(c.choosing.budget.ranges[i % 3].n, 64 * (i / 3 + 1));
	}
	finish();
}

/* One that is full has given it away before. */
static void a_batch_that_ends_early_gives_it_away_once(void **state)
{
	uint64_t began_ns = made_clock.now_ns;

	(void)state;
	capture(3, 500000);
	launch_many(10);
	assert_in_range(r->batch_begin_ns, began_ns, made_clock.now_ns - 9 * MS);
	assert_true(ranges_flush(&c, r));
	assert_int_equal(r->pass, 1);
	launch_many(64);
	assert_int_equal(r->pass, 2);
	assert_true(ranges_flush(&c, r));
	assert_int_equal(r->pass, 2);
	assert_true(ranges_flush(&c, r)); /* of nothing */
	assert_int_equal(r->pass, 2);
	finish();
}

/* Contexts of a process that is over soon have not all measured the same. */
static void contexts_begin_with_different_passes(void **state)
{
	(void)state;
	capture(2, 500000);
	add_context(1);
	add_context(2);
	for (size_t i = 0; i < CONTEXTS; i++) {
		assert_int_equal(contexts[i].pass, i % 2);
		assert_true(launch_in(&contexts[i]));
		assert_int_equal(contexts[i].measured_pass, i % 2);
	}
	finish();
}

/* What CUPTI took, all together, but for ranges. */
static double noted_ns(void)
{
	const struct budget_cost *costs = c.choosing.budget.costs;

	return costs[BUDGET_START].total_ns + costs[BUDGET_FIRST_START].total_ns +
	       costs[BUDGET_STOP].total_ns;
}

static void expect_all_noted(void)
{
	double took = (double)gpu.profiling_ns, ranges = (double)gpu.ranges_ns;
	double noted = c.choosing.budget.costs[BUDGET_RANGE_CPU].total_ns;

	assert_true(noted_ns() >= took && noted_ns() < 1.001 * took);
	assert_true(noted >= ranges && noted < 1.1 * ranges);
}

/* A pass is left out by a turn without a range. */
static void a_pass_that_is_left_out_is_paid_for(void **state)
{
	(void)state;
	capture(3, 500000);
	r->pass = 2;
	launch_many(64);
	assert_int_equal(gpu.n_starts, 3);
	assert_int_equal(r->measured_pass, 2);
	launch_many(1);
	assert_int_equal(r->measured_pass, 0);
	assert_int_equal(delivered.last_size[2], 64);
	assert_int_equal(delivered.n_batches[0] + delivered.n_batches[1], 0);
	expect_all_noted();
	finish();
}

/* Another thread gives the GPU work between two of the calls, of which the next would wait. */
static void nobody_waits_between_passes_that_are_left_out(void **state)
{
	(void)state;
	capture(3, 500000);
	r->pass = 2;
	gpu.gets_work = r;
	assert_false(launch());
	assert_int_equal(gpu.n_starts, 1);
	assert_int_equal(r->state, RANGES_OFF);
	assert_null(r->batch);
	gpu.at_work = false;
	launch_many(64);
	assert_int_equal(gpu.n_starts, 3);
	launch_many(1);
	assert_int_equal(delivered.last_size[2], 64);
	assert_int_equal(atomic_load(&c.counters.unready), 1);
	expect_all_noted();
	finish();
}

/* Nor when a batch is full, or a context is new. */
static void nothing_is_started_while_the_gpu_works(void **state)
{
	(void)state;
	capture(1, 0);
	streams_touch(&r->guard.streams, STREAM);
	gpu.at_work = true;
	assert_false(launch());
	assert_null(r->object);
	gpu.at_work = false;
	made_clock.now_ns += 10 * CLOCK_NS_PER_S;
	launch_many(64);
	gpu.at_work = true;
	assert_false(launch());
	assert_false(ranges_flush(&c, r));
	assert_false(ranges_disable(&c, r));
	assert_int_equal(delivered.n, 0);
	gpu.at_work = false;
	launch_many(1);
	assert_int_equal(delivered.n, 64);
	finish();
}

/* A batch that is full stays until its turn is paid for. */
static void turns_keep_the_budget(void **state)
{
	uint64_t since_ns, before_ns;

	(void)state;
	capture(2, 10000);
	while (made_clock.now_ns < 1020 * CLOCK_NS_PER_S) {
		launch();
	}
	since_ns = made_clock.now_ns;
	before_ns = gpu.profiling_ns;
	while (made_clock.now_ns < 1060 * CLOCK_NS_PER_S) {
		launch();
	}
	assert_true(gpu.profiling_ns > before_ns);
	assert_true(gpu.profiling_ns - before_ns < (made_clock.now_ns - since_ns) / 100);
	finish();
}

/* --- what CUPTI refuses --- */

/* Each group is given to CUPTI by itself, and is a pass. */
static void a_cupti_that_needs_other_passes_is_not_used(void **state)
{
	(void)state;
	for (uint32_t needs = 2; needs <= 4; needs++) {
		capture(3, 500000);
		gpu.n_passes = needs;
		assert_int_equal(launch(), needs == 3);
		assert_int_equal(gpu.n_sets, 3);
		assert_int_equal(r->state, needs == 3 ? RANGES_STARTED : RANGES_BROKEN);
		assert_int_equal(count_notices(), needs != 3);
		finish();
		if (needs < 4) {
			end(state);
			begin(state);
		}
	}
}

/* An image that was decoded for another pass would be evaluated as what it is not. */
static void another_pass_than_cuptis_is_not_delivered(void **state)
{
	(void)state;
	capture(3, 500000);
	launch_many(64);
	gpu.wrong_pass = 1;
	assert_false(launch());
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_int_equal(count_notices(), 1);
	assert_int_equal(delivered.n, 0);
	assert_int_equal(atomic_load(&c.counters.failed), 64);
	assert_false(launch());
	assert_int_equal(count_notices(), 1);
	finish();
}

static void expect_broken(uint64_t n_delivered, uint64_t n_failed)
{
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_int_equal(count_notices(), 1);
	assert_int_equal(delivered.n, n_delivered);
	assert_int_equal(atomic_load(&c.counters.failed), n_failed);
	gpu.push = gpu.pop = gpu.decode = CUPTI_SUCCESS;
	for (unsigned i = 0, n = gpu.n_ranges; i < 100; i++) {
		assert_false(launch());
		assert_int_equal(gpu.n_ranges, n);
	}
	finish();
}

/* A batch under way of two passes. */
static void measure(unsigned n)
{
	capture(2, 500000);
	launch_many(n);
}

static void a_failing_push_keeps_what_was_measured(void **state)
{
	(void)state;
	measure(10);
	gpu.push = CUPTI_ERROR_UNKNOWN;
	assert_false(launch());
	expect_broken(10, 1);
}

static void a_failing_pop_ends_the_batch(void **state)
{
	(void)state;
	measure(10);
	gpu.pop = CUPTI_ERROR_UNKNOWN;
	launch();
	expect_broken(11, 0);
}

static void a_failing_decode_is_counted(void **state)
{
	(void)state;
	measure(64);
	gpu.decode = CUPTI_ERROR_UNKNOWN;
	assert_false(launch());
	expect_broken(0, 64);
}

/* The object is CUPTI's still, and goes when there is nothing to wait for. */
static void what_is_abandoned_is_counted(void **state)
{
	(void)state;
	measure(10);
	ranges_abandon(&c, r);
	assert_int_equal(atomic_load(&c.counters.failed), 10);
	assert_true(gpu.object[0].started);
	assert_true(ranges_disable(&c, r));
	assert_false(gpu.object[0].started || gpu.object[0].enabled);
	assert_int_equal(r->state, RANGES_BROKEN);
	assert_false(launch());
	finish();
}

/* --- counters that are another's --- */

static uint64_t gap_ms(unsigned i)
{
	return (gpu.tried_ns[i] - gpu.tried_ns[i - 1]) / MS;
}

static void wait_for_tries(unsigned n)
{
	uint64_t until_ns = made_clock.now_ns + 60 * CLOCK_NS_PER_S;

	gpu.start = CUPTI_ERROR_HARDWARE_BUSY;
	gpu.n_starts = 0;
	while (gpu.n_starts < n && made_clock.now_ns < until_ns) {
		assert_false(launch());
		assert_int_equal(r->state, RANGES_WAITING);
	}
	gpu.start = CUPTI_SUCCESS;
	assert_int_equal(gpu.n_starts, n);
}

static void expect_waiting(void)
{
	static const uint64_t ms[] = { 100, 200, 400, 800, 1600, 1600, 1600 };

	wait_for_tries(8);
	for (unsigned i = 1; i < 8; i++) {
		assert_in_range(gap_ms(i), ms[i - 1], ms[i - 1] + 20);
	}
}

/* Anew after each success; and each of the calls is paid for. */
static void with_a_budget_counters_are_asked_for_less_and_less_often(void **state)
{
	(void)state;
	capture(2, 500000);
	expect_waiting();
	made_clock.now_ns += 2 * CLOCK_NS_PER_S;
	launch_many(64);
	expect_all_noted();
	assert_int_equal(count_notices(), 1);
	expect_waiting();
	made_clock.now_ns += 2 * CLOCK_NS_PER_S;
	launch_many(65);
	expect_all_noted();
	assert_int_equal(count_notices(), 1);
	finish();
}

static void without_one_they_are_asked_for_steadily(void **state)
{
	(void)state;
	capture(1, 0);
	wait_for_tries(8);
	for (unsigned i = 1; i < 8; i++) {
		assert_in_range(gap_ms(i), 100, 120);
	}
	made_clock.now_ns += CLOCK_NS_PER_S;
	launch_many(1);
	finish();
}

/* Of a process that uses several GPUs, only the context that has them lets go. */
static void contexts_take_counters_over(void **state)
{
	(void)state;
	capture(1, 0);
	add_context(0);
	add_context(1);
	launch_many(10);
	assert_true(launch_in(&contexts[2]));
	assert_true(launch_in(&contexts[1]));
	assert_int_equal(r->state, RANGES_NEW);
	assert_int_equal(contexts[2].state, RANGES_STARTED);
	assert_int_equal(delivered.n, 10);
	assert_int_equal(gpu.n_pushed, 0);
	for (size_t i = 0; i < CONTEXTS; i++) {
		assert_true(lock_try(&contexts[i].gate.lock));
		lock_release(&contexts[i].gate.lock);
	}
	launch_many(1);
	assert_int_equal(contexts[1].state, RANGES_NEW);
	finish();
}

/* Each time costs a first Start: the last one is to be paid back before. */
static void with_a_budget_they_wait_until_it_is_paid(void **state)
{
	(void)state;
	capture(1, 50000);
	add_context(0);
	launch_many(10);
	assert_false(launch_in(&contexts[1]));
	assert_int_equal(r->state, RANGES_STARTED);
	assert_int_equal(contexts[1].state, RANGES_WAITING);
	made_clock.now_ns += 100 * CLOCK_NS_PER_S;
	assert_true(launch_in(&contexts[1]));
	assert_int_equal(r->state, RANGES_NEW);
	finish();
}

/* --- ranges that are held --- */

/* Its kernel waits for the next one, so its range stays open until that has ended. */
static void a_range_is_held_until_its_kernel_has_ended(void **state)
{
	(void)state;
	capture(1, 0);
	add_context(1);
	launch_many(10);
	gpu.gets_launched = true;
	assert_true(launch()); /* its range is open still */
	assert_true(r->guard.holds);
	assert_false(launch());
	assert_false(ranges_flush(&c, r));
	assert_false(ranges_disable(&c, r));
	gpu.at_work = false;
	assert_true(launch());
	assert_false(r->guard.holds);
	launch_many(10);
	finish();
	assert_int_equal(delivered.n_disturbed, 1); /* by what ran beside it */
	assert_int_equal(delivered.n, 22);
}

/* Also when nothing is launched any more. */
static void a_held_range_is_closed_at_the_end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		capture(1, 0);
		add_context(1);
		launch_many(5);
		gpu.gets_launched = true;
		assert_true(launch());
		gpu.at_work = false;
		assert_true(i ? ranges_flush(&c, r) : ranges_disable(&c, r));
		assert_false(r->guard.holds);
		finish();
		assert_int_equal(delivered.n, 6);
		assert_int_equal(delivered.n_disturbed, 0);
		if (i == 0) {
			end(state);
			begin(state);
		}
	}
}

/* And closing it may fail. */
static void a_held_range_that_cannot_be_closed_ends_the_batch(void **state)
{
	(void)state;
	capture(1, 0);
	add_context(1);
	launch_many(5);
	gpu.gets_launched = true;
	assert_true(launch());
	gpu.at_work = false;
	gpu.pop = CUPTI_ERROR_UNKNOWN;
	assert_true(ranges_flush(&c, r));
	assert_int_equal(r->state, RANGES_BROKEN);
	gpu.pop = CUPTI_SUCCESS;
	finish();
	assert_int_equal(delivered.n, 6);
}

/* --- what else a range counts --- */

static void work_beside_a_range_is_disturbing(void **state)
{
	const struct guard_work work = { STREAM, false };

	(void)state;
	capture(1, 0);
	launch_many(10);
	guard_disturb(r, &work); /* between two of them */
	launch_many(10);
	assert_true(gate_other_begins(&r->gate, false));
	assert_false(launch()); /* it would end within the range */
	guard_other_ends(r, &work);
	launch_many(1);
	beside = &work;
	launch_many(1);
	beside = NULL;
	atomic_store(&c.deliver.state, CAPTURE_CLOSING); /* others may go unnoticed */
	launch_many(1);
	atomic_store(&c.deliver.state, CAPTURE_MEASURING);
	finish();
	assert_int_equal(delivered.n_disturbed, 2);
}

/* Nobody knows since when it has been at work. */
static void a_strangers_work_disturbs_the_batch(void **state)
{
	const struct guard_work work = { STREAM, false };

	(void)state;
	capture(1, 0);
	launch_many(10);
	guard_untracked_ends(r, &work);
	launch_many(10);
	finish();
	assert_int_equal(delivered.n_disturbed, 10);
}

#define RANGES_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RANGES_TEST(images_have_room_for_the_batches_of_their_pass),
		RANGES_TEST(a_pass_that_was_dear_keeps_its_image),
		RANGES_TEST(the_budget_knows_how_long_a_batch_is),
		RANGES_TEST(large_images_make_first_batches_smaller),
		RANGES_TEST(many_images_make_first_batches_smaller),
		RANGES_TEST(first_batches_have_a_least_size),
		RANGES_TEST(batches_of_several_passes_grow),
		RANGES_TEST(batches_grow_as_long_as_images_have_room),
		RANGES_TEST(without_a_budget_batches_grow_too),
		RANGES_TEST(a_full_batch_gives_the_turn_away),
		RANGES_TEST(a_batch_that_ends_early_gives_it_away_once),
		RANGES_TEST(contexts_begin_with_different_passes),
		RANGES_TEST(a_pass_that_is_left_out_is_paid_for),
		RANGES_TEST(nobody_waits_between_passes_that_are_left_out),
		RANGES_TEST(nothing_is_started_while_the_gpu_works),
		RANGES_TEST(turns_keep_the_budget),
		RANGES_TEST(a_cupti_that_needs_other_passes_is_not_used),
		RANGES_TEST(another_pass_than_cuptis_is_not_delivered),
		RANGES_TEST(a_failing_push_keeps_what_was_measured),
		RANGES_TEST(a_failing_pop_ends_the_batch),
		RANGES_TEST(a_failing_decode_is_counted),
		RANGES_TEST(what_is_abandoned_is_counted),
		RANGES_TEST(with_a_budget_counters_are_asked_for_less_and_less_often),
		RANGES_TEST(without_one_they_are_asked_for_steadily),
		RANGES_TEST(contexts_take_counters_over),
		RANGES_TEST(with_a_budget_they_wait_until_it_is_paid),
		RANGES_TEST(a_range_is_held_until_its_kernel_has_ended),
		RANGES_TEST(a_held_range_is_closed_at_the_end),
		RANGES_TEST(a_held_range_that_cannot_be_closed_ends_the_batch),
		RANGES_TEST(work_beside_a_range_is_disturbing),
		RANGES_TEST(a_strangers_work_disturbs_the_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
