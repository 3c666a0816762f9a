/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_GRANTER_GRANTER_H
#define GPUCTR_GRANTER_GRANTER_H

/* What the front may ask of the granter: fixed structs, one a packet of a SOCK_SEQPACKET pair. What
 * needs the driver (an object, the end of a lease, the next lease after it) is answered when the
 * driver has answered, or after GRANTER_HUNG_NS with -ETIMEDOUT; everything else at once. */

#include <stdint.h>

enum granter_op {
	GRANTER_OPEN = 1, /* lease, uid, lease_ns, gpus, device */
	GRANTER_EXTEND,	  /* lease, lease_ns from now */
	GRANTER_CLOSE,	  /* lease: free what was allocated under it */
	GRANTER_ALLOC, /* lease, pid, uid, handles; one descriptor of /dev/nvidiactl rides along */
	GRANTER_PING,
	/* granter -> front, unasked, of a lease */
	GRANTER_EXPIRED, /* it ran out and was closed */
	GRANTER_HUNG,	 /* the driver does not answer on one of its gpus; it is over */
	GRANTER_ANSWERS, /* since then the driver does again, and it is closed */
};

enum {
	GRANTER_LEASES_MAX = 64,
	GRANTER_OBJECTS_MAX = 1024,
	GRANTER_OBJECTS_PER_LEASE_MAX = 256,
};

#define GRANTER_LEASE_MAX_NS (UINT64_C(3600) * 1000000000)
#define GRANTER_HUNG_NS (UINT64_C(5) * 1000000000) /* that a call of the driver may take */

struct granter_request {
	uint32_t size; /* of this struct */
	uint32_t op;
	uint64_t id; /* chosen by the front, returned in the reply */
	uint64_t lease;
	uint64_t lease_ns;
	uint64_t gpus; /* mask of GPU indices the lease covers */
	uint32_t uid, pid;
	uint32_t root, parent, object, object_class;
	uint32_t client_target, context_target;
	uint32_t device; /* 1: objects of the lease may count the whole GPU */
	uint32_t unused; /* 0 */
};

struct granter_reply {
	uint32_t size;
	uint32_t op;
	uint64_t id;
	uint64_t lease;
	int32_t error;	 /* 0, or a negative errno saying which check failed */
	uint32_t status; /* of the driver */
	uint64_t gpus;	 /* of what comes unasked: those of the lease */
};

/* Runs until link reaches its end, with hands that were started. Returns the exit status. */
int granter_run(int link);

#endif
