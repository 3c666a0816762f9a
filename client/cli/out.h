/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_OUT_H
#define CLIENT_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>

/* A file, pipe or terminal that records are written to, by a thread of its own. */
struct out;

/* path "-": standard output. Returns 0 or a negative errno: -EEXIST when a file is there and force
 * was not given, -ELOOP when a link is there that leads to a file or nowhere, because who made it
 * chose what is replaced. out_check() finds that and what else can be known before anything waits
 * for it. */
int out_check(const char *path, bool force);
int out_open(const char *path, bool force, struct out **ret);

/* Is it there, and no file: a pipe, a terminal, a device, by a link or not? */
bool out_is_device(const char *path);
/* Opens it. The descriptor, or a negative errno: -EEXIST when it is a file after all. */
int out_open_device(const char *path);

/* Hands bytes over, whole or not at all: false when they were left out, because the other side is
 * gone, or full, or too slow. */
bool out_write(struct out *out, const char *data, size_t n);

enum out_state {
	OUT_OPEN,
	OUT_CLOSED, /* nobody reads: a closed pipe */
	OUT_FAILED, /* out_close() says why */
};
enum out_state out_state(struct out *out);

/* Waits until all is written and closes. Takes NULL, returns NULL. *ret_state, *ret_errno may be
 * NULL. */
struct out *out_close(struct out *out, enum out_state *ret_state, int *ret_errno);

#endif
