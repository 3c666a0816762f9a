/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/agent/connection.h"
#include "proto/wire/status.h"

/* Connects, introduces this process to the daemon and takes its part of a capture. *ret lives in
 * arena. 0, or a positive code with r filled; the connection is closed then. */
int hello_say(struct connection *l, const char *socket_path, const struct wire_agent_hello *hello,
	      struct arena *arena, struct wire_agent_welcome *ret, struct refusal *r);

/* A copy of a welcome that the connection received, in arena. False: out of memory. */
bool hello_keep(const struct wire_message *m, struct arena *arena, struct wire_agent_welcome *ret);
