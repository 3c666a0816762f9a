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
	LAUNCH_FILTERED,  /* excluded by the filter: in a recording, or a whole graph */
	LAUNCH_DISTURBED, /* the range also counted other work */
};

/* One launch, as noted when the program made it. The ids come from intern. */
struct launch {
	uint32_t function;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	uint32_t device, context;
	uint64_t stream;
	uint32_t correlation, thread;
	struct site_path path;
	uint32_t set;
	uint32_t graph; /* for a kernel of a graph: CUPTI's ids of the graph and the node; else 0 */
	uint64_t graph_node;
	uint64_t start_ns; /* Unix time, by the clock below */
	uint64_t duration_ns;
	uint8_t kind;  /* enum gpuctr_launch_kind */
	uint8_t fate;  /* enum launch_fate */
	uint8_t clock; /* enum gpuctr_clock: the clock of start_ns and duration_ns */
	uint8_t pass;  /* the pass that measured the launch */
	bool timeless; /* more than one CUPTI record has its correlation id */
};

/* Launches that were measured together, with their counter data image. In the image, the range of
 * launch i is named i in decimal. */
struct batch {
	struct list link;
	struct launch *launches;
	size_t n, room;
	uint8_t *image; /* image_size bytes of data in image_room bytes of memory */
	size_t image_size, image_room;
	const struct host *host;      /* evaluates the image; used by the delivering thread only */
	const struct wire_plan *plan; /* plan that was measured; NULL: the capture's plan */
	uint64_t index;		      /* index of the first launch, in a recording */
};

/* Numbers of launches, by what became of them; read when totals are reported. */
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
	bool waits_for_reader;			  /* deliver_put() waits for the reader, too */
	/* The daemon ended the capture, or the connection broke. */
	void (*on_stop)(void *userdata);
	/* The thread lends its connection while it calls on_idle, on_batch and on_end, because they
	 * may hang. It calls on_idle about four times a second, to flush old batches. on_idle
	 * returns true if no further batch is expected once the capture stops. NULL: as if true. */
	bool (*on_idle)(void *userdata);
	/* Called before b is evaluated; may replace the launches of b; may be NULL. */
	void (*on_batch)(void *userdata, struct batch *b);
	/* Any thread calls this for a batch that it drops, before it counts the batch's launches as
	 * dropped. The function may remove launches from the batch; may be NULL. */
	void (*on_drop)(void *userdata, struct batch *b);
	void (*on_end)(void *userdata); /* called before the last message, goodbye; may be NULL */
	/* Evaluates counter data that does not come from this GPU. NULL: evaluate_batch() evaluates
	 * it, or, if the welcome asks for a trace, each launch becomes a record without values. */
	int (*evaluate)(void *userdata, const struct batch *b, double *values, bool *measured);
	void *userdata;

	pthread_t thread;
	struct lock lock;
	pthread_cond_t wake;	/* the thread has work */
	pthread_cond_t drained; /* the thread has finished a batch, or has ended */
	struct list queue;
	struct batch *spare; /* the last batch that was freed, to be used again */
	size_t queued_bytes;
	bool reader_is_slow;	     /* the last batch's time was mostly waiting for the reader */
	bool runs;		     /* the thread was started, and has not sent goodbye */
	uint64_t progress_ns;	     /* when the thread last sent the counts */
	uint64_t next_tick_ns;	     /* when the thread next does its periodic work; 0: at once */
	struct lock connection_lock; /* protects lent, and the connection while it is lent */
	bool lent;
	uint64_t next_index;
	struct opened opened;
	struct buffer notes; /* encoded messages other than records, which the thread will send */
	size_t notes_dropped;
};

enum {
	DELIVER_QUEUE_BYTES = 16 << 20, /* limit of the queue; one batch may exceed it */
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

/* Copies a counter data image into b, and allocates the memory for it. -ENOMEM. */
int deliver_copy_image(struct batch *b, const uint8_t *image, size_t bytes);

/* Queues b; consumes it. If the queue stays full, drops b and counts its launches as dropped: at
 * once if the reader is slow and waits_for_reader is not set, else after patience_ns. */
void deliver_put(struct deliver *d, struct batch *b, uint64_t patience_ns);

/* Encodes m at once, on any thread; the delivering thread sends it before the next batch. Drops m
 * if more than DELIVER_NOTES_BYTES would wait. */
void deliver_note(struct deliver *d, const struct wire_message *m);

/* Sends a notice to the user, with code, cause and remedy. */
void deliver_notice(struct deliver *d, int code, const char *message, const char *remedy);

/* Sends r as a notice, unless its code is 0. */
void deliver_refusal(struct deliver *d, const struct refusal *r);

/* Sends a formatted notice; cuts its text off after 511 bytes. */
void deliver_tell(struct deliver *d, int code, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* As deliver_notice(); but while the thread has lent its connection, the calling thread sends the
 * notice at once, because the delivering thread may hang. */
void deliver_notice_now(struct deliver *d, int code, const char *message, const char *remedy);

/* Only for the delivering thread, within on_idle, on_batch and on_end. The first, for use in waits,
 * sends the counts if they are due; the second sends copies and fills. */
void deliver_tell_progress(struct deliver *d);
void deliver_send_copies(struct deliver *d, const struct pack_copy *v, size_t n);

/* Is the queue over its limit? Then only the delivering thread itself can add batches. */
bool deliver_is_full(struct deliver *d);

/* Makes the thread do its periodic work now. Gives up at by_ns, so a signal handler may call this.
 */
void deliver_kick(struct deliver *d, uint64_t by_ns);

/* Stops the capture. Waits timeout_ns at most until all batches and goodbye were sent. */
void deliver_finish(struct deliver *d, uint64_t timeout_ns);

struct gpuctr_totals counters_read(const struct counters *c);
