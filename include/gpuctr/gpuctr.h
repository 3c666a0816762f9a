/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_H
#define GPUCTR_H

/* libgpuctr: ask a gpucountd for GPU hardware counters.
 *
 * One struct gpuctr is one connection. The library starts no thread and runs no loop: wait until
 * gpuctr_fd() is readable (or writable, see gpuctr_events()), then call gpuctr_dispatch(), which
 * calls your handlers. No other function calls a handler, except gpuctr_list_metrics_here(). A
 * handler may call any function except gpuctr_disconnect() and gpuctr_dispatch(). A connection may
 * be used by one thread at a time; different connections are independent.
 *
 * Functions return 0, or a negative errno for what no user can cause, or a positive GPUCTR_E_* code
 * (below) that gpuctr_last_error() explains in two sentences: the cause and the remedy.
 *
 * Pointers given to a handler are borrowed and valid until it returns, unless their comment says
 * otherwise. Strings are UTF-8 as the measured program gave them: escape them before you write them
 * anywhere. Structs passed in begin with their size, so that later versions can add members: use
 * GPUCTR_INIT. Members that an older program does not know are taken as zero. A program built for a
 * newer library is refused with GPUCTR_E_BAD_REQUEST if it sets members that this library does not
 * know. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCTR_API __attribute__((visibility("default")))

/* Stable codes: numbers and names never change. --help, man pages and messages show the names. */
enum gpuctr_error_code {
	GPUCTR_OK = 0,

	/* The request is wrong. */
	GPUCTR_E_METRIC_UNKNOWN = 10,	 /* unknown on this chip; the remedy lists similar names */
	GPUCTR_E_METRIC_NO_MATCH = 11,	 /* a glob or regex matches no metric */
	GPUCTR_E_METRIC_OTHER_CHIP = 12, /* only other chips have this metric */
	GPUCTR_E_TOO_MANY_PASSES = 13,	 /* several passes are needed; the remedy lists groups */
	GPUCTR_E_TOO_MANY_METRICS = 14,
	GPUCTR_E_BAD_PATTERN = 15, /* an expression or name that can match nothing */
	GPUCTR_E_CHIP_UNKNOWN = 16,
	GPUCTR_E_BAD_REQUEST = 17,     /* a field out of range, or a request not allowed now */
	GPUCTR_E_KERNEL_NO_MATCH = 18, /* a notice: kernel_regex, kernel_name, NVTX expressions or
					  other options left out all kernels of a process */

	/* The machine cannot measure. */
	GPUCTR_E_NO_DAEMON = 30,
	GPUCTR_E_NO_GPU = 31,
	GPUCTR_E_NO_DRIVER = 32,
	GPUCTR_E_DRIVER_TOO_OLD = 33,
	GPUCTR_E_NO_CUPTI = 34,
	GPUCTR_E_CUPTI_TOO_OLD = 35,
	GPUCTR_E_PROTOCOL = 36,	   /* no common protocol version, or a malformed frame */
	GPUCTR_E_NO_AGENT = 37,	   /* libgpuctr-agent.so was not found */
	GPUCTR_E_DRIVER_HUNG = 38, /* the driver does not answer for a requested GPU */

	/* The policy or the queue refuses. */
	GPUCTR_E_NOT_ALLOWED = 50,
	GPUCTR_E_GPU_BUSY = 51, /* another capture holds it, and no_wait was given */
	GPUCTR_E_TIMEOUT = 52,	/* waited for timeout_ns */
	GPUCTR_E_QUEUE_FULL = 53,
	GPUCTR_E_QUOTA = 54,
	GPUCTR_E_LEASE_EXPIRED = 55,
	GPUCTR_E_REVOKED = 56,
	GPUCTR_E_STOPPING = 57,	  /* the daemon is about to exit */
	GPUCTR_E_GPU_SHARED = 58, /* another user runs on the GPU, or its users are unknown */
	GPUCTR_E_AUDIT = 59,	  /* the daemon cannot write its audit log and grants nothing */

	/* The measured program or its process causes the error. */
	GPUCTR_E_BAD_TOKEN = 70,
	GPUCTR_E_CUPTI_IN_USE = 71,  /* the program subscribes to CUPTI itself */
	GPUCTR_E_GRANT_REFUSED = 72, /* the driver refused even the daemon */
	GPUCTR_E_HARDWARE_BUSY = 73, /* another profiler owns the counters (CUPTI 26) */
	GPUCTR_E_PROFILER = 74,	     /* any other CUPTI failure; the message names it */
	GPUCTR_E_CHIP_MISMATCH = 75, /* the device or recording has another chip than the plan */
	GPUCTR_E_METRIC_NOT_RECORDED = 76,
	GPUCTR_E_BAD_RECORDING = 77, /* corrupt or truncated */
	GPUCTR_E_AGENT_LOST = 78,    /* a process ended without reporting its end */
	GPUCTR_E_KERNEL_WAITS = 79,  /* a kernel waits for other work: neither it nor kernels beside
					it are measured */
	GPUCTR_E_STALLED = 80,	     /* the program made no progress for 10 s: the capture ends */

	GPUCTR_E_INTERNAL = 90, /* our mistake; the daemon's log says more */
	GPUCTR_E_DISCONNECTED = 91,
};

/* GPUCTR_E_METRIC_UNKNOWN -> "metric-unknown"; unknown numbers give "unknown". Static text. */
GPUCTR_API const char *gpuctr_error_name(int code);

struct gpuctr_error {
	int code;	     /* enum gpuctr_error_code */
	const char *message; /* what happened, and who holds the GPU; never NULL */
	const char *remedy;  /* what to do; may be "" */
};

struct gpuctr;
struct gpuctr_capture;

/* struct gpuctr_metrics_options o = GPUCTR_INIT(gpuctr_metrics_options); */
#ifdef __cplusplus
extern "C++" {
template <typename Type> inline Type gpuctr_init()
{
	Type value = Type();

	value.size = sizeof(Type);
	return value;
}
}
#define GPUCTR_INIT(type) gpuctr_init<struct type>()
#else
#define GPUCTR_INIT(type)                   \
	{                                   \
		.size = sizeof(struct type) \
	}
#endif

/* --- connection ------------------------------------------------------------------------------ */

/* Path of the daemon's socket: $GPUCTR_SOCKET or the compiled-in default. Points to static text or
 * into environ. */
GPUCTR_API const char *gpuctr_default_socket(void);

/* Connects and exchanges versions; waits at most five seconds. path NULL: gpuctr_default_socket().
 * program is the caller's name, shown to users who wait for it. GPUCTR_E_NOT_ALLOWED: the mode of
 * the socket or the daemon's settings exclude the caller. *ret is also set on errors (except
 * -ENOMEM), for gpuctr_last_error(); free it with gpuctr_disconnect(). */
GPUCTR_API int gpuctr_connect(const char *path, const char *program, struct gpuctr **ret);

/* Ends all captures and requests of this connection. Their handlers are not called any more, not
 * even on_end, so the caller frees its userdata now. Takes NULL, returns NULL. */
GPUCTR_API struct gpuctr *gpuctr_disconnect(struct gpuctr *g);

GPUCTR_API int gpuctr_fd(const struct gpuctr *g);
GPUCTR_API short gpuctr_events(const struct gpuctr *g); /* for poll(2): POLLIN, POLLOUT */

/* Waits up to timeout_ms (-1: without limit, 0: not at all) for messages and calls the handlers.
 * Returns 0 or, once the connection has ended, the reason: GPUCTR_E_DISCONNECTED,
 * GPUCTR_E_PROTOCOL, or the daemon's code (GPUCTR_E_QUOTA, GPUCTR_E_TIMEOUT, GPUCTR_E_NOT_ALLOWED,
 * ...). By then on_end has been called for every open capture. */
GPUCTR_API int gpuctr_dispatch(struct gpuctr *g, int timeout_ms);

/* The last error of a call or of the connection; borrowed until the next call. */
GPUCTR_API const struct gpuctr_error *gpuctr_last_error(const struct gpuctr *g);

/* --- catalogue, plans, status -------------------------------------------------------------------
 *
 * Patterns, "dram__bytes_*.sum" or "regex:^dram__bytes_.*\\.sum$", are expanded by this library, in
 * the caller's process, from the catalogue that the daemon sends. In a list of metrics to plan or
 * measure, a pattern must match whole names with their rollup. The call refuses a pattern that does
 * not compile with GPUCTR_E_BAD_PATTERN. The handler gets the error of a pattern that matches
 * nothing or too much. */

enum gpuctr_metric_kind {
	GPUCTR_METRIC_COUNTER,
	GPUCTR_METRIC_RATIO,
	GPUCTR_METRIC_THROUGHPUT,
	GPUCTR_METRIC_PRESET,  /* a set of metrics that gpuctr defines */
	GPUCTR_METRIC_DERIVED, /* a weighted sum of counters that gpuctr defines */
};

struct gpuctr_metric {
	const char *name; /* base name without rollup, or name of a preset or derived metric */
	enum gpuctr_metric_kind kind;
	const char *unit;	   /* in CUPTI's words: "byte", "ns", ... */
	const char *hardware_unit; /* "dram", "sm", ... */
	const char *description;
	const char *const *submetrics; /* suffixes to append: ".sum", ".avg.per_second", ...; of a
					  preset or derived metric: the metrics it consists of */
	size_t n_submetrics;
};

struct gpuctr_metrics_options {
	size_t size;
	const char *chip; /* NULL: this machine's */
	const char *const
		*patterns; /* globs and "regex:..." for whole base names; or texts: list names that
			      contain the text or each word of it, in upper or lower case ("hit
			      rate"), and metrics that nvprof or people give this name
			      ("achieved_occupancy", "l2"); none: everything */
	size_t n_patterns;
	bool describe; /* also fill in description and submetrics */
};

/* error is NULL on success; chip names the chip that was listed. on_end is called exactly once,
 * unless gpuctr_disconnect() comes first.
 * If nothing matches, the error is GPUCTR_E_METRIC_NO_MATCH; its remedy lists similar names. */
typedef void (*gpuctr_on_metric)(const struct gpuctr_metric *metric, void *userdata);
typedef void (*gpuctr_on_metrics_end)(const char *chip, const struct gpuctr_error *error,
				      void *userdata);
GPUCTR_API int gpuctr_list_metrics(struct gpuctr *g, const struct gpuctr_metrics_options *options,
				   gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end,
				   void *userdata);

/* Lists metrics without a connection, for a machine where no daemon runs. The function loads
 * CUPTI's host library (12.6 or newer) into the caller's process for good and needs no GPU. chip
 * NULL: GH100. It calls the handlers before it returns 0. If CUPTI cannot be used, on_end gets
 * GPUCTR_E_NO_CUPTI or GPUCTR_E_CUPTI_TOO_OLD. */
GPUCTR_API int gpuctr_list_metrics_here(const struct gpuctr_metrics_options *options,
					gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end,
					void *userdata);

struct gpuctr_column {
	const char *name;
	const char *unit;
	unsigned group; /* columns of one group fit into one pass together; a column whose group
			   equals gpuctr_plan.groups needs several passes alone */
};

enum { GPUCTR_TURNS_MAX = 16 }; /* most groups that one capture measures in turns */

/* A column is the sum of its terms: weight times a hardware metric. */
struct gpuctr_term {
	unsigned column, metric; /* indices into the plan's columns and metrics */
	double weight;
};

struct gpuctr_plan {
	const char *chip;
	unsigned passes; /* passes that all columns together need */
	unsigned groups; /* number of one-pass groups of columns; a capture measures up to
			    GPUCTR_TURNS_MAX groups in turns */
	const struct gpuctr_column *columns;
	size_t n_columns;
	const char *const *metrics; /* hardware metrics behind the columns */
	size_t n_metrics;
	const struct gpuctr_term *terms; /* grouped by column */
	size_t n_terms;
};

/* chip NULL: this machine's. Exactly one of plan and error is not NULL. */
typedef void (*gpuctr_on_plan)(const struct gpuctr_plan *plan, const struct gpuctr_error *error,
			       void *userdata);
GPUCTR_API int gpuctr_plan(struct gpuctr *g, const char *chip, const char *const *metrics,
			   size_t n_metrics, gpuctr_on_plan on_plan, void *userdata);

struct gpuctr_gpu {
	unsigned index;
	const char *uuid, *name, *chip;
	unsigned holder;	    /* capture number, 0: free */
	unsigned waiting;	    /* captures in its queue */
	const char *job, *job_user; /* the job to which a scheduler has assigned it; "": none */
};

/* Numbers of kernels by outcome: seen is the sum of all the others. */
struct gpuctr_totals {
	uint64_t seen;
	uint64_t measured;
	uint64_t filtered;  /* left out by kernel_regex, nvtx_include or other options */
	uint64_t capturing; /* launched into a stream that captures a graph, so the launch ran
			       nothing */
	uint64_t unready;   /* not measurable: on a device that is not leased, before its profiler
			       started, beside a kernel that may wait for it, before an earlier CUPTI
			       call has returned, while the batch's metrics cannot be changed yet, or
			       by a launch call that does not describe the kernel */
	uint64_t failed;    /* CUPTI or the driver refused the range or its data */
	uint64_t dropped;   /* lost because a reader was too slow */
	uint64_t lost;	    /* at least this many were lost when their process died */
};

/* X(name) for each member of struct gpuctr_totals, in its order; GPUCTR_FATES leaves out seen. */
#define GPUCTR_FATES(X) \
	X(measured)     \
	X(filtered)     \
	X(capturing)    \
	X(unready)      \
	X(failed)       \
	X(dropped)      \
	X(lost)
#define GPUCTR_TOTALS(X) X(seen) GPUCTR_FATES(X)

enum gpuctr_capture_state {
	GPUCTR_CAPTURE_PLANNING,
	GPUCTR_CAPTURE_QUEUED,
	GPUCTR_CAPTURE_READY, /* holds its GPUs, no process yet */
	GPUCTR_CAPTURE_RUNNING,
	GPUCTR_CAPTURE_ENDING,
};

struct gpuctr_capture_info {
	unsigned capture;
	unsigned uid;
	const char *user;
	unsigned pid; /* the client's */
	const char *program;
	enum gpuctr_capture_state state;
	const char *const *gpus; /* UUIDs */
	size_t n_gpus;
	/* Column names; for a permit the word permit and its command. Only root of the machine and
	 * the owner of a capture see metrics, totals and processes; for others they are empty. When
	 * a capture's metrics would make the list of captures longer than half a MiB, one text in
	 * parentheses replaces them. */
	const char *const *metrics;
	size_t n_metrics;
	unsigned position; /* in the queue; 1 is next; 0: not queued */
	struct gpuctr_totals totals;
	uint64_t lease_left_ns; /* 0: no limit, because nobody waits for its GPUs */
	unsigned processes;
};

enum gpuctr_restricted { GPUCTR_OPEN, GPUCTR_RESTRICTED, GPUCTR_RESTRICTION_UNKNOWN };

struct gpuctr_code_count {
	int code; /* enum gpuctr_error_code */
	uint64_t count;
};

struct gpuctr_wait_bucket {
	uint64_t up_to_ns; /* longest wait of the bucket, whose waits are longer than the previous
			      bucket's; 0: no upper limit */
	uint64_t count;
};

/* For operators: counts over all users since the daemon's front process started, which never
 * decrease before uptime_ns does, then the current state. */
struct gpuctr_counts {
	uint64_t connections; /* accepted */
	uint64_t permissions; /* given by the driver */
	uint64_t leases;      /* granted */
	const struct gpuctr_code_count *refusals;
	size_t n_refusals;
	const struct gpuctr_code_count *lease_ends; /* by cause; GPUCTR_OK: ended as requested */
	size_t n_lease_ends;
	const struct gpuctr_wait_bucket *waits; /* time that leases waited for their turn */
	size_t n_waits;
	uint64_t waited_ns;		/* total wait of all leases */
	uint64_t records, record_bytes; /* passed on to clients */
	struct gpuctr_totals kernels;	/* as the measured programs report them */
	/* Worker processes that ended and were replaced, since the daemon itself started. */
	uint64_t restarts_granter, restarts_gpu, restarts_planner, restarts_front;

	unsigned leases_active;
	unsigned waiting, waiting_max; /* captures in the queue, and the limit for them */
	uint64_t longest_wait_ns;      /* of captures that wait now */
	unsigned connections_max;
	unsigned processes;  /* processes in captures */
	unsigned registered; /* that wait to be captured */
	bool audit_fails;    /* the audit log cannot be written, so the daemon grants nothing */
	bool label_users, label_jobs; /* the settings let exported metrics name users and jobs */
	unsigned leases_permit;	      /* of leases_active, those that are permits */
};

/* Load of a whole GPU in the last seconds, by all its users, from NVML's GPM metrics, which use no
 * hardware counter of captures. NaN: NVML does not report this value. */
struct gpuctr_activity {
	unsigned gpu;	     /* index */
	const char *unknown; /* why the values are unknown; "": they are known */
	uint64_t over_ns;    /* time between NVML's two samples */
	double sm_pct;	     /* share of SMs that had work */
	double tensor_pct;
	double dram_pct;		 /* of the peak bandwidth of the GPU's memory */
	double pcie_sent, pcie_received; /* bytes a second */
	double nvlink_sent, nvlink_received;
};

struct gpuctr_status {
	const char *daemon;		   /* version */
	const char *driver;		   /* "": none */
	const char *cupti;		   /* "": not found */
	enum gpuctr_restricted restricted; /* whether the driver refuses counters to users */
	struct gpuctr_error trouble;	   /* why nothing can be measured; code 0: all is well */
	uint64_t uptime_ns;
	unsigned peers; /* connections */
	const struct gpuctr_gpu *gpus;
	size_t n_gpus;
	const struct gpuctr_capture_info *captures;
	size_t n_captures;
	const struct gpuctr_counts *counts; /* for root of the machine and for the monitor-users of
					       the settings; else NULL */
	const struct gpuctr_activity *activity; /* of each GPU */
	size_t n_activity;
};

typedef void (*gpuctr_on_status)(const struct gpuctr_status *status,
				 const struct gpuctr_error *error, void *userdata);
GPUCTR_API int gpuctr_get_status(struct gpuctr *g, gpuctr_on_status on_status, void *userdata);

/* --- for schedulers -------------------------------------------------------------------------- */

struct gpuctr_job_options {
	size_t size;
	const char *job;	 /* the scheduler's name for it, at most 63 bytes */
	unsigned uid;		 /* its owner */
	const char *const *gpus; /* index or UUID, at least one */
	size_t n_gpus;
	uint64_t time_ns; /* the daemon forgets the job after this time; 0: no limit */
};

/* error is NULL on success. */
typedef void (*gpuctr_on_done)(const struct gpuctr_error *error, void *userdata);

/* Assigns GPUs to a user's job; only root of the machine, outside any container, may. Then nobody
 * else may measure these GPUs, the leases of others on them end, and the owner may measure beside
 * other users' processes. The last assignment of a GPU counts. The daemon forgets jobs when it
 * exits. Errors: GPUCTR_E_NOT_ALLOWED, GPUCTR_E_NO_GPU, GPUCTR_E_BAD_REQUEST (also: no such job),
 * GPUCTR_E_QUOTA (too many jobs), GPUCTR_E_AUDIT. */
GPUCTR_API int gpuctr_begin_job(struct gpuctr *g, const struct gpuctr_job_options *options,
				gpuctr_on_done on_done, void *userdata);
GPUCTR_API int gpuctr_end_job(struct gpuctr *g, const char *job, gpuctr_on_done on_done,
			      void *userdata);

/* --- processes ----------------------------------------------------------------------------------
 *
 * A program that was started with the variables of gpuctr_standby_environment() registers with the
 * daemon and is not measured yet. Its owner, and the operators in the daemon's configuration, may
 * capture it at any time: see gpuctr_capture_options.processes. */

struct gpuctr_registered_process {
	unsigned process; /* the daemon's number for it, never reused while the daemon runs */
	uint32_t pid, uid;
	const char *user, *program;
	uint64_t age_ns;    /* time since it registered */
	unsigned capture;   /* the capture that measures it now; 0: none */
	const char *holder; /* who opened that capture: user, program, pid; "": nobody */
	/* "NAME=value" that the process reports about its job (SLURM_JOB_ID, RANK, ...). Nobody
	 * checks them. */
	const char *const *claims;
	size_t n_claims;
	bool foreign; /* another user's process, listed because the caller is root or an operator */
	/* The path of its cgroup, which the daemon read from the kernel when the process
	 * registered; "": unknown. */
	const char *cgroup;
	/* Parts of the cgroup path, as Docker, containerd, CRI-O, Podman, the kubelet and Slurm
	 * write them; "": not in the path. Whoever may create cgroups can choose these names. */
	const char *runtime;	/* "docker", "containerd", "cri-o", "podman"; "": not in the path */
	const char *container;	/* id of the innermost container, 64 hexadecimal digits */
	const char *pod_uid;	/* Kubernetes' uid of the pod */
	const char *cgroup_job; /* Slurm's numbers of the job and of the step */
	const char *cgroup_step;
};

/* Lists the caller's registered processes; for root and operators also those of other users. Calls
 * on_process for each process, then on_done once. */
typedef void (*gpuctr_on_registered_process)(const struct gpuctr_registered_process *process,
					     void *userdata);
GPUCTR_API int gpuctr_list_processes(struct gpuctr *g, gpuctr_on_registered_process on_process,
				     gpuctr_on_done on_done, void *userdata);

/* The variables that register a program (and its children), as a NULL-terminated array of
 * "NAME=value" to be added to its environment. socket NULL: gpuctr_default_socket(); agent NULL:
 * $GPUCTR_AGENT or the installed agent. Needs no connection: the daemon may start later. Returns 0
 * and *ret, which one free() frees, or -ENOMEM, or GPUCTR_E_NO_AGENT when the file cannot be read
 * or is no agent. */
GPUCTR_API int gpuctr_standby_environment(const char *socket, const char *agent, char ***ret);

/* --- captures -------------------------------------------------------------------------------- */

struct gpuctr_device {
	unsigned index; /* the CUDA device number in the process */
	const char *uuid, *name, *chip;
	unsigned clock_sm_mhz, clock_mem_mhz; /* highest clocks of the device, which gpuctr does not
						 lock; 0: unknown */
};

struct gpuctr_process {
	unsigned process; /* 1, 2, ... within the capture */
	unsigned pid;	  /* in the daemon's pid namespace */
	const char *program;
	const char *cupti, *driver; /* versions; "": not known yet */
	const char *recorded_from;  /* hardware on which the values were recorded; "": they are
				       measured live */
	const struct gpuctr_device *devices;
	size_t n_devices;
	/* "NAME=value" about its job, as in struct gpuctr_registered_process. */
	const char *const *claims;
	size_t n_claims;
};

enum gpuctr_site_kind {
	GPUCTR_SITE_LABEL,    /* the program's own range, or a PyTorch module */
	GPUCTR_SITE_STEP,     /* "iteration 2" */
	GPUCTR_SITE_OPERATOR, /* a PyTorch operator */
	GPUCTR_SITE_NODE,     /* a node of autograd's graph: a backward function */
	GPUCTR_SITE_ENGINE,   /* autograd's range around a node */
};

/* What number an occurrence of a site has. */
enum gpuctr_site_number {
	GPUCTR_NUMBER_NONE,
	GPUCTR_NUMBER_STEP, /* the number of the step */
	GPUCTR_NUMBER_SEQ,  /* the sequence number that autograd gave an operator */
};

/* A call site: NVTX ranges or marks in the same enclosing ranges that differ at most in a counted
 * number. Its objects live until on_end has returned. A process has at most 65,536. */
struct gpuctr_site {
	const struct gpuctr_site *parent; /* enclosing site of the same thread, NULL: outermost */
	const char *domain;		  /* "" for the default domain */
	const char *name;  /* "aten::conv2d"; "iteration N", where N stands for the step's number */
	const char *sizes; /* shapes of PyTorch's inputs, "[[64, 3, 7, 7], []]"; "": none */
	const char *category; /* name, or number in digits, or "" */
	uint32_t color;	      /* ARGB, 0: none */
	enum gpuctr_site_kind kind;
	enum gpuctr_site_number numbered;
	unsigned n_numbers; /* number of numbered sites from the outermost to this one */
	unsigned id;	    /* unique within the process, from 1; larger than the parent's */
	unsigned depth;	    /* 0: outermost; at most 4,095, also for deeper ranges */
};

/* What differs between the occurrences of a site. */
struct gpuctr_occurrence {
	/* The numbers of the path's numbered sites, outermost first; the site's n_numbers is their
	 * count. -1: unknown, for example in very deep ranges. Borrowed with the record. */
	const int64_t *numbers;
	unsigned payload_type; /* nvtxPayloadType_t: 0 none, 1 uint64, 2 int64, 3 double, 4 uint32,
				  5 int32, 6 float; from the innermost range with a payload, or from
				  the mark itself */
	uint64_t payload;      /* its bits, zero-extended */
};

/* The number of a site in the path of a record or mark; -1: none, or unknown. */
static inline int64_t gpuctr_site_number(const struct gpuctr_site *site,
					 const struct gpuctr_occurrence *at)
{
	return site->numbered != GPUCTR_NUMBER_NONE && at->numbers
		       ? at->numbers[site->n_numbers - 1]
		       : -1;
}

struct gpuctr_kernel {
	const char *name;	 /* demangled */
	const char *mangled;	 /* name in the driver */
	int static_shared_bytes; /* -1: unknown */
	int registers;		 /* per thread; -1: unknown */
	unsigned id;		 /* unique within the process, from 1 */
};

enum gpuctr_launch_kind {
	GPUCTR_LAUNCH_KERNEL,
	GPUCTR_LAUNCH_COOPERATIVE,
	GPUCTR_LAUNCH_GRAPH,	    /* a CUDA graph as a whole */
	GPUCTR_LAUNCH_GRAPH_KERNEL, /* a kernel within the launch of a graph, in a trace */
};

/* What the times of a record mean. A range takes longer than its kernel: it includes the range's
 * markers, the host's work between its begin and the launch, and often the loading of the module at
 * a kernel's first launch. Compare, and divide by, only times of the same clock. */
enum gpuctr_clock {
	GPUCTR_CLOCK_NONE,  /* start_ns is the time of the launch call on the host; no duration */
	GPUCTR_CLOCK_RANGE, /* start_ns as above; duration_ns is gpu__time_duration.sum of the range
			       around the launch */
	GPUCTR_CLOCK_GPU, /* begin and duration of the kernel on the GPU; of a graph: from the begin
			     of its first kernel to the end of its last */
};

/* One launch and its counters. The kernel and the sites live until on_end has returned. */
struct gpuctr_record {
	unsigned process;
	uint64_t index; /* in the process, from 0, without gaps; lost records do not count */
	enum gpuctr_launch_kind kind;
	const struct gpuctr_kernel *kernel;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	unsigned device; /* gpuctr_device.index of one of the process's devices */
	unsigned context;
	uint64_t stream;
	uint32_t correlation;
	uint32_t thread;	 /* the system's thread id; 0: a trace did not observe the launch */
	int64_t start_ns;	 /* unix time */
	int64_t duration_ns;	 /* -1: unknown, and clock is GPUCTR_CLOCK_NONE */
	enum gpuctr_clock clock; /* of start_ns and duration_ns */
	const struct gpuctr_site *site; /* innermost NVTX range of the launching thread, or NULL */
	struct gpuctr_occurrence at;
	unsigned opened; /* number of outermost ranges that have stayed open since the thread's
			    previous record; at most the site's depth + 1 */
	const struct gpuctr_site *const *active; /* start/end ranges open in the process */
	size_t n_active;
	const double *values; /* one for each column of the plan; NaN: not available */
	/* The group of the plan's columns that was measured in this launch: the values of columns
	 * of other groups are NaN. 0 where the plan has one group. */
	unsigned group;
	/* This library sets NULL, because values were counted. Programs that divide samples of the
	 * whole GPU among kernels put a standard error for each value here. The values of records
	 * with the same number alike have the same deviation; 0: no such records. */
	const double *errors;
	unsigned alike;
	/* CUPTI's numbers of the kernel's graph node and of its CUDA graph, within the process; 0:
	 * not in a graph. Correlation, thread and ranges are those of the graph's launch. */
	uint64_t graph_node;
	uint32_t graph;
};

enum gpuctr_copy_kind {
	GPUCTR_COPY_MEMORY,
	GPUCTR_COPY_SET,
	GPUCTR_COPY_KERNEL,
	GPUCTR_COPY_LOST, /* a span of time in which unknown kernels ran */
};

/* In a trace with metrics, work without a record: a memory copy, a memory fill, or a kernel that a
 * filter left out. */
struct gpuctr_copy {
	unsigned process;
	enum gpuctr_copy_kind kind;
	unsigned device, context;
	uint64_t stream;
	uint64_t bytes;		       /* of a kernel: a hash of its name, grid and block */
	int64_t start_ns, duration_ns; /* as in a record with GPUCTR_CLOCK_GPU */
};

struct gpuctr_mark {
	unsigned process;
	const struct gpuctr_site *site;
	struct gpuctr_occurrence at;
	uint32_t thread;
	int64_t time_ns;
};

/* CUPTI's complete raw counter data for count records of a process, from index first on. */
struct gpuctr_image {
	unsigned process;
	uint64_t first;
	unsigned count;
	const uint8_t *data;
	size_t size;
};

struct gpuctr_opened {
	unsigned capture;
	const struct gpuctr_plan *plan; /* lives until on_end has returned */
	const struct gpuctr_gpu *gpus;
	size_t n_gpus;
	const char *driver;
	bool recorded; /* this capture leases no GPU: only gpuctr-replay can deliver its records */
	const char *owner; /* user of the measured processes; "": the caller */
};

struct gpuctr_queued {
	unsigned position;  /* 1: next */
	const char *holder; /* "alice (python3, pid 4711)" */
	const char *gpu;
	uint64_t holder_left_ns; /* rest of the holder's lease; 0: not known yet */
};

struct gpuctr_notice {
	unsigned process; /* 0: the capture as a whole */
	struct gpuctr_error error;
	/* The member of gpuctr_capture_options.processes that is left out, because it has ended or
	 * another capture measures it; 0: the notice has another subject. Such notices come before
	 * the first on_process. */
	unsigned registered;
};

struct gpuctr_process_end {
	unsigned process;
	struct gpuctr_totals totals;
	bool clean; /* false: it died; the totals are its last report, plus lost */
	/* For a process that died: time between its last report of totals and its end. Of launches
	 * in this time the totals include only those whose records arrived. */
	uint64_t uncounted_ns;
};

struct gpuctr_end {
	struct gpuctr_totals totals; /* over all processes */
	unsigned processes;
	struct gpuctr_error error; /* code 0: ended as requested */
};

/* NULL members are skipped. Order: on_opened, on_queued*, on_ready, then the others in any order,
 * and on_end last, exactly once, also when the connection breaks, but not after
 * gpuctr_disconnect(). The library frees the capture after on_end. */
struct gpuctr_capture_handler {
	size_t size;
	void (*on_opened)(struct gpuctr_capture *c, const struct gpuctr_opened *opened,
			  void *userdata);
	void (*on_queued)(struct gpuctr_capture *c, const struct gpuctr_queued *queued,
			  void *userdata);
	void (*on_ready)(struct gpuctr_capture *c, void *userdata);
	void (*on_process)(struct gpuctr_capture *c, const struct gpuctr_process *process,
			   void *userdata);
	void (*on_record)(struct gpuctr_capture *c, const struct gpuctr_record *record,
			  void *userdata);
	void (*on_mark)(struct gpuctr_capture *c, const struct gpuctr_mark *mark, void *userdata);
	void (*on_image)(struct gpuctr_capture *c, const struct gpuctr_image *image,
			 void *userdata);
	void (*on_progress)(struct gpuctr_capture *c, const struct gpuctr_totals *totals,
			    void *userdata);
	void (*on_notice)(struct gpuctr_capture *c, const struct gpuctr_notice *notice,
			  void *userdata);
	void (*on_process_end)(struct gpuctr_capture *c, const struct gpuctr_process_end *end,
			       void *userdata);
	void (*on_end)(struct gpuctr_capture *c, const struct gpuctr_end *end, void *userdata);
	/* Called in any order, up to some seconds after the work ran. */
	void (*on_copy)(struct gpuctr_capture *c, const struct gpuctr_copy *copy, void *userdata);
};

/* The name of a kernel that kernel_regex and kernel_name match. */
enum gpuctr_kernel_name_base {
	GPUCTR_KERNEL_NAME_DEMANGLED = 0, /* "void linear::gemm<float>(float*, int)" */
	GPUCTR_KERNEL_NAME_FUNCTION = 1,  /* "gemm" */
	GPUCTR_KERNEL_NAME_MANGLED = 2,	  /* "_ZN6linear4gemmIfEEvPT_i" */
};

/* The launches that launch_skip, launch_every and launch_count count together. */
enum gpuctr_filter_mode {
	GPUCTR_FILTER_GLOBAL = 0,     /* all launches of a process */
	GPUCTR_FILTER_PER_GPU = 1,    /* the launches on each GPU */
	GPUCTR_FILTER_PER_KERNEL = 2, /* the launches of each kernel name */
};

/* How programs load the library of a permit. */
enum gpuctr_permit {
	GPUCTR_PERMIT_NONE = 0,		/* no permit */
	GPUCTR_PERMIT_BY_PRELOAD = 1,	/* every program loads it when it starts */
	GPUCTR_PERMIT_BY_INJECTION = 2, /* a program loads it in its first cuInit() */
};

struct gpuctr_capture_options {
	size_t size;
	const char *const *metrics; /* names, globs, "regex:...", presets */
	size_t n_metrics;
	const char *const *gpus; /* indices or UUIDs; none: all of the machine */
	size_t n_gpus;
	const char *chip;	  /* of the recording; NULL: this machine's, or GH100 */
	const char *kernel_regex; /* POSIX extended, searched for in the kernel's name; NULL: all */
	uint64_t launch_skip;  /* number of matching launches of each process to leave out first */
	uint64_t launch_count; /* number of launches to measure then; 0: all */
	bool no_wait;	       /* fail with GPUCTR_E_GPU_BUSY instead of waiting in the queue */
	uint64_t timeout_ns;   /* GPUCTR_E_TIMEOUT after this long in the queue; 0: wait */
	bool raw_images;       /* also deliver counter data, to make a recording */
	bool recorded;	       /* gpuctr-replay will deliver the records: lease nothing */
	const char *program;   /* the program to measure, shown to users who wait */
	/* Numbers of the registered processes to measure; none: the programs started with
	 * gpuctr_capture_environment(). Measuring begins when the capture is ready. If gpus is
	 * empty, the capture leases the GPUs that these processes use. A permit leases the GPUs and
	 * does not change the processes. */
	const unsigned *processes;
	size_t n_processes;
	/* NVTX expressions in ncu's grammar, see gpuctr-client(1). A launch is measured if an
	 * expression of nvtx_include holds for it, or nvtx_include is empty, and none of
	 * nvtx_exclude holds. gpuctr_capture_open() refuses malformed expressions with
	 * GPUCTR_E_BAD_PATTERN. */
	const char *const *nvtx_include;
	size_t n_nvtx_include;
	const char *const *nvtx_exclude;
	size_t n_nvtx_exclude;
	/* When to measure. "cudaProfilerApi": between cudaProfilerStart() and cudaProfilerStop();
	 * "nvtx:EXPR": while an NVTX range of any thread is open at whose begin EXPR came to hold;
	 * NULL: always. With stop_on_range_end, only the first such time. */
	const char *capture_range;
	uint64_t stop_on_range_end;
	/* The steps to measure. skip_first steps are not measured. Then a cycle of wait + warmup
	 * steps that are not measured and active steps that are measured runs repeat times; 0:
	 * without end. active 0: all launches are measured. step names what begins a step:
	 * "cudaProfilerStart", "gpuctr_step" or an NVTX expression for a range or mark; NULL: the
	 * agent takes a recurring sequence of launches as a step. */
	uint64_t skip_first, wait, warmup, active, repeat;
	const char *step;
	/* The exact name of the kernels to measure, instead of kernel_regex; NULL: all. */
	const char *kernel_name;
	uint64_t kernel_name_base; /* enum gpuctr_kernel_name_base, for regex or name */
	uint64_t launch_every;	   /* measure the first of every so many launches; 0: all */
	uint64_t filter_mode;	   /* enum gpuctr_filter_mode */
	/* A permit measures nothing, and metrics must be empty. Programs started with
	 * gpuctr_capture_environment() may use the counters themselves, with any profiler, while
	 * the capture lasts. on_notice reports the programs that were refused. */
	uint64_t permit; /* enum gpuctr_permit */
	/* Not 0: records contain the times of each kernel, and no counter is read. The capture
	 * leases nothing, so it never waits. Metrics, if any, are planned with any number of
	 * passes, and their values are NaN. */
	uint64_t trace;
	/* Not 0: in a trace, the launch of a CUDA graph is one record; 0: each of its kernels is
	 * one. */
	uint64_t whole_graphs;
	/* Not 0: lease only those of gpus that the user may measure; 0: refuse the capture if the
	 * user may not measure one of them. */
	uint64_t gpus_allowed;
};

/* Opens a capture. handler is copied. The result arrives by on_opened or on_end. */
GPUCTR_API int gpuctr_capture_open(struct gpuctr *g, const struct gpuctr_capture_options *options,
				   const struct gpuctr_capture_handler *handler, void *userdata,
				   struct gpuctr_capture **ret);

/* After on_ready: the variables to add to the environment of a program, so that it and its children
 * join this capture. Returns a NULL-terminated array of "NAME=value" that lives as long as the
 * capture, or NULL with gpuctr_last_error() set when the agent cannot be read. agent NULL:
 * $GPUCTR_AGENT or the installed agent. Paths are made absolute, so that the program may change its
 * folder. A permit takes libgpuctr-permit.so from the agent's folder and puts it in front of
 * $LD_PRELOAD, or into $CUDA_INJECTION64_PATH for GPUCTR_PERMIT_BY_INJECTION. */
GPUCTR_API const char *const *gpuctr_capture_environment(struct gpuctr_capture *c,
							 const char *agent);

/* Asks the daemon to end the capture: every process delivers its remaining records, then on_end is
 * called. */
GPUCTR_API int gpuctr_capture_close(struct gpuctr_capture *c);

GPUCTR_API unsigned gpuctr_capture_id(const struct gpuctr_capture *c);

/* Marks the begin of a step, from any thread of a program: for captures with step "gpuctr_step",
 * and as the mark "step" in the NVTX domain "gpuctr" for other tools. Does nothing in a program
 * that nobody measures. Needs no connection. */
GPUCTR_API void gpuctr_step(void);

/* Version of the library, "major.minor.patch". */
GPUCTR_API const char *gpuctr_version(void);

#ifdef __cplusplus
}
#endif

#endif
