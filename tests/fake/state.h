/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* State of the fake GPU stack, shared by every process that has the same $GPUCTR_FAKE_DIR.
 * Without that variable the state is private to the process. See README.md for the knobs. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	FAKE_MAX_GPUS = 16,
	FAKE_MAX_OBJECTS = 16384,
	FAKE_MAX_USERS = 512,
	FAKE_MAX_DONE = 65536,
	FAKE_CONTROL_FILE_BYTES = 0xc3ffc3, /* size of the file that stands for /dev/nvidiactl */
	FAKE_CLASS_ROOT = 0x0041,
	FAKE_CLASS_DEVICE = 0x0080,
	FAKE_CLASS_SUBDEVICE = 0x2080,
	FAKE_CLASS_PROFILER = 0xb2cc,
};

/* One object of the resource manager. It is bound to the open file (by its inode), not to a
 * process. */
struct fake_object {
	uint64_t file;
	uint32_t h_root, h_parent, h_object, h_class;
	int32_t pid;	/* of the caller of RM_ALLOC */
	bool permitted; /* it may profile */
	bool used;
};

/* The holder of a GPU's profiling hardware. It is void when its process has ended or its object is
 * gone. */
struct fake_owner {
	int32_t pid;
	uint64_t start_time, token, file;
	uint32_t h_root, h_object;
};

/* A process with a CUDA context, for NVML's list. */
struct fake_user {
	int32_t pid;
	int32_t gpu;
	uint64_t start_time;
};

struct fake_counters {
	_Atomic uint64_t allocs;	  /* RM_ALLOC of any class */
	_Atomic uint64_t profiler_allocs; /* of class 0xB2CC */
	_Atomic uint64_t profiler_granted;
	_Atomic uint64_t profiler_refused;
	_Atomic uint64_t frees;
	_Atomic uint64_t frees_not_found;
	_Atomic uint64_t malformed; /* wrong size, wrong number, NULL */
	_Atomic uint64_t foreign;   /* RM requests on a file that is not the control device */
	_Atomic uint64_t violations;
	_Atomic uint64_t log_lost;
	_Atomic uint64_t hangs;		    /* requests that ioctl_hang has held up */
	_Atomic uint64_t untraced_captures; /* streams whose capture began while somebody listened,
					     * and kernels were not traced */
};

/* Work that a GPU has done, for those who sample it. */
struct fake_done {
	_Atomic uint64_t number; /* from 1 on; 0: it is being written */
	int32_t gpu, pad;
	uint64_t begin_ns, ns;
	uint64_t threads, warps, kernels;
};

struct fake_state {
	uint64_t magic;
	uint64_t log_bytes; /* size of ioctl.log */
	_Atomic uint64_t log_used;
	pthread_mutex_t lock; /* robust, shared; guards objects, owners, users */

	_Atomic int32_t ioctl_delay_ms;
	_Atomic int32_t ioctl_hang;  /* 1: RM ioctls do not return until it is 0 again; a handle:
				      * those about an object with this parent do not */
	_Atomic int32_t ioctl_errno; /* not 0: RM ioctls fail with this errno */
	_Atomic int32_t
		rm_status; /* other than 0: the status of every allocation of class 0xB2CC */
	_Atomic int32_t strict_handles; /* 1: unknown root or parent is refused */
	_Atomic int32_t nvml_auto;	/* 1: processes with contexts appear in NVML's list */
	_Atomic int32_t nvml_fail;	/* not 0: what NVML's calls return */
	_Atomic int32_t gpus;		/* not 0: number of GPUs */
	_Atomic int32_t sampling_fail;	/* not 0: what the calls of PM sampling return */

	_Atomic int32_t fail_in;     /* kind of process, see fail.c */
	_Atomic int32_t fail_malloc; /* counts down; the allocation at which it comes to 0 fails */
	_Atomic int32_t fail_call;
	_Atomic int32_t fail_errno;

	struct fake_counters counters;
	uint32_t objects_end; /* no object at or after this index is used */
	uint32_t next_handle;
	struct fake_owner owners[FAKE_MAX_GPUS];
	struct fake_user users[FAKE_MAX_USERS];
	struct fake_object objects[FAKE_MAX_OBJECTS];

	_Atomic uint32_t samplers; /* a bit a GPU that is sampled, or was when its sampler died */
	_Atomic uint64_t done_used;
	struct fake_done done[FAKE_MAX_DONE]; /* a ring; written while a GPU is sampled alone */
};

/* Never NULL. A constructor of the library that contains this maps it; later calls make no system
 * call. */
struct fake_state *fake_state(void);

void fake_lock(struct fake_state *st);
void fake_unlock(struct fake_state *st);

/* Appends to ioctl.log through the mapping; no system call. */
void fake_log(struct fake_state *st, const char *line, size_t len);

/* Appends one line to violations.log and counts it. */
void fake_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of a knob by its name, or NULL. */
_Atomic int32_t *fake_knob(struct fake_state *st, const char *name);

/* The caller holds the lock for these. */
/* Does this client exist, on whatever file? */
bool fake_client_lives(const struct fake_state *st, uint32_t client);
struct fake_object *fake_object_find(struct fake_state *st, uint64_t file, uint32_t h_root,
				     uint32_t h_object);
struct fake_object *fake_object_add(struct fake_state *st);
void fake_object_remove(struct fake_state *st, struct fake_object *object);

/* Takes the hardware of a GPU for *owner*. False: another owner that is alive holds it. */
bool fake_gpu_acquire(int gpu, const struct fake_owner *owner);
void fake_gpu_release(int gpu, uint64_t token);
bool fake_gpu_is_free(int gpu);
bool fake_gpu_is_ours(int gpu); /* or nobody's */
bool fake_object_exists(uint64_t file, uint32_t h_root, uint32_t h_object);
bool fake_object_is_permitted(uint64_t file, uint32_t h_root, uint32_t h_object);

/* Notes what was done, if the GPU is sampled. */
void fake_done_add(int gpu, const struct fake_done *what);
/* Takes the next one of any GPU. *at: where to go on, from done_used on. False: there is none.
 * What was overwritten meanwhile is left out. */
bool fake_done_take(uint64_t *at, struct fake_done *ret);

void fake_user_add(int gpu);
void fake_user_remove(int gpu);

/* Start time of a process in clock ticks; 0: there is no such process. pid and start time together
 * name a process. */
uint64_t fake_start_time(pid_t pid);

/* Names of things that both the fake driver API and the fake NVML report. */
int fake_gpu_count(void);
void fake_gpu_uuid(int gpu, uint8_t ret_uuid[16]);
bool fake_gpu_is_divided(int gpu); /* by MIG */
