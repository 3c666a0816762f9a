/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "proto/wire/status.h"

/* The numbers are an interface: scripts and man pages refer to them. */
TEST(codes_keep_numbers_and_names)
{
	static const struct {
		int code;
		const char *name;
	} expected[] = {
		{ 0, "ok" },
		{ 10, "metric-unknown" },
		{ 11, "metric-no-match" },
		{ 12, "metric-other-chip" },
		{ 13, "too-many-passes" },
		{ 14, "too-many-metrics" },
		{ 15, "bad-pattern" },
		{ 16, "chip-unknown" },
		{ 17, "bad-request" },
		{ 18, "kernel-no-match" },
		{ 30, "no-daemon" },
		{ 31, "no-gpu" },
		{ 32, "no-driver" },
		{ 33, "driver-too-old" },
		{ 34, "no-cupti" },
		{ 35, "cupti-too-old" },
		{ 36, "protocol" },
		{ 37, "no-agent" },
		{ 38, "driver-hung" },
		{ 50, "not-allowed" },
		{ 51, "gpu-busy" },
		{ 52, "timeout" },
		{ 53, "queue-full" },
		{ 54, "quota" },
		{ 55, "lease-expired" },
		{ 56, "revoked" },
		{ 57, "stopping" },
		{ 58, "gpu-shared" },
		{ 70, "bad-token" },
		{ 71, "cupti-in-use" },
		{ 72, "grant-refused" },
		{ 73, "hardware-busy" },
		{ 74, "profiler" },
		{ 75, "chip-mismatch" },
		{ 76, "metric-not-recorded" },
		{ 77, "bad-recording" },
		{ 78, "agent-lost" },
		{ 79, "kernel-waits" },
		{ 80, "stalled" },
		{ 59, "audit" },
		{ 90, "internal" },
		{ 91, "disconnected" },
	};
	size_t known = 0;

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_string_equal(status_to_string(expected[i].code), expected[i].name);
	}
	for (int code = -10; code < 1000; code++) {
		known += strcmp(status_to_string(code), "unknown") != 0;
	}
	assert_int_equal(known, ARRAY_SIZE(expected));
}

TEST(refusal_is_cut_to_its_room)
{
	struct refusal r;
	char text[2 * sizeof(r.message)];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	refusal_set(&r, GPUCTR_E_QUOTA, text, "%d %s", 7, text);
	assert_int_equal(r.code, GPUCTR_E_QUOTA);
	assert_int_equal(strlen(r.message), sizeof(r.message) - 1);
	assert_int_equal(strlen(r.remedy), sizeof(r.remedy) - 1);
	assert_memory_equal(r.message, "7 xxx", 5);
}

/* A remedy may hold what a user typed: it is no format. */
TEST(remedy_is_not_a_format)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_BAD_PATTERN, "%s%n%d", "%s", "100%");
	assert_string_equal(r.remedy, "%s%n%d");
	assert_string_equal(r.message, "100%");
}

/* A name in a refusal is cut at a byte, not at a character, and may have been none to begin with:
 * who reads the refusal would take it for malformed. */
TEST(refusal_is_always_utf8)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_NO_GPU, "\xff", "no GPU '%.3s'", "ab\u00e4");
	assert_string_equal(r.message, "no GPU 'ab?'");
	assert_string_equal(r.remedy, "?");
	refusal_set(&r, GPUCTR_E_NO_GPU, "", "%s", "\u00e4\U0001f600");
	assert_string_equal(r.message, "\u00e4\U0001f600");
}

/* A refused caller looks at the number alone: it must not look like success, or like an errno. */
TEST(a_sent_code_is_never_success)
{
	assert_int_equal(refusal_code(GPUCTR_E_QUOTA), GPUCTR_E_QUOTA);
	assert_int_equal(refusal_code(0), GPUCTR_E_PROTOCOL);
	assert_int_equal(refusal_code(0x80000000), GPUCTR_E_PROTOCOL);
	assert_int_equal(refusal_code(UINT32_MAX), GPUCTR_E_PROTOCOL);
}
