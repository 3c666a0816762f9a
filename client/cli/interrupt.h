/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "client/cli/child.h"

enum { INTERRUPT_PATIENCE_MS = 5000 };

/* A thread that ends the client when its loop has not read a signal for patience_ms.
 * Zero-initialised by the caller. */
struct interrupt {
	struct signals *signals;
	const struct child *child;
	int patience_ms;
	int stop; /* eventfd */
	pthread_t thread;
	bool running;
};

/* Starts the thread; when no descriptor or thread can be had, does nothing. */
void interrupt_begin(struct interrupt *i, struct signals *signals, const struct child *child,
		     int patience_ms);
void interrupt_end(struct interrupt *i);
