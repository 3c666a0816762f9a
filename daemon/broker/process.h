/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Programs with an agent, for as long as the agent is connected. A process whose hello has a token
 * is attached to the capture of that token until the capture ends. A process without a token is
 * registered: any number of captures, one at a time, may name it by its number. The front talks to
 * it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/account.h"
#include "proto/base/list.h"
#include "proto/wire/wire.h"

struct capture;

enum {
	PROCESS_LABELS_BYTES_MAX = 1024, /* of a process's labels, with a NUL after each */
	PROCESS_CGROUP_BYTES_MAX =
		512, /* most bytes of the cgroup's path, with its NUL; longer paths are cut */
	PROCESS_BUCKETS = 1024,

	PROCESS_E_LABELS = 1, /* too many bytes of labels */
	PROCESS_E_FULL = 2,   /* the capture already has the most processes allowed */
};

struct process {
	struct list all_link; /* in the registry */
	struct list bucket_link;
	uint32_t id; /* never 0, never reused while the daemon lives */
	void *peer;
	pid_t pid; /* pid as reported by the kernel */
	uid_t uid;
	uint64_t begin; /* begin of a registered process, see proc_read_begin(); 0: unknown */
	bool host_root; /* see struct credentials */

	bool registered;
	uint64_t since_ns;	 /* time of its registration */
	struct account *account; /* pays for the labels */
	char *labels; /* the process's labels about its job: NAME=value and NUL, n_labels times */
	uint32_t n_labels;
	const char *cgroup;   /* stored behind the labels; "": unknown */
	uint32_t texts_bytes; /* bytes of labels and cgroup, charged to the account */

	/* The members below are about its capture. */
	struct capture *capture;     /* NULL: none */
	struct list link;	     /* among the processes of the capture */
	uint32_t number;	     /* in the capture; 0: the capture has not begun */
	struct gpuctr_totals totals; /* totals as last reported */
	uint64_t counted_ns; /* unix time at which totals were true; at first the time of the
				welcome */
	uint64_t records;    /* records passed on to the client */
	uint64_t notices;    /* notices that the process sent, including those not passed on */
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

/* The number of programs that a's user may have in standby: at most max, at most total with those
 * of other users, and at most as many as then remain free. So neither one user nor a few can take
 * all: each leaves as many free as it holds. */
unsigned processes_share(const struct processes *all, const struct account *a, unsigned max,
			 unsigned total);

/* Registers p, so that captures may name it. PROCESS_E_LABELS; -EDQUOT or -ENOMEM for the labels
 * and the cgroup. */
int process_register(struct processes *all, struct process *p, struct account *payer,
		     const struct wire_strings *labels, const char *cgroup, uint64_t now_ns);

/* The labels as a list in a; empty when a is full. */
struct wire_strings process_labels(struct arena *a, const struct process *p);

/* Attaches p to c, and until process_detach() to no other capture. PROCESS_E_FULL. */
int process_attach(struct process *p, struct capture *c);

/* Begins to measure p: gives it a number in its capture. */
void process_begin(struct process *p);

/* Adds p's totals to its capture; p may be attached again. */
void process_detach(struct process *p);

/* Completes the totals of a process that has left its capture: records that were passed on count as
 * measured even if the process could not report them; other unreported launches count as lost. */
void process_settle(struct process *p);

void process_add_totals(struct gpuctr_totals *sum, const struct gpuctr_totals *t);
