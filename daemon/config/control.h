/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_CONTROL_H
#define GPUCTR_DAEMON_CONTROL_H

#include "daemon/broker/jobs.h"
#include "daemon/config/config.h"

/* Between supervisor and front, one packet a message on a SOCK_SEQPACKET pair; CONTROL_NEW_* carry
 * the front's end of a fresh link, CONTROL_RELOAD the settings that hold from now on and the newly
 * opened audit file. */

enum control_op {
	CONTROL_NEW_GRANTER = 1, /* supervisor -> front */
	CONTROL_NEW_GPU,
	CONTROL_NEW_PLANNER,
	CONTROL_RELOAD,
	CONTROL_STOP,
	CONTROL_READY,	      /* front -> supervisor: listening */
	CONTROL_RELOADED,     /* front -> supervisor: the new settings hold */
	CONTROL_ALIVE,	      /* front -> supervisor: the loop turns */
	CONTROL_HUNG_GRANTER, /* front -> supervisor: does not answer, replace it */
	CONTROL_HUNG_GPU,
	CONTROL_HUNG_PLANNER,
	CONTROL_SUMMARY, /* front -> supervisor: for the status line */
	CONTROL_JOBS,	 /* front -> supervisor: for its successor */
};

/* What `systemctl status` shows. Without padding: it is compared as bytes. */
struct control_summary {
	char holder[64];   /* user name of the first holder; "": no GPU is held */
	char trouble[192]; /* why nothing can be measured; "": all is well */
	uint32_t holders, waiting;
	uint64_t granted, dropped; /* since the front began */
	uint64_t audit_fails;	   /* 1: nothing is granted, because nothing can be logged */
};

/* As much of it travels as the op has. */
struct control_message {
	unsigned op;
	union {
		struct config config;		/* of CONTROL_RELOAD */
		struct control_summary summary; /* of CONTROL_SUMMARY */
		struct jobs jobs;		/* of CONTROL_JOBS */
	};
};

/* Sends a message that is an op alone, and fd beside it when it is not -1 (which stays the
 * caller's). -errno; so do the others. */
int control_send(int link, enum control_op op, int fd);
int control_send_reload(int link, const struct config *config, int audit);
int control_send_summary(int link, const struct control_summary *summary);
int control_send_jobs(int link, const struct jobs *jobs);

/* 1: *ret and *ret_fd (or -1) are set; 0: nothing there; -errno: the other end is gone or no longer
 * ours. */
int control_receive(int link, struct control_message *ret, int *ret_fd);

#endif
