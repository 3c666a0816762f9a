/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A daemon for agents in standby, as small as can be: it takes their connections, begins and ends
 * captures on them, and keeps what they send. Questions for permission are closed unanswered, so
 * the driver is asked, which restricts nothing here. */

#include <pthread.h>
#include <stdatomic.h>

#include "client/lib/decode.h"
#include "tests/system/raw.h"

/* A record, as far as tests look at it. */
struct taken {
	char kernel[24], path[96];
	unsigned site;
	uint32_t threads; /* grid x block */
	uint64_t index;
	double value; /* of the first column */
};

struct agents_daemon {
	int listener;
	int arrivals[2];	  /* a pipe of connections of agents */
	atomic_uint n_questions;  /* for permission, so far */
	const char *kernel_regex; /* of the captures that are begun; NULL: all kernels */
	pthread_t door;
	struct arena arena; /* of the message received last */
	struct arena plan;
	struct wire_agent_welcome welcome; /* of the capture begun last */
	struct decoder_memory memory;	   /* of the decoder */
	struct decoder *decoder;
	struct taken *taken;
	size_t n_taken, taken_max;
	bool started;
	char notices[1024];
	struct gpuctr_totals totals; /* of its goodbye */
};

void agents_daemon_open(struct agents_daemon *d, struct fixture *f);
void agents_daemon_close(struct agents_daemon *d);

/* The next agent that connects; its hello is answered with a registration. *ret_hello (NULL: not
 * wanted) lives until the next message. */
int agents_daemon_register(struct agents_daemon *d, struct wire_agent_hello *ret_hello);

/* Begins a capture of one metric, and forgets what was taken before. */
void agents_daemon_begin(struct agents_daemon *d, int agent, uint32_t capture, const char *metric);

/* Waits until the agent has started it. */
void agents_daemon_take_start(struct agents_daemon *d, int agent);

/* Takes what the agent sends until there are n records. */
void agents_daemon_take(struct agents_daemon *d, int agent, size_t n);

/* Ends it, and takes what comes until goodbye, or without asking for the end. */
void agents_daemon_end(struct agents_daemon *d, int agent);
void agents_daemon_take_goodbye(struct agents_daemon *d, int agent);
