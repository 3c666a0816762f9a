/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports what makes no progress in a capture. A thread that itself calls neither CUPTI nor the
 * driver looks for calls into them that do not return, on any thread. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/agent/lock.h"
#include "client/agent/thread.h"

struct capture;

struct watch {
	struct thread thread;
	struct lock lock;
	pthread_cond_t wake;
	bool runs, over;
	uint64_t looked_ns, resumed_ns; /* the last look; when the process went on after a stop */
};

/* From the delivering thread, which is watched as well. Without memory for a thread the delivering
 * one looks after calls itself, in watch_look(). */
void watch_begin(struct capture *c);
void watch_end(struct capture *c);

/* From any thread: has a call of CUPTI or the driver been under way for too long? */
void watch_calls(struct capture *c);

/* From the delivering thread, now and then: does a kernel, or a stream, stand still? */
void watch_look(struct capture *c);
