/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The NVTX ranges that are open: the push/pop ranges of each thread, and the start/end ranges of
 * the process. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/intern.h"
#include "client/agent/nvtx_event.h"
#include "proto/base/list.h"

struct entry {
	struct event event;
	uint32_t depth; /* how many ranges of its domain are around it */
	uint32_t below; /* the next one of these, counted from 1; 0: none */
	uint32_t begun; /* the number of the capture that it began a phase of; 0: none */

	/* What a launch found last; valid for the first n_found of the stack. */
	uint32_t site;
	uint8_t kind;	   /* enum site_kind */
	uint8_t n_numbers; /* of the stack's: those of the path to here; bytes */
	bool is_cut;	   /* the path has more numbers, for which there was no room */
	int64_t last_number;
	uint32_t payload_at; /* the innermost range with a payload, from 1; 0: none */
};

/* How the ranges of a stack match a capture's expressions, lowest first: n_terms numbers for each
 * one that has been looked at. */
struct stack_matches {
	uint64_t *v;
	size_t bytes;	  /* allocated */
	size_t n;	  /* how many of the present ranges have been compared */
	uint32_t capture; /* whose expressions; 0: nobody's */
};

/* The last range of a domain, counted from 1. */
struct domain_top {
	const struct nvtx_domain *domain;
	uint32_t at;
};

struct stack {
	struct entry *v;
	size_t n, room;
	struct domain_top *tops; /* of the domains that have ranges in it */
	size_t n_tops, room_tops;
	uint32_t thread;
	uint32_t generation; /* of the table in which the next are valid */
	size_t n_found;	     /* so many of the lowest ranges have their site */
	size_t n_kept;	     /* so many of these were open at the thread's previous launch */
	uint32_t launches;   /* of the thread, in ranges; never 0 behind the first one */
	uint8_t numbers[SITE_PATH_NUMBERS]; /* of the ranges that have their site */
	struct stack_matches matches;
};

/* Before NVTX calls any other function. */
void nvtx_stack_prepare(void);

/* The calling thread's stack; NULL: the thread has pushed nothing yet. */
struct stack *nvtx_stack(void);
void nvtx_set_stack(struct stack *s);

/* A start/end range. */
struct started_range {
	struct list link;
	nvtxRangeId_t id;
	struct event event;
	uint32_t begun; /* as an entry's */
};

/* Takes ownership of r and returns its number; the second function returns ownership, or NULL if no
 * range has the number. */
nvtxRangeId_t nvtx_started_add(struct started_range *r);
struct started_range *nvtx_started_take(nvtxRangeId_t id);

/* A number that changes with the list of start/end ranges; 0: there has been none. */
uint64_t nvtx_started_version(void);

/* Calls f for each open start/end range, the oldest first and under the list's lock, until it
 * returns false. */
void nvtx_for_each_started(bool (*f)(const struct event *e, void *userdata), void *userdata);

/* Notes a mark in the ranges that are open on the stack; NULL: none. */
void nvtx_note_mark(struct intern *in, const struct event *e, struct stack *s);

/* "" for the default one. */
const char *nvtx_domain_name(const struct nvtx_domain *domain);

/* NULL: the category has no name. */
const char *nvtx_category_name(const struct nvtx_domain *domain, uint32_t id);
