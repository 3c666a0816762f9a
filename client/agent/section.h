/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A callback section is the time that a thread of the program spends in a capture's code. The agent
 * frees a capture only when no thread is in a section. A section lasts for one callback; around a
 * measured launch, from the callback before the call to the callback after it. Entering and leaving
 * cost two stores to memory of the thread's own and no lock. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "client/agent/copy_gate.h"
#include "client/agent/deliver.h"
#include "client/agent/guard.h"

struct capture;
struct ranges;

/* The state of one thread. Only the thread itself uses it, except for the first two members. */
struct section {
	_Atomic(struct capture *) capture; /* the capture that the thread is in; NULL: none */
	atomic_bool taken;		   /* belongs to a thread that has not ended */
	struct section *next;
	uint32_t thread_id;
	/* The thread is in a callback, which may hold any lock. If a signal handler launches
	 * meanwhile, the agent only counts the launch in interruptions, which the callback reads at
	 * its end. */
	atomic_bool in_callback;
	atomic_uint interruptions;
	struct copy_pass copies;
	/* The members from here on belong to the capture with this number. They are set to zero
	 * when the thread enters another capture, or when another thread takes this structure over.
	 */
	uint32_t number;
	int cancel_before; /* the thread's cancel state before the launch that is being measured */
	struct ranges *launching;     /* context of the launch that is being measured; NULL: none */
	unsigned nested;	      /* launches that the thread makes within that launch */
	struct guard_launch launched; /* the launch that is being measured */
	struct launch traced;	      /* the launch that is being traced, in a trace */
	struct ranges *last_context;
	bool begins; /* the current call begins a stream capture, which was counted */
	bool ends;   /* the current call ends a stream capture; ending was read before the call */
	uint64_t ending;     /* number of the stream capture that ends; 0: unknown */
	uint32_t destroying; /* our number of the stream capture whose stream is being destroyed */
	/* Context that the current unmeasured call gives work to; NULL: none. */
	struct ranges *other;
	unsigned others_within; /* unmeasured calls that the thread makes within that call */
	struct {
		CUcontext context;
		CUstream stream;
		bool per_thread, known, asked;
		uint64_t number;
	} last_stream;
};

/* Returns the structure of the calling thread; NULL: out of memory. */
struct section *section_of_thread(void);

/* Enters the open capture and returns it; NULL: no capture is open. */
struct capture *section_begin(struct section *v);
void section_end(struct section *v);

/* As section_begin(), for a callback that must not be missed: while another thread decides whether
 * the capture closes, the function waits a moment for the decision. */
struct capture *section_begin_surely(struct section *v);

/* Returns the capture that the calling thread is in; a thread in none enters the open one. NULL: no
 * capture is open. The caller must call section_leave(*ret) in any case. */
struct capture *section_enter(struct section **ret);
void section_leave(struct section *v);

/* Lets threads enter c. Only one capture is open at a time. */
void sections_open(struct capture *c);

/* Closes c if no thread is in it. False: a thread is, and c stays open. After true the decision is
 * pending until the caller calls sections_closed() or sections_open(). */
bool sections_close(struct capture *c);
void sections_closed(void);

/* May threads enter c? */
bool sections_are_open(const struct capture *c);

/* To be called in a forked child, in which no thread is in a section. */
void sections_forget(void);
