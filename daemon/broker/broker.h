/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decides what becomes of a capture. The owner of the sockets reports what has happened by
 * broker_handle(), then calls broker_next() and carries out each effect that it returns, until
 * there is none. Pure: no clock, no loop, no sockets; time is a parameter.
 *
 * An event changes captures and queues effects, nothing else: it frees no capture and calls nobody
 * back. So events may be handled while a list of captures is walked over, and while an effect is
 * carried out. */

#include <stdbool.h>
#include <stdint.h>

#include "daemon/broker/arbiter.h"
#include "daemon/broker/capture.h"

enum event_type {
	EVENT_REFUSED, /* cannot be planned, or not be opened: code, message, remedy */
	EVENT_PLANNED,
	EVENT_GPUS,  /* made by the broker itself: the arbiter has given the capture its GPUs */
	EVENT_ALONE, /* nobody else computes on its GPUs */
	EVENT_ACCOMPANIED, /* another user computes on them: code, message, remedy */
	EVENT_GPU_BACK,	   /* the gpu process can be asked again who computes */
	EVENT_NOT_NOTED,   /* the audit line of its lease could not be written: texts */
	EVENT_OPENED,	   /* the granter has opened the lease */
	EVENT_NOT_OPENED,  /* the granter has not: texts */
	EVENT_ATTACHED,
	EVENT_PROCESS_GONE,
	EVENT_LOST,	/* the granter is gone */
	EVENT_DESERTED, /* the last process that the capture named ended before the capture began:
			   texts */
	EVENT_CLIENT_GONE,
	EVENT_CLOSE,	 /* its client asks for the end */
	EVENT_TICK,	 /* now_ns */
	EVENT_WITHDRAWN, /* settings or jobs no longer allow it: texts */
	EVENT_HUNG,	 /* the driver hangs on one of its GPUs: texts */
	EVENT_STALLED,	 /* an agent reports that the program does not progress: texts */
	EVENT_FOREIGN,	 /* another user computes on a leased GPU: texts */
	EVENT_STOPPING,	 /* the front ends: texts */
	EVENT_TYPES,
};

/* Texts are borrowed; NULL is "". Events that are marked "texts" have code, message and remedy. */
struct event {
	enum event_type type;
	uint64_t now_ns;
	int code;
	const char *message, *remedy;
};

struct broker {
	struct registry *registry;
	struct arbiter *arbiter;
	uint64_t lease_max_ns; /* of the settings */
	bool grants; /* leases can be granted: there is a granter, and the daemon is not stopping */

	struct list effects;
	struct arena texts; /* texts of effects that wait */
	bool released;	    /* GPUs were released, and were not offered to waiting captures yet */
};

void broker_init(struct broker *b, struct registry *registry, struct arbiter *arbiter);
void broker_deinit(struct broker *b);

/* Ignores an event that has no meaning in c's state. */
void broker_handle(struct broker *b, struct capture *c, const struct event *e);

/* Makes the next broker_next() give free GPUs to waiting captures: there is a granter again. */
void broker_wake(struct broker *b);

/* The capture for which c waits; NULL: none. */
struct capture *broker_blocker(const struct broker *b, const struct capture *c);

/* When the lease of c ends for those who wait for its GPUs; 0: nobody does, and it has no end. */
uint64_t broker_lease_until_ns(const struct broker *b, const struct capture *c);

/* Takes the next effect. False: there is none, and the texts of earlier ones are gone. After
 * EFFECT_FREE the caller frees the capture. */
bool broker_next(struct broker *b, uint64_t now_ns, struct effect *ret);
