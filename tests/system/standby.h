/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Agents in standby and clients that capture them, message by message, all of them in the test's
 * own process. */

#include "proto/wire/limits.h"
#include "proto/wire/wire.h"
#include "tests/system/fixture.h"

/* In place of fixture_setup() and fixture_teardown(). */
int standby_setup(void **state);
int standby_teardown(void **state);

/* The next message, which lives until the one after it. */
struct wire_message standby_receive(int fd);

/* --- agents --- */

struct standby_agent {
	int fd;
	uint32_t id, capture, number;
	char token[LIMIT_TOKEN_BYTES + 1];
	size_t n_gpus;
};

/* Says hello and is registered. */
struct standby_agent standby_register(struct fixture *f, int uid);
void standby_expect_welcome(struct standby_agent *a);
void standby_goodbye(const struct standby_agent *a, uint64_t measured);
void standby_expect_stop(const struct standby_agent *a, int code);
/* Nothing has come, and nothing comes in a moment. */
void standby_expect_silence(int fd);

/* --- clients --- */

/* How many processes the client is told of, over all frames; *ret is the last one, whose texts live
 * until the next message. */
size_t standby_list(int client, struct gpuctr_registered_process *ret);
size_t standby_count(int client);
