/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/list.h"
#include "daemon/granter/granter.h"
#include "daemon/granter/thread.h"

/* Replies that wait until the front reads. While some wait, the granter reads nothing from the
 * front, so their number is bounded: an answer for each requested object, and for each lease the
 * reports of its opening, end, hang, and return. */

enum { OUTBOX_MAX = GRANTER_OBJECTS_MAX + 6 * GRANTER_LEASES_MAX };

struct outbox {
	int link;
	int error; /* 0, or the -errno of a send that failed: later replies are dropped */
	unsigned first, n;
	struct granter_reply waiting[OUTBOX_MAX];
};

void outbox_init(struct outbox *o, int link);
void outbox_say(struct outbox *o, const struct granter_reply *p);

/* Sends waiting replies, as far as there is room. */
void outbox_flush(struct outbox *o);

static inline bool outbox_is_empty(const struct outbox *o)
{
	return o->n == 0;
}

/* The processes for which objects were made. One pidfd watches each process, so the number of
 * polled descriptors depends on the number of programs and not of objects. */

enum { CALLERS = 2 * GRANTER_OBJECTS_MAX }; /* at most one for each object */

struct caller {
	struct list link; /* in the list of watched callers, or of unused ones */
	uint32_t pid;
	int pidfd;
	unsigned objects;
};

struct callers {
	struct list watched, unused;
	struct caller all[CALLERS];
};

void callers_init(struct callers *s);

/* The process that has this pid now, counted with one more object. Returns 0, -ESRCH if there is
 * none, -ENOSPC, or what pidfd_open() says. */
int caller_add(struct callers *s, uint32_t pid, struct caller **ret);

/* Counts one object less; stops watching a process without objects. p may be NULL. */
void caller_release(struct callers *s, struct caller *p);

/* The leases, the objects that were made under them, and the next step for each. */

/* A lease first waits until earlier ones on its GPUs have ended. Then it is open. While it ends, no
 * object is allocated under it, and its objects are freed. */
enum lease_state { LEASE_FREE, LEASE_OPENING, LEASE_OPEN, LEASE_ENDING };

enum object_state {
	OBJECT_ASKED, /* not yet allocated */
	OBJECT_HELD,
	OBJECT_UNWANTED, /* to be freed: its process has ended, or there are too many objects */
	OBJECT_GONE,	 /* to be closed: it was never made */
};

struct object {
	struct list link; /* among the objects of its lease, oldest first, or among the free ones */
	enum object_state state;
	uint64_t request; /* id of the request for it; 0: answered, or needs no answer */
	bool answered;
	uint32_t root, parent, object;
	struct rm_profiler_parameters parameters;
	int fd;
	struct caller *caller; /* NULL: the process has ended */
};

struct lease {
	enum lease_state state;
	uint64_t id;
	uint64_t gpus;
	struct rm_gpu names[GRANTER_GPUS_MAX]; /* number of names */
	unsigned n_names;
	uint32_t uid;
	bool device;	      /* objects without a target client are allowed */
	uint64_t request;     /* id of the request to open or close the lease */
	bool close_to_answer; /* the request to close has no answer yet */

	struct list objects;
	unsigned n_slots;    /* number of objects in the list */
	unsigned n_objects;  /* number of objects that are asked for or held */
	struct object *busy; /* the object that its thread works on */
	uint64_t busy_since_ns;
	bool stuck; /* the thread has been busy for so long that the driver hangs */
	bool hung;  /* the hang was reported to the front */
};

/* Room for all objects that are asked for or held, and for as many that wait for their lease's
 * thread to free or close them. */
enum {
	OBJECTS = 2 * GRANTER_OBJECTS_MAX,
	SLOTS_PER_LEASE_MAX = 2 * GRANTER_OBJECTS_PER_LEASE_MAX,
};

struct leases {
	struct outbox outbox;
	struct lease all[GRANTER_LEASES_MAX];
	struct object objects[OBJECTS];
	struct list unused;
	unsigned n_objects;
	struct callers callers;
};

void leases_init(struct leases *s, int link);

/* The open lease with this id; NULL: none. */
struct lease *lease_find(struct leases *s, uint64_t id);

/* 0: the lease is open, or will be, and the answer to q follows. */
int lease_open(struct leases *s, const struct granter_request *q);

/* The answer to q follows. -ENOENT. */
int lease_close(struct leases *s, const struct granter_request *q);

/* Requests the object of q for its process; fd is consumed on success, and the answer follows.
 * -ENOSPC, -ESRCH. */
int lease_ask(struct leases *s, struct lease *l, const struct granter_request *q, int *fd);

/* Called when p has ended: stops watching p and frees its objects. */
void leases_forget_caller(struct leases *s, struct caller *p);

/* Takes the results of the threads. */
void leases_collect(struct leases *s);

/* Ends and reports leases whose driver call hangs. */
void leases_tick(struct leases *s, uint64_t now_ns);

/* Time of the next work for leases_tick(); UINT64_MAX: none. */
uint64_t leases_next_ns(const struct leases *s);

/* Is a lease open, or waiting to open? */
bool leases_are_wanted(const struct leases *s);

/* Ends all leases. leases_are_ending() is true until they have ended, except where the driver
 * hangs. */
void leases_end_all(struct leases *s);
bool leases_are_ending(const struct leases *s);
