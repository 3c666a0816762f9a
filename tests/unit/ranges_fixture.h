/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/unit.h"

#include "client/agent/capture.h"
#include "client/agent/contexts.h"
#include "client/agent/permission.h"
#include "client/agent/ranges.h"
#include "client/agent/ranges_setup.h"
#include "client/agent/section.h"
#include "client/agent/trace.h"
#include "proto/wire/frame.h"
#include "tests/unit/ranges_gpu.h"

/* A capture of some contexts, for the tests of its ranges: what test_ranges.c and
 * test_ranges_failures.c share. */

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

static inline int begin(void **state)
{
	(void)state;
	gpu_begin();
	memset(&delivered, 0, sizeof(delivered));
	n_launched = 0;
	return 0;
}

static inline void add_context(uint32_t device)
{
	uint32_t i = atomic_load(&c.n_contexts);
	struct ranges *new = &contexts[i];

	memset(new, 0, sizeof(*new));
	lock_init(&new->gate.lock, LOCK_CONTEXT);
	guard_init(&new->guard);
	streams_add(&new->guard.streams, STREAM);
	new->pass = i % c.passes.n;
	new->context = (CUcontext)(uintptr_t)(i + 1);
	new->device = gpu.object[i].device = device;
	devices[i] = (struct device_info){ .index = device, .host.v = &gpu_profiler.host };
	lock_init(&devices[i].lock, LOCK_LEAF);
	new->info = &devices[i];
	new->next = atomic_load(&c.contexts);
	atomic_store(&c.contexts, new);
	atomic_store(&c.n_contexts, i + 1);
}

static inline void capture(uint32_t passes)
{
	static const char *names[PASSES_MAX] = { "m0",	"m1",  "m2",  "m3", "m4",  "m5",
						 "m6",	"m7",  "m8",  "m9", "m10", "m11",
						 "m12", "m13", "m14", "m15" };
	static const struct wire_agent_welcome welcome;

	memset(&c, 0, sizeof(c));
	c.profiler = &gpu_profiler;
	c.deliver.state = CAPTURE_MEASURING;
	gpu.n_passes = c.passes.n = passes;
	for (uint32_t i = 0; i < passes; i++) {
		c.passes.v[i].metrics = (struct wire_strings){ 1, &names[i] };
	}
	lock_init(&c.lock, LOCK_LEAF);
	deliver_init(&c.deliver);
	c.deliver.welcome = &welcome;
	c.deliver.counters = &c.counters;
	add_context(0);
}

/* What CUPTI has counted is of the pass by whose plan it will be evaluated, and all of it. */
static inline void check_batch(const struct batch *b)
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

static inline void deliver(void)
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
static inline bool launch_in(struct ranges *where)
{
	static uint8_t proofs;
	struct section v = {
		.launched = { .stream = STREAM, .work = 2, .name = "kernel", .proofs = &proofs }
	};
	struct launch *l;
	bool measured;

	n_launched++;
	made_clock.now_ns += MS;
	measured = method_ranges.open(&c, where, &v, &l);
	if (measured) {
		*l = (struct launch){ .pass = (uint8_t)where->measured_pass };
		gpu.at_work = gpu.at_work || gpu.gets_launched;
		gpu.gets_launched = false;
		if (beside) {
			assert_true(gate_other_begins(&where->gate, true));
			guard_disturb(where, beside);
			gate_other_ends(&where->gate);
		}
		method_ranges.close(&c, where, &v, true);
	}
	deliver();
	return measured;
}

static inline bool launch(void)
{
	return launch_in(r);
}

static inline void launch_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(launch());
	}
}

/* Each launch has a record, or a reason why not. */
static inline void finish(void)
{
	size_t n = atomic_load(&c.n_contexts);

	for (size_t i = 0; i < n; i++) {
		assert_true(contexts[i].state == RANGES_BROKEN ||
			    method_ranges.disable(&c, &contexts[i]));
	}
	deliver();
	assert_int_equal(gpu.n_pushed, 0);
	assert_int_equal(delivered.n + atomic_load(&c.counters.unready) +
				 atomic_load(&c.counters.failed),
			 n_launched);
}

static inline int end(void **state)
{
	size_t n = atomic_load(&c.n_contexts);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		ranges_forget_images(&contexts[i]);
		guard_deinit(&contexts[i].guard);
		lock_deinit(&contexts[i].gate.lock);
		lock_deinit(&devices[i].lock);
	}
	lock_deinit(&c.lock);
	return deliver_deinit(&c.deliver) ? 0 : -1;
}

static inline unsigned count_notices(void)
{
	const struct buffer *b = &c.deliver.notes;
	struct frame f;
	unsigned n = 0;

	for (size_t at = b->start; frame_parse(b->data + at, b->end - at, &f) == 0; n++) {
		at += FRAME_HEADER_BYTES + f.size;
	}
	return n;
}

#define RANGES_TEST(f) TEST_WITH(f, begin, end)
