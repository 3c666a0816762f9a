/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_BROKER_CAPTURE_H
#define GPUCTR_BROKER_CAPTURE_H

/* Captures, their processes, and the registry that finds them. Pure data: who talks to whom is the
 * front's business, which keeps its peers in the opaque pointers. */

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
};

/* PLANNING -> QUEUED -> READY -> RUNNING -> ENDING, any of them -> gone; transitions are in
 * front/opening.c, session.c and agents.c. */
struct capture {
	struct list link;	 /* in the registry */
	struct list client_link; /* among the client's captures */
	uint32_t id;		 /* never 0, not used again in a daemon's life */
	enum wire_capture_state state;
	struct account *account; /* pays for the arena */
	void *client;		 /* the peer that opened it */
	uint32_t request;	 /* its number for the open request */
	uid_t uid;
	pid_t pid;
	bool machine_root; /* of who opened it, see struct credentials */
	char user[64];
	char token[CAPTURE_TOKEN_BYTES];

	struct arena arena; /* options and plan live here */
	struct wire_open_capture options;
	struct wire_plan plan;
	bool recorded;
	bool device;	 /* entitled to objects that count the whole GPU */
	uint64_t by_job; /* GPUs that only the ownership of a job lets its user measure */

	struct claim claim;
	uint64_t wait_until_ns; /* 0: for ever */
	uint64_t ready_ns;	/* when the lease began */
	uint64_t lease_until_ns;
	uint64_t end_by_ns; /* while ENDING */
	bool leased;	    /* granted, and its end not yet in the audit log */

	struct list processes;
	uint32_t n_processes; /* so far */
	uint32_t n_attached;
	struct wire_totals ended; /* of processes that are gone */
	uint32_t end_code;
	const char *end_message, *end_remedy; /* static or in arena */
};

struct process {
	struct list link;
	struct capture *capture;
	uint32_t id;
	void *peer;
	pid_t pid;
	struct wire_totals totals; /* as last told */
	uint64_t records;	   /* passed on to the client */
	bool said_goodbye;
};

struct registry {
	struct list captures;
	uint32_t last_id;
	size_t n;
};

void registry_init(struct registry *r);

/* A new capture in state PLANNING with a fresh token; NULL: out of memory or CAPTURES_MAX reached.
 */
struct capture *capture_new(struct registry *r);
/* From now on a pays for what c holds. Call it before anything is copied into c. */
void capture_set_account(struct capture *c, struct account *a);
struct capture *capture_free(struct registry *r, struct capture *c);

/* Borrowed or NULL. The token is compared in constant time. */
struct capture *registry_find(struct registry *r, uint32_t id);
struct capture *registry_find_token(struct registry *r, const char *token);
unsigned registry_count_uid(const struct registry *r, uid_t uid);

/* Deep copies into the capture's arena. -ENOMEM. */
int capture_set_options(struct capture *c, const struct wire_open_capture *options);
int capture_set_plan(struct capture *c, const struct wire_plan *plan);

bool capture_is_live(const struct capture *c); /* READY or RUNNING: takes agents and grants */

struct process *process_new(struct capture *c, pid_t pid, void *peer);
struct process *process_free(struct process *p); /* its totals are added to the capture's */

/* For a process that is gone: what was passed on was measured, also when it could not say so any
 * more, and what it leaves open is lost. */
void process_settle(struct process *p);

struct wire_totals capture_totals(const struct capture *c);

#endif
