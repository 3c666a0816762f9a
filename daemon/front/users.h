/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of users, for texts only: decisions use uids. Names in /etc/passwd are known at once. Other
 * names come from a name service, which may block and loads code, so the supervisor starts a
 * process to ask it. Until the answer comes, or if there is none, a user is "uid 1000". */

struct users;

struct users *users_new(void); /* NULL: out of memory */
struct users *users_free(struct users *u);

/* The name of uid, or "uid 1000"; names from the file are at most a second old. */
void users_name(struct users *u, uid_t uid, char *name, size_t size);

/* True: the caller asks for the name of *ret and calls users_learn() with the answer. Returns one
 * uid at a time. */
bool users_want(struct users *u, uint64_t now_ns, uid_t *ret);
/* Asks the supervisor for the next wanted name, if there is one. */
void users_ask(struct users *u, int control);
/* name "": uid has no name. */
void users_learn(struct users *u, uint64_t now_ns, uid_t uid, const char *name);

/* users_name() with another file and a given time, for tests. */
void users_name_in(struct users *u, const char *path, uint64_t now_ns, uid_t uid, char *name,
		   size_t size);
