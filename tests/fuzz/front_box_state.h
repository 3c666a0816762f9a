/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <sys/un.h>

#include "daemon/config/config.h"
#include "daemon/front/front.h"
#include "proto/base/clean.h"
#include "proto/wire/limits.h"
#include "tests/fuzz/front_box.h"

/* Between the two halves of the front's box: peers and the kernel (front_box.c), and the daemon's
 * other processes (front_box_workers.c). */

enum {
	TOKENS = 8,
	REQUESTS = 64,
	STOP_TURNS = 4000,
	CONTAINER_ROOT = FRONT_BOX_USERS,
	USERS,
};

#define NOBODYS_PID ((pid_t)0x7ffffff0) /* beyond the largest that the kernel gives */

struct box_peer {
	int fd; /* -1: not connected */
	unsigned user;
	struct buffer out, in;
	size_t chunk;
	unsigned n_attached;
	bool reading;
	struct front_box_heard heard;
};

/* A request to one of the processes that waits for its answer. */
struct box_request {
	struct granter_request granter;
	enum wire_type type;
	uint32_t id;
};

struct box_lease {
	uint64_t id, gpus;
	uint32_t uid;
};

struct box_process {
	int fd; /* the box's end; -1: there is none */
	bool prompt;
	struct buffer in;
	struct box_request requests[REQUESTS];
	size_t n_requests;
	unsigned given_up_by; /* the act by which the front is to have closed its end; 0: none */
	bool noisy;	      /* has said what may be the beginning of a message */
};

struct front_box {
	bool active;
	front_box_act act;
	void *userdata;
	bool acts_over, stopped;
	unsigned turns_since_stop;
	unsigned n_acts;
	uint64_t now_ns;
	uint64_t random;

	struct box_peer peers[FRONT_BOX_PEERS];
	unsigned users[256]; /* of connections that are not accepted yet, in their order */
	pid_t pids[256], pid;
	unsigned n_connected, n_accepted;
	char tokens[TOKENS][LIMIT_TOKEN_BYTES + 1];
	unsigned n_tokens;
	struct box_lease leases[GRANTER_LEASES_MAX];
	unsigned n_leases;

	int listener, control;
	struct pollfd readable[FRONT_BOX_PEERS + FRONT_BOX_ASKED + 2];
	struct sockaddr_un address;
	socklen_t address_length;
	struct box_process granter, asked[FRONT_BOX_ASKED];
	uint32_t tenants[FRONT_BOX_GPUS]; /* pids */
	bool swapped, other_files;
	unsigned groups_fail;
	struct config config;
	struct arena arena, scratch;
};

extern struct front_box front_box;
extern struct front_box_listener front_box_listener;
extern const uid_t front_box_uids[USERS];

bool front_box_is_readable(int fd);
ssize_t front_box_receive(int fd, struct buffer *b);
bool front_box_granter_receive(void);
bool front_box_gpu_receive(enum front_box_asked which);
void front_box_process_end(struct box_process *p);
int front_box_process_begin(struct box_process *p, int type);
void front_box_read_control(void);
void front_box_check_given_up(void);
