/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/trace.h"

#include "client/agent/capture.h"
#include "client/agent/evaluate.h"
#include "client/agent/section.h"
#include "client/agent/times.h"
#include "proto/base/clock.h"

/* Nothing is done to the GPU, so nothing is kept apart and nobody waits: a thread notes a launch in
 * its own section before the call, and adds it to the batch of all threads after it. Only that
 * moment is locked.
 *
 * A full batch is queued by the thread that filled it. It waits there until the records of its
 * kernels have come, which takes as long as the program's launches run ahead of the GPU; nobody
 * waits for that but the batches behind it. What the queue cannot hold is dropped, and counted. */

enum { BATCH_LAUNCHES = 1024, FLUSH_AFTER_MS = 250, PATIENCE_MS = 10, FLUSH_PATIENCE_MS = 100 };

void trace_init(struct trace *t)
{
	lock_init(&t->lock, LOCK_LEAF);
}

void trace_deinit(struct trace *t)
{
	lock_deinit(&t->lock);
}

static int evaluate(void *userdata, const struct batch *b, double *values, bool *measured)
{
	const struct capture *c = userdata;

	return evaluate_nothing(b, c->welcome.plan.columns.n, values, measured);
}

void trace_begin(struct capture *c)
{
	c->passes.n = 1; /* of nothing */
	c->deliver.evaluate = evaluate;
}

/* With the context's lock. False: its device is not part of the capture, or not known. */
static bool set_up(struct capture *c, struct ranges *r)
{
	struct device_info *d = devices_find(c);

	if (!d || d->trouble.code != 0 || !times_begin(c)) {
		r->state = RANGES_BROKEN;
		return false;
	}
	r->device = d->index;
	return true;
}

/* A context that is set up has a device. */
static bool is_ready(struct capture *c, struct ranges *r)
{
	bool ready = atomic_load(&r->device) != UINT32_MAX;

	if (!ready) {
		lock_acquire(&r->gate.lock);
		ready = atomic_load(&r->device) != UINT32_MAX ||
			(r->state == RANGES_NEW && set_up(c, r));
		lock_release(&r->gate.lock);
	}
	return ready;
}

bool trace_open(struct capture *c, struct ranges *r, struct section *v, struct launch **ret)
{
	if (!is_ready(c, r)) {
		atomic_fetch_add(&c->counters.unready, 1);
		return false;
	}
	*ret = &v->traced;
	return true;
}

/* A batch with room, with the lock held; NULL: out of memory, and it is not held. */
static struct batch *lock_batch(struct capture *c)
{
	struct trace *t = &c->trace;
	struct batch *fresh;

	lock_acquire(&t->lock);
	if (t->batch) {
		return t->batch;
	}
	lock_release(&t->lock);
	fresh = deliver_new_batch(&c->deliver, BATCH_LAUNCHES);
	if (!fresh) {
		return NULL;
	}
	lock_acquire(&t->lock);
	if (!t->batch) { /* else another thread was faster */
		t->batch = fresh;
		t->begin_ns = clock_now_ns();
		return fresh;
	}
	lock_release(&t->lock);
	deliver_free_batch(&c->deliver, fresh);
	return lock_batch(c);
}

static void add(struct capture *c, const struct launch *l)
{
	struct batch *b = lock_batch(c);
	bool full;

	if (!b) {
		atomic_fetch_add(&c->counters.dropped, 1);
		return;
	}
	b->launches[b->n++] = *l;
	full = b->n == b->room;
	if (full) {
		c->trace.batch = NULL;
	}
	lock_release(&c->trace.lock);
	if (full) {
		deliver_put(&c->deliver, b, PATIENCE_MS * CLOCK_NS_PER_MS);
	}
}

void trace_close(struct capture *c, struct ranges *r, struct section *v, bool launched)
{
	(void)r;
	if (!launched) {
		activity_forget(c->activity, v->traced.correlation);
		atomic_fetch_add(&c->counters.failed, 1);
	} else {
		add(c, &v->traced);
	}
}

/* A signal handler that exits may have interrupted the lock's holder for good. What is in its batch
 * is lost then, and what is queued is delivered all the same. */
void trace_flush(struct capture *c, bool all)
{
	struct trace *t = &c->trace;
	struct batch *b;

	if (!lock_until(&t->lock, clock_now_ns() + FLUSH_PATIENCE_MS * CLOCK_NS_PER_MS)) {
		return;
	}
	b = t->batch;
	if (b && !all && clock_now_ns() - t->begin_ns < FLUSH_AFTER_MS * CLOCK_NS_PER_MS) {
		b = NULL;
	}
	if (b) {
		t->batch = NULL;
	}
	lock_release(&t->lock);
	if (b) {
		deliver_put(&c->deliver, b, 0);
	}
}
