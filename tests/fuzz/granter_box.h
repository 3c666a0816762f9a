/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The granter in a box: the code that ships, but for its threads, runs in this process and on this
 * thread, and every call of it into the kernel ends in the box, which decides what the front says,
 * what time it is, who dies and what the driver answers, and when. A million packets take seconds,
 * and the same steps give the same run.
 *
 * The box knows by itself, without a look into the granter, which leases there are and what may
 * reach the driver. The process is aborted at the first difference. */

#include "daemon/granter/granter.h"

#include <stdbool.h>
#include <stddef.h>

/* What rides along with a packet. */
enum box_file {
	BOX_NO_FILE,
	BOX_CONTROL_DEVICE,
	BOX_CONTROL_PATH, /* the control device, opened with O_PATH */
	BOX_OTHER_DEVICE, /* /dev/null, say */
	BOX_REGULAR,
	BOX_SOCKET,
	BOX_CLOSED, /* statx() and fcntl() fail */
	BOX_FILES,
};

enum { BOX_PIDS = 64 }; /* processes 1 .. 63 there are, or their successors */

struct box_step {
	enum {
		BOX_PACKET,
		BOX_EXIT,	  /* process pid ends; its number is used again */
		BOX_STOP_READING, /* the front leaves replies in the socket from here on ... */
		BOX_READ,	  /* ... up to here */
		BOX_WAIT,	  /* nothing but the time that passes */
		BOX_PAUSE,	  /* the whole machine stands still meanwhile */
		BOX_HANG,	  /* calls of thread pid do not return, if the front reads ... */
		BOX_ANSWER,	  /* ... up to here */
		BOX_END,	  /* the front closes its end, or has died */
	} kind;
	uint64_t after_ns; /* passes before */
	uint32_t tick_ns;  /* passes whenever the granter looks at the clock, from here on */

	uint8_t bytes[2048]; /* of a packet: normally a struct granter_request */
	size_t n_bytes;
	enum box_file file;
	unsigned n_files; /* of this kind; more than one is too many */

	bool starves;		/* with a packet: the front never reads what waits before it */
	int driver_errno;	/* of the driver's next calls; 0: they work ... */
	uint32_t driver_status; /* ... with this answer */
	uint32_t pid;		/* or thread */
};

/* Fills in the next step, which is zeroed. */
typedef void (*box_next)(struct box_step *step, void *userdata);

struct box_figures {
	uint64_t packets, replies;
	uint64_t opened, hung;
	bool silent;			/* the granter ended because its front said nothing */
	uint64_t allocs, grants, frees; /* ioctls; grants are allocs that the driver agreed to */
};

/* Runs a granter until the front's end is closed, or the granter leaves it or ends for its silence.
 */
struct box_figures box_run(box_next next, void *userdata);

/* A packet of q. */
void box_packet(struct box_step *step, const struct granter_request *q, enum box_file file);
