/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The memory that a program and its courier share. Each side changes its own members, and then
 * counts up the other side's event and wakes it. */

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "client/agent/filters.h"
#include "client/agent/futex.h"

/* Powers of two. Pages that were never written take no memory. */
enum { COURIER_IN_BYTES = 64 * 1024, COURIER_OUT_BYTES = 512 * 1024 };

/* The numbers of the courier's descriptors. */
enum { COURIER_SOCKET = 3, COURIER_SHARED, COURIER_LIFE };

enum courier_start { COURIER_STARTS, COURIER_READY, COURIER_LATE };

struct courier_ring {
	_Atomic uint32_t written, taken; /* bytes since the beginning, modulo 2^32 */
};

struct courier_shared {
	/* Written before the courier starts. */
	uint32_t has_socket;
	int32_t process;
	uint32_t uid;
	struct filters first; /* filters of the program's threads when the courier was started */

	/* enum courier_start. The first to set it decides: the courier that it is ready, or the
	 * program that it is too late. */
	_Atomic uint32_t start;

	/* Written by the program. */
	_Atomic int32_t thread;	  /* agent's thread whose filters count; 0: none yet */
	_Atomic uint32_t idle;	  /* no capture; the courier looks before waking the thread */
	_Atomic uint32_t quit;	  /* the courier sends the queued bytes, and exits */
	_Atomic uint32_t rest_ms; /* not 0: the courier hangs up, waits so long, and looks */
	_Atomic uint32_t look_asked;
	_Atomic int32_t other_thread; /* a program's thread that asks; 0: none */
	_Atomic uint32_t to_courier;  /* event */

	/* Written by the courier. */
	_Atomic uint32_t ended;	   /* the connection has ended, after the bytes in the ring */
	_Atomic uint32_t filtered; /* the agent's thread has come under another filter */
	_Atomic uint32_t looked;
	_Atomic uint32_t other_filtered;
	_Atomic uint32_t rested;
	_Atomic uint32_t to_program; /* event */

	struct courier_ring in, out;
	char in_data[COURIER_IN_BYTES], out_data[COURIER_OUT_BYTES];
};

static inline void courier_wake(_Atomic uint32_t *event)
{
	atomic_fetch_add(event, 1);
	futex_wake(event);
}

static inline uint32_t courier_length(struct courier_ring *r)
{
	return atomic_load(&r->written) - atomic_load(&r->taken);
}

static inline uint32_t courier_put(struct courier_ring *r, char *ring, uint32_t size,
				   const char *data, uint32_t n)
{
	uint32_t at = atomic_load(&r->written), room = size - courier_length(r);
	uint32_t first;

	n = n < room ? n : room;
	first = n < size - at % size ? n : size - at % size;
	memcpy(ring + at % size, data, first);
	memcpy(ring, data + first, n - first);
	atomic_store(&r->written, at + n);
	return n;
}

static inline uint32_t courier_take(struct courier_ring *r, const char *ring, uint32_t size,
				    char *data, uint32_t n)
{
	uint32_t at = atomic_load(&r->taken), there = courier_length(r);
	uint32_t first;

	n = n < there ? n : there;
	first = n < size - at % size ? n : size - at % size;
	memcpy(data, ring + at % size, first);
	memcpy(data + first, ring, n - first);
	atomic_store(&r->taken, at + n);
	return n;
}
