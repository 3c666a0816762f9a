/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_SECTION_H
#define GPUCTR_AGENT_SECTION_H

/* Callback sections: which threads of the program are inside a capture now, so that a capture is
 * freed only when none is. A section lasts for one callback; around a measured launch, from the
 * callback before the call to the callback after it. It costs two stores to the thread's own memory
 * and no lock. */

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
struct section {
	_Atomic(struct capture *) capture; /* that the thread is inside; NULL: none */
	atomic_bool taken;		   /* by a thread that lives */
	struct section *next;
	uint32_t thread_id;
	/* Counted where some of them are timed, and counted on by the next thread and in the next
	 * capture: otherwise no callback of threads that end after a few launches would be timed.
	 */
	uint32_t callbacks;
	/* From here on: what the thread knows of the capture with this number, and of no other. All
	 * of it is zero when the thread comes to another capture, or another thread takes this. */
	uint32_t number;
	int cancel_before;	      /* the cancel state, while a launch is measured */
	struct ranges *launching;     /* the context of the launch that is measured just now */
	unsigned nested;	      /* launches that are under way within it */
	struct guard_launch launched; /* what launching is for */
	struct ranges *last_context;
	struct chosen chosen; /* of the launch that is looked at */
	struct path path;     /* to it, where launches are chosen */
	struct callback_times times;
	struct observation observation;
	uint64_t call_ns;     /* when the driver's call began, if it is timed; 0: none is */
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
struct section *section_of_thread(void);

/* Enters the capture that is open; NULL: there is none. */
struct capture *section_begin(struct section *v);
void section_end(struct section *v);

/* The same for a callback that must not be missed: waits a moment while it is undecided whether the
 * capture closes. */
struct capture *section_begin_surely(struct section *v);

/* The capture that the calling thread is inside, which it enters if it is in none; NULL: there is
 * none. section_leave() follows in any case, with what *ret was set to. */
struct capture *section_enter(struct section **ret);
void section_leave(struct section *v);

/* Lets threads in. One capture is open at a time. */
void sections_open(struct capture *c);

/* Lets no thread in, if none is inside; false: one is, and nothing has changed. Until
 * sections_closed(), or sections_open(), it is undecided. */
bool sections_close(struct capture *c);
void sections_closed(void);

/* May threads come in? */
bool sections_are_open(const struct capture *c);

/* In a forked child: no thread is inside anything. */
void sections_forget(void);

#endif
