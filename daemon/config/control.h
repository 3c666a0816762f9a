/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/broker/jobs.h"
#include "daemon/config/config.h"

/* Messages between supervisor and front, each one packet of a SOCK_SEQPACKET pair. CONTROL_NEW
 * contains the front's end of a new link; CONTROL_RELOAD contains the new settings and the newly
 * opened audit file. */

/* Every other worker has a link to the front. */
enum worker_id { WORKER_GRANTER, WORKER_GPU, WORKER_PLANNER, WORKER_FRONT, WORKERS };

enum control_op {
	CONTROL_NEW = 1, /* supervisor -> front */
	CONTROL_RELOAD,
	CONTROL_STOP,
	CONTROL_READY,	  /* front -> supervisor: the front listens */
	CONTROL_RELOADED, /* front -> supervisor: the new settings are in force */
	CONTROL_ALIVE,	  /* front -> supervisor: sign of life of its loop */
	CONTROL_HUNG,	  /* front -> supervisor: the worker does not answer, replace it */
	CONTROL_JOBS,	  /* front -> supervisor: jobs to keep for the next front */
	CONTROL_RESTARTS, /* supervisor -> front: a worker was replaced */
	CONTROL_WHO,	  /* front -> supervisor: asks for the name of a uid */
	CONTROL_NAME,	  /* supervisor -> front: answers CONTROL_WHO */
};

struct control_user {
	uint32_t uid;
	char name[64]; /* of CONTROL_NAME; "": the uid has no name, or the name is unknown */
};

/* An op and its data. Only the op's member of the union is sent. */
struct control_message {
	unsigned op;
	enum worker_id worker; /* of CONTROL_NEW and CONTROL_HUNG */
	union {
		struct config config;	    /* of CONTROL_RELOAD */
		struct jobs jobs;	    /* of CONTROL_JOBS */
		uint64_t restarts[WORKERS]; /* of CONTROL_RESTARTS: how often each worker has ended
					       by itself */
		struct control_user user;   /* of CONTROL_WHO and CONTROL_NAME */
	};
};

/* Sends m with the descriptor fd, which the caller still owns; -1: none. 0 or -errno. */
int control_send_message(int link, const struct control_message *m, int fd);

/* Sends an op without data. */
int control_send(int link, enum control_op op);
int control_send_worker(int link, enum control_op op, enum worker_id worker, int fd);

/* 1: *ret and *ret_fd (or -1) are set; 0: no message waits; -errno: the other end is closed or has
 * sent a malformed message. */
int control_receive(int link, struct control_message *ret, int *ret_fd);
