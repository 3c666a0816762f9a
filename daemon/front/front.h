/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The front process handles everything that users send. One libuv loop on one thread, without
 * blocking calls; the reaper's threads make the calls that may block. See docs/architecture.md. */

#include <uv.h>

#include "daemon/audit/audit.h"
#include "proto/base/arena.h"
#include "proto/base/list.h"
#include "daemon/broker/account.h"
#include "daemon/broker/arbiter.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/capture.h"
#include "daemon/broker/jobs.h"
#include "daemon/broker/process.h"
#include "daemon/broker/rate.h"
#include "daemon/config/control.h"
#include "daemon/front/rpc_client.h"
#include "daemon/front/granter_link.h"
#include "daemon/front/stats.h"
#include "proto/wire/wire.h"

enum { FRONT_LISTENERS_MAX = 8, FRONT_READ_BYTES = 256 << 10 };

struct front;

struct listener {
	struct front *front;
	uv_poll_t poll;
	uv_timer_t pause; /* runs after EMFILE */
	int fd;
};

struct peer;
struct frame;

/* Functions of upper files that lower files call without including the upper files. */
struct front_hooks {
	uv_idle_cb on_run;
	int (*on_frame)(struct peer *p, const struct frame *frame); /* as peer_handler */
	bool (*hold_back)(struct peer *p); /* must p wait until its client has read? */
	void (*on_client_drained)(struct peer *p);
	void (*on_peer_closed)(struct peer *p);
	void (*carry_out)(struct front *f); /* carries out what the broker has decided */
};

/* What the supervisor hands to a new front. */
struct front_start {
	struct config config;
	struct jobs jobs; /* as reported by the previous front */
	uint64_t restarts[WORKERS];
	bool has_perfmon; /* the daemon has CAP_PERFMON; without it the driver may hold counters
			     back */
	int control, links[WORKER_FRONT];   /* consumed */
	int audit;			    /* consumed; -1: there is no file */
	int listeners[FRONT_LISTENERS_MAX]; /* listened on once the GPUs are known */
	size_t n_listeners;
};

struct front {
	uv_loop_t loop;
	const struct front_hooks *hooks;
	struct config config;
	const struct front_start *start;
	struct listener listeners[FRONT_LISTENERS_MAX];
	size_t n_listeners;
	int control;
	uv_poll_t control_poll;
	uv_timer_t tick; /* runs only while something has a deadline */
	uv_timer_t alive;
	struct rpc_client gpu, planner;
	struct granter_link granter;

	struct list peers;
	unsigned n_peers;
	size_t n_descriptors; /* number that users make the front hold, see descriptors.h */
	struct accounts accounts;
	struct list running;  /* accounts with a connection whose turn it may be */
	uv_idle_t run;	      /* active while the list running has accounts */
	struct arena message; /* holds the message that is being handled */
	uint8_t *received;    /* FRONT_READ_BYTES of room for the bytes that a peer has just sent */
	struct registry registry;
	struct processes processes;
	struct arbiter arbiter;
	struct broker broker; /* decides about the captures and reservations above */
	bool carrying_out;    /* effects are being carried out, see effects.c */
	struct users *users;
	struct jobs jobs;
	bool jobs_unreported; /* not all jobs were reported to the supervisor yet */
	struct rate opens, permissions, questions;
	struct audit audit;
	struct arena scratch; /* for encoding; reset after every message */
	uint64_t started_ns;
	uint64_t n_granted; /* permissions granted */
	struct stats stats;
	uint64_t restarts[WORKERS]; /* the supervisor's latest report */
	bool stopping;
	uint64_t stopping_since_ns;
	bool looking; /* the gpu process has to answer which processes compute */
	uint64_t next_look_ns;
	uint64_t last_tick_ns;

	/* The machine, as reported by the gpu process; without GPUs until then. */
	struct wire_status_reply machine;
	struct arena reported; /* memory of machine */
	/* Bits in masks of GPUs are indices into this list. It never changes: when they would mean
	 * other GPUs, the front ends (scheduler.c). */
	char uuids[LIMIT_GPUS][LIMIT_NAME_BYTES + 1];
	size_t n_uuids;
};

/* requests.c: on_frame() and on_peer_closed(). */
int dispatch_frame(struct peer *p, const struct frame *frame);
void dispatch_closed(struct peer *p);

/* Carries out what the broker has decided, until nothing is left (effects.c). A call from within an
 * effect does nothing: the outer call carries out what was added. */
void effects_carry_out(struct front *f);

/* --- listener.c --- */

/* Accepts on fd, a listening Unix stream socket, until listener_close(). -errno. */
int listener_open(struct listener *l, struct front *f, int fd);
void listener_close(struct listener *l);

/* --- tenancy.c --- */

/* Counters of units that all contexts share (DRAM, L2, NVLink, PCIe) also show the work of other
 * users. So a GPU is leased only while nobody else computes on it, unless the administrator says
 * `sharing = shared`. */

/* Asks who computes on c's GPUs. c gets EVENT_ALONE or EVENT_ACCOMPANIED, perhaps before this
 * returns. Without a gpu process c gets no event: call again when one runs. */
void tenancy_check(struct front *f, struct capture *c);

/* Periodically looks at all leased GPUs. Captures whose lease must end get EVENT_FOREIGN. */
void tenancy_tick(struct front *f, uint64_t now_ns);

/* Runs until the supervisor asks it to stop or exits; start must last as long. Returns the exit
 * status. */
int front_run(const struct front_start *start);

/* Makes the tick run, which looks at deadlines. */
static inline void front_arm_tick(struct front *f)
{
	if (!uv_is_active((uv_handle_t *)&f->tick)) {
		uv_timer_again(&f->tick);
	}
}
