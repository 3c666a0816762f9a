/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Load on the daemon from processes of other users, and what a good client feels of it.
 *
 * The machine may have two cores, and whoever makes load uses them up whatever the daemon does. To
 * tell what the daemon adds, the same load can be aimed at a decoy: a process that takes
 * connections, reads what comes, and closes them. The good client's latency is compared between the
 * two, in turns within one run, so that both have the same competitors for the cores. */

#include <stdatomic.h>

#include "tests/system/fixture.h"
#include "tests/system/footprint.h"

enum { LOAD_PROCESSES_MAX = 16 };

struct load;

/* One unit of work of a process: what it says to the socket at path. Returns how many messages. The
 * numbers are the worker's and the round's. Runs in a child: no expectation may fail here. */
typedef unsigned (*load_work)(const char *path, unsigned worker, uint64_t round);

struct load_shared {
	_Atomic bool resting, at_decoy;
	_Atomic unsigned at_rest;	   /* workers */
	_Atomic uint64_t per_second;	   /* of all together; 0: as fast as they can */
	_Atomic uint64_t messages, rounds; /* at the daemon */
};

struct load {
	struct load_shared *shared;
	pid_t pids[LOAD_PROCESSES_MAX];
	size_t n;
	char decoy[128];
	pid_t decoy_pid;
};

/* n processes of uids first, first + 1, ..., at rest. */
void load_start(struct load *l, struct fixture *f, size_t n, int first_uid, load_work work);
void load_at_daemon(struct load *l);
void load_at_decoy(struct load *l);
void load_rest(struct load *l); /* returns when all do */
void load_stop(struct load *l);

/* A footprint of a daemon that has nothing left to do: what was used before has been closed. */
void load_take_footprint(struct fixture *f, struct footprint *ret);

/* --- latency --- */

struct latencies {
	uint64_t *ns;
	size_t n, room;
};

void latencies_add(struct latencies *l, uint64_t ns);
double latencies_us(struct latencies *l, double percentile); /* 50, 99; 0 when there are none */

/* Moves one window's samples to all, and its p99 to the list of those. The median of that list is
 * the p99 of a usual window: what else runs on the machine now and then does not show in it. */
void latencies_close_window(struct latencies *window, struct latencies *all,
			    struct latencies *p99s);
void latencies_deinit(struct latencies *l);

/* A good client asks for the status every millisecond for so long, at least once; socket has said
 * hello. */
void load_ask(int socket, struct latencies *l, unsigned ms);
