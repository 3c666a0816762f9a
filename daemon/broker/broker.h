/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides about the life of captures. The front, which owns the sockets, reports events by
 * broker_handle(), then calls broker_next() and carries out each effect that it returns, until
 * there is none. Pure: no clock, no loop, no sockets; time is a parameter.
 *
 * An event only changes captures and queues effects: it frees no capture and calls nobody back. So
 * the front may report events while it walks over a list of captures or carries out an effect. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/arbiter.h"
#include "daemon/broker/capture.h"

enum event_type {
	EVENT_REFUSED, /* it cannot be planned or opened: texts */
	EVENT_PLANNED,
	EVENT_GPUS,	   /* from the broker itself: the arbiter has given the capture its GPUs */
	EVENT_ALONE,	   /* nobody else computes on its GPUs */
	EVENT_ACCOMPANIED, /* another user computes on them: texts */
	EVENT_GPU_BACK,	   /* a gpu process runs again and can report who computes */
	EVENT_NOT_NOTED,   /* the audit line of its lease could not be written: texts */
	EVENT_OPENED,	   /* the granter has opened the lease */
	EVENT_NOT_OPENED,  /* the granter has not opened the lease: texts */
	EVENT_ATTACHED,
	EVENT_PROCESS_GONE,
	EVENT_LOST,	/* the granter is gone */
	EVENT_DESERTED, /* the last process that the capture named ended before the capture began:
			   texts */
	EVENT_CLIENT_GONE,
	EVENT_CLOSE,	 /* its client asks to end the capture */
	EVENT_TICK,	 /* now_ns */
	EVENT_WITHDRAWN, /* settings or jobs no longer allow it: texts */
	EVENT_HUNG,	 /* the driver hangs on one of its GPUs: texts */
	EVENT_STALLED,	 /* an agent reports that the program does not progress: texts */
	EVENT_FOREIGN,	 /* another user computes on a leased GPU: texts */
	EVENT_STOPPING,	 /* the front ends: texts */
	EVENT_TYPES,
};

/* Texts are borrowed; NULL is "". Events marked "texts" have code, message and remedy. */
struct event {
	enum event_type type;
	uint64_t now_ns;
	int code;
	const char *message, *remedy;
};

struct broker {
	struct registry *registry;
	struct arbiter *arbiter;
	uint64_t lease_max_ns; /* setting lease-max */
	bool grants; /* leases can be granted: a granter runs, and the daemon is not stopping */

	struct list effects;
	struct arena texts; /* texts of effects that wait */
	bool released;	    /* GPUs were released, and were not offered to waiting captures yet */
};

void broker_init(struct broker *b, struct registry *registry, struct arbiter *arbiter);
void broker_deinit(struct broker *b);

/* Ignores an event that has no meaning in c's state. */
void broker_handle(struct broker *b, struct capture *c, const struct event *e);

/* Makes the next broker_next() give free GPUs to waiting captures; called when a granter runs
 * again. */
void broker_wake(struct broker *b);

/* The capture for which c waits; NULL: none. */
struct capture *broker_blocker(const struct broker *b, const struct capture *c);

/* Time at which c's lease ends because somebody waits for its GPUs; 0: nobody waits, and it has no
 * end. */
uint64_t broker_lease_until_ns(const struct broker *b, const struct capture *c);

/* Takes the next effect. False: there is none, and the texts of earlier ones are gone. After
 * EFFECT_FREE the caller frees the capture. */
bool broker_next(struct broker *b, uint64_t now_ns, struct effect *ret);
