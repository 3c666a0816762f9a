/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests of the front to the granter: fixed structs, each one packet of a SOCK_SEQPACKET pair.
 * The granter answers a request that needs the driver (an object, the end of a lease, the next
 * lease after it) when the driver has answered, or with -ETIMEDOUT after GRANTER_HUNG_NS. It
 * answers every other request at once. */

#include <stdint.h>

#include "proto/nvidia/rm.h"

enum granter_op {
	GRANTER_OPEN = 1, /* lease, uid, gpus and their names, device */
	GRANTER_CLOSE,	  /* lease: free all objects that were allocated under it */
	GRANTER_ALLOC,	  /* lease, pid, uid, handles; with one descriptor of /dev/nvidiactl */
	GRANTER_PING,
	/* granter -> front: events of a lease, which no request asked for */
	GRANTER_HUNG,	 /* the driver hangs on one of its gpus; the lease is over */
	GRANTER_ANSWERS, /* the driver answers again after that, and the lease is closed */
};

enum {
	GRANTER_LEASES_MAX = 64,
	GRANTER_GPUS_MAX = 64,
	GRANTER_OBJECTS_MAX = 1024,
	GRANTER_OBJECTS_PER_LEASE_MAX = 256,
};

#define GRANTER_HUNG_NS (UINT64_C(5) * 1000000000) /* the longest that a driver call may take */

/* After this many periods without a packet of the front the granter ends every lease. It counts
 * periods instead of comparing times, because a pause of the whole machine, which delays the front
 * too, then counts as one period. */
#define GRANTER_SILENCE_NS (UINT64_C(5) * 1000000000)
enum { GRANTER_SILENCES = 3 };

struct granter_request {
	uint32_t size; /* size of this struct */
	uint32_t op;
	uint64_t id; /* chosen by the front, returned in the reply */
	uint64_t lease;
	uint64_t gpus; /* mask of GPU indices the lease covers */
	uint32_t uid, pid;
	uint32_t root, parent, object, object_class;
	uint32_t client_target, context_target;
	uint32_t device;		       /* 1: objects of the lease may count the whole GPU */
	uint32_t unused;		       /* 0 */
	struct rm_gpu names[GRANTER_GPUS_MAX]; /* names of the GPUs whose bits are set in gpus */
};

struct granter_reply {
	uint32_t size;
	uint32_t op;
	uint64_t id;
	uint64_t lease;
	int32_t error;	 /* 0, or a negative errno of the check that failed */
	uint32_t status; /* status of the driver */
	uint64_t gpus;	 /* in events: the GPUs of the lease */
};

/* Runs until link reaches its end. The threads must have been started. Returns the exit status. */
int granter_run(int link);
