/* SPDX-License-Identifier: Apache-2.0 */

/* Prints what monitoring reads of a made-up daemon in which everything there is to tell is told and
 * no two numbers are equal; check_monitoring compares that with what is documented.
 *
 *     monitoring_sample json | openmetrics | plain | nameless | restricted | down */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/registered.h"
#include "client/cli/status.h"
#include "client/exporter/metrics.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const char *const uuids[] = { "GPU-0", "GPU-1" };
static const char *const columns[] = { "dram__bytes_read.sum" };

static const struct gpuctr_activity activity[] = { {
							   .gpu = 0,
							   .unknown = "",
							   .over_ns = 5000000011,
							   .sm_pct = 87.5,
							   .tensor_pct = 21,
							   .dram_pct = 43.75,
							   .pcie_sent = 307,
							   .pcie_received = 311,
							   .nvlink_sent = 313,
							   .nvlink_received = NAN,
						   },
						   { .gpu = 63, .unknown = "not sampled" } };

static const struct gpuctr_gpu gpus[] = {
	{ 0, "GPU-0", "H200 \"a\"", "GH100", 7, 2, "job \\ 1", "ann" },
	{ 63, "GPU-1", "H200", "GH100", 0, 0, "", "" },
};

static const struct gpuctr_capture_info captures[] = {
	{
		.capture = 7,
		.uid = 1234,
		.user = "ann\n\xc3\xa9",
		.pid = 4711,
		.program = "python3",
		.state = GPUCTR_CAPTURE_RUNNING,
		.gpus = uuids,
		.n_gpus = 1,
		.metrics = columns,
		.n_metrics = 1,
		.processes = 3,
		.totals = { 136, 11, 13, 17, 19, 23, 29, 24 },
		.lease_left_ns = 31000000000,
	},
	{ .capture = 8,
	  .user = NULL,
	  .program = "",
	  .state = GPUCTR_CAPTURE_QUEUED,
	  .position = 1 },
};

static const struct gpuctr_code_count refusals[] = { { GPUCTR_E_QUOTA, 101 },
						     { GPUCTR_E_GPU_BUSY, 103 } };
static const struct gpuctr_code_count ends[] = { { GPUCTR_OK, 107 }, { GPUCTR_E_REVOKED, 109 } };
static const struct gpuctr_wait_bucket waits[] = { { 100000000, 113 },
						   { 60000000000, 127 },
						   { 0, 131 } };

static struct gpuctr_counts counts = {
	.connections = 137,
	.permissions = 139,
	.leases = 149,
	.refusals = refusals,
	.n_refusals = N(refusals),
	.lease_ends = ends,
	.n_lease_ends = N(ends),
	.waits = waits,
	.n_waits = N(waits),
	.waited_ns = 151000000007,
	.records = 157,
	.record_bytes = 163,
	.kernels = { 1500, 167, 173, 179, 181, 191, 193, 197 },
	.restarts_granter = 199,
	.restarts_gpu = 211,
	.restarts_planner = 223,
	.restarts_front = 227,
	.leases_active = 229,
	.leases_permit = 997,
	.waiting = 233,
	.waiting_max = 239,
	.longest_wait_ns = 241000000003,
	.connections_max = 251,
	.processes = 257,
	.registered = 263,
	.audit_fails = true,
	.label_users = true,
	.label_jobs = true,
};

static struct gpuctr_status status = {
	.daemon = "0.1.0",
	.driver = "580.1",
	.cupti = "13.0.1",
	.restricted = GPUCTR_RESTRICTED,
	.trouble = { GPUCTR_E_AUDIT, "the audit log cannot be written", "Look." },
	.uptime_ns = 269,
	.peers = 271,
	.gpus = gpus,
	.n_gpus = N(gpus),
	.captures = captures,
	.n_captures = N(captures),
	.counts = &counts,
	.activity = activity,
	.n_activity = N(activity),
};

static const char *const claims[] = { "RANK=281" };

static const struct gpuctr_registered_process process = { .process = 283,
							  .pid = 293,
							  .uid = 307,
							  .user = "bob",
							  .program = "a.out",
							  .age_ns = 311,
							  .capture = 313,
							  .holder = "ann",
							  .cgroup = "/x",
							  .container = "0123",
							  .runtime = "docker",
							  .pod_uid = "4-5",
							  .cgroup_job = "317",
							  .cgroup_step = "331",
							  .claims = claims,
							  .n_claims = N(claims) };

static void add(struct buf *b, const char *what)
{
	const uint64_t began_ns = 1700000000000000277;

	if (strcmp(what, "json") == 0) {
		struct buf processes = { 0 };
		struct json list = { .b = &processes };

		registered_json(&list, &process);
		status_json(b, &status, &processes);
		buf_deinit(&processes);
	} else if (strcmp(what, "down") == 0) {
		metrics_write(b, true, NULL, began_ns, GPUCTR_E_NO_DAEMON);
	} else {
		counts.label_users = counts.label_jobs = strcmp(what, "nameless") != 0;
		status.counts = strcmp(what, "restricted") == 0 ? NULL : &counts;
		metrics_write(b, strcmp(what, "plain") != 0, &status, began_ns, GPUCTR_OK);
	}
}

int main(int argc, char **argv)
{
	struct buf b = { 0 };

	add(&b, argc > 1 ? argv[1] : "json");
	fwrite(b.data, 1, b.n, stdout);
	buf_deinit(&b);
	return fflush(stdout) == 0 ? 0 : 1;
}
