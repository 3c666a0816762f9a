/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_WATCHER_H
#define GPUCTR_AGENT_WATCHER_H

/* A thread of a capture that calls neither CUPTI nor the driver, and so can tell of calls that do
 * not return, whoever makes them. */

#include <pthread.h>
#include <stdbool.h>

#include "client/agent/lock.h"

struct watcher {
	pthread_t thread;
	struct lock lock;
	pthread_cond_t wake;
	bool runs, over;
};

struct capture;

/* From the thread that delivers, which is watched as well. Without memory for a thread that one
 * looks itself, as often as it comes round. */
void watcher_begin(struct capture *c);
void watcher_end(struct capture *c);

#endif
