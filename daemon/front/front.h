/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_FRONT_H
#define GPUCTR_FRONT_FRONT_H

/* The front process: everything that touches bytes of users. One libuv loop on one thread, no
 * blocking call; what may block is left to the closers. See docs/architecture.md. */

#include <uv.h>

#include "daemon/audit/audit.h"
#include "proto/base/list.h"
#include "daemon/broker/account.h"
#include "daemon/broker/arbiter.h"
#include "daemon/broker/capture.h"
#include "daemon/broker/jobs.h"
#include "daemon/broker/rate.h"
#include "daemon/config/control.h"
#include "daemon/front/descriptors.h"
#include "daemon/front/gpu_link.h"
#include "daemon/front/granter_link.h"

enum { FRONT_LISTENERS_MAX = 8, FRONT_READ_BYTES = 256 << 10 };

struct front;

struct listener {
	struct front *front;
	uv_poll_t poll;
	uv_timer_t pause; /* after EMFILE */
	int fd;
};

struct front {
	uv_loop_t loop;
	struct config config;
	const int *sockets; /* to listen on once the machine is known */
	size_t n_sockets;
	struct listener listeners[FRONT_LISTENERS_MAX];
	size_t n_listeners;
	int control;
	uv_poll_t control_poll;
	uv_timer_t tick; /* only while something has a deadline */
	uv_timer_t alive;
	struct gpu_link gpu, planner;
	struct granter_link granter;

	struct list peers;
	unsigned n_peers;
	struct descriptors descriptors;
	struct accounts accounts;
	uv_prepare_t prepare; /* counts turns of the loop */
	uint64_t turn;
	struct arena message; /* the one being handled */
	uint8_t *received;    /* FRONT_READ_BYTES: what a peer has just sent */
	struct registry registry;
	struct arbiter arbiter;
	struct jobs jobs;
	bool jobs_untold; /* to the supervisor */
	struct rate opens, permissions, questions;
	struct audit audit;
	struct arena scratch; /* for encoding, reset after every message */
	uint64_t started_ns;
	uint64_t n_granted, n_dropped; /* permissions, records */
	struct control_summary told;   /* the supervisor */
	bool has_perfmon; /* of the daemon: the driver may hold counters back without it */
	bool stopping;
	bool looking; /* asked who runs on the GPUs, no answer yet */
	uint64_t next_look_ns;
	uint64_t last_known_ns; /* when it was last told, while leases are held */
	uint64_t last_tick_ns;

	/* of the machine, as the gpu process told */
	struct arena machine_arena;
	struct wire_status_reply machine;
};

/* What the supervisor hands to a new front. */
struct front_start {
	const struct config *config;
	const struct jobs *jobs; /* as the front before told them */
	const int *listeners;
	size_t n_listeners;
	int control, granter, gpu, planner, audit; /* consumed; audit -1: no file */
	bool has_perfmon;
};

/* Runs until the supervisor says stop or goes away. Exit status. */
int front_run(const struct front_start *start);

/* Makes sure that deadlines are looked at. */
void front_arm_tick(struct front *f);

#endif
