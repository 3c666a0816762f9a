/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Names of users from /etc/passwd, for texts only: decisions use numbers. Name services are not
 * used, because they may block. */

struct users;

struct users *users_new(void); /* NULL: out of memory */
struct users *users_free(struct users *u);

/* The name of uid, at most a second old, or "uid 1000". */
void users_name(struct users *u, uid_t uid, char *name, size_t size);

/* The same for another file and a given time, for tests. */
void users_name_in(struct users *u, const char *path, uint64_t now_ns, uid_t uid, char *name,
		   size_t size);
