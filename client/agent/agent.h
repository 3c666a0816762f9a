/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of the agent that lives as long as the process. A process has at most one capture at a
 * time. */

#include "client/agent/capture.h"

/* To be called once, in the program's first cuInit(). on_fork is called in children that fork
 * without exec, where the connection belongs to the parent. */
void agent_init(const char *socket_path, void (*on_fork)(void));

const char *agent_socket_path(void);

/* Creates the current capture; NULL: out of memory, or the program exits. */
struct capture *agent_begin(struct connection *connection, bool late);

/* Opens the libraries unless they are open, and starts the capture. False: it failed. The caller
 * must call agent_run() in any case, which reports the failure to the user. */
bool agent_start(struct capture *c, const char *token);

/* Runs the capture to its end and frees it; then there is no current capture. Does not return if
 * the program exits. */
void agent_run(struct capture *c);

/* Frees a capture that was not started. */
void agent_drop(struct capture *c);

/* Waits until there is no current capture. */
void agent_wait(uint64_t timeout_ns);
