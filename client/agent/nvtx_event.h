/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The interface between the functions that NVTX calls (nvtx_callbacks.c) and nvtx.c. */

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

enum { MESSAGE_INLINE = 104 };

struct nvtx_domain;

/* Attributes of a range or mark, with their own copy of the message. */
struct event {
	const struct nvtx_domain *domain; /* NULL: the default domain */
	char *message;			  /* inline_message, or heap */
	uint32_t category;
	uint32_t color;
	uint32_t payload_type;
	uint64_t payload;
	char inline_message[MESSAGE_INLINE];
};

/* Fill e. The functions below consume it. NULL messages become "". */
void nvtx_event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message);
void nvtx_event_from_attributes(struct event *e, const struct nvtx_domain *domain,
				const nvtxEventAttributes_t *a);

/* Events must be moved by this function and not by assignment, because the message may be inside
 * the structure. */
void nvtx_event_move(struct event *to, struct event *from);
void nvtx_event_deinit(struct event *e);

/* As nvtxRangePush, Pop, Start, End and Mark; pop takes the last range of its domain. */
int nvtx_push(struct event *e);
int nvtx_pop(const struct nvtx_domain *domain);
nvtxRangeId_t nvtx_start(struct event *e);
void nvtx_end(nvtxRangeId_t id);
void nvtx_mark(struct event *e);

/* The domain is never freed. NULL: out of memory; the caller then uses the default domain. */
struct nvtx_domain *nvtx_new_domain(const char *name);
void nvtx_name_category(struct nvtx_domain *d, uint32_t id, const char *name);

/* A wide-character text, converted. NULL becomes "". */
struct nvtx_text {
	char utf8[4096];
};

const char *nvtx_narrow(const wchar_t *w, struct nvtx_text *text);
