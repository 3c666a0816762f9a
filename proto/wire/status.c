/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "proto/base/utf8.h"

static const struct {
	int code;
	const char *name;
} names[] = {
	{ GPUCTR_OK, "ok" },
	{ GPUCTR_E_METRIC_UNKNOWN, "metric-unknown" },
	{ GPUCTR_E_METRIC_NO_MATCH, "metric-no-match" },
	{ GPUCTR_E_METRIC_OTHER_CHIP, "metric-other-chip" },
	{ GPUCTR_E_TOO_MANY_PASSES, "too-many-passes" },
	{ GPUCTR_E_TOO_MANY_METRICS, "too-many-metrics" },
	{ GPUCTR_E_BAD_PATTERN, "bad-pattern" },
	{ GPUCTR_E_CHIP_UNKNOWN, "chip-unknown" },
	{ GPUCTR_E_BAD_REQUEST, "bad-request" },
	{ GPUCTR_E_KERNEL_NO_MATCH, "kernel-no-match" },
	{ GPUCTR_E_NO_DAEMON, "no-daemon" },
	{ GPUCTR_E_NO_GPU, "no-gpu" },
	{ GPUCTR_E_NO_DRIVER, "no-driver" },
	{ GPUCTR_E_DRIVER_TOO_OLD, "driver-too-old" },
	{ GPUCTR_E_NO_CUPTI, "no-cupti" },
	{ GPUCTR_E_CUPTI_TOO_OLD, "cupti-too-old" },
	{ GPUCTR_E_PROTOCOL, "protocol" },
	{ GPUCTR_E_NO_AGENT, "no-agent" },
	{ GPUCTR_E_DRIVER_HUNG, "driver-hung" },
	{ GPUCTR_E_NOT_ALLOWED, "not-allowed" },
	{ GPUCTR_E_GPU_BUSY, "gpu-busy" },
	{ GPUCTR_E_TIMEOUT, "timeout" },
	{ GPUCTR_E_QUEUE_FULL, "queue-full" },
	{ GPUCTR_E_QUOTA, "quota" },
	{ GPUCTR_E_LEASE_EXPIRED, "lease-expired" },
	{ GPUCTR_E_REVOKED, "revoked" },
	{ GPUCTR_E_STOPPING, "stopping" },
	{ GPUCTR_E_GPU_SHARED, "gpu-shared" },
	{ GPUCTR_E_AUDIT, "audit" },
	{ GPUCTR_E_BAD_TOKEN, "bad-token" },
	{ GPUCTR_E_CUPTI_IN_USE, "cupti-in-use" },
	{ GPUCTR_E_GRANT_REFUSED, "grant-refused" },
	{ GPUCTR_E_HARDWARE_BUSY, "hardware-busy" },
	{ GPUCTR_E_PROFILER, "profiler" },
	{ GPUCTR_E_CHIP_MISMATCH, "chip-mismatch" },
	{ GPUCTR_E_METRIC_NOT_RECORDED, "metric-not-recorded" },
	{ GPUCTR_E_BAD_RECORDING, "bad-recording" },
	{ GPUCTR_E_AGENT_LOST, "agent-lost" },
	{ GPUCTR_E_KERNEL_WAITS, "kernel-waits" },
	{ GPUCTR_E_STALLED, "stalled" },
	{ GPUCTR_E_INTERNAL, "internal" },
	{ GPUCTR_E_DISCONNECTED, "disconnected" },
};

const char *status_to_string(int code)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].code == code) {
			return names[i].name;
		}
	}
	return "unknown";
}

void refusal_set(struct refusal *r, int code, const char *remedy, const char *format, ...)
{
	va_list ap;

	r->code = code;
	snprintf(r->remedy, sizeof(r->remedy), "%s", remedy);
	va_start(ap, format);
	vsnprintf(r->message, sizeof(r->message), format, ap);
	va_end(ap);
	/* Text may have been cut in the middle of a character, here or by the caller. */
	utf8_repair(r->remedy);
	utf8_repair(r->message);
}

int refusal_code(uint32_t sent)
{
	return sent > 0 && sent <= INT32_MAX ? (int)sent : GPUCTR_E_PROTOCOL;
}
