/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Closing a descriptor that a user has sent can take as long as the user likes: it may be the last
 * reference to a lingering socket, or a file of a file system in user space. Threads of libuv's
 * pool, which do nothing else, close them. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

enum closing_kind {
	CLOSING_CONNECTION, /* a connection that holds descriptors which nobody has received */
	CLOSING_RECEIVED,   /* a descriptor of any kind that a user has sent */
};

struct closing {
	int fd;
	enum closing_kind kind;
	uid_t uid;   /* the user who sent it */
	void *owner; /* for the caller; not used here */
};

typedef void (*fd_reaper_done)(const struct closing *c, void *userdata);

/* Starts the threads, once in a process and before its filter. -errno. */
int fd_reaper_start(void);

/* The most descriptors that the process may have; every descriptor is below this number. */
size_t fd_reaper_room(void);

/* done is called on the loop for each descriptor that has been closed. -errno. */
int fd_reaper_init(uv_loop_t *loop, fd_reaper_done done, void *userdata);

/* Hands over n descriptors. Never fails. They count as open until done is called for them. */
void fd_reaper_close(const struct closing *c, size_t n);

/* The number of descriptors that were handed over and are not closed yet. */
size_t fd_reaper_count(void);
