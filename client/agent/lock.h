/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's mutexes, each of one kind. A thread that holds a mutex waits only for mutexes of a
 * later kind, so threads cannot wait for each other in a circle. Debug and sanitizer builds
 * (-DLOCK_ORDER) abort if a thread breaks that rule; other builds do not check it.
 *
 * lock_try() and lock_until() may break the rule, because their waiting ends by itself: a context
 * takes the counters from another context, and the program's exit handler may run in a signal
 * handler that has interrupted the holder of any lock. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"

enum lock_kind {
	LOCK_AGENT,   /* of agent.c: the capture that is under way */
	LOCK_CONTEXT, /* of a CUDA context, held across a measured launch and calls of CUPTI */
	/* Of one part; a thread holds only one of these at a time: the set-up of devices or of
	 * tracing, around calls of CUPTI and the driver; the delivering thread's connection while
	 * it is lent; the batch of a trace, also while it is allocated; the start/end ranges of the
	 * process; a context's streams, across cuStreamQuery(), in which CUPTI may ask for a
	 * buffer. */
	LOCK_PART,
	LOCK_RECORDS, /* of CUPTI's records; held while kernels' names are looked up */
	LOCK_LEAF,    /* held for a few instructions, in which no other lock is taken */
	LOCK_KINDS,
};

struct lock {
	pthread_mutex_t mutex;
	enum lock_kind kind;
};

#define LOCK_INITIALIZER(kind)                  \
	{                                       \
		PTHREAD_MUTEX_INITIALIZER, kind \
	}

#ifdef LOCK_ORDER
/* To be called before the thread waits for a lock of this kind without a time limit. */
void lock_order_check(enum lock_kind kind);
void lock_order_note(enum lock_kind kind, int n); /* the thread holds n more locks of this kind */
#else
static inline void lock_order_check(enum lock_kind kind)
{
	(void)kind;
}

static inline void lock_order_note(enum lock_kind kind, int n)
{
	(void)kind;
	(void)n;
}
#endif

static inline void lock_init(struct lock *l, enum lock_kind kind)
{
	pthread_mutex_init(&l->mutex, NULL);
	l->kind = kind;
}

static inline void lock_deinit(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

static inline void lock_acquire(struct lock *l)
{
	lock_order_check(l->kind);
	pthread_mutex_lock(&l->mutex);
	lock_order_note(l->kind, 1);
}

static inline void lock_release(struct lock *l)
{
	lock_order_note(l->kind, -1);
	pthread_mutex_unlock(&l->mutex);
}

static inline struct lock *lock_acquired(struct lock *l)
{
	lock_acquire(l);
	return l;
}

static inline void lock_release_scope(struct lock **l)
{
	lock_release(*l);
}

/* Holds the lock to the end of the block. */
#define LOCK_SCOPE(l) CLEAN(lock_release_scope) struct lock *scoped_lock = lock_acquired(l)

/* True: locked. */
static inline bool lock_try(struct lock *l)
{
	bool locked = pthread_mutex_trylock(&l->mutex) == 0;

	lock_order_note(l->kind, locked);
	return locked;
}

/* Waits until by_ns of CLOCK_MONOTONIC, so that neither a change of the clock nor a holder that
 * never releases the lock keeps the program from ending. True: locked. If by_ns is past, locks only
 * a free lock. */
bool lock_until(struct lock *l, uint64_t by_ns);

/* A condition variable that measures time by CLOCK_MONOTONIC. */
static inline void lock_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(c, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* With the lock held. */
static inline void lock_wait(struct lock *l, pthread_cond_t *c)
{
	pthread_cond_wait(c, &l->mutex);
}

/* False: by_ns has passed. */
static inline bool lock_wait_until(struct lock *l, pthread_cond_t *c, uint64_t by_ns)
{
	struct timespec by = clock_timespec(by_ns);

	return pthread_cond_timedwait(c, &l->mutex, &by) == 0;
}
