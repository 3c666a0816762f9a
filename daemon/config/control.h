/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/broker/jobs.h"
#include "daemon/config/config.h"

/* Messages between supervisor and front, each one packet of a SOCK_SEQPACKET pair. CONTROL_NEW_*
 * bring the front's end of a new link, CONTROL_RELOAD the settings that hold from now on and the
 * newly opened audit file. */

enum control_op {
	CONTROL_NEW_GRANTER = 1, /* supervisor -> front */
	CONTROL_NEW_GPU,
	CONTROL_NEW_PLANNER,
	CONTROL_RELOAD,
	CONTROL_STOP,
	CONTROL_READY,	      /* front -> supervisor: listening */
	CONTROL_RELOADED,     /* front -> supervisor: the new settings hold */
	CONTROL_ALIVE,	      /* front -> supervisor: the loop runs */
	CONTROL_HUNG_GRANTER, /* front -> supervisor: does not answer, replace it */
	CONTROL_HUNG_GPU,
	CONTROL_HUNG_PLANNER,
	CONTROL_JOBS,	  /* front -> supervisor: kept for the next front */
	CONTROL_RESTARTS, /* supervisor -> front: a worker was replaced */
	CONTROL_WHO,	  /* front -> supervisor: which name has this uid? */
	CONTROL_NAME,	  /* supervisor -> front: the answer */
};

/* How often each worker was replaced because it had ended by itself. */
struct control_restarts {
	uint64_t granter, gpu, planner, front;
};

struct control_user {
	uint32_t uid;
	char name[64]; /* of CONTROL_NAME; "": nobody has the uid, or nobody could tell */
};

/* An op and what belongs to it. Only the member of the op is sent. */
struct control_message {
	unsigned op;
	union {
		struct config config;		  /* of CONTROL_RELOAD */
		struct jobs jobs;		  /* of CONTROL_JOBS */
		struct control_restarts restarts; /* of CONTROL_RESTARTS */
		struct control_user user;	  /* of CONTROL_WHO and CONTROL_NAME */
	};
};

/* Sends m, and with it fd, which stays the caller's; -1: none. 0 or -errno. */
int control_send_message(int link, const struct control_message *m, int fd);

/* The same, of a message that has no member. */
int control_send(int link, enum control_op op, int fd);

/* 1: *ret and *ret_fd (or -1) are set; 0: no message waits; -errno: the other end is gone, or sends
 * what it should not. */
int control_receive(int link, struct control_message *ret, int *ret_fd);
