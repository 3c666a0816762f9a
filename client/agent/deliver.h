/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_DELIVER_H
#define GPUCTR_AGENT_DELIVER_H

/* From batches of measured launches to the daemon: evaluation and sending, on a thread of its own.
 * Shared by the agent and gpuctr-replay. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/intern.h"
#include "client/agent/link.h"
#include "client/agent/lock.h"
#include "client/agent/state.h"
#include "proto/base/list.h"
#include "proto/nvidia/host.h"

enum launch_fate {
	LAUNCH_DONE,
	LAUNCH_FAILED,	  /* the driver refused it */
	LAUNCH_FILTERED,  /* of a recording, and not wanted this time */
	LAUNCH_DISTURBED, /* its range counted other work as well */
};

/* One launch, noted when it was made. Numbers are intern's. */
struct launch {
	uint32_t function;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint32_t device, context;
	uint64_t stream;
	uint32_t correlation, thread;
	uint32_t range, set;
	uint64_t start_ns; /* unix time, by clock */
	uint64_t duration_ns;
	uint8_t kind;  /* enum gpuctr_launch_kind */
	uint8_t fate;  /* enum launch_fate */
	uint8_t clock; /* enum gpuctr_clock, of start and duration */
	uint8_t pass;  /* that it was measured in */
	/* With a budget, else both are 0. */
	uint32_t stratum;
	float chance;
};

/* Launches that were measured together, with their counter data. The range of launch i is named by
 * i in decimal. */
struct batch {
	struct list link;
	struct launch *launches;
	size_t n, room;
	uint8_t *image;
	size_t image_size, image_room;
	const struct host
		*host; /* evaluates; the one of its chip, used by the delivering thread only */
	const struct wire_plan *plan; /* of what was measured; NULL: the capture's */
	uint64_t index;		      /* of the first launch in a recording */
};

/* Counted where they happen, read when told. */
struct counters {
	atomic_uint_fast64_t seen, measured, filtered, capturing, unready, failed, dropped,
		unchosen;
};

struct deliver {
	_Atomic(enum capture_state) state;

	/* Set before deliver_start(), constant after. */
	struct link *link;
	struct intern *intern;
	struct counters *counters;
	const struct wire_agent_welcome *welcome; /* plan, ids */
	void (*on_stop)(void *userdata, uint32_t code,
			const char *message); /* the daemon ends it */
	void (*on_idle)(void *userdata);      /* about four times a second, to flush what is old */
	void (*on_batch)(void *userdata, struct batch *b); /* before it is evaluated, or NULL */
	/* What was measured, before it is sent, or NULL. */
	void (*on_values)(void *userdata, const struct launch *launches, size_t n,
			  const double *values);
	void (*on_end)(void *userdata); /* all but goodbye is said, or NULL */
	/* In the place of evaluate_batch(), for counter data that is not our own; NULL: none. */
	int (*evaluate)(void *userdata, const struct batch *b, double *values, bool *measured);
	void *userdata;

	pthread_t thread;
	struct lock lock;
	pthread_cond_t wake;	/* the thread has work */
	pthread_cond_t drained; /* the thread has done some */
	struct list queue, spare;
	uint8_t *spare_image;
	size_t spare_image_room;
	size_t queued_bytes;
	bool started;	       /* there is a thread */
	uint64_t next_tick_ns; /* when it looks at what else there is; 0: at once */
	struct lock link_lock; /* of lent, and of the link while it is lent */
	bool lent;
	uint64_t next_index;
	struct list notes; /* messages other than records, to be sent by the thread */
};

enum { DELIVER_QUEUE_BYTES = 8 << 20 }; /* but always one batch */

void deliver_init(struct deliver *d);
int deliver_start(struct deliver *d); /* -errno */

/* The same on the calling thread, until goodbye is said. */
void deliver_run(struct deliver *d);

/* False, and all is left as it is: the thread has not said goodbye and still uses it. */
bool deliver_deinit(struct deliver *d);

/* A batch with room for n launches, without an image; NULL: out of memory. Recycled. */
struct batch *deliver_new_batch(struct deliver *d, size_t n);
void deliver_free_batch(struct deliver *d, struct batch *b);

/* Copies counter data into b, which takes place only from here on. -ENOMEM. */
int deliver_copy_image(struct deliver *d, struct batch *b, const uint8_t *image, size_t bytes);

/* Hands b over. When the queue is full waits up to patience_ns, then drops it and counts. */
void deliver_put(struct deliver *d, struct batch *b, uint64_t patience_ns);

/* Sends a message from any thread: encoded now, sent by the thread in order with records. */
void deliver_note(struct deliver *d, const struct wire_message *m);

/* A notice to the user, by code, cause and remedy. */
void deliver_notice(struct deliver *d, int code, const char *message, const char *remedy);

/* As deliver_notice(); goes out at once while the thread has lent its link, because it may not come
 * back. */
void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy);

/* On the thread, around what may not return: it does not use its link meanwhile. */
void deliver_lend_link(struct deliver *d);
void deliver_take_link(struct deliver *d);

/* Asks the thread to deliver what is queued and to say goodbye. */
void deliver_request_finish(struct deliver *d);

/* Has the thread look now, not at its next tick; from a signal's handler as well. */
void deliver_kick(struct deliver *d, uint64_t by_ns);

/* Waits until it has, at most timeout_ns. */
void deliver_wait(struct deliver *d, uint64_t timeout_ns);

/* Both: delivers what is queued and says goodbye; gives up after timeout_ns. */
void deliver_finish(struct deliver *d, uint64_t timeout_ns);

struct gpuctr_totals counters_read(const struct counters *c);

#endif
