/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_H
#define GPUCTR_H

/* libgpuctr: ask a gpucountd for GPU hardware counters.
 *
 * One struct gpuctr is one connection. The library starts no thread and runs no loop: wait until
 * gpuctr_fd() is readable (or writable, see gpuctr_events()), then call gpuctr_dispatch(), which
 * calls your handlers. A handler never runs inside any other call of this library (but
 * gpuctr_list_metrics_here()), and it may call any function but gpuctr_disconnect() and
 * gpuctr_dispatch(). A connection may be used by one thread at a time; different connections are
 * independent.
 *
 * Functions return 0, or a negative errno for what no user can cause, or a positive GPUCTR_E_* code
 * (below) that gpuctr_last_error() explains in two sentences: the cause and the remedy.
 *
 * Pointers given to a handler are borrowed and end with it, unless their comment says otherwise.
 * Strings are UTF-8 as the program gave them: escape them for the place you write them to.
 * Structs passed in begin with their size, so that members can be added: use GPUCTR_INIT. What an
 * older program does not have is zero; what a newer one asks for beyond this library is refused
 * with GPUCTR_E_BAD_REQUEST.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCTR_API __attribute__((visibility("default")))

/* Stable codes: numbers and names never change. --help, man pages and messages have the names. */
enum gpuctr_error_code {
	GPUCTR_OK = 0,

	/* Of the request. */
	GPUCTR_E_METRIC_UNKNOWN = 10,  /* no such metric on this chip; near matches in the remedy */
	GPUCTR_E_METRIC_NO_MATCH = 11, /* a glob or regex: that matches nothing */
	GPUCTR_E_METRIC_OTHER_CHIP = 12, /* a metric, but of other chips */
	GPUCTR_E_TOO_MANY_PASSES = 13, /* the set needs several passes; plan shown, groups named */
	GPUCTR_E_TOO_MANY_METRICS = 14,
	GPUCTR_E_BAD_PATTERN = 15, /* an expression or name that can match nothing */
	GPUCTR_E_CHIP_UNKNOWN = 16,
	GPUCTR_E_BAD_REQUEST = 17,     /* a field out of range, or a request not allowed now */
	GPUCTR_E_KERNEL_NO_MATCH = 18, /* a notice: no kernel of a process matched kernel_regex or
					  kernel_name, or none was launched where an NVTX
					  expression holds */

	/* Of the machine. */
	GPUCTR_E_NO_DAEMON = 30,
	GPUCTR_E_NO_GPU = 31,
	GPUCTR_E_NO_DRIVER = 32,
	GPUCTR_E_DRIVER_TOO_OLD = 33,
	GPUCTR_E_NO_CUPTI = 34,
	GPUCTR_E_CUPTI_TOO_OLD = 35,
	GPUCTR_E_PROTOCOL = 36,	   /* versions without a common ground, or a malformed frame */
	GPUCTR_E_NO_AGENT = 37,	   /* libgpuctr-agent.so is not where it was looked for */
	GPUCTR_E_DRIVER_HUNG = 38, /* the driver does not answer on a GPU that was asked for */

	/* Of policy and turn. */
	GPUCTR_E_NOT_ALLOWED = 50,
	GPUCTR_E_GPU_BUSY = 51, /* held, and no_wait was given */
	GPUCTR_E_TIMEOUT = 52,	/* waited for timeout_ns */
	GPUCTR_E_QUEUE_FULL = 53,
	GPUCTR_E_QUOTA = 54,
	GPUCTR_E_LEASE_EXPIRED = 55,
	GPUCTR_E_REVOKED = 56,
	GPUCTR_E_STOPPING = 57,	  /* the daemon is going down */
	GPUCTR_E_GPU_SHARED = 58, /* another user runs on the GPU, or who does cannot be told */
	GPUCTR_E_AUDIT = 59,	  /* the audit log cannot be written: nothing is granted */

	/* Of the measured program. */
	GPUCTR_E_BAD_TOKEN = 70,
	GPUCTR_E_CUPTI_IN_USE = 71,  /* the program subscribes to CUPTI itself */
	GPUCTR_E_GRANT_REFUSED = 72, /* the driver refused even the daemon */
	GPUCTR_E_HARDWARE_BUSY = 73, /* another profiler owns the counters (CUPTI 26) */
	GPUCTR_E_PROFILER = 74,	     /* any other CUPTI failure, named */
	GPUCTR_E_CHIP_MISMATCH = 75, /* a device or recording of another chip than planned */
	GPUCTR_E_METRIC_NOT_RECORDED = 76,
	GPUCTR_E_BAD_RECORDING = 77, /* corrupt or truncated */
	GPUCTR_E_AGENT_LOST = 78,    /* a process went away without a goodbye */
	GPUCTR_E_KERNEL_WAITS = 79,  /* a kernel does not end by itself: not measured, nor what runs
					beside it */
	GPUCTR_E_STALLED = 80,	     /* nothing moved for 10 s while measured: the capture ends */

	GPUCTR_E_INTERNAL = 90, /* our mistake; the daemon's log says more */
	GPUCTR_E_DISCONNECTED = 91,
};

/* GPUCTR_E_METRIC_UNKNOWN -> "metric-unknown"; unknown numbers give "unknown". Static. */
GPUCTR_API const char *gpuctr_error_name(int code);

struct gpuctr_error {
	int code;	     /* enum gpuctr_error_code */
	const char *message; /* what happened, who holds it; never NULL */
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

/* Where the daemon listens: $GPUCTR_SOCKET or the compiled-in default. Static or from environ. */
GPUCTR_API const char *gpuctr_default_socket(void);

/* Connects and exchanges versions; waits at most five seconds. path NULL: gpuctr_default_socket().
 * program names the caller to others that wait. GPUCTR_E_NOT_ALLOWED: the daemon's socket is not
 * open to the caller, or the daemon's settings do not let the caller in. *ret is set even when the
 * result is not 0 (but for -ENOMEM), so that gpuctr_last_error() can be asked; free it with
 * gpuctr_disconnect(). */
GPUCTR_API int gpuctr_connect(const char *path, const char *program, struct gpuctr **ret);

/* Ends all captures and questions of this connection. No handler of them is called any more, on_end
 * neither: free what is the caller's. Takes NULL, returns NULL. */
GPUCTR_API struct gpuctr *gpuctr_disconnect(struct gpuctr *g);

GPUCTR_API int gpuctr_fd(const struct gpuctr *g);
GPUCTR_API short gpuctr_events(const struct gpuctr *g); /* POLLIN, POLLOUT for poll(2) */

/* Waits up to timeout_ms (-1: without end, 0: not at all) for one round of messages and calls the
 * handlers. Returns 0 or, once the connection is over, why: GPUCTR_E_DISCONNECTED,
 * GPUCTR_E_PROTOCOL, or what the daemon said (GPUCTR_E_QUOTA, GPUCTR_E_TIMEOUT,
 * GPUCTR_E_NOT_ALLOWED, ...). Every open capture has then had its on_end. */
GPUCTR_API int gpuctr_dispatch(struct gpuctr *g, int timeout_ms);

/* The last error of a call or of the connection; borrowed until the next call. */
GPUCTR_API const struct gpuctr_error *gpuctr_last_error(const struct gpuctr *g);

/* --- catalogue, plans, status -------------------------------------------------------------------
 *
 * Patterns, "dram__bytes_*.sum" or "regex:^dram__bytes_.*\\.sum$", are expanded by this library, in
 * the program's own process and at its expense, from the catalogue that the daemon sends. In a list
 * of metrics to plan or measure a pattern must match whole names with their rollup. One that does
 * not compile is refused by the call, with GPUCTR_E_BAD_PATTERN; one that matches nothing, or too
 * much, by the answer. */

enum gpuctr_metric_kind {
	GPUCTR_METRIC_COUNTER,
	GPUCTR_METRIC_RATIO,
	GPUCTR_METRIC_THROUGHPUT,
	GPUCTR_METRIC_PRESET,  /* a named set of ours */
	GPUCTR_METRIC_DERIVED, /* a weighted sum of counters under a name of ours */
};

struct gpuctr_metric {
	const char *name; /* base name without rollup, or preset or derived name */
	enum gpuctr_metric_kind kind;
	const char *unit;	   /* as CUPTI says it: "byte", "ns", ... */
	const char *hardware_unit; /* "dram", "sm", ... */
	const char *description;
	const char *const *submetrics; /* suffixes to append: ".sum", ".avg.per_second", ...; for a
					  preset or derived name, the metrics it stands for */
	size_t n_submetrics;
};

struct gpuctr_metrics_options {
	size_t size;
	const char *chip; /* NULL: this machine's */
	const char *const
		*patterns; /* globs and "regex:..." for whole base names; or words: names
			      are listed that contain one, whatever the case, or all that blanks
			      separate in it ("hit rate"), and those that nvprof or people call so
			      ("achieved_occupancy", "l2"); none: everything */
	size_t n_patterns;
	bool describe; /* fill description and submetrics */
};

/* error is NULL on success; chip names the chip that was listed. on_end is called exactly once,
 * unless gpuctr_disconnect() comes first.
 * When nothing matches, the error is GPUCTR_E_METRIC_NO_MATCH and its remedy names what is near. */
typedef void (*gpuctr_on_metric)(const struct gpuctr_metric *metric, void *userdata);
typedef void (*gpuctr_on_metrics_end)(const char *chip, const struct gpuctr_error *error,
				      void *userdata);
GPUCTR_API int gpuctr_list_metrics(struct gpuctr *g, const struct gpuctr_metrics_options *options,
				   gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end,
				   void *userdata);

/* The same without a connection, for a machine where no daemon runs: from CUPTI's host library
 * (12.6 or newer), which is loaded into the caller's process, stays there, and needs no GPU. chip
 * NULL: GH100. The handlers are called before it returns. Where CUPTI cannot be used on_end has
 * GPUCTR_E_NO_CUPTI or GPUCTR_E_CUPTI_TOO_OLD. Returns 0. */
GPUCTR_API int gpuctr_list_metrics_here(const struct gpuctr_metrics_options *options,
					gpuctr_on_metric on_metric, gpuctr_on_metrics_end on_end,
					void *userdata);

struct gpuctr_column {
	const char *name;
	const char *unit;
	unsigned group; /* columns of one group fit into one pass together; a column whose group is
			   the plan's groups needs several passes by itself */
};

enum { GPUCTR_TURNS_MAX = 16 }; /* groups that one capture measures in turns */

/* A column is the sum of its terms: weight times a hardware metric. */
struct gpuctr_term {
	unsigned column, metric; /* indices into the plan's */
	double weight;
};

struct gpuctr_plan {
	const char *chip;
	unsigned passes; /* all columns together */
	unsigned groups; /* of one pass each that cover all columns; a capture measures them in
			    turns, up to GPUCTR_TURNS_MAX of them */
	const struct gpuctr_column *columns;
	size_t n_columns;
	const char *const *metrics; /* hardware metrics behind the columns */
	size_t n_metrics;
	const struct gpuctr_term *terms; /* those of a column stand together */
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
	const char *job, *job_user; /* that a scheduler says it belongs to; "": none */
};

/* What became of kernels: seen is the sum of all the others. */
struct gpuctr_totals {
	uint64_t seen;
	uint64_t measured;
	uint64_t filtered;  /* by kernel_regex, nvtx_include and others of the options */
	uint64_t capturing; /* launched into a stream that captures a graph: nothing ran then */
	uint64_t unready; /* not measurable: on a device that is not leased, before its profiler was
			      up, beside a kernel that may wait for it, while an earlier call of
			     CUPTI's has not returned, or chosen for a batch that cannot be changed
			     yet, or launched by a call that tells too little of it */
	uint64_t failed;  /* CUPTI or the driver refused the range or its data */
	uint64_t dropped; /* lost to a reader that was too slow */
	uint64_t lost;	  /* counted, not delivered, and their process died: at least so many */
};

/* X(name) for each member of struct gpuctr_totals, in its order; GPUCTR_FATES: without seen. */
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
	unsigned pid; /* of the client */
	const char *program;
	enum gpuctr_capture_state state;
	const char *const *gpus; /* UUIDs */
	size_t n_gpus;
	/* Column names; of a permit the word permit, and its command. Like totals and processes,
	 * for root of the machine and for captures of the caller's own uid; else there are none.
	 * Of captures whose metrics would make the list of captures longer than half a MiB a text
	 * in parentheses stands for all of them. */
	const char *const *metrics;
	size_t n_metrics;
	unsigned position; /* in the queue; 1 is next; 0: not queued */
	struct gpuctr_totals totals;
	uint64_t lease_left_ns; /* 0: it has no end, because nobody waits for its GPUs */
	unsigned processes;
};

enum gpuctr_restricted { GPUCTR_OPEN, GPUCTR_RESTRICTED, GPUCTR_RESTRICTION_UNKNOWN };

struct gpuctr_code_count {
	int code; /* enum gpuctr_error_code */
	uint64_t count;
};

struct gpuctr_wait_bucket {
	uint64_t up_to_ns; /* and longer than that of the bucket before; 0: any longer time */
	uint64_t count;
};

/* What an operator watches: counts over all users since the daemon's front began, which only grow
 * while uptime_ns does, and beside them how it is now. */
struct gpuctr_counts {
	uint64_t connections; /* taken */
	uint64_t permissions; /* that the driver gave */
	uint64_t leases;      /* granted */
	const struct gpuctr_code_count *refusals;
	size_t n_refusals;
	const struct gpuctr_code_count *lease_ends; /* by cause; GPUCTR_OK: as asked */
	size_t n_lease_ends;
	const struct gpuctr_wait_bucket *waits; /* of the leases, for their turn */
	size_t n_waits;
	uint64_t waited_ns;		/* by all of them together */
	uint64_t records, record_bytes; /* passed on to clients */
	struct gpuctr_totals kernels;	/* as the measured programs tell */
	/* Workers that ended and were replaced, since the daemon itself began. */
	uint64_t restarts_granter, restarts_gpu, restarts_planner, restarts_front;

	unsigned leases_active;
	unsigned waiting, waiting_max; /* captures, in the queue */
	uint64_t longest_wait_ns;      /* of those that wait now */
	unsigned connections_max;
	unsigned processes;	      /* that take part in captures */
	unsigned registered;	      /* that wait to be captured */
	bool audit_fails;	      /* nothing is granted: decisions cannot be logged */
	bool label_users, label_jobs; /* the settings let metrics name them */
	unsigned leases_permit;	      /* of leases_active, those that are permits */
};

/* What a whole GPU does, whoever computes there: in the last seconds, by NVML (its GPM metrics),
 * without the hardware's counters. NaN: NVML does not tell this one. */
struct gpuctr_activity {
	unsigned gpu;	     /* index */
	const char *unknown; /* why nothing of it is known; "": it is */
	uint64_t over_ns;    /* between NVML's two samples */
	double sm_pct;	     /* SMs that had work, of all SMs */
	double tensor_pct;
	double dram_pct;		 /* of the highest bandwidth of the GPU's memory */
	double pcie_sent, pcie_received; /* bytes a second */
	double nvlink_sent, nvlink_received;
};

struct gpuctr_status {
	const char *daemon;		   /* version */
	const char *driver;		   /* "": none */
	const char *cupti;		   /* "": not found */
	enum gpuctr_restricted restricted; /* does the driver refuse counters to users? */
	struct gpuctr_error trouble;	   /* why nothing can be measured; code 0: all is well */
	uint64_t uptime_ns;
	unsigned peers; /* connections */
	const struct gpuctr_gpu *gpus;
	size_t n_gpus;
	const struct gpuctr_capture_info *captures;
	size_t n_captures;
	const struct gpuctr_counts *counts;	/* for root of the machine and for those whom the
						   settings name as monitor-users; else NULL */
	const struct gpuctr_activity *activity; /* of GPUs */
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
	uint64_t time_ns; /* forget it after this time; 0: no limit */
};

/* error is NULL on success. */
typedef void (*gpuctr_on_done)(const struct gpuctr_error *error, void *userdata);

/* States, as root of the machine and outside any container, that GPUs belong to a user's job:
 * nobody else may then measure them, leases of others on them end, and the owner need not be alone
 * on them. The last statement about a GPU counts. Statements do not outlive the daemon.
 * GPUCTR_E_NOT_ALLOWED, GPUCTR_E_NO_GPU, GPUCTR_E_BAD_REQUEST (also: there is no such job),
 * GPUCTR_E_QUOTA (too many jobs), GPUCTR_E_AUDIT. */
GPUCTR_API int gpuctr_begin_job(struct gpuctr *g, const struct gpuctr_job_options *options,
				gpuctr_on_done on_done, void *userdata);
GPUCTR_API int gpuctr_end_job(struct gpuctr *g, const char *job, gpuctr_on_done on_done,
			      void *userdata);

/* --- processes ----------------------------------------------------------------------------------
 *
 * A program that was started with the variables of gpuctr_standby_environment() is registered with
 * the daemon, unmeasured, and may be captured at any time by its owner, and by operators where the
 * configuration has any: see gpuctr_capture_options.processes. */

struct gpuctr_registered_process {
	unsigned process; /* the daemon's number, not used again while it runs */
	uint32_t pid, uid;
	const char *user, *program;
	uint64_t age_ns;    /* since it registered */
	unsigned capture;   /* that measures it now; 0: none */
	const char *holder; /* who opened that: user, program, pid; "": nobody */
	/* "NAME=value": what the process says of its job (SLURM_JOB_ID, RANK, ...). Nobody checks
	 * it. */
	const char *const *claims;
	size_t n_claims;
	bool foreign; /* another user's, seen as root or as an operator */
	/* The path of its cgroup, as the kernel named it to the daemon when it registered; "": not
	 * known. */
	const char *cgroup;
	/* What that path says as Docker, containerd, CRI-O, Podman, the kubelet and Slurm write it;
	 * "": nothing. Derived from a name, which whoever may make cgroups may choose. */
	const char *runtime;	/* "docker", "containerd", "cri-o", "podman"; "" when the path does
				 * not say which */
	const char *container;	/* its id, 64 hexadecimal digits: the innermost */
	const char *pod_uid;	/* Kubernetes' */
	const char *cgroup_job; /* Slurm's number of the job, and of the step */
	const char *cgroup_step;
};

/* One's own; for root and operators those of others as well. on_process is called for each, then
 * on_done once. */
typedef void (*gpuctr_on_registered_process)(const struct gpuctr_registered_process *process,
					     void *userdata);
GPUCTR_API int gpuctr_list_processes(struct gpuctr *g, gpuctr_on_registered_process on_process,
				     gpuctr_on_done on_done, void *userdata);

/* The variables that register a program (and its children), as a NULL-terminated array of
 * "NAME=value" to be added to its environment. socket NULL: gpuctr_default_socket(); agent NULL:
 * $GPUCTR_AGENT or the installed agent. Needs no connection: the daemon may come later. 0 and *ret
 * to be freed with one free(), or -ENOMEM, or GPUCTR_E_NO_AGENT when the agent cannot be read or is
 * none. */
GPUCTR_API int gpuctr_standby_environment(const char *socket, const char *agent, char ***ret);

/* --- captures -------------------------------------------------------------------------------- */

struct gpuctr_device {
	unsigned index; /* as the process counts its devices */
	const char *uuid, *name, *chip;
	unsigned clock_sm_mhz, clock_mem_mhz; /* the highest; they are not locked. 0: unknown */
};

struct gpuctr_process {
	unsigned process; /* 1, 2, ... within the capture */
	unsigned pid;	  /* as the daemon sees it */
	const char *program;
	const char *cupti, *driver; /* versions, "" until known */
	const char *recorded_from;  /* "": live; else values are recorded, and on what hardware */
	const struct gpuctr_device *devices;
	size_t n_devices;
	/* "NAME=value": what it says of its job, as gpuctr_registered_process has it. */
	const char *const *claims;
	size_t n_claims;
};

enum gpuctr_site_kind {
	GPUCTR_SITE_LABEL,    /* a range of the program's own, or a module */
	GPUCTR_SITE_STEP,     /* "iteration 2" */
	GPUCTR_SITE_OPERATOR, /* of PyTorch */
	GPUCTR_SITE_NODE,     /* of autograd's graph: a backward function */
	GPUCTR_SITE_ENGINE,   /* autograd's, around a node */
};

/* What the number of each occurrence of a site is. */
enum gpuctr_site_number {
	GPUCTR_NUMBER_NONE,
	GPUCTR_NUMBER_STEP, /* the step's */
	GPUCTR_NUMBER_SEQ,  /* the sequence number that autograd gave an operator */
};

/* A call site: NVTX ranges, or marks, that differ only in what is counted, within the ranges around
 * them. Its objects live until on_end has returned. A process has at most 65,536. */
struct gpuctr_site {
	const struct gpuctr_site *parent; /* enclosing site of the same thread, NULL: outermost */
	const char *domain;		  /* "" for the default domain */
	const char *name;  /* "aten::conv2d"; "iteration N", where N stands for the step's number */
	const char *sizes; /* of PyTorch's inputs, "[[64, 3, 7, 7], []]"; "": none */
	const char *category; /* name, or number in digits, or "" */
	uint32_t color;	      /* ARGB, 0: none */
	enum gpuctr_site_kind kind;
	enum gpuctr_site_number numbered;
	unsigned n_numbers; /* how many sites from the outermost to this are numbered */
	unsigned id;	    /* unique within the process, from 1; larger than the parent's */
	unsigned depth;	    /* 0: outermost; below 4,096, deeper ranges are told as that */
};

/* What differs between the occurrences of a site. */
struct gpuctr_occurrence {
	/* The numbers of the numbered sites of the path, outermost first: the site's n_numbers of
	 * them. -1: not known, as of ranges in very many others. Borrowed with the record. */
	const int64_t *numbers;
	unsigned payload_type; /* nvtxPayloadType_t: 0 none, 1 uint64, 2 int64, 3 double, 4 uint32,
				  5 int32, 6 float; of the innermost range that has one, or of a
				  mark itself */
	uint64_t payload;      /* its bits, zero-extended */
};

/* The number of a site in the path of a record or mark; -1: none, or not known. */
static inline int64_t gpuctr_site_number(const struct gpuctr_site *site,
					 const struct gpuctr_occurrence *at)
{
	return site->numbered != GPUCTR_NUMBER_NONE && at->numbers
		       ? at->numbers[site->n_numbers - 1]
		       : -1;
}

struct gpuctr_kernel {
	const char *name;	 /* demangled */
	const char *mangled;	 /* as the driver knows it */
	int static_shared_bytes; /* -1: unknown */
	int registers;		 /* per thread; -1: unknown */
	unsigned id;		 /* unique within the process, from 1 */
};

enum gpuctr_launch_kind {
	GPUCTR_LAUNCH_KERNEL,
	GPUCTR_LAUNCH_COOPERATIVE,
	GPUCTR_LAUNCH_GRAPH,	    /* of a CUDA graph as a whole */
	GPUCTR_LAUNCH_GRAPH_KERNEL, /* a kernel within the launch of a graph, in a trace */
};

/* Whose time a record tells. The length of a range is longer than the kernel's own time: it holds
 * the markers of the range, what the host did between its begin and the launch, and with a kernel's
 * first launch often the loading of its module. Compare, and divide by, times of one clock only. */
enum gpuctr_clock {
	GPUCTR_CLOCK_NONE,  /* start_ns is that of the launch call on the host; no duration */
	GPUCTR_CLOCK_RANGE, /* start_ns as above; duration_ns is gpu__time_duration.sum, the length
			       of the range that was measured around the launch */
	GPUCTR_CLOCK_GPU,   /* begin of the kernel, and its own time, on the GPU; of a graph: from
			       the begin of its first kernel to the end of its last one */
};

/* One launch and its counters. Kernels and sites it points to live until on_end has returned. */
struct gpuctr_record {
	unsigned process;
	uint64_t index; /* within the process, from 0, without gaps; what was lost is in the totals
			 */
	enum gpuctr_launch_kind kind;
	const struct gpuctr_kernel *kernel;
	uint32_t grid[3], block[3];
	uint32_t dynamic_shared_bytes;
	unsigned device; /* index into the process's devices by .index */
	unsigned context;
	uint64_t stream;
	uint32_t correlation;
	uint32_t thread;		/* of the system; 0: a trace did not watch the launch */
	int64_t start_ns;		/* unix time */
	int64_t duration_ns;		/* -1: not known, and clock is GPUCTR_CLOCK_NONE */
	enum gpuctr_clock clock;	/* of both */
	const struct gpuctr_site *site; /* innermost NVTX range of the launching thread, or NULL */
	struct gpuctr_occurrence at;
	unsigned opened; /* so many of the outermost ranges are the same occurrences as at the
			    thread's previous record; at most the site's depth + 1 */
	const struct gpuctr_site *const *active; /* start/end ranges open in the process */
	size_t n_active;
	const double *values; /* one for each column of the plan; NaN: not available */
	/* The group of the plan's columns that was measured in this launch: the values of columns
	 * of other groups are NaN. 0 where the plan has one group. */
	unsigned group;
	/* NULL, in what this library tells: values were counted. Programs that divide samples of
	 * the whole GPU among kernels have a standard error for each value here. Records of one
	 * alike (0: of none) share what their values are off by. */
	const double *errors;
	unsigned alike;
	/* Of a kernel of a CUDA graph, numbers that CUPTI gives the kernel's node and the graph
	 * within the process; else 0. Correlation, thread and ranges are those of the launch of the
	 * graph. */
	uint64_t graph_node;
	uint32_t graph;
};

enum gpuctr_copy_kind {
	GPUCTR_COPY_MEMORY,
	GPUCTR_COPY_SET,
	GPUCTR_COPY_KERNEL,
	GPUCTR_COPY_LOST, /* kernels ran within this time of which nothing is known */
};

/* Work that is in no record, in a trace with metrics: a copy or a fill of memory, or a kernel that
 * a filter has left out. */
struct gpuctr_copy {
	unsigned process;
	enum gpuctr_copy_kind kind;
	unsigned device, context;
	uint64_t stream;
	uint64_t bytes;		       /* of a kernel: a hash of its name, grid and block */
	int64_t start_ns, duration_ns; /* as of a record, on the GPU's clock */
};

struct gpuctr_mark {
	unsigned process;
	const struct gpuctr_site *site;
	struct gpuctr_occurrence at;
	uint32_t thread;
	int64_t time_ns;
};

/* Raw counter data as CUPTI decoded it, for the records first .. first + count of a process, whole.
 */
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
	bool recorded;	   /* this capture leases no GPU: only gpuctr-replay can answer it */
	const char *owner; /* of the processes that it names, when they are another user's; "" */
};

struct gpuctr_queued {
	unsigned position;  /* 1: next */
	const char *holder; /* "alice (python3, pid 4711)" */
	const char *gpu;
	uint64_t holder_left_ns; /* of the holder's lease; 0: not known yet */
};

struct gpuctr_notice {
	unsigned process; /* 0: the capture as a whole */
	struct gpuctr_error error;
	/* Of gpuctr_capture_options.processes the one that is left out, because it has ended or
	 * another capture measures it; 0: the notice is of something else. These come before the
	 * first on_process. */
	unsigned registered;
};

struct gpuctr_process_end {
	unsigned process;
	struct gpuctr_totals totals;
	bool clean; /* false: it died; the totals are the last it told, plus lost */
	/* If it died: what it had launched until so long before is in the totals. What it launched
	 * later is only there if its records came. */
	uint64_t uncounted_ns;
};

struct gpuctr_end {
	struct gpuctr_totals totals; /* over all processes */
	unsigned processes;
	struct gpuctr_error error; /* code 0: ended as asked */
};

/* NULL members are skipped. Order: on_opened, on_queued*, on_ready, then the others in any order,
 * and on_end last, exactly once, also when the connection breaks, but not with gpuctr_disconnect().
 * The capture is freed after on_end. */
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
	/* In any order, up to some seconds after its time. */
	void (*on_copy)(struct gpuctr_capture *c, const struct gpuctr_copy *copy, void *userdata);
};

/* By which of its names a kernel is chosen. */
enum gpuctr_kernel_name_base {
	GPUCTR_KERNEL_NAME_DEMANGLED = 0, /* "void linear::gemm<float>(float*, int)" */
	GPUCTR_KERNEL_NAME_FUNCTION = 1,  /* "gemm" */
	GPUCTR_KERNEL_NAME_MANGLED = 2,	  /* "_ZN6linear4gemmIfEEvPT_i" */
};

/* Of what launch_skip, launch_every and launch_count count the launches. */
enum gpuctr_filter_mode {
	GPUCTR_FILTER_GLOBAL = 0,     /* of a process, all together */
	GPUCTR_FILTER_PER_GPU = 1,    /* of each GPU */
	GPUCTR_FILTER_PER_KERNEL = 2, /* of each kernel, by its name */
};

/* How the library of a permit comes into programs. */
enum gpuctr_permit {
	GPUCTR_PERMIT_NONE = 0,		/* no permit */
	GPUCTR_PERMIT_BY_PRELOAD = 1,	/* into every program that is started */
	GPUCTR_PERMIT_BY_INJECTION = 2, /* with the first cuInit() of a program */
};

struct gpuctr_capture_options {
	size_t size;
	const char *const *metrics; /* names, globs, "regex:...", presets */
	size_t n_metrics;
	const char *const *gpus; /* indices or UUIDs; none: all of the machine */
	size_t n_gpus;
	const char *chip;	  /* of the recording; NULL: this machine's, or GH100 */
	const char *kernel_regex; /* POSIX extended, matched in the kernel's name; NULL: all */
	uint64_t launch_skip;	  /* matching launches of each process left out first */
	uint64_t launch_count;	  /* then measured; 0: all */
	bool no_wait;		  /* GPUCTR_E_GPU_BUSY instead of a place in the queue */
	uint64_t timeout_ns;	  /* GPUCTR_E_TIMEOUT after this long in the queue; 0: wait */
	bool raw_images;	  /* also deliver counter data, to make a recording */
	bool recorded;		  /* gpuctr-replay will answer: lease nothing */
	const char *program;	  /* what is measured, shown to those who wait */
	/* Registered processes to measure, by their numbers; none: those that are started with
	 * gpuctr_capture_environment(). They begin when the capture is ready, and without gpus it
	 * leases those that they use. A permit leases these and leaves the processes as they are.
	 */
	const unsigned *processes;
	size_t n_processes;
	/* NVTX expressions, in ncu's grammar as gpuctr-client(1) has it: measured are launches for
	 * which one of those that include holds (none given: all) and none of those that exclude.
	 * One that is no expression is refused by gpuctr_capture_open(), with
	 * GPUCTR_E_BAD_PATTERN. */
	const char *const *nvtx_include;
	size_t n_nvtx_include;
	const char *const *nvtx_exclude;
	size_t n_nvtx_exclude;
	/* "cudaProfilerApi": only between cudaProfilerStart() and cudaProfilerStop(); "nvtx:EXPR":
	 * only while an NVTX range is open, in any thread, that begins then and makes EXPR hold;
	 * NULL: always. With stop_on_range_end only the first time. */
	const char *capture_range;
	uint64_t stop_on_range_end;
	/* Only in some steps: skip_first ones are not measured, then, repeat times or for 0 without
	 * end, wait and warmup ones are not and active ones are. A step begins with
	 * "cudaProfilerStart", with "gpuctr_step", or with a range or mark that the expression step
	 * means; for NULL the agent finds steps by a sequence of launches that recurs. active 0:
	 * always. */
	uint64_t skip_first, wait, warmup, active, repeat;
	const char *step;
	/* Only kernels of exactly this name, in place of kernel_regex; NULL: all. */
	const char *kernel_name;
	uint64_t kernel_name_base; /* enum gpuctr_kernel_name_base, for either of them */
	uint64_t launch_every;	   /* behind those left out, the first of each so many; 0: all */
	uint64_t filter_mode;	   /* enum gpuctr_filter_mode */
	/* Nothing is measured, and metrics must be none: the programs that are started with
	 * gpuctr_capture_environment() may use the counters themselves, by whatever profiler, for
	 * as long as the capture lasts. on_notice tells of those that were refused. */
	uint64_t permit; /* enum gpuctr_permit */
	/* Not 0: no counter is read, and records tell when each kernel ran. Nothing is leased, so
	 * the capture waits for nobody. With metrics, these are planned, in any number of passes,
	 * and records have NaN for them. */
	uint64_t trace;
	/* Of a trace, not 0: the launch of a CUDA graph is one record, and not one for each of its
	 * kernels. */
	uint64_t whole_graphs;
	/* Not 0: of gpus those are leased that the user may measure; 0: one that the user may not
	 * measure refuses the capture. */
	uint64_t gpus_allowed;
};

/* Opens a capture. handler is copied. The result arrives by on_opened or on_end. */
GPUCTR_API int gpuctr_capture_open(struct gpuctr *g, const struct gpuctr_capture_options *options,
				   const struct gpuctr_capture_handler *handler, void *userdata,
				   struct gpuctr_capture **ret);

/* After on_ready: the variables that make a program (and its children) part of this capture, as a
 * NULL-terminated array of "NAME=value", to be added to its environment. Lives as long as the
 * capture. agent NULL: $GPUCTR_AGENT or the installed agent. Paths are made absolute, so that the
 * program may change its folder. NULL with gpuctr_last_error() set when the agent cannot be read.
 * Of a permit: libgpuctr-permit.so from beside the agent is put in front of $LD_PRELOAD, or named
 * by $CUDA_INJECTION64_PATH with permit GPUCTR_PERMIT_BY_INJECTION. */
GPUCTR_API const char *const *gpuctr_capture_environment(struct gpuctr_capture *c,
							 const char *agent);

/* Asks for the end: every process delivers what it has, then on_end comes. */
GPUCTR_API int gpuctr_capture_close(struct gpuctr_capture *c);

GPUCTR_API unsigned gpuctr_capture_id(const struct gpuctr_capture *c);

/* Says, from any thread of a program, that a step begins: one of a capture whose options have
 * "gpuctr_step" for step, and a mark "step" in the NVTX domain "gpuctr" for whoever else looks. In
 * a program that nobody measures it does nothing. Needs no connection. */
GPUCTR_API void gpuctr_step(void);

/* Version of the library, "major.minor.patch". */
GPUCTR_API const char *gpuctr_version(void);

#ifdef __cplusplus
}
#endif

#endif
