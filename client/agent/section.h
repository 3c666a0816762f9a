/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_VISITS_H
#define GPUCTR_AGENT_VISITS_H

/* Which threads of the program are inside of a capture now, so that it is freed only when none is.
 * A visit costs two stores of the thread's own memory and no lock. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "client/agent/choosing.h"
#include "client/agent/guard.h"
#include "client/agent/overhead.h"
#include "client/agent/path.h"

struct capture;
struct ranges;

/* Of one thread. Only the thread itself looks at it, but for the first two members. */
struct visit {
	_Atomic(struct capture *) capture; /* it is inside of; NULL: of none */
	atomic_bool taken;		   /* by a thread that lives */
	struct visit *next;
	uint32_t thread_id;
	int cancel_before;
	struct ranges *launching;     /* the context of the launch that is measured just now */
	unsigned nested;	      /* launches that are under way within it */
	struct guard_launch launched; /* what launching is for */
	/* What the thread remembers of the capture with this number, and of no other. */
	uint32_t number;
	struct ranges *last_context;
	struct chosen chosen; /* of the launch that is looked at */
	struct path path;     /* to it, where launches are chosen */
	uint32_t callbacks;   /* counted where some of them are timed */
	struct callback_times times;
	struct observation observation;
	uint64_t call_ns;     /* since when the driver is at a launch that is timed; 0: at none */
	bool begins;	      /* a stream capture, which was counted when that call began */
	bool ends;	      /* one, and ending was asked for when that call began */
	uint64_t ending;      /* its number; 0: not known */
	struct ranges *other; /* is given work by a call that is not measured; NULL: no such call */
	unsigned others_within; /* such calls that are under way within it */
	struct {
		CUcontext context;
		CUstream stream;
		bool per_thread, known, asked;
		uint64_t number;
	} last_stream;
};

/* The calling thread's; NULL: out of memory. */
struct visit *visit_of_thread(void);

/* Goes into the capture that is open; NULL: there is none. */
struct capture *visit_begin(struct visit *v);
void visit_end(struct visit *v);

/* The same for what must not be missed: waits a moment while it is not decided whether the capture
 * closes. */
struct capture *visit_begin_surely(struct visit *v);

/* Lets threads in. One capture is open at a time. */
void visits_open(struct capture *c);

/* Lets nobody in, if nobody is inside; false: somebody is, and all is as before. Until
 * visits_closed(), or visits_open(), it is not decided. */
bool visits_close(struct capture *c);
void visits_closed(void);

/* May threads come in? */
bool visits_are_open(const struct capture *c);

/* In a forked child: nobody is inside of anything. */
void visits_forget(void);

#endif
