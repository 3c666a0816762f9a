/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the NVTX files: the events of ranges and marks, and the open ranges, which are the
 * push/pop ranges of each thread and the start/end ranges of the process. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include "client/agent/intern.h"
#include "proto/base/list.h"

/* --- events --- */

enum { MESSAGE_INLINE = 104 };

struct nvtx_domain;

/* Attributes of a range or mark, with their own copy of the message. */
struct event {
	const struct nvtx_domain *domain; /* NULL: the default domain */
	char *message;			  /* inline_message, or memory of the heap */
	uint32_t category;
	uint32_t color;
	uint32_t payload_type;
	uint64_t payload;
	char inline_message[MESSAGE_INLINE];
};

/* Fill e, which the functions below consume. NULL messages become "". */
void nvtx_event_from_ascii(struct event *e, const struct nvtx_domain *domain, const char *message);
void nvtx_event_from_attributes(struct event *e, const struct nvtx_domain *domain,
				const nvtxEventAttributes_t *a);

/* Events must be moved by this function and not by assignment, because the message may be inside
 * the structure. */
void nvtx_event_move(struct event *to, struct event *from);
void nvtx_event_deinit(struct event *e);

/* As nvtxRangePush, Pop, Start, End and Mark; pop ends the last range of the domain. */
int nvtx_push(struct event *e);
int nvtx_pop(const struct nvtx_domain *domain);
nvtxRangeId_t nvtx_start(struct event *e);
void nvtx_end(nvtxRangeId_t id);
void nvtx_mark(struct event *e);

/* The domain is never freed. NULL: out of memory; the caller then uses the default domain. */
struct nvtx_domain *nvtx_new_domain(const char *name);
void nvtx_name_category(struct nvtx_domain *d, uint32_t id, const char *name);

/* Room for a wide-character text in UTF-8. nvtx_narrow() converts NULL to "". */
struct nvtx_text {
	char utf8[4096];
};

const char *nvtx_narrow(const wchar_t *w, struct nvtx_text *text);

/* --- open ranges --- */

struct entry {
	struct event event;
	uint32_t depth; /* number of ranges of its domain around this one */
	uint32_t below; /* position of the innermost of these in the stack, from 1; 0: none */
	uint32_t begun; /* number of the capture in which this range began a phase; 0: none */

	/* Results of the last launch's search; valid for the first n_found entries of the stack. */
	uint32_t site;
	uint8_t kind;	   /* enum site_kind */
	uint8_t n_numbers; /* bytes of stack.numbers that belong to the path up to this range */
	bool is_cut;	   /* the path has more numbers, for which there was no room */
	int64_t last_number;
	uint32_t payload_at; /* position of the innermost range with a payload, from 1; 0: none */
};

/* How the ranges of a stack match a capture's expressions: n_terms numbers for each range that was
 * compared, outermost first. */
struct stack_matches {
	uint64_t *v;
	size_t bytes;	  /* allocated */
	size_t n;	  /* number of open ranges that were compared */
	uint32_t capture; /* capture that the expressions belong to; 0: none */
};

/* Position in the stack of a domain's last range, from 1. */
struct domain_top {
	const struct nvtx_domain *domain;
	uint32_t at;
};

struct stack {
	struct entry *v;
	size_t n, room;
	struct domain_top *tops; /* one for each domain with ranges in the stack */
	size_t n_tops, room_tops;
	uint32_t thread;
	uint32_t generation; /* of the intern table to which the next members belong */
	size_t n_found;	     /* number of outermost ranges that have their site */
	size_t n_kept;	     /* number of these that were open at the thread's previous launch */
	uint32_t launches;   /* launches of the thread within ranges; skips 0 after the first */
	uint8_t numbers[SITE_PATH_NUMBERS]; /* numbers of the first n_found ranges */
	struct stack_matches matches;
};

/* To be called before NVTX calls any other function. */
void nvtx_stack_prepare(void);

/* The calling thread's stack; NULL: the thread has pushed nothing yet. */
struct stack *nvtx_stack(void);
void nvtx_set_stack(struct stack *s);

/* A start/end range. */
struct started_range {
	struct list link;
	nvtxRangeId_t id;
	struct event event;
	uint32_t begun; /* as in struct entry */
};

/* The first takes ownership of r and returns its id. The second gives ownership back; NULL: no
 * range has the id. */
nvtxRangeId_t nvtx_started_add(struct started_range *r);
struct started_range *nvtx_started_take(nvtxRangeId_t id);

/* A number that changes when a start/end range begins or ends; 0: none has begun yet. */
uint64_t nvtx_started_version(void);

/* Calls f for each open start/end range, the oldest first, under the list's lock, until f returns
 * false. */
void nvtx_for_each_started(bool (*f)(const struct event *e, void *userdata), void *userdata);

/* Notes a mark within the ranges that are open on s; s NULL: within none. */
void nvtx_note_mark(struct intern *in, const struct event *e, struct stack *s);

/* "" for the default domain. */
const char *nvtx_domain_name(const struct nvtx_domain *domain);

/* NULL: the category has no name. */
const char *nvtx_category_name(const struct nvtx_domain *domain, uint32_t id);

/* --- phases that ranges and marks begin and end (nvtx_select.c) --- */

struct capture;

/* To be called after a push, and after the start of a start/end range. Returns the number of the
 * capture in which the range has begun a phase, for nvtx_watch_end(); 0: none. */
uint32_t nvtx_watch_push(struct stack *s);
uint32_t nvtx_watch_start(const struct event *e);
void nvtx_watch_end(uint32_t capture);

/* The calling thread is in a section of c. */
void nvtx_watch_mark(struct capture *c, const struct event *e);
