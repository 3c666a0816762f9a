/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_WIRE_WIRE_H
#define GPUCTR_WIRE_WIRE_H

/* Messages as plain structs. Handlers see these and nothing of protobuf.
 *
 * wire_decode() returns only what it has checked: every string is present ("" when it was absent),
 * valid UTF-8 without NUL and within its limit, every count within its limit, every enum a known
 * value. All pointers live in the arena given, until it is reset. When encoding, pointers are
 * borrowed for the call, and a NULL string is "". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/wire/frame.h"

enum wire_type {
	/* both directions, the first frames */
	WIRE_HELLO = 1, /* client */
	WIRE_WELCOME = 2,
	WIRE_REFUSAL = 3,

	/* client -> daemon, and answers */
	WIRE_METRICS_REQUEST = 10,
	WIRE_METRICS_REPLY = 11,
	WIRE_PLAN_REQUEST = 12,
	WIRE_PLAN_REPLY = 13,
	WIRE_STATUS_REQUEST = 14,
	WIRE_STATUS_REPLY = 15,

	/* front <-> gpu process */
	WIRE_TENANTS_REQUEST = 16,
	WIRE_TENANTS_REPLY = 17,

	WIRE_OPEN_CAPTURE = 20,
	WIRE_OPENED = 21,
	WIRE_QUEUED = 22,
	WIRE_READY = 23,
	WIRE_CLOSE_CAPTURE = 26,
	WIRE_CAPTURE_END = 27,
	WIRE_PROCESSES_REQUEST = 28,
	WIRE_PROCESSES_REPLY = 29,

	/* agent -> daemon -> client */
	WIRE_PROCESS = 30,
	WIRE_RECORDS = 31,
	WIRE_RAW_IMAGE = 32,
	WIRE_PROGRESS = 33,
	WIRE_NOTICE = 34,
	WIRE_PROCESS_END = 35, /* daemon -> client */

	/* agent <-> daemon */
	WIRE_AGENT_HELLO = 40,
	WIRE_AGENT_WELCOME = 41,
	WIRE_AGENT_STOP = 42,
	WIRE_GOODBYE = 43,
	WIRE_PERMISSION_REQUEST = 44,
	WIRE_PERMISSION_REPLY = 45,
	WIRE_AGENT_REGISTERED = 46,

	/* a scheduler's statement (client -> daemon), and its answer */
	WIRE_JOB_BEGIN = 50,
	WIRE_JOB_END = 51,
	WIRE_JOB_REPLY = 52,

	/* payload of WIRE_RECORDS; never a frame of its own */
	WIRE_RECORD_COLUMNS = 100,
};

enum {
	WIRE_E_UNKNOWN = 1,   /* no such type */
	WIRE_E_MALFORMED = 2, /* protobuf cannot parse it, or it is beyond a limit */
};

struct wire_bytes {
	size_t n;
	const uint8_t *v;
};
struct wire_strings {
	size_t n;
	const char *const *v;
};
struct wire_u32s {
	size_t n;
	const uint32_t *v;
};
struct wire_u64s {
	size_t n;
	const uint64_t *v;
};
struct wire_i64s {
	size_t n;
	const int64_t *v;
};
struct wire_doubles {
	size_t n;
	const double *v;
};

enum wire_metric_kind {
	WIRE_METRIC_COUNTER,
	WIRE_METRIC_RATIO,
	WIRE_METRIC_THROUGHPUT,
	WIRE_METRIC_PRESET,
	WIRE_METRIC_DERIVED,
	WIRE_METRIC_KIND_MAX = WIRE_METRIC_DERIVED,
};

enum wire_capture_state {
	WIRE_CAPTURE_PLANNING,
	WIRE_CAPTURE_QUEUED,
	WIRE_CAPTURE_READY,
	WIRE_CAPTURE_RUNNING,
	WIRE_CAPTURE_ENDING,
	WIRE_CAPTURE_STATE_MAX = WIRE_CAPTURE_ENDING,
};

enum wire_launch_kind {
	WIRE_LAUNCH_KERNEL,
	WIRE_LAUNCH_COOPERATIVE,
	WIRE_LAUNCH_GRAPH,
};

/* Whose time a record has. */
enum wire_clock {
	WIRE_CLOCK_NONE,  /* the start likewise; the duration is that of the range that was measured
			   */
	WIRE_CLOCK_RANGE, /* as above, but the length of the range that was measured is known */
	WIRE_CLOCK_GPU,	  /* begin and end of the work itself */
};

enum { WIRE_PPM = 1000000 }; /* the whole, in millionths */

#define WIRE_UNKNOWN_ATTRIBUTE UINT32_MAX /* of a kernel */

struct wire_hello {
	uint32_t version, features;
	const char *program;
};
struct wire_welcome {
	uint32_t version, features;
	const char *daemon;
};
struct wire_refusal {
	uint32_t request, code;
	const char *message, *remedy;
};

struct wire_metrics_request {
	uint32_t request;
	const char *chip;
	bool describe;
};

struct wire_metric {
	const char *name;
	uint32_t kind;
	const char *unit, *hardware_unit, *description;
	struct wire_strings submetrics;
};

struct wire_metrics {
	size_t n;
	const struct wire_metric *v;
};
struct wire_metrics_reply {
	uint32_t request;
	const char *chip;
	struct wire_metrics metrics;
	bool last;
};

struct wire_plan_request {
	uint32_t request;
	const char *chip;
	struct wire_strings metrics;
};

struct wire_column {
	const char *name, *unit;
	struct wire_u32s metric; /* indices into the plan's metrics, checked */
	struct wire_doubles weight;
	uint32_t group;
};

struct wire_columns {
	size_t n;
	const struct wire_column *v;
};

struct wire_plan {
	const char *chip;
	struct wire_strings metrics;
	struct wire_columns columns;
	uint32_t passes, groups;
	bool fits_duration;
};

/* A column that needs several passes by itself, and is in no group; NULL: there is none. */
const struct wire_column *wire_plan_find_ungrouped(const struct wire_plan *plan);

/* Is there none? */
bool wire_plan_is_grouped(const struct wire_plan *plan);

struct wire_plan_reply {
	uint32_t request;
	struct wire_plan plan;
};

struct wire_gpu {
	uint32_t index;
	const char *uuid, *name, *chip;
	uint32_t holder, waiting;
	const char *job, *job_user;
};
struct wire_gpus {
	size_t n;
	const struct wire_gpu *v;
};

struct wire_capture_info {
	uint32_t capture, uid;
	const char *user;
	uint32_t pid;
	const char *program;
	uint32_t state;
	struct wire_strings gpus, metrics;
	uint32_t position;
	struct gpuctr_totals totals;
	uint64_t lease_left_ns;
	uint32_t processes;
};

struct wire_capture_infos {
	size_t n;
	const struct wire_capture_info *v;
};

struct wire_status_request {
	uint32_t request;
};

struct wire_code_count {
	uint32_t code;
	uint64_t count;
};
struct wire_code_counts {
	size_t n;
	const struct wire_code_count *v;
};

struct wire_wait_bucket {
	uint64_t up_to_ns; /* 0: without a bound */
	uint64_t count;
};
struct wire_wait_buckets {
	size_t n;
	const struct wire_wait_bucket *v;
};

/* See Counts in gpuctr.proto. */
struct wire_counts {
	bool known;
	uint64_t connections, permissions, leases;
	struct wire_code_counts refusals, lease_ends;
	uint32_t leases_active, waiting;
	uint64_t longest_wait_ns;
	struct wire_wait_buckets waits;
	uint64_t waited_ns, records, record_bytes;
	struct gpuctr_totals kernels;
	uint32_t processes, registered;
	uint64_t restarts_granter, restarts_gpu, restarts_planner, restarts_front;
	uint32_t connections_max, queue_max;
	bool audit_fails, label_users, label_jobs;
	uint32_t leases_permit;
};

struct wire_status_reply {
	uint32_t request;
	const char *daemon, *driver, *cupti;
	uint32_t restricted;
	struct wire_gpus gpus;
	struct wire_capture_infos captures;
	uint64_t uptime_ns;
	const char *trouble;
	uint32_t peers;
	uint32_t trouble_code;
	const char *trouble_remedy;
	struct wire_counts counts;
};

struct wire_tenants_request {
	uint32_t request;
	uint64_t gpus; /* a bit for each index */
};
struct wire_tenants_reply {
	uint32_t request;
	bool known;
	struct wire_u32s gpu, pid; /* pairs: of equal length */
};

struct wire_schedule {
	uint64_t skip_first, wait, warmup, active, repeat;
};

struct wire_selection {
	const char *kernel_regex;
	uint64_t launch_skip, launch_count;
	bool raw_images;
	uint32_t budget_ppm; /* at most WIRE_PPM; 0: everything is measured */
	uint64_t seed;
	uint32_t kernel_name_base; /* enum gpuctr_kernel_name_base */
	const char *kernel_name;
	struct wire_strings nvtx_include, nvtx_exclude;
	const char *capture_range;
	bool stop_on_range_end;
	struct wire_schedule schedule;
	const char *step;
	uint64_t launch_every;
	uint32_t filter_mode; /* enum gpuctr_filter_mode */
	bool nvtx_process_scope;
	uint64_t record_limit;
};

struct wire_open_capture {
	uint32_t request;
	struct wire_strings metrics, gpus;
	const char *chip;
	struct wire_selection selection;
	bool no_wait;
	uint64_t timeout_ns;
	const char *program;
	uint64_t lease_ns;
	bool recorded;
	struct wire_u32s processes;
	bool permit;
};

struct wire_registered_process {
	uint32_t id, pid, uid;
	const char *user, *program;
	uint64_t age_ns;
	uint32_t capture;
	const char *holder;
	struct wire_strings claims;
	bool foreign;
	const char *cgroup;
};
struct wire_registered_processes {
	size_t n;
	const struct wire_registered_process *v;
};
struct wire_processes_request {
	uint32_t request;
};
struct wire_processes_reply {
	uint32_t request;
	struct wire_registered_processes processes;
	bool last;
};

struct wire_opened {
	uint32_t request, capture;
	struct wire_plan plan;
	struct wire_gpus gpus;
	const char *driver;
	bool recorded;
	const char *owner;
};

struct wire_queued {
	uint32_t capture, position;
	const char *holder, *gpu;
	uint64_t holder_left_ns;
};
struct wire_ready {
	uint32_t capture;
	const char *token;
	uint64_t lease_ns;
};
struct wire_close_capture {
	uint32_t capture;
};

struct wire_device {
	uint32_t index;
	const char *uuid, *name, *chip;
	uint32_t clock_sm_mhz, clock_mem_mhz;
};

struct wire_devices {
	size_t n;
	const struct wire_device *v;
};

struct wire_process {
	uint32_t capture, process, pid;
	const char *program, *cupti, *driver;
	struct wire_devices devices;
	const char *recorded_from;
	struct wire_strings claims;
};

struct wire_records {
	uint32_t capture, process;
	uint64_t first;
	uint32_t count;
	struct wire_bytes columns;
};

struct wire_raw_image {
	uint32_t capture, process;
	uint64_t first;
	uint32_t count;
	uint64_t offset, size;
	struct wire_bytes data;
};

struct wire_progress {
	uint32_t capture, process;
	struct gpuctr_totals totals;
};
struct wire_notice {
	uint32_t capture, process, code;
	const char *message, *remedy;
	uint32_t registered;
};
struct wire_process_end {
	uint32_t capture, process;
	struct gpuctr_totals totals;
	bool clean;
};

struct wire_capture_end {
	uint32_t capture;
	struct gpuctr_totals totals;
	uint32_t processes, code;
	const char *message, *remedy;
};

struct wire_agent_hello {
	uint32_t version, features;
	const char *token, *program, *recorded_from, *chip;
	struct wire_strings claims;
};

struct wire_agent_registered {
	uint32_t version, features, process;
};

struct wire_agent_welcome {
	uint32_t version, features, capture, process;
	struct wire_plan plan;
	struct wire_selection selection;
	struct wire_strings gpus;
	const char *token;
};

struct wire_agent_stop {
	uint32_t code;
	const char *message;
};
struct wire_goodbye {
	struct gpuctr_totals totals;
};

struct wire_permission_request {
	const char *token;
	uint32_t root, parent, object, object_class, client_target, context_target;
};

struct wire_permission_reply {
	uint32_t status, code;
	const char *message, *remedy;
};

struct wire_job_begin {
	uint32_t request;
	const char *job;
	uint32_t uid;
	struct wire_strings gpus;
	uint64_t time_ns;
};
struct wire_job_end {
	uint32_t request;
	const char *job;
};
struct wire_job_reply {
	uint32_t request;
};

/* See RecordColumns in gpuctr.proto: in the names of members a function is a kernel, and a node an
 * NVTX range. Each length is within its limit; whether the lengths agree with each other is for the
 * reader to check. */
struct wire_record_columns {
	uint32_t first_string;
	struct wire_strings strings;
	uint32_t first_function;
	struct wire_u32s function_name, function_static_shared, function_registers;
	uint32_t first_node;
	struct wire_u32s node_parent, node_domain, node_message, node_category, node_color,
		node_payload_type;
	struct wire_u64s node_payload;
	uint32_t first_set;
	struct wire_u32s set_size, set_node;

	struct wire_u32s kind, function, grid, block, dynamic_shared, device, context;
	struct wire_u64s stream;
	struct wire_u32s correlation, thread;
	struct wire_i64s start_ns;
	struct wire_u32s node, range_set;
	struct wire_doubles values;
	struct wire_u32s clock;
	struct wire_u64s duration_ns;
	struct wire_u32s stratum, group;
	struct wire_doubles chance;

	struct wire_u32s mark_node, mark_thread;
	struct wire_i64s mark_ns;

	struct wire_u32s stratum_id, stratum_function, stratum_node, stratum_grid, stratum_block,
		stratum_shared, stratum_device, stratum_merged;
	struct wire_u64s stratum_seen;
};

struct wire_message {
	enum wire_type type;
	union {
		struct wire_hello hello;
		struct wire_welcome welcome;
		struct wire_refusal refusal;
		struct wire_metrics_request metrics_request;
		struct wire_metrics_reply metrics_reply;
		struct wire_plan_request plan_request;
		struct wire_plan_reply plan_reply;
		struct wire_status_request status_request;
		struct wire_status_reply status_reply;
		struct wire_tenants_request tenants_request;
		struct wire_tenants_reply tenants_reply;
		struct wire_open_capture open_capture;
		struct wire_opened opened;
		struct wire_queued queued;
		struct wire_ready ready;
		struct wire_close_capture close_capture;
		struct wire_capture_end capture_end;
		struct wire_process process;
		struct wire_records records;
		struct wire_raw_image raw_image;
		struct wire_progress progress;
		struct wire_notice notice;
		struct wire_process_end process_end;
		struct wire_processes_request processes_request;
		struct wire_processes_reply processes_reply;
		struct wire_agent_hello agent_hello;
		struct wire_agent_registered agent_registered;
		struct wire_agent_welcome agent_welcome;
		struct wire_agent_stop agent_stop;
		struct wire_goodbye goodbye;
		struct wire_permission_request permission_request;
		struct wire_permission_reply permission_reply;
		struct wire_job_begin job_begin;
		struct wire_job_end job_end;
		struct wire_job_reply job_reply;
		struct wire_record_columns record_columns;
	};
};

/* "HELLO", ...; "UNKNOWN". Static. */
const char *wire_type_to_string(unsigned type);

/* Unpacks a payload. WIRE_E_*; -ENOMEM when even the arena's first block cannot be had. */
int wire_decode(struct arena *a, unsigned type, const uint8_t *payload, size_t size,
		struct wire_message *ret);

/* Reads a message that is only passed on, such as Records, which has nothing but numbers and pieces
 * of bytes. The pieces are borrowed from the payload, and nothing is allocated. WIRE_E_UNKNOWN: a
 * message of another kind; WIRE_E_MALFORMED. */
int wire_decode_envelope(unsigned type, const uint8_t *payload, size_t size,
			 struct wire_message *ret);

/* Appends a whole frame to out. scratch is used for the conversion and may be reset after the call.
 * -ENOMEM; -EMSGSIZE: the message is beyond the limits, which is a mistake of the caller's. */
int wire_encode(struct arena *scratch, struct buffer *out, const struct wire_message *message);

/* Copies a message with all that it points to into a; a NULL string becomes "". -ENOMEM: a is full;
 * -EMSGSIZE: the message is beyond the limits. *ret must not be used after an error. */
int wire_copy(struct arena *a, const struct wire_message *in, struct wire_message *ret);

/* Appends the payload without a frame's header, for RecordColumns, which travels inside of
 * Records. */
int wire_encode_payload(struct arena *scratch, struct buffer *out,
			const struct wire_message *message);

#endif
