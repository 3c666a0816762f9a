/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AGENT_AGENT_H
#define GPUCTR_AGENT_AGENT_H

/* The agent of this process: what lives as long as the process does. At most one capture is under
 * way at a time. */

#include "client/agent/capture.h"

/* From the program's first cuInit, once. on_fork is called in children that are forked without
 * exec: the connection is the parent's there. */
void agent_init(const char *socket_path, void (*on_fork)(void));

const char *agent_socket_path(void);

/* Makes the capture that is now under way; NULL: out of memory, or the program exits. */
struct capture *agent_begin(struct link *link, bool late);

/* Opens the libraries, if that was not done before, and starts it. False: that did not succeed; the
 * user is told when it runs, which it has to do all the same. */
bool agent_start(struct capture *c, const char *token);

/* Runs it to its end, frees it, and then none is under way. Does not return when the program
 * exits. */
void agent_run(struct capture *c);

/* It never came to be: nothing was started. */
void agent_drop(struct capture *c);

/* It was started, and there is no thread to run it: it ends at once and is not freed, because the
 * program may be within it. */
void agent_abandon(struct capture *c);

/* Waits until none is under way. */
void agent_wait(uint64_t timeout_ns);

/* The program exits: what was measured is delivered, within timeout_ns. */
void agent_finish(uint64_t timeout_ns);

#endif
