/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A thread of the agent's that evaluates batches of measured launches and sends the values to the
 * daemon. gpuctr-replay uses the same code. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/intern.h"
#include "client/agent/connection.h"
#include "client/agent/lock.h"
#include "client/agent/opened.h"
#include "client/agent/state.h"
#include "proto/base/buffer.h"
#include "proto/base/list.h"
#include "proto/nvidia/host.h"

struct pack_copy;

enum launch_fate {
	LAUNCH_DONE,
	LAUNCH_FAILED,	  /* the driver refused it */
	LAUNCH_FILTERED,  /* the request's filter excludes the launch: of a recording, or
			     a graph told as one */
	LAUNCH_DISTURBED, /* the range also counted other work */
};

/* One launch, as noted when the program made it. Numbers are intern's. */
struct launch {
	uint32_t function;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint32_t device, context;
	uint64_t stream;
	uint32_t correlation, thread;
	struct site_path path;
	uint32_t set;
	uint32_t graph; /* of a kernel of a graph, CUPTI's numbers of both; else 0 */
	uint64_t graph_node;
	uint64_t start_ns; /* unix time; see clock */
	uint64_t duration_ns;
	uint8_t kind;  /* enum gpuctr_launch_kind */
	uint8_t fate;  /* enum launch_fate */
	uint8_t clock; /* enum gpuctr_clock: the clock of start_ns and duration_ns */
	uint8_t pass;  /* the pass that measured the launch */
	bool timeless; /* more than one record named it */
};

/* Launches that were measured together, with their counter data image. Launch i has the range in
 * the image whose name is i in decimal. */
struct batch {
	struct list link;
	struct launch *launches;
	size_t n, room;
	uint8_t *image; /* of image_size, in memory of image_room */
	size_t image_size, image_room;
	const struct host *host;      /* evaluates the image: the host of this chip, used by the
					 delivering thread only */
	const struct wire_plan *plan; /* the plan that was measured; NULL: the capture's */
	uint64_t index;		      /* index of the first launch, in a recording */
};

/* Incremented when something happens, read when totals are reported. */
struct counters {
	atomic_uint_fast64_t seen, measured, filtered, capturing, unready, failed, dropped;
};

struct deliver {
	_Atomic(enum capture_state) state;

	/* Set before deliver_start(), constant after. */
	struct connection *connection;
	struct intern *intern;
	struct counters *counters;
	const struct wire_agent_welcome *welcome; /* plan, ids */
	bool waits_for_reader;			  /* so do those who queue batches */
	/* The daemon ended the capture, or the connection broke. */
	void (*on_stop)(void *userdata);
	/* on_idle, on_batch and on_end are called while the thread has lent its connection, because
	 * they may hang. on_idle: about four times a second, to flush old batches. True: when the
	 * capture stops, no further batch is expected. NULL: always. */
	bool (*on_idle)(void *userdata);
	/* Called before b is evaluated, and may give it other launches; may be NULL. */
	void (*on_batch)(void *userdata, struct batch *b);
	/* Called by any thread for a batch that is dropped, before its launches are counted, some
	 * of which it may take out; may be NULL. */
	void (*on_drop)(void *userdata, struct batch *b);
	void (*on_end)(void *userdata); /* called before the last message, goodbye; may be NULL */
	/* Evaluates counter data that does not come from this GPU; NULL: evaluate_batch() does, or,
	 * where the welcome is a trace's, each launch is a record without values. */
	int (*evaluate)(void *userdata, const struct batch *b, double *values, bool *measured);
	void *userdata;

	pthread_t thread;
	struct lock lock;
	pthread_cond_t wake;	/* the thread has work */
	pthread_cond_t drained; /* the thread has finished a batch, or has ended */
	struct list queue;
	struct batch *spare; /* the last one that was freed */
	size_t queued_bytes;
	bool reader_is_slow;  /* the thread waited for the reader, most of all, at the last batch */
	bool runs;	      /* the thread was started, and has not said goodbye */
	uint64_t progress_ns; /* when the thread sent the counts last */
	uint64_t next_tick_ns;	     /* when the thread next does its periodic work; 0: at once */
	struct lock connection_lock; /* protects lent, and the connection while it is lent */
	bool lent;
	uint64_t next_index;
	struct opened opened;
	struct buffer notes; /* messages other than records, encoded, which the thread will send */
	size_t notes_dropped;
};

enum {
	DELIVER_QUEUE_BYTES = 16 << 20, /* limit of the queue, which may always hold one batch */
	DELIVER_NOTES_BYTES = 1 << 20,
};

void deliver_init(struct deliver *d);
int deliver_start(struct deliver *d); /* -errno */

/* Does the thread's work on the calling thread, until goodbye was sent. */
void deliver_run(struct deliver *d);

/* Frees all. Returns false and changes nothing if the thread still uses d, because it has not sent
 * goodbye yet. */
bool deliver_deinit(struct deliver *d);

/* Returns a batch with room for n launches and without an image, perhaps a recycled one; NULL: out
 * of memory. */
struct batch *deliver_new_batch(struct deliver *d, size_t n);
void deliver_free_batch(struct deliver *d, struct batch *b);

/* Copies a counter data image into b; only then b has memory for it. -ENOMEM. */
int deliver_copy_image(struct batch *b, const uint8_t *image, size_t bytes);

/* Queues b; consumes it. If the queue is full, drops b and counts its launches as dropped: at once
 * where the reader is behind, unless readers are waited for, and after patience_ns where the
 * delivering thread is. */
void deliver_put(struct deliver *d, struct batch *b, uint64_t patience_ns);

/* Sends a message; may be called by any thread. The function encodes m at once; the thread sends it
 * later, before the next batch. Messages that DELIVER_NOTES_BYTES do not hold are left out. */
void deliver_note(struct deliver *d, const struct wire_message *m);

/* Sends a notice to the user, with code, cause and remedy. */
void deliver_notice(struct deliver *d, int code, const char *message, const char *remedy);

/* The same of r; nothing if its code is 0. */
void deliver_refusal(struct deliver *d, const struct refusal *r);

/* The same, of at most 511 bytes. */
void deliver_tell(struct deliver *d, int code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* As deliver_notice(); but while the thread has lent its connection, the calling thread sends the
 * notice at once, because the delivering thread may hang. */
void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy);

/* For the thread itself, in on_idle, on_batch and on_end: sends the counts if it is time to,
 * because the thread waits for something; or what moved bytes beside kernels. */
void deliver_tell_progress(struct deliver *d);
void deliver_send_copies(struct deliver *d, const struct pack_copy *v, size_t n);

/* Does more wait to be sent than threads may add to? The delivering thread itself may. */
bool deliver_is_full(struct deliver *d);

/* Makes the thread do its periodic work now. Gives up at by_ns, so a signal handler may call this.
 */
void deliver_kick(struct deliver *d, uint64_t by_ns);

/* Stops the capture, and waits until the thread has delivered all and sent goodbye, at most
 * timeout_ns. */
void deliver_finish(struct deliver *d, uint64_t timeout_ns);

struct gpuctr_totals counters_read(const struct counters *c);
