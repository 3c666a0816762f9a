/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A peer of the daemon that says whatever a test wants, down to the byte. */

#include "proto/wire/wire.h"
#include "tests/system/fixture.h"

int raw_connect(struct fixture *f, int uid);

/* As the process that calls; -1: the daemon takes nobody just now. For children of a test. */
int raw_dial(const char *path);

/* All of it, with a descriptor beside the first byte unless it is -1. False: the daemon has closed.
 */
bool raw_send_bytes(int socket, const void *data, size_t n, int fd);
bool raw_send_descriptors(int socket, const void *data, size_t n, int fd, size_t n_fds);
bool raw_send(int socket, const struct wire_message *m, int fd);
bool raw_send_header(int socket, uint32_t size, uint16_t type, uint16_t zero);

/* The next message lives in a until its next use. False: the daemon has closed. Fails the test when
 * neither happens. */
bool raw_next(int socket, struct arena *a, struct wire_message *ret);

/* The same; fails the test when the daemon has closed. */
struct wire_message raw_receive(int socket, struct arena *a);

/* The daemon refuses with this code, then closes. */
void raw_expect_refused(int socket, int code);
void raw_expect_closed(int socket); /* whatever came before */

/* Connects, says hello, and is welcomed. */
int raw_client(struct fixture *f, int uid);

/* An agent of the capture, welcomed. */
int raw_agent(struct fixture *f, int uid, const char *token, uint32_t *ret_process);

/* The same for a capture of recordings. */
int raw_recording(struct fixture *f, int uid, const char *token, uint32_t *ret_process);

/* --- permission --- */

enum { RAW_CLIENT = (int)0xc1d00001 };

/* What the fake driver takes for an open /dev/nvidiactl, with RAW_CLIENT made on it. The caller's
 * to close. */
int raw_control_device(void);

/* A request as CUPTI makes it: of client root, for a context of its own. */
struct wire_message raw_permission(const char *token, uint32_t root, uint32_t object);

struct raw_answer {
	bool granted;
	uint32_t status; /* the driver's; RM_STATUS_INSUFFICIENT_PERMISSIONS if it was not asked */
	int code;	 /* why it was not; -1: the daemon closed without a word */
};

/* Closes the connection. */
struct raw_answer raw_take_answer(int socket);
/* Asks and closes. m may be any message. */
struct raw_answer raw_ask_on(int socket, const struct wire_message *m, int fd);
struct raw_answer raw_ask(struct fixture *f, int uid, const struct wire_message *m, int fd);
/* For who asks again and again: connections and descriptors count until the daemon has really
 * closed them, so it may have to wait for a place. */
struct raw_answer raw_ask_patiently(struct fixture *f, int uid, const struct wire_message *m,
				    int fd);

/* How many captures of uid the daemon tells of. *ret is the first; its texts and lists are gone. */
size_t raw_captures(struct fixture *f, int uid, struct gpuctr_capture_info *ret);
