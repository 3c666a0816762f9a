/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of users, for texts only: decisions use numbers. Those of /etc/passwd are known at once.
 * Others are a name service's, which may block and loads code: the supervisor has a process ask it,
 * and until the answer has come, and where there is none, a user is "uid 1000". */

struct users;

struct users *users_new(void); /* NULL: out of memory */
struct users *users_free(struct users *u);

/* The name of uid, or "uid 1000"; what the file says is at most a second old. */
void users_name(struct users *u, uid_t uid, char *name, size_t size);

/* True: the name of *ret is to be asked for; users_learn() is called with the answer. Asks for one
 * at a time. */
bool users_want(struct users *u, uint64_t now_ns, uid_t *ret);
/* Asks the supervisor for a name that is wanted, if there is one. */
void users_ask(struct users *u, int control);
/* name "": there is none. */
void users_learn(struct users *u, uint64_t now_ns, uid_t uid, const char *name);

/* The same for another file and a given time, for tests. */
void users_name_in(struct users *u, const char *path, uint64_t now_ns, uid_t uid, char *name,
		   size_t size);
