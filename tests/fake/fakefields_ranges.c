/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake/fakefields.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

unsigned thread_id(void)
{
	return (unsigned)syscall(SYS_gettid);
}

unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (unsigned long long)t.tv_sec * 1000000000 + (unsigned long long)t.tv_nsec;
}

static const char *const domain_names[DOMAINS] = { "", "render", "io" };
static nvtxDomainHandle_t domains[DOMAINS];

/* One number, which has another name in each domain. */
enum { CATEGORY_NAMED = 5, CATEGORY_BARE = 77 };

static const char *const category_names[DOMAINS] = { "plain", "shadow", "disk" };

enum how { HOW_ASCII, HOW_WIDE, HOW_REGISTERED };

/* Each range with its attributes, and how outputs show them. */
/* clang-format off */
static const struct range_text {
	enum domain domain;
	enum how how;
	const char *message;
	const wchar_t *wide;
	unsigned category, color;
	nvtxPayloadType_t payload_type;
	union payload {
		uint64_t u64;
		int64_t i64;
		double f64;
		uint32_t u32;
		int32_t i32;
		float f32;
	} payload;
	const char *payload_text;
} ranges[RANGES] = {
	[RANGE_FRAME] = { DOMAIN_DEFAULT, HOW_ASCII, "frame", NULL, CATEGORY_NAMED, 0xff102030,
			  NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, { .u64 = 18364758544493064720u },
			  "18364758544493064720" },
	[RANGE_PASS] = { DOMAIN_RENDER, HOW_REGISTERED, "pass", NULL, CATEGORY_NAMED, 0x80405060,
			 NVTX_PAYLOAD_TYPE_INT64, { .i64 = -1234567890123 }, "-1234567890123" },
	[RANGE_READ] = { DOMAIN_IO, HOW_WIDE, "lecture \303\251", L"lecture \u00e9",
			 CATEGORY_NAMED, 0x01708090, NVTX_PAYLOAD_TYPE_DOUBLE, { .f64 = 1e300 },
			 "1e+300" },
	[RANGE_DRAW] = { DOMAIN_RENDER, HOW_ASCII, "draw", NULL, CATEGORY_BARE, 0,
			 NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, { .u32 = 4000000007u }, "4000000007" },
	[RANGE_WORKER] = { DOMAIN_IO, HOW_REGISTERED, "worker", NULL, CATEGORY_BARE, 0xffa0b0c0,
			   NVTX_PAYLOAD_TYPE_INT32, { .i32 = -70001 }, "-70001" },
	[RANGE_WHOLE] = { DOMAIN_DEFAULT, HOW_WIDE, "whole", L"whole", 0, 0xffd0e0f0,
			  NVTX_PAYLOAD_TYPE_FLOAT, { .f32 = -0.75f }, "-0.75" },
	[RANGE_BESIDE] = { DOMAIN_RENDER, HOW_ASCII, "beside", NULL, CATEGORY_NAMED, 0x7f010203,
			   NVTX_PAYLOAD_UNKNOWN, { 0 }, "null" },
	[MARK_OUTER] = { DOMAIN_DEFAULT, HOW_REGISTERED, "outer mark", NULL, 0, 0x7f040506,
			 NVTX_PAYLOAD_TYPE_INT64, { .i64 = -9 }, "-9" },
	[MARK_MIDDLE] = { DOMAIN_RENDER, HOW_WIDE, "middle mark", L"middle mark", CATEGORY_BARE, 0,
			  NVTX_PAYLOAD_TYPE_DOUBLE, { .f64 = 0.125 }, "0.125" },
	[MARK_INNER] = { DOMAIN_IO, HOW_ASCII, "inner mark", NULL, CATEGORY_NAMED, 0x7f070809,
			 NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, { .u64 = 1ull << 53 | 1 },
			 "9007199254740993" },
};
/* clang-format on */

/* Registered once and kept, as programs do. */
static nvtxStringHandle_t registered(const struct range_text *r)
{
	static nvtxStringHandle_t handles[RANGES];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	nvtxStringHandle_t *h = &handles[r - ranges];

	pthread_mutex_lock(&lock);
	if (!*h) {
		*h = nvtxDomainRegisterStringA(domains[r->domain], r->message);
	}
	pthread_mutex_unlock(&lock);
	return *h;
}

static nvtxEventAttributes_t attributes_of(const struct range_text *r)
{
	nvtxEventAttributes_t a = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.category = r->category,
		.colorType = r->color ? NVTX_COLOR_ARGB : NVTX_COLOR_UNKNOWN,
		.color = r->color,
		.payloadType = r->payload_type,
	};

	memcpy(&a.payload, &r->payload, sizeof(r->payload));
	switch (r->how) {
	case HOW_ASCII:
		a.messageType = NVTX_MESSAGE_TYPE_ASCII;
		a.message.ascii = r->message;
		break;
	case HOW_WIDE:
		a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
		a.message.unicode = r->wide;
		break;
	case HOW_REGISTERED:
		a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
		a.message.registered = registered(r);
		break;
	}
	return a;
}

void range_push(enum range range)
{
	nvtxEventAttributes_t a = attributes_of(&ranges[range]);

	if (ranges[range].domain == DOMAIN_DEFAULT) {
		nvtxRangePushEx(&a);
	} else {
		nvtxDomainRangePushEx(domains[ranges[range].domain], &a);
	}
}

void range_pop(enum domain domain)
{
	if (domain == DOMAIN_DEFAULT) {
		nvtxRangePop();
	} else {
		nvtxDomainRangePop(domains[domain]);
	}
}

nvtxRangeId_t range_start(enum range range)
{
	nvtxEventAttributes_t a = attributes_of(&ranges[range]);

	return nvtxDomainRangeStartEx(domains[ranges[range].domain], &a);
}

void range_end(enum range range, nvtxRangeId_t id)
{
	nvtxDomainRangeEnd(domains[ranges[range].domain], id);
}

void ranges_begin(void)
{
	for (int d = DOMAIN_DEFAULT + 1; d < DOMAINS; d++) {
		domains[d] = nvtxDomainCreateA(domain_names[d]);
		nvtxDomainNameCategoryA(domains[d], CATEGORY_NAMED, category_names[d]);
	}
	nvtxNameCategoryA(CATEGORY_NAMED, category_names[DOMAIN_DEFAULT]);
}

/* --- what is printed of ranges --- */

void append(char *text, const char *format, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, format);
	vsnprintf(text + n, TEXT_MAX - n, format, ap);
	va_end(ap);
}

static void add_json(char *text, enum range range)
{
	const struct range_text *r = &ranges[range];
	char category[16] = "", color[16] = "null";

	if (r->category == CATEGORY_NAMED) {
		snprintf(category, sizeof(category), "%s", category_names[r->domain]);
	} else if (r->category) {
		snprintf(category, sizeof(category), "%u", r->category);
	}
	if (r->color) {
		snprintf(color, sizeof(color), "\"#%08x\"", r->color);
	}
	append(text, "{\"domain\":\"%s\",\"message\":\"%s\",\"category\":\"%s\",\"color\":%s}",
	       domain_names[r->domain], r->message, category, color);
}

void ranges_add_messages(char *text, range_list list, const char *separator)
{
	for (size_t i = 0; list[i] != RANGES; i++) {
		append(text, "%s%s", i ? separator : "", ranges[list[i]].message);
	}
}

void ranges_add_stack(char *text, range_list list)
{
	for (size_t i = 0; list[i] != RANGES; i++) {
		append(text, "%s", i ? "," : "");
		add_json(text, list[i]);
	}
}

void ranges_add_payload(char *text, range_list list)
{
	const char *payload = "";

	for (size_t i = 0; list[i] != RANGES; i++) {
		if (ranges[list[i]].payload_type != NVTX_PAYLOAD_UNKNOWN) {
			payload = ranges[list[i]].payload_text;
		}
	}
	append(text, "%s", payload);
}

void range_mark(enum range range, range_list stack)
{
	nvtxEventAttributes_t a = attributes_of(&ranges[range]);
	char around[TEXT_MAX] = "", own[TEXT_MAX] = "";
	unsigned long long begin = now_ns();

	if (ranges[range].domain == DOMAIN_DEFAULT) {
		nvtxMarkEx(&a);
	} else {
		nvtxDomainMarkEx(domains[ranges[range].domain], &a);
	}
	ranges_add_stack(around, stack);
	add_json(own, range);
	append(own, " %s", ranges[range].payload_text);
	printf("mark\t%u\t%s\t%s\t%llu\t%llu\n", thread_id(), around, own, begin, now_ns());
}
