/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs with an agent, for as long as the agent is connected. A process that came with a token
 * is attached to the capture of that token and goes with it. A process that came without one is
 * registered: captures name it by its number, any number of them in its life, one at a time. The
 * front talks to it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/account.h"
#include "proto/base/list.h"
#include "proto/wire/wire.h"

struct capture;

enum {
	PROCESS_LABELS_BYTES_MAX = 1024, /* of one process, with a NUL after each */
	PROCESS_CGROUP_BYTES_MAX =
		512, /* of the cgroup's path, with its NUL; longer ones are cut */
	PROCESS_BUCKETS = 1024,

	PROCESS_E_LABELS = 1, /* too many bytes of labels */
	PROCESS_E_FULL = 2,   /* the capture has as many processes as it may */
};

struct process {
	struct list all_link; /* in the registry */
	struct list bucket_link;
	uint32_t id; /* never 0, never used again while the daemon lives */
	void *peer;
	pid_t pid; /* pid as reported by the kernel */
	uid_t uid;
	uint64_t begin; /* when a registered process began, see proc_read_begin(); 0: not known */
	bool host_root; /* see struct credentials */

	bool registered;
	uint64_t since_ns;	 /* when it registered */
	struct account *account; /* pays for the labels */
	char *labels; /* the process's labels about its job: NAME=value and NUL, n_labels times */
	uint32_t n_labels;
	const char *cgroup;   /* stored behind the labels; "": not known */
	uint32_t texts_bytes; /* bytes of both, charged to the account */

	/* Its part in a capture. */
	struct capture *capture;     /* NULL: none */
	struct list link;	     /* among the processes of the capture */
	uint32_t number;	     /* in the capture; 0: the capture has not begun */
	struct gpuctr_totals totals; /* totals as last reported */
	uint64_t counted_ns;	     /* when these were true, unix; at first when it was welcomed */
	uint64_t records;	     /* passed on to the client */
	uint64_t notices; /* notices that the process sent, including those not passed on */
	bool said_goodbye;
};

struct processes {
	struct list all;
	struct list buckets[PROCESS_BUCKETS]; /* by number */
	uint32_t last_id;
	size_t n_registered;
};

void processes_init(struct processes *all);

/* Borrowed; NULL: the process has ended or never existed. */
struct process *processes_find(const struct processes *all, uint32_t id);

/* NULL: out of memory. */
struct process *process_new(struct processes *all, pid_t pid, uid_t uid, void *peer);
struct process *process_free(struct processes *all, struct process *p);

/* How many programs of a's user may be in standby: at most max of one user, total of all users, and
 * as many as are left free for others. So neither one user nor a few can take all: each leaves as
 * many free as it holds. */
unsigned processes_share(const struct processes *all, const struct account *a, unsigned max,
			 unsigned total);

/* From now on captures may name p. PROCESS_E_LABELS; -EDQUOT or -ENOMEM for the labels and the
 * cgroup. */
int process_register(struct processes *all, struct process *p, struct account *payer,
		     const struct wire_strings *labels, const char *cgroup, uint64_t now_ns);

/* The labels as a list in a; empty when a is full. */
struct wire_strings process_labels(struct arena *a, const struct process *p);

/* Attaches p to c; no other capture may then. PROCESS_E_FULL. */
int process_attach(struct process *p, struct capture *c);

/* Begins to measure p: gives it a number in its capture. */
void process_begin(struct process *p);

/* Adds p's totals to its capture; p may be attached again. */
void process_detach(struct process *p);

/* Completes the totals of a process that has left its capture: records that were passed on count as
 * measured even if the process could not report them; launches without a fate count as lost. */
void process_settle(struct process *p);

void process_add_totals(struct gpuctr_totals *sum, const struct gpuctr_totals *t);
