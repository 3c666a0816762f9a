/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/broker/jobs.h"
#include "daemon/config/config.h"

/* Messages between supervisor and front, each one packet of a SOCK_SEQPACKET pair. CONTROL_NEW
 * brings the front's end of a new link, CONTROL_RELOAD the settings that hold from now on and the
 * newly opened audit file. */

/* Each but the front has a link to the front. */
enum worker_id { WORKER_GRANTER, WORKER_GPU, WORKER_PLANNER, WORKER_FRONT, WORKERS };

enum control_op {
	CONTROL_NEW = 1, /* supervisor -> front */
	CONTROL_RELOAD,
	CONTROL_STOP,
	CONTROL_READY,	  /* front -> supervisor: listening */
	CONTROL_RELOADED, /* front -> supervisor: the new settings hold */
	CONTROL_ALIVE,	  /* front -> supervisor: the loop runs */
	CONTROL_HUNG,	  /* front -> supervisor: the worker does not answer, replace it */
	CONTROL_JOBS,	  /* front -> supervisor: kept for the next front */
	CONTROL_RESTARTS, /* supervisor -> front: a worker was replaced */
	CONTROL_WHO,	  /* front -> supervisor: which name has this uid? */
	CONTROL_NAME,	  /* supervisor -> front: the answer */
};

struct control_user {
	uint32_t uid;
	char name[64]; /* of CONTROL_NAME; "": nobody has the uid, or nobody could tell */
};

/* An op and what belongs to it. Of the union only the member of the op is sent. */
struct control_message {
	unsigned op;
	enum worker_id worker; /* of CONTROL_NEW and CONTROL_HUNG */
	union {
		struct config config;	    /* of CONTROL_RELOAD */
		struct jobs jobs;	    /* of CONTROL_JOBS */
		uint64_t restarts[WORKERS]; /* of CONTROL_RESTARTS: how often each has ended by
					       itself */
		struct control_user user;   /* of CONTROL_WHO and CONTROL_NAME */
	};
};

/* Sends m, and with it fd, which stays the caller's; -1: none. 0 or -errno. */
int control_send_message(int link, const struct control_message *m, int fd);

/* The same, of a message that has no member of the union. */
int control_send(int link, enum control_op op);
int control_send_worker(int link, enum control_op op, enum worker_id worker, int fd);

/* 1: *ret and *ret_fd (or -1) are set; 0: no message waits; -errno: the other end is gone, or sends
 * what it should not. */
int control_receive(int link, struct control_message *ret, int *ret_fd);
