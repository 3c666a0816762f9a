/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_event.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 16 * 1024 };

void nvtx_event_deinit(struct event *e)
{
	if (e->message != e->inline_message) {
		free(e->message);
	}
}

void nvtx_event_move(struct event *to, struct event *from)
{
	bool inside = from->message == from->inline_message;

	*to = *from;
	if (inside) {
		to->message = to->inline_message;
	}
}

static void set_message(struct event *e, const char *s)
{
	size_t n = strnlen(s, MESSAGE_MAX);

	e->message = n < MESSAGE_INLINE ? e->inline_message : malloc(n + 1);
	if (!e->message) {
		e->message = e->inline_message;
		n = MESSAGE_INLINE - 1;
	}
	memcpy(e->message, s, n);
	e->message[n] = '\0';
}

/* UTF-32, as wchar_t is on Linux, to UTF-8. */
void nvtx_wide_to_utf8(const wchar_t *w, char *out, size_t size)
{
	size_t n = 0;

	for (; *w && n + 5 < size; w++) {
		uint32_t c = (uint32_t)*w;

		if (c < 0x80) {
			out[n++] = (char)c;
		} else if (c < 0x800) {
			out[n++] = (char)(0xc0 | c >> 6);
			out[n++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) {
			out[n++] = (char)(0xe0 | c >> 12);
			out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[n++] = (char)(0x80 | (c & 0x3f));
		} else {
			out[n++] = (char)(0xf0 | (c >> 18 & 7));
			out[n++] = (char)(0x80 | (c >> 12 & 0x3f));
			out[n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[n++] = (char)(0x80 | (c & 0x3f));
		}
	}
	out[n] = '\0';
}

void nvtx_event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message)
{
	*e = (struct event){ .domain = domain };
	set_message(e, message ? message : "");
}

static void from_wide(struct event *e, const struct nvtx_domain *domain, const wchar_t *message)
{
	char text[4096] = "";

	if (message) {
		nvtx_wide_to_utf8(message, text, sizeof(text));
	}
	nvtx_event_from_ascii(e, domain, text);
}

static uint64_t payload_bits(const nvtxEventAttributes_t *a)
{
	uint32_t narrow;

	switch (a->payloadType) {
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
	case NVTX_PAYLOAD_TYPE_INT64:
	case NVTX_PAYLOAD_TYPE_DOUBLE:
		return a->payload.ullValue;
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
	case NVTX_PAYLOAD_TYPE_INT32:
	case NVTX_PAYLOAD_TYPE_FLOAT:
		narrow = a->payload.uiValue;
		return narrow;
	default:
		return 0;
	}
}

void nvtx_event_from_attributes(struct event *e, const struct nvtx_domain *domain,
				const nvtxEventAttributes_t *a)
{
	if (!a) {
		nvtx_event_from_ascii(e, domain, "");
		return;
	}
	if (a->messageType == NVTX_MESSAGE_TYPE_UNICODE) {
		from_wide(e, domain, a->message.unicode);
	} else if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
		nvtx_event_from_ascii(e, domain, (const char *)a->message.registered);
	} else {
		nvtx_event_from_ascii(e, domain,
				      a->messageType == NVTX_MESSAGE_TYPE_ASCII ? a->message.ascii
										: "");
	}
	e->category = a->category;
	e->color = a->colorType == NVTX_COLOR_ARGB ? a->color : 0;
	if (a->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 &&
	    a->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
		e->payload_type = (uint32_t)a->payloadType;
		e->payload = payload_bits(a);
	}
}
