/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the two halves of the granter's box: the kernel it sees (granter_box.c), and the model of
 * what it has promised (granter_model.c). */

#include "daemon/granter/thread.h"
#include "tests/fuzz/granter_box.h"

enum {
	FIRST_FD = 1 << 20,
	LINK = FIRST_FD,
	THREADS_DONE = FIRST_FD - 1,
	FDS_MAX = 2 * GRANTER_OBJECTS_MAX + 64,
	REPLIES_MAX = 96, /* that the socket takes before it is full; Linux: about 270 */
	WAITING_MAX = GRANTER_OBJECTS_MAX + 2 * GRANTER_LEASES_MAX,
};

struct box_fd {
	enum { FD_FREE, FD_FILE, FD_PIDFD } kind;
	enum box_file file;
	uint32_t pid;	     /* of a pidfd; of a file: who uses its object */
	unsigned generation; /* of that process */

	uint64_t asked_lease; /* of a file: what it came for */

	/* of a file: the object that the driver has made on it and not freed */
	bool allocated;
	uint64_t lease;
	uint32_t root, parent, object;
};

struct model_lease {
	uint64_t id, gpus;
	uint32_t uid;
	unsigned objects, surplus; /* surplus: more were asked for than may be, and one may go */
	bool device;		   /* objects without a target client */
	bool ending, hung;	   /* as far as the granter has said so */
};

/* A request without a reply yet. */
struct model_asked {
	struct granter_request q;
	int fd;		     /* -1: none */
	unsigned generation; /* of the process when it was asked */
	int expected;	     /* unless the driver is asked and refuses, or the lease ends */
	bool driver_asked;
	int driver_error;
	uint32_t driver_status;
};

/* A thread that calls the driver. The call is made at once; one that hangs returns later. */
struct box_thread {
	bool busy, hangs; /* hangs: also those to come */
	struct call call;
	uint64_t lease, since_ns;
};

struct box {
	bool active;
	box_next next;
	void *userdata;
	uint64_t now_ns;
	uint32_t tick_ns;
	unsigned idle_polls; /* without waiting, and in vain */
	struct box_figures figures;

	int lowest_fd; /* that may be free */
	unsigned n_fds;
	unsigned generations[BOX_PIDS];

	struct box_step step;
	uint64_t step_due_ns;
	bool step_waits; /* for its time to come */
	bool any_exited; /* else no process's descriptor is ready */
	bool has_packet, at_end, ended;
	bool reading;
	unsigned unread;

	bool handling;
	struct model_asked current; /* the packet being handled */
	bool calm;		    /* when it came, no call was under way */
	struct model_asked waiting[WAITING_MAX];
	unsigned n_waiting;
	uint64_t last_id;
	struct box_thread threads[THREADS];
	unsigned n_hanging, n_stuck; /* of these; stuck: with a call that does not return */

	uint64_t heard_ns;  /* when the last packet came */
	uint64_t looked_ns; /* what looks at the clock have taken since then */

	struct model_lease leases[GRANTER_LEASES_MAX];
	unsigned n_leases, n_objects;
	unsigned surplus; /* of all leases: more were asked for, and the largest one may lose one */
	bool malformed;	  /* the granter must end */
};

extern struct box box;
extern struct box_fd fds[FDS_MAX]; /* all free between runs */

struct box_fd *fd_find(int fd);
bool has_exited(const struct box_fd *f);
bool box_has_process(uint32_t pid);

/* When the granter must be awake again; UINT64_MAX: for no lease of its own. */
uint64_t model_next_ns(void);

/* Has the front been silent for so long that the granter may end? */
bool model_is_silent(void);

/* And for so long, while there is a lease, that it must have ended? */
bool model_is_overdue(void);

/* The packet of box.current has come, with so many of this file. */
void model_begin(enum box_file file, unsigned n_files);

/* The granter takes another one, and the one before has no reply. */
void model_set_aside(void);

void model_check_reply(const struct granter_reply *p);
int model_drive_alloc(struct box_fd *f, struct rm_alloc *a);
int model_drive_free(struct box_fd *f, struct rm_free *p);
int model_drive_control(const struct box_fd *f, struct rm_control *p);

/* How the box's driver names its GPUs, of which a lease has those that its bits say. */
struct rm_gpu box_gpu(unsigned i);
void model_forget_file(const struct box_fd *f); /* it is closed */
