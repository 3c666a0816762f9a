/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/gate.h"

#include <sched.h>

#include "client/agent/flag.h"

/* All flags are sequentially consistent, and each side writes its own flag before it reads the
 * other's, so at least one of the two sees the other. A thread counts its call in others before it
 * reads shut, and the holder sets shut before it reads others. A call that insists counts itself
 * before it reads blocking, and the holder sets blocking before it reads others. */

enum { SETTLE_US = 200 };

#define PATIENCE_FIRST_NS (2 * CLOCK_NS_PER_S)
#define PATIENCE_SLICE_NS (100 * CLOCK_NS_PER_MS)

static const char the_launch[] = "the launch";

uint64_t gate_patience_ns(const struct patience *p)
{
	uint64_t spent = atomic_load(&p->spent_ns);

	return spent + GATE_PATIENCE_LATER_NS < PATIENCE_FIRST_NS ? PATIENCE_FIRST_NS - spent
								  : GATE_PATIENCE_LATER_NS;
}

void gate_spend(struct patience *p, uint64_t ns)
{
	atomic_fetch_add(&p->spent_ns, ns);
}

/* --- the lock --- */

/* True: a thread keeps waiting, because a call of CUPTI's does not wait for a launch. */
static bool holder_is_in_cupti(struct gate *g)
{
	const char *call = atomic_load(&g->call);

	return call && call != the_launch && !atomic_load(&g->lost);
}

/* A stop of the process (SIGSTOP, a debugger, a frozen cgroup) stops the holder as well. Waiting in
 * slices makes such a stop, however long, cost one slice of the patience. */
static bool lock_patiently(struct gate *g, uint64_t patience_ns)
{
	bool locked = false;

	while (!locked && patience_ns > 0) {
		uint64_t slice_ns =
			patience_ns < PATIENCE_SLICE_NS ? patience_ns : PATIENCE_SLICE_NS;

		locked = lock_until(&g->lock, clock_now_ns() + slice_ns);
		patience_ns -= slice_ns;
	}
	return locked;
}

bool gate_lock(struct gate *g, struct patience *p)
{
	uint64_t patience_ns;

	if (lock_try(&g->lock)) {
		return true;
	}
	do {
		patience_ns = gate_patience_ns(p);
		if (lock_patiently(g, patience_ns)) {
			return true;
		}
	} while (holder_is_in_cupti(g));
	gate_spend(p, patience_ns);
	return false;
}

void gate_enter_call(struct gate *g, const char *call)
{
	atomic_store(&g->call_since_ns, clock_now_ns());
	if (atomic_load(&g->lost)) {
		atomic_store(&g->lost, false);
	}
	atomic_store(&g->call, call);
}

void gate_enter_launch(struct gate *g)
{
	gate_enter_call(g, the_launch);
}

void gate_leave(struct gate *g)
{
	atomic_store(&g->call, NULL);
	gate_let_in(g);
	lock_release(&g->lock);
}

const char *gate_lose_call(struct gate *g, uint64_t from_ns, uint64_t ns)
{
	const char *call = atomic_load(&g->call);
	uint64_t since_ns = atomic_load(&g->call_since_ns);

	since_ns = since_ns > from_ns ? since_ns : from_ns;
	return call && clock_now_ns() > since_ns + ns && !atomic_exchange(&g->lost, true) ? call
											  : NULL;
}

/* --- other work is kept out --- */

void gate_shut(struct gate *g)
{
	atomic_store(&g->insisted, false);
	atomic_store(&g->shut, true);
}

void gate_let_in(struct gate *g)
{
	gate_unblock(g);
	atomic_store(&g->shut, false);
}

/* A call that began before the gate was shut may give the GPU work after the range has begun, so
 * the holder waits for it, but gives up on long calls, such as synchronous copies. */
bool gate_others_have_ended(struct gate *g)
{
	uint64_t begin_ns;

	if (atomic_load(&g->others) == 0 || atomic_load(&g->unwatched)) {
		return true;
	}
	begin_ns = clock_now_ns();
	while (atomic_load(&g->others) > 0 &&
	       clock_now_ns() - begin_ns < SETTLE_US * UINT64_C(1000)) {
		sched_yield();
	}
	return atomic_load(&g->others) == 0;
}

bool gate_nobody_came(const struct gate *g)
{
	return (!atomic_load(&g->insisted) && atomic_load(&g->others) == 0) ||
	       atomic_load(&g->unwatched);
}

bool gate_block(struct gate *g)
{
	atomic_store(&g->blocking, true);
	if (!gate_nobody_came(g)) {
		gate_unblock(g);
		return false;
	}
	return true;
}

void gate_unblock(struct gate *g)
{
	atomic_store(&g->blocking, false);
}

void gate_begin_range(struct gate *g)
{
	atomic_store(&g->disturbed, false);
}

bool gate_is_disturbed(const struct gate *g)
{
	return atomic_load(&g->disturbed) || atomic_load(&g->others) > 0 ||
	       atomic_load(&g->unwatched);
}

void gate_unwatch(struct gate *g)
{
	atomic_store(&g->unwatched, true);
}

bool gate_take_untracked(struct gate *g)
{
	return atomic_load_explicit(&g->untracked, memory_order_relaxed) &&
	       atomic_exchange(&g->untracked, false);
}

/* --- calls that are not measured --- */

bool gate_other_begins(struct gate *g, bool insist)
{
	atomic_fetch_add(&g->others, 1);
	if (insist && !atomic_load(&g->blocking)) {
		atomic_store(&g->insisted, true);
		/* This call disturbs the range already, so other calls may begin, too. */
		atomic_store(&g->shut, false);
	}
	if (!atomic_load(&g->shut)) {
		return true;
	}
	atomic_fetch_sub(&g->others, 1);
	return false;
}

void gate_disturb(struct gate *g)
{
	flag_raise(&g->disturbed);
}

void gate_other_ends(struct gate *g)
{
	atomic_fetch_sub(&g->others, 1);
}

void gate_untracked_ends(struct gate *g)
{
	atomic_store(&g->untracked, true);
}
