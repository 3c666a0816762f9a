/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/copy_gate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "proto/base/clock.h"

/* A program that fills memory while kernels' tracing is turned on or off may end with a SIGSEGV, in
 * cuMemsetD8Async() itself or in CUPTI's own thread at a record. In a training of a ResNet-18,
 * whose backward pass fills from a second thread, this happened after tracing was turned off and on
 * 700 to 5,000 times, even if fills were not traced. It did not happen in 19,346 times while the
 * gate held copies and fills, nor in programs that only launch (H200, CUPTI 2025.3). So launches
 * are not held. A thread that waits in the callback before its copy is not within it. */

enum {
	PATIENCE_MS = 100, /* a copy may wait for the GPU */
	HOLD_MS = 1000,
	UNDER_WAY_US = 2000, /* for calls begun before the subscription */
	PAUSE_US = 20,
};

static struct {
	atomic_uint number; /* number of the present subscription */
	atomic_int inside;
	atomic_int closed;
	_Atomic uint64_t begun_ns;
} gate;

static __thread bool is_closer; /* does not wait at the gate */

static void pause_shortly(void)
{
	nanosleep(&(struct timespec){ 0, PAUSE_US * 1000 }, NULL);
}

void copy_gate_begin(void)
{
	atomic_fetch_add(&gate.number, 1);
	atomic_store(&gate.inside, 0);
	atomic_store(&gate.begun_ns, clock_now_ns());
}

/* A thread that closes the gate and one that enters each write their counter before they read the
 * other's, so at least one sees the other. */
void copy_gate_enter(struct copy_pass *p)
{
	unsigned number = atomic_load(&gate.number);
	uint64_t by_ns;
	int cancel;

	if (p->number != number) {
		*p = (struct copy_pass){ .number = number };
	}
	if (p->depth++ > 0) {
		return;
	}
	atomic_fetch_add(&gate.inside, 1);
	if (atomic_load(&gate.closed) == 0 || is_closer) {
		return;
	}
	by_ns = clock_now_ns() + HOLD_MS * CLOCK_NS_PER_MS;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* must not unwind CUPTI */
	do {
		atomic_fetch_sub(&gate.inside, 1);
		while (atomic_load(&gate.closed) > 0 && clock_now_ns() < by_ns) {
			pause_shortly();
		}
		atomic_fetch_add(&gate.inside, 1);
	} while (atomic_load(&gate.closed) > 0 && clock_now_ns() < by_ns);
	pthread_setcancelstate(cancel, NULL);
}

void copy_gate_leave(struct copy_pass *p)
{
	if (p->number == atomic_load(&gate.number) && p->depth > 0 && --p->depth == 0) {
		atomic_fetch_sub(&gate.inside, 1);
	}
}

bool copy_gate_close(void)
{
	uint64_t known_ns = atomic_load(&gate.begun_ns) + UNDER_WAY_US * 1000;
	uint64_t by_ns = clock_now_ns() + PATIENCE_MS * CLOCK_NS_PER_MS;

	is_closer = true;
	atomic_fetch_add(&gate.closed, 1);
	while ((atomic_load(&gate.inside) > 0 || clock_now_ns() < known_ns) &&
	       clock_now_ns() < by_ns) {
		pause_shortly();
	}
	return atomic_load(&gate.inside) == 0;
}

void copy_gate_open(void)
{
	atomic_fetch_sub(&gate.closed, 1);
	is_closer = false;
}

void copy_gate_forget(void)
{
	atomic_store(&gate.closed, 0);
	copy_gate_begin();
}
