/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The front in its box (tests/fuzz/front_box.h), played by a script that reads from top to bottom.
 * The front runs on a thread of its own, and one of both runs at a time: each of these functions
 * has the front work until nothing is left to do, and then goes on. */

#include "tests/fuzz/front_box.h"

enum { ROOT = FRONT_BOX_ROOT, ANN = FRONT_BOX_ANN, BOB = FRONT_BOX_BOB };

/* Settings: Ann and Bob may measure, programs in standby are taken, GPUs are exclusive. */
int front_script_begin(void **state);
int front_script_end(void **state);
#define FRONT_TEST(f) TEST_WITH(f, front_script_begin, front_script_end)

void settle(void);
void pass_s(unsigned s);
/* change is applied to the settings, which the front then reads again. */
void change_settings(void (*change)(struct config *c));
void share_gpus(struct config *c);
void want_an_audit_file(struct config *c); /* that cannot be written */

void say(unsigned peer, const struct wire_message *m);
void connect_peer(unsigned peer, unsigned user);
void connect_client(unsigned peer, unsigned user);
/* As root of a container, who is not root of the machine. */
void connect_container(unsigned peer);
/* Its number, by which captures name it. */
uint32_t connect_standby(unsigned peer, unsigned user);
/* With the token of the capture that became ready as the nth, from 0. */
void connect_agent(unsigned peer, unsigned user, unsigned nth);

/* A capture of these GPUs, by index; NULL: all that the user may have. Returns its number. */
uint32_t open_capture(unsigned peer, const char *gpu);
uint32_t open_processes(unsigned peer, const uint32_t *ids, size_t n);
void say_open(unsigned peer, const struct wire_open_capture *o);
void close_capture(unsigned peer, uint32_t capture);
void begin_job(unsigned peer, const char *job, unsigned user, const char *gpu, uint64_t time_ns);
void end_job(unsigned peer, const char *job);
void ask_permission(unsigned peer, unsigned user, unsigned nth);
void tell_progress(unsigned peer, uint64_t seen, uint64_t measured);
/* Of a client that may ask; what it points to lasts until the next call. */
const struct wire_status_reply *ask_status(unsigned peer);

/* Is called for each message that a peer hears in this test. */
void listen_to(void (*f)(unsigned peer, const struct frame *frame));
/* What a peer has heard of a type: how often, and the last one, NULL for none. */
unsigned count_heard(unsigned peer, enum wire_type type);
const struct wire_message *last_heard(unsigned peer, enum wire_type type);
/* The code of the last refusal; 0: there was none. */
uint32_t refused_for(unsigned peer);
bool is_closed(unsigned peer);
/* How many decisions that begin so were logged; *ret_last, which may be NULL, is the last one of
 * them, or "". */
unsigned count_decisions(const char *begin, const char **ret_last);
/* How often the gpu process was asked who computes. */
unsigned count_looks(void);
/* The last one of this kind; its op is 0 when there was none. */
struct granter_request last_granter_request(enum granter_op op);
