/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_DAEMON_CONTROL_H
#define GPUCTR_DAEMON_CONTROL_H

/* Between supervisor and front, one packet a message on a SOCK_SEQPACKET pair; NEW_* carry the
 * front's end of a fresh link. */

enum control_op {
	CONTROL_NEW_GRANTER = 1, /* supervisor -> front */
	CONTROL_NEW_GPU,
	CONTROL_STOP,
	CONTROL_READY, /* front -> supervisor: listening */
	CONTROL_ALIVE, /* front -> supervisor: the loop turns */
};

struct control_message {
	unsigned op;
};

/* Sends op, and fd when it is not -1 (which stays the caller's). -errno. */
int control_send(int link, enum control_op op, int fd);

/* 1: *ret_op and *ret_fd (or -1) are set; 0: nothing there; -EPIPE: the other end is gone. */
int control_receive(int link, enum control_op *ret_op, int *ret_fd);

#endif
