/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/wire_layout.h"

#include <stddef.h>

#include "agent.pb-c.h"
#include "gpuctr.pb-c.h"
#include "proto/wire/limits.h"

/* The whole protocol as tables: a row names a field of a .proto, its place in the plain struct, and
 * its limit. Only this file sees the generated headers. */

#define U32(s, n, m)                                             \
	{                                                        \
		n, WIRE_KIND_U32, offsetof(struct s, m), 0, NULL \
	}
#define ENUM(s, n, m, max)                                         \
	{                                                          \
		n, WIRE_KIND_U32, offsetof(struct s, m), max, NULL \
	}
#define U64(s, n, m)                                             \
	{                                                        \
		n, WIRE_KIND_U64, offsetof(struct s, m), 0, NULL \
	}
#define BOOL(s, n, m)                                             \
	{                                                         \
		n, WIRE_KIND_BOOL, offsetof(struct s, m), 0, NULL \
	}
#define STR(s, n, m, limit)                                             \
	{                                                               \
		n, WIRE_KIND_STRING, offsetof(struct s, m), limit, NULL \
	}
#define BYTES(s, n, m, limit)                                          \
	{                                                              \
		n, WIRE_KIND_BYTES, offsetof(struct s, m), limit, NULL \
	}
#define STRS(s, n, m, limit)                                             \
	{                                                                \
		n, WIRE_KIND_STRINGS, offsetof(struct s, m), limit, NULL \
	}
#define NUMS(s, n, m, limit)                                             \
	{                                                                \
		n, WIRE_KIND_NUMBERS, offsetof(struct s, m), limit, NULL \
	}
#define MSG(s, n, m, sub)                                                     \
	{                                                                     \
		n, WIRE_KIND_MESSAGE, offsetof(struct s, m), 0, &layout_##sub \
	}
#define MSGS(s, n, m, limit, sub)                                                  \
	{                                                                          \
		n, WIRE_KIND_MESSAGES, offsetof(struct s, m), limit, &layout_##sub \
	}

#define LAYOUT(plain, check, ...) LAYOUT_OF(plain, wire_##plain, check, __VA_ARGS__)
#define LAYOUT_OF(plain, type, check, ...)                                 \
	static const struct wire_field fields_##plain[] = { __VA_ARGS__ }; \
	static const struct wire_layout layout_##plain = {                 \
		#plain,                                                    \
		&gpuctr__##plain##__descriptor,                            \
		sizeof(struct type),                                       \
		fields_##plain,                                            \
		sizeof(fields_##plain) / sizeof(fields_##plain[0]),        \
		check,                                                     \
	}

enum { NAME = LIMIT_NAME_BYTES, TEXT = LIMIT_TEXT_BYTES };

LAYOUT(hello, NULL, U32(wire_hello, 1, version), U32(wire_hello, 2, features),
       STR(wire_hello, 3, program, NAME));

LAYOUT(welcome, NULL, U32(wire_welcome, 1, version), U32(wire_welcome, 2, features),
       STR(wire_welcome, 3, daemon, NAME));

LAYOUT(refusal, NULL, U32(wire_refusal, 1, request), U32(wire_refusal, 2, code),
       STR(wire_refusal, 3, message, TEXT), STR(wire_refusal, 4, remedy, TEXT));

LAYOUT(metrics_request, NULL, U32(wire_metrics_request, 1, request),
       STR(wire_metrics_request, 2, chip, NAME), BOOL(wire_metrics_request, 4, describe));

LAYOUT(metric, NULL, STR(wire_metric, 1, name, NAME),
       ENUM(wire_metric, 2, kind, WIRE_METRIC_KIND_MAX), STR(wire_metric, 3, unit, NAME),
       STR(wire_metric, 4, hardware_unit, NAME), STR(wire_metric, 5, description, TEXT),
       STRS(wire_metric, 6, submetrics, LIMIT_SUBMETRICS));

LAYOUT(metrics_reply, NULL, U32(wire_metrics_reply, 1, request),
       STR(wire_metrics_reply, 2, chip, NAME),
       MSGS(wire_metrics_reply, 3, metrics, LIMIT_METRICS_PER_FRAME, metric),
       BOOL(wire_metrics_reply, 4, last));

LAYOUT(plan_request, NULL, U32(wire_plan_request, 1, request),
       STR(wire_plan_request, 2, chip, NAME), STRS(wire_plan_request, 3, metrics, LIMIT_METRICS));

LAYOUT(column, NULL, STR(wire_column, 1, name, NAME), STR(wire_column, 2, unit, NAME),
       NUMS(wire_column, 3, metric, LIMIT_TERMS), NUMS(wire_column, 4, weight, LIMIT_TERMS),
       U32(wire_column, 6, group));

static bool validate_plan(const void *plain)
{
	const struct wire_plan *p = plain;

	for (size_t i = 0; i < p->columns.n; i++) {
		const struct wire_column *c = &p->columns.v[i];

		if (c->metric.n != c->weight.n) {
			return false;
		}
		for (size_t k = 0; k < c->metric.n; k++) {
			if (c->metric.v[k] >= p->metrics.n) {
				return false;
			}
		}
	}
	return true;
}

LAYOUT(plan, validate_plan, STR(wire_plan, 1, chip, NAME),
       STRS(wire_plan, 2, metrics, LIMIT_PLAN_METRICS),
       MSGS(wire_plan, 3, columns, LIMIT_PLAN_METRICS, column), U32(wire_plan, 4, passes),
       U32(wire_plan, 5, groups), BOOL(wire_plan, 6, fits_duration));

LAYOUT(plan_reply, NULL, U32(wire_plan_reply, 1, request), MSG(wire_plan_reply, 2, plan, plan));

LAYOUT(gpu, NULL, U32(wire_gpu, 1, index), STR(wire_gpu, 2, uuid, NAME),
       STR(wire_gpu, 3, name, NAME), STR(wire_gpu, 4, chip, NAME), U32(wire_gpu, 5, holder),
       U32(wire_gpu, 6, waiting), STR(wire_gpu, 7, job, LIMIT_JOB_BYTES),
       STR(wire_gpu, 8, job_user, NAME));

LAYOUT_OF(totals, gpuctr_totals, NULL, U64(gpuctr_totals, 1, seen), U64(gpuctr_totals, 2, measured),
	  U64(gpuctr_totals, 3, filtered), U64(gpuctr_totals, 4, capturing),
	  U64(gpuctr_totals, 5, unready), U64(gpuctr_totals, 6, failed),
	  U64(gpuctr_totals, 7, dropped), U64(gpuctr_totals, 8, lost),
	  U64(gpuctr_totals, 9, unchosen));

LAYOUT(capture_info, NULL, U32(wire_capture_info, 1, capture), U32(wire_capture_info, 2, uid),
       STR(wire_capture_info, 3, user, NAME), U32(wire_capture_info, 4, pid),
       STR(wire_capture_info, 5, program, NAME),
       ENUM(wire_capture_info, 6, state, WIRE_CAPTURE_STATE_MAX),
       STRS(wire_capture_info, 7, gpus, LIMIT_GPUS),
       STRS(wire_capture_info, 8, metrics, LIMIT_PLAN_METRICS), U32(wire_capture_info, 9, position),
       MSG(wire_capture_info, 10, totals, totals), U64(wire_capture_info, 11, lease_left_ns),
       U32(wire_capture_info, 12, processes));

LAYOUT(status_request, NULL, U32(wire_status_request, 1, request));

LAYOUT(code_count, NULL, U32(wire_code_count, 1, code), U64(wire_code_count, 2, count));

LAYOUT(wait_bucket, NULL, U64(wire_wait_bucket, 1, up_to_ns), U64(wire_wait_bucket, 2, count));

LAYOUT(counts, NULL, BOOL(wire_counts, 1, known), U64(wire_counts, 2, connections),
       U64(wire_counts, 3, permissions), U64(wire_counts, 4, leases),
       MSGS(wire_counts, 5, refusals, LIMIT_CODES, code_count),
       MSGS(wire_counts, 6, lease_ends, LIMIT_CODES, code_count),
       U32(wire_counts, 7, leases_active), U32(wire_counts, 8, waiting),
       U64(wire_counts, 9, longest_wait_ns),
       MSGS(wire_counts, 10, waits, LIMIT_WAIT_BUCKETS, wait_bucket),
       U64(wire_counts, 11, waited_ns), U64(wire_counts, 12, records),
       U64(wire_counts, 13, record_bytes), MSG(wire_counts, 14, kernels, totals),
       U32(wire_counts, 15, processes), U32(wire_counts, 16, registered),
       U64(wire_counts, 17, restarts_granter), U64(wire_counts, 18, restarts_gpu),
       U64(wire_counts, 19, restarts_planner), U64(wire_counts, 20, restarts_front),
       U32(wire_counts, 21, connections_max), U32(wire_counts, 22, queue_max),
       BOOL(wire_counts, 23, audit_fails), BOOL(wire_counts, 24, label_users),
       BOOL(wire_counts, 25, label_jobs), U32(wire_counts, 26, leases_permit));

LAYOUT(status_reply, NULL, U32(wire_status_reply, 1, request),
       STR(wire_status_reply, 2, daemon, NAME), STR(wire_status_reply, 3, driver, NAME),
       STR(wire_status_reply, 4, cupti, NAME),
       ENUM(wire_status_reply, 5, restricted, GPUCTR_RESTRICTION_UNKNOWN),
       MSGS(wire_status_reply, 6, gpus, LIMIT_GPUS, gpu),
       MSGS(wire_status_reply, 7, captures, LIMIT_CAPTURES, capture_info),
       U64(wire_status_reply, 8, uptime_ns), STR(wire_status_reply, 9, trouble, TEXT),
       U32(wire_status_reply, 10, peers), U32(wire_status_reply, 11, trouble_code),
       STR(wire_status_reply, 12, trouble_remedy, TEXT),
       MSG(wire_status_reply, 13, counts, counts));

LAYOUT(tenants_request, NULL, U32(wire_tenants_request, 1, request),
       U64(wire_tenants_request, 2, gpus));

static bool validate_tenants(const void *plain)
{
	const struct wire_tenants_reply *t = plain;

	return t->gpu.n == t->pid.n;
}

LAYOUT(tenants_reply, validate_tenants, U32(wire_tenants_reply, 1, request),
       BOOL(wire_tenants_reply, 2, known), NUMS(wire_tenants_reply, 3, gpu, LIMIT_TENANTS),
       NUMS(wire_tenants_reply, 4, pid, LIMIT_TENANTS));

LAYOUT(schedule, NULL, U64(wire_schedule, 1, skip_first), U64(wire_schedule, 2, wait),
       U64(wire_schedule, 3, warmup), U64(wire_schedule, 4, active), U64(wire_schedule, 5, repeat));

LAYOUT(selection, NULL, STR(wire_selection, 1, kernel_regex, TEXT),
       U64(wire_selection, 2, launch_skip), U64(wire_selection, 3, launch_count),
       BOOL(wire_selection, 4, raw_images), ENUM(wire_selection, 5, budget_ppm, WIRE_PPM),
       U64(wire_selection, 6, seed),
       ENUM(wire_selection, 7, kernel_name_base, GPUCTR_KERNEL_NAME_MANGLED),
       STR(wire_selection, 8, kernel_name, LIMIT_STRING_BYTES),
       STRS(wire_selection, 10, nvtx_include, LIMIT_EXPRESSIONS),
       STRS(wire_selection, 11, nvtx_exclude, LIMIT_EXPRESSIONS),
       STR(wire_selection, 12, capture_range, TEXT), BOOL(wire_selection, 13, stop_on_range_end),
       MSG(wire_selection, 14, schedule, schedule), STR(wire_selection, 15, step, TEXT),
       U64(wire_selection, 9, launch_every),
       ENUM(wire_selection, 16, filter_mode, GPUCTR_FILTER_PER_LAUNCH_CONFIG),
       BOOL(wire_selection, 17, nvtx_process_scope), U64(wire_selection, 18, record_limit));

LAYOUT(open_capture, NULL, U32(wire_open_capture, 1, request),
       STRS(wire_open_capture, 2, metrics, LIMIT_METRICS),
       STRS(wire_open_capture, 3, gpus, LIMIT_GPUS), STR(wire_open_capture, 4, chip, NAME),
       MSG(wire_open_capture, 5, selection, selection), BOOL(wire_open_capture, 8, no_wait),
       U64(wire_open_capture, 9, timeout_ns), STR(wire_open_capture, 11, program, NAME),
       U64(wire_open_capture, 12, lease_ns), BOOL(wire_open_capture, 13, recorded),
       NUMS(wire_open_capture, 14, processes, LIMIT_PROCESSES),
       BOOL(wire_open_capture, 15, permit));

LAYOUT(registered_process, NULL, U32(wire_registered_process, 1, id),
       U32(wire_registered_process, 2, pid), U32(wire_registered_process, 3, uid),
       STR(wire_registered_process, 4, user, NAME), STR(wire_registered_process, 5, program, NAME),
       U64(wire_registered_process, 6, age_ns), U32(wire_registered_process, 7, capture),
       STR(wire_registered_process, 8, holder, TEXT),
       STRS(wire_registered_process, 9, claims, LIMIT_CLAIMS),
       BOOL(wire_registered_process, 10, foreign), STR(wire_registered_process, 11, cgroup, TEXT));

LAYOUT(processes_request, NULL, U32(wire_processes_request, 1, request));

LAYOUT(processes_reply, NULL, U32(wire_processes_reply, 1, request),
       MSGS(wire_processes_reply, 2, processes, LIMIT_PROCESSES_PER_FRAME, registered_process),
       BOOL(wire_processes_reply, 3, last));

LAYOUT(opened, NULL, U32(wire_opened, 1, request), U32(wire_opened, 2, capture),
       MSG(wire_opened, 3, plan, plan), MSGS(wire_opened, 4, gpus, LIMIT_GPUS, gpu),
       STR(wire_opened, 5, driver, NAME), BOOL(wire_opened, 6, recorded),
       STR(wire_opened, 7, owner, NAME));

LAYOUT(queued, NULL, U32(wire_queued, 1, capture), U32(wire_queued, 2, position),
       STR(wire_queued, 3, holder, TEXT), STR(wire_queued, 4, gpu, NAME),
       U64(wire_queued, 5, holder_left_ns));

LAYOUT(ready, NULL, U32(wire_ready, 1, capture), STR(wire_ready, 2, token, LIMIT_TOKEN_BYTES),
       U64(wire_ready, 3, lease_ns));

LAYOUT(close_capture, NULL, U32(wire_close_capture, 1, capture));

LAYOUT(device, NULL, U32(wire_device, 1, index), STR(wire_device, 2, uuid, NAME),
       STR(wire_device, 3, name, NAME), STR(wire_device, 4, chip, NAME),
       U32(wire_device, 5, clock_sm_mhz), U32(wire_device, 6, clock_mem_mhz));

LAYOUT(process, NULL, U32(wire_process, 1, capture), U32(wire_process, 2, process),
       U32(wire_process, 3, pid), STR(wire_process, 4, program, NAME),
       STR(wire_process, 5, cupti, NAME), STR(wire_process, 6, driver, NAME),
       MSGS(wire_process, 7, devices, LIMIT_GPUS, device),
       STR(wire_process, 8, recorded_from, NAME), STRS(wire_process, 9, claims, LIMIT_CLAIMS));

LAYOUT(records, NULL, U32(wire_records, 1, capture), U32(wire_records, 2, process),
       U64(wire_records, 3, first), ENUM(wire_records, 4, count, LIMIT_RECORDS_PER_FRAME),
       BYTES(wire_records, 5, columns, LIMIT_FRAME_BYTES));

LAYOUT(raw_image, NULL, U32(wire_raw_image, 1, capture), U32(wire_raw_image, 2, process),
       U64(wire_raw_image, 3, first), ENUM(wire_raw_image, 4, count, LIMIT_RECORDS_PER_FRAME),
       U64(wire_raw_image, 5, offset), U64(wire_raw_image, 6, size),
       BYTES(wire_raw_image, 7, data, LIMIT_IMAGE_PIECE_BYTES));

LAYOUT(progress, NULL, U32(wire_progress, 1, capture), U32(wire_progress, 2, process),
       MSG(wire_progress, 3, totals, totals));

LAYOUT(notice, NULL, U32(wire_notice, 1, capture), U32(wire_notice, 2, process),
       U32(wire_notice, 3, code), STR(wire_notice, 4, message, TEXT),
       STR(wire_notice, 5, remedy, TEXT), U32(wire_notice, 6, registered));

LAYOUT(process_end, NULL, U32(wire_process_end, 1, capture), U32(wire_process_end, 2, process),
       MSG(wire_process_end, 3, totals, totals), BOOL(wire_process_end, 4, clean));

LAYOUT(capture_end, NULL, U32(wire_capture_end, 1, capture),
       MSG(wire_capture_end, 2, totals, totals), U32(wire_capture_end, 3, processes),
       U32(wire_capture_end, 4, code), STR(wire_capture_end, 5, message, TEXT),
       STR(wire_capture_end, 6, remedy, TEXT));

LAYOUT(agent_hello, NULL, U32(wire_agent_hello, 1, version), U32(wire_agent_hello, 2, features),
       STR(wire_agent_hello, 3, token, LIMIT_TOKEN_BYTES), STR(wire_agent_hello, 4, program, NAME),
       STR(wire_agent_hello, 5, recorded_from, NAME), STR(wire_agent_hello, 6, chip, NAME),
       STRS(wire_agent_hello, 7, claims, LIMIT_CLAIMS));

LAYOUT(agent_registered, NULL, U32(wire_agent_registered, 1, version),
       U32(wire_agent_registered, 2, features), U32(wire_agent_registered, 3, process));

LAYOUT(agent_welcome, NULL, U32(wire_agent_welcome, 1, version),
       U32(wire_agent_welcome, 2, features), U32(wire_agent_welcome, 3, capture),
       U32(wire_agent_welcome, 4, process), MSG(wire_agent_welcome, 5, plan, plan),
       MSG(wire_agent_welcome, 6, selection, selection),
       STRS(wire_agent_welcome, 10, gpus, LIMIT_GPUS),
       STR(wire_agent_welcome, 11, token, LIMIT_TOKEN_BYTES));

LAYOUT(agent_stop, NULL, U32(wire_agent_stop, 1, code), STR(wire_agent_stop, 2, message, TEXT));
LAYOUT(goodbye, NULL, MSG(wire_goodbye, 1, totals, totals));

LAYOUT(permission_request, NULL, STR(wire_permission_request, 1, token, LIMIT_TOKEN_BYTES),
       U32(wire_permission_request, 2, root), U32(wire_permission_request, 3, parent),
       U32(wire_permission_request, 4, object), U32(wire_permission_request, 5, object_class),
       U32(wire_permission_request, 6, client_target),
       U32(wire_permission_request, 7, context_target));

LAYOUT(permission_reply, NULL, U32(wire_permission_reply, 1, status),
       U32(wire_permission_reply, 2, code), STR(wire_permission_reply, 3, message, TEXT),
       STR(wire_permission_reply, 4, remedy, TEXT));

LAYOUT(job_begin, NULL, U32(wire_job_begin, 1, request),
       STR(wire_job_begin, 2, job, LIMIT_JOB_BYTES), U32(wire_job_begin, 3, uid),
       STRS(wire_job_begin, 4, gpus, LIMIT_GPUS), U64(wire_job_begin, 5, time_ns));
LAYOUT(job_end, NULL, U32(wire_job_end, 1, request), STR(wire_job_end, 2, job, LIMIT_JOB_BYTES));
LAYOUT(job_reply, NULL, U32(wire_job_reply, 1, request));

enum {
	DEFS = LIMIT_DEFINITIONS_PER_FRAME,
	RECS = LIMIT_RECORDS_PER_FRAME,
};

LAYOUT(record_columns, NULL, U32(wire_record_columns, 1, first_string),
       STRS(wire_record_columns, 2, strings, DEFS), U32(wire_record_columns, 3, first_function),
       NUMS(wire_record_columns, 4, function_name, DEFS),
       NUMS(wire_record_columns, 5, function_static_shared, DEFS),
       NUMS(wire_record_columns, 6, function_registers, DEFS),
       U32(wire_record_columns, 7, first_node), NUMS(wire_record_columns, 8, node_parent, DEFS),
       NUMS(wire_record_columns, 9, node_domain, DEFS),
       NUMS(wire_record_columns, 10, node_message, DEFS),
       NUMS(wire_record_columns, 11, node_category, DEFS),
       NUMS(wire_record_columns, 12, node_color, DEFS),
       NUMS(wire_record_columns, 13, node_payload_type, DEFS),
       NUMS(wire_record_columns, 14, node_payload, DEFS), U32(wire_record_columns, 15, first_set),
       NUMS(wire_record_columns, 16, set_size, DEFS), NUMS(wire_record_columns, 17, set_node, DEFS),
       NUMS(wire_record_columns, 20, kind, RECS), NUMS(wire_record_columns, 21, function, RECS),
       NUMS(wire_record_columns, 22, grid, 3 * RECS),
       NUMS(wire_record_columns, 23, block, 3 * RECS),
       NUMS(wire_record_columns, 24, dynamic_shared, RECS),
       NUMS(wire_record_columns, 25, device, RECS), NUMS(wire_record_columns, 26, context, RECS),
       NUMS(wire_record_columns, 27, stream, RECS),
       NUMS(wire_record_columns, 28, correlation, RECS),
       NUMS(wire_record_columns, 29, thread, RECS), NUMS(wire_record_columns, 30, start_ns, RECS),
       NUMS(wire_record_columns, 31, node, RECS), NUMS(wire_record_columns, 32, range_set, RECS),
       NUMS(wire_record_columns, 33, values, LIMIT_FRAME_BYTES / 8),
       NUMS(wire_record_columns, 34, clock, RECS), NUMS(wire_record_columns, 35, duration_ns, RECS),
       NUMS(wire_record_columns, 36, stratum, RECS), NUMS(wire_record_columns, 37, chance, RECS),
       NUMS(wire_record_columns, 38, group, RECS), NUMS(wire_record_columns, 40, mark_node, DEFS),
       NUMS(wire_record_columns, 41, mark_thread, DEFS),
       NUMS(wire_record_columns, 42, mark_ns, DEFS),
       NUMS(wire_record_columns, 50, stratum_id, DEFS),
       NUMS(wire_record_columns, 51, stratum_function, DEFS),
       NUMS(wire_record_columns, 52, stratum_node, DEFS),
       NUMS(wire_record_columns, 53, stratum_grid, 3 * DEFS),
       NUMS(wire_record_columns, 54, stratum_block, 3 * DEFS),
       NUMS(wire_record_columns, 55, stratum_shared, DEFS),
       NUMS(wire_record_columns, 56, stratum_device, DEFS),
       NUMS(wire_record_columns, 57, stratum_merged, DEFS),
       NUMS(wire_record_columns, 58, stratum_seen, DEFS));

static const struct {
	unsigned type;
	const struct wire_layout *layout;
} layouts[] = {
	{ WIRE_HELLO, &layout_hello },
	{ WIRE_WELCOME, &layout_welcome },
	{ WIRE_REFUSAL, &layout_refusal },
	{ WIRE_METRICS_REQUEST, &layout_metrics_request },
	{ WIRE_METRICS_REPLY, &layout_metrics_reply },
	{ WIRE_PLAN_REQUEST, &layout_plan_request },
	{ WIRE_PLAN_REPLY, &layout_plan_reply },
	{ WIRE_STATUS_REQUEST, &layout_status_request },
	{ WIRE_STATUS_REPLY, &layout_status_reply },
	{ WIRE_TENANTS_REQUEST, &layout_tenants_request },
	{ WIRE_TENANTS_REPLY, &layout_tenants_reply },
	{ WIRE_OPEN_CAPTURE, &layout_open_capture },
	{ WIRE_OPENED, &layout_opened },
	{ WIRE_QUEUED, &layout_queued },
	{ WIRE_READY, &layout_ready },
	{ WIRE_CLOSE_CAPTURE, &layout_close_capture },
	{ WIRE_CAPTURE_END, &layout_capture_end },
	{ WIRE_PROCESS, &layout_process },
	{ WIRE_RECORDS, &layout_records },
	{ WIRE_RAW_IMAGE, &layout_raw_image },
	{ WIRE_PROGRESS, &layout_progress },
	{ WIRE_NOTICE, &layout_notice },
	{ WIRE_PROCESS_END, &layout_process_end },
	{ WIRE_PROCESSES_REQUEST, &layout_processes_request },
	{ WIRE_PROCESSES_REPLY, &layout_processes_reply },
	{ WIRE_AGENT_HELLO, &layout_agent_hello },
	{ WIRE_AGENT_REGISTERED, &layout_agent_registered },
	{ WIRE_AGENT_WELCOME, &layout_agent_welcome },
	{ WIRE_AGENT_STOP, &layout_agent_stop },
	{ WIRE_GOODBYE, &layout_goodbye },
	{ WIRE_PERMISSION_REQUEST, &layout_permission_request },
	{ WIRE_PERMISSION_REPLY, &layout_permission_reply },
	{ WIRE_JOB_BEGIN, &layout_job_begin },
	{ WIRE_JOB_END, &layout_job_end },
	{ WIRE_JOB_REPLY, &layout_job_reply },
	{ WIRE_RECORD_COLUMNS, &layout_record_columns },
};

const struct wire_layout *wire_layout_find(unsigned type)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].type == type) {
			return layouts[i].layout;
		}
	}
	return NULL;
}

const char *wire_type_to_string(unsigned type)
{
	const struct wire_layout *layout = wire_layout_find(type);

	return layout ? layout->name : "unknown";
}
