/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The front in a box: front_run() as it ships, on the thread of the test, with real sockets. Its
 * peers, the granter, the gpu process, the planner and the supervisor are played by the box
 * whenever the loop would wait for events; time passes only when a test says so. The same acts give
 * the same run.
 *
 * What users attach is closed when a test says so: see fd_reaper_box.h.
 *
 * The box aborts when the front says what cannot be decoded, says more than a refusal, or what is
 * public, to who is not allowed, asks the granter for what the arbiter must not have given, goes on
 * with a process that has answered what it was not asked, leaves a descriptor open, or does not
 * stop. */

#include "daemon/config/config.h"
#include "daemon/granter/granter.h"
#include "proto/wire/wire.h"

/* The GPUs of the machine. */
#define FRONT_BOX_UUID_0 "GPU-10000000-0000-0000-0000-000000000000"
#define FRONT_BOX_UUID_1 "GPU-10000000-0000-0000-0000-000000000001"

enum {
	FRONT_BOX_PEERS = 8,
	FRONT_BOX_GPUS = 2,

	FRONT_BOX_ROOT = 0, /* who connects */
	FRONT_BOX_ANN,
	FRONT_BOX_BOB,
	FRONT_BOX_MALLORY, /* is not allowed */
	FRONT_BOX_USERS,
};

/* What a peer has heard. */
struct front_box_heard {
	uint32_t capture; /* the last one opened, or that an agent was welcomed to */
	uint32_t process; /* of an agent */
	bool closed;	  /* its connection, by the front */
};

/* Who is told what goes by; each may be NULL. */
struct front_box_listener {
	void (*on_message)(unsigned peer, const struct frame *f);
	void (*on_granter_request)(const struct granter_request *q);
	void (*on_look)(void);		       /* the gpu process is asked who computes */
	void (*on_decision)(const char *line); /* of the audit log, as text */
};

/* Acts, and returns true; false when there is nothing left to do. */
typedef bool (*front_box_act)(void *userdata);

/* Runs a front until act has nothing left to do, and then has it stopped. */
void front_box_run(front_box_act act, void *userdata);

/* In this run and all that follow. */
void front_box_listen(const struct front_box_listener *listener);

/* --- what a test may do in its act; numbers are taken modulo what there is --- */

void front_box_connect(unsigned peer, unsigned user);
void front_box_close(unsigned peer, bool half);
/* Sends what is queued and closes, before the front looks: a process that exits. */
void front_box_leave(unsigned peer);
/* As root, but of a container. */
void front_box_connect_container(unsigned peer);
/* Connections made from now on come from this process; 0: from the test's own. */
void front_box_set_pid(pid_t pid);

/* Queues bytes to be sent, chunk by chunk, while the loop turns. */
void front_box_say(unsigned peer, const void *data, size_t n);
void front_box_say_message(unsigned peer, const struct wire_message *m);
void front_box_set_chunk(unsigned peer, size_t bytes); /* 0: all at once */
void front_box_attach(unsigned peer, unsigned n);      /* descriptors with the next chunk */
void front_box_attach_other_files(bool other);	       /* none of them is the driver's */
void front_box_set_reading(unsigned peer, bool reading);
struct front_box_heard front_box_heard(unsigned peer);
size_t front_box_unsent(unsigned peer);	       /* bytes that the peer's socket does not take */
const char *front_box_token(unsigned capture); /* of the captures that became ready, in turn */

/* Requests wait for front_box_*_answer() while the process is not prompt. */
void front_box_granter_set_prompt(bool prompt);
void front_box_granter_answer(int error, uint32_t status);
void front_box_granter_hang(uint64_t gpus);
void front_box_granter_say(const void *data, size_t n);
void front_box_granter_replace(bool dies_first);

enum front_box_answer {
	FRONT_BOX_GOOD,
	FRONT_BOX_REFUSAL,
	FRONT_BOX_PASSES, /* a plan of several */
	FRONT_BOX_UNKNOWN_TENANTS,
	FRONT_BOX_FOREIGN_TENANT,
	FRONT_BOX_MORE_METRICS, /* not the last part of the answer */
	FRONT_BOX_ANSWERS,
	FRONT_BOX_LONG_NAMES, /* a plan of as many columns as there may be, with names as long */
};

enum front_box_asked { FRONT_BOX_GPU, FRONT_BOX_PLANNER, FRONT_BOX_ASKED };

void front_box_gpu_set_prompt(enum front_box_asked which, bool prompt);
void front_box_gpu_answer(enum front_box_asked which, enum front_box_answer answer);
/* Answers with a message of this type, whatever was asked. Of a type that answers another question,
 * or none, the box sees to it that the front gives the process up. */
void front_box_gpu_answer_as(enum front_box_asked which, enum wire_type type);
/* The types that the two know: questions and answers. */
extern const enum wire_type front_box_gpu_types[9];
void front_box_gpu_say(enum front_box_asked which, const void *data, size_t n);
void front_box_gpu_replace(enum front_box_asked which, bool dies_first);
/* The nth call fails by which the kernel tells a peer's groups, of 2; 0: none. */
void front_box_fail_groups(unsigned nth);
/* The next gpu process finds the two GPUs in the other order. */
void front_box_swap_gpus(void);

/* Computes on a GPU, as a good answer tells; 0: nobody does. */
void front_box_set_tenant(unsigned gpu, uint32_t pid);

void front_box_hold_closes(bool hold); /* of what users have sent */
void front_box_pass(uint64_t ms);
void front_box_reload(bool shared, unsigned limit);
/* What a test changes here the front knows after front_box_reload_settings(). */
struct config *front_box_settings(void);
void front_box_reload_settings(void);
/* Lines of the audit log go there from now on; fd stays the test's. */
void front_box_set_audit_file(int fd);
uid_t front_box_uid(unsigned user);
/* As a name service tells it. */
void front_box_name_user(unsigned user, const char *name);
void front_box_stop(void);
