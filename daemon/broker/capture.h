/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Captures, and the registry that finds them. Pure data: broker.c decides about captures; the front
 * talks to the peers, which are opaque pointers here. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/arena.h"
#include "proto/base/list.h"
#include "daemon/broker/account.h"
#include "daemon/broker/arbiter.h"
#include "proto/wire/wire.h"

enum {
	CAPTURE_TOKEN_BYTES = 33, /* 128 random bits in hex, with NUL */
	CAPTURES_MAX = 256,
	CAPTURE_PROCESSES_MAX = 1024,
	CAPTURE_EFFECTS_MAX = 12, /* most effects of a capture that wait to be carried out */
};

/* A capture passes through these states in their order and may skip some: a recording goes from
 * planning to ready, and any state may end. broker.c has the transitions. */
enum capture_state {
	CAPTURE_PLANNING, /* waits for the planner */
	CAPTURE_QUEUED,	  /* waits for its GPUs */
	CAPTURE_CHECKING, /* has its GPUs; waits for the list of who else computes there */
	CAPTURE_OPENING,  /* its lease is in the audit log; waits for the granter */
	CAPTURE_READY,
	CAPTURE_RUNNING, /* a process has attached */
	CAPTURE_ENDING,	 /* its processes deliver the rest of their records */
	CAPTURE_OVER,	 /* only its queued effects remain; ignores events */
	CAPTURE_STATES,
};

/* One thing that the front does for a capture, see broker.h. */
struct effect {
	struct list link; /* in the broker's queue */
	struct capture *capture;
	enum effect_type {
		EFFECT_NONE,
		EFFECT_NOTE,   /* a line of the audit log: note, code, why */
		EFFECT_REFUSE, /* answer the open request: code, why, remedy */
		EFFECT_CHECK,  /* ask the gpu process who else computes on its GPUs */
		EFFECT_QUEUED, /* send the client its position */
		EFFECT_OPEN,  /* write the lease's audit line, then ask the granter for the lease */
		EFFECT_READY, /* send the client the token */
		EFFECT_STOP,  /* tell its agents to stop */
		EFFECT_CLOSE, /* ask the granter to close the lease */
		EFFECT_END,   /* detach the remaining agents and report the end to the client */
		EFFECT_FREE,
	} type;
	enum effect_note {
		NOTE_REFUSED,
		NOTE_ENDED,
		NOTE_EXPIRED,
		NOTE_REVOKED,
		NOTE_TRACE_ENDED,
	} note;
	int code;
	const char *why, *remedy; /* valid until broker_next() returns false */
};

struct capture {
	struct list link;	 /* in the registry */
	struct list client_link; /* among the client's captures */
	uint32_t id;		 /* never 0, never reused while the daemon lives */
	enum capture_state state;
	struct account *account; /* pays for the arena */
	void *client;		 /* the peer that opened it */
	uint32_t request;	 /* the number of the client's open request */
	uid_t uid;
	pid_t pid;
	uid_t target; /* the user whose programs are measured: uid, or another user named by root or
			 an operator */
	bool host_root; /* its user is root of this machine, see struct credentials */
	char user[64];
	char owner[64]; /* name of target if target is not uid; else "" */
	char token[CAPTURE_TOKEN_BYTES];

	struct arena arena; /* options and plan live here */
	struct wire_open_capture options;
	struct wire_plan plan;
	bool recorded;
	bool device;	   /* may have objects that count the whole GPU */
	bool whole_gpus;   /* its lease was opened for such objects */
	bool counts_whole; /* such an object was requested */
	uint64_t by_job;   /* GPUs that the user may measure only as the owner of a job */

	struct reservation reservation;
	uint64_t queued_ns;	/* begin of the wait in the queue; 0: it did not wait */
	uint64_t wait_until_ns; /* end of the wait in the queue; 0: no limit */
	uint64_t ready_ns;	/* begin of the lease */
	uint64_t waited_ns;	/* time since which somebody waits for its leased GPUs; 0: nobody */
	uint64_t known_ns;	/* time of the last report who else computes on its GPUs */
	uint64_t end_by_ns;	/* deadline in state ENDING */
	bool leased; /* the lease was granted, and the audit line of its end is not among the
			effects yet */
	bool traces; /* like leased, for a trace with an audit line that grants it */
	struct effect effects[CAPTURE_EFFECTS_MAX];

	struct list processes; /* attached ones, see process.h */
	uint32_t n_processes;  /* number of processes that have begun so far */
	uint32_t n_attached;
	bool holds_back;     /* the front reads no process until the client has read */
	pid_t permitted_pid; /* for a permit: the last process that got a permission */
	unsigned n_permit_refusals;
	struct gpuctr_totals ended; /* totals of processes that have ended */
	uint32_t end_code;
	const char *end_message, *end_remedy; /* static or in arena */
};

struct registry {
	struct list captures;
	uint32_t last_id;
	size_t n;
};

void registry_init(struct registry *r);

/* A new capture in state PLANNING with a fresh token; NULL: out of memory, or there are
 * CAPTURES_MAX. */
struct capture *capture_new(struct registry *r);
/* Charges the memory of c to a. Call this before anything is copied into c. */
void capture_set_account(struct capture *c, struct account *a);
struct capture *capture_free(struct registry *r, struct capture *c);

/* Borrowed or NULL. The token is compared in constant time. */
struct capture *registry_find(struct registry *r, uint32_t id);
struct capture *registry_find_token(struct registry *r, const char *token);
/* The number of captures of a user, as policy_user() counts users. */
unsigned registry_count_user(const struct registry *r, uid_t user);

/* Deep copies into the capture's arena. -ENOMEM. */
int capture_set_options(struct capture *c, const struct wire_open_capture *options);
int capture_set_plan(struct capture *c, const struct wire_plan *plan);

/* May the capture measure the groups of this plan in turns? Raw counter data and recordings have
 * one pass. */
bool capture_may_measure_groups(const struct capture *c, const struct wire_plan *plan);

/* Does c read no counter of this machine? Then it needs no lease and waits for nobody. */
bool capture_is_leaseless(const struct capture *c);

bool capture_is_live(const struct capture *c); /* READY or RUNNING: takes agents and permissions */

/* May this process of user target have permissions? A capture that names processes takes only
 * these. */
bool capture_takes(const struct capture *c, pid_t pid);

/* The state that clients see: "queued" for CHECKING and OPENING. */
enum gpuctr_capture_state capture_reported_state(const struct capture *c);

/* "alice (python3, pid 4711)"; "" when the arena is full. */
const char *capture_describe_holder(struct arena *a, const struct capture *c);

/* The totals of all its processes, past and present. */
struct gpuctr_totals capture_totals(const struct capture *c);
