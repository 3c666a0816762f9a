/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers strings, kernels, NVTX ranges and sets of ranges, which many records share. Each gets a
 * number when first used and is sent once. Numbers start at 1 and are never reused. After sending
 * the table keeps only the hash of each; when the table is full, it is emptied and everything gets
 * new numbers, so memory stays bounded in programs whose messages never repeat. What waits to be
 * sent is bounded in bytes as well: beyond that new things get no number. Thread-safe. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"

struct range_key {
	uint32_t parent;
	uint32_t domain, message, category; /* strings */
	uint32_t color;
	uint32_t payload_type;
	uint64_t payload;
};

struct function_key {
	uint32_t name;		      /* string */
	uint32_t static_shared_bytes; /* or WIRE_UNKNOWN_ATTRIBUTE */
	uint32_t registers;	      /* likewise */
};

/* Grown by doubling; element size fixed by the user. */
struct vector {
	void *v;
	size_t n, room;
};

/* Definitions since the last intern_take(). */
struct definitions {
	uint32_t first_string, first_function, first_range, first_set;
	struct vector strings;			 /* char * */
	struct vector functions;		 /* struct function_key */
	struct vector ranges;			 /* struct range_key */
	struct vector set_sizes;		 /* uint32_t */
	struct vector set_ranges;		 /* uint32_t */
	struct vector mark_ranges, mark_threads; /* uint32_t */
	struct vector mark_times;		 /* int64_t */
};

enum {
	INTERN_MARKS_MAX = 32768,	     /* marks that wait to be sent */
	INTERN_PENDING_BYTES_MAX = 32 << 20, /* of all other definitions that wait to be sent */
	INTERN_FUNCTION_BYTES_MAX = 8 << 20, /* beyond that, for kernels and their names */
};

struct intern_left_out {
	uint64_t marks;
	uint64_t ranges; /* launches that were noted without all their ranges */
};

struct intern_slot {
	uint64_t hash[2];
	uint32_t id; /* 0: free */
};

struct intern {
	struct lock lock;
	struct intern_slot *slots;
	size_t n_slots, n_used;
	uint32_t last_string, last_function, last_range, last_set;
	/* Changes when the table is emptied; no two tables of a process ever have the same. */
	_Atomic uint32_t generation;
	struct intern_left_out left_out;
	struct definitions pending;
	size_t pending_bytes, pending_bytes_max;
};

int intern_init(struct intern *in);
void intern_deinit(struct intern *in);

/* Returns a number, or 0 if memory ran out, or more would wait to be sent than may. Invalid UTF-8
 * becomes '?', and strings are cut at the protocol's limit. A number is valid in the generation of
 * intern_generation(). */
uint32_t intern_string(struct intern *in, const char *s);
uint32_t intern_function(struct intern *in, const char *name, uint32_t static_shared_bytes,
			 uint32_t registers);
uint32_t intern_range(struct intern *in, const struct range_key *key);
uint32_t intern_set(struct intern *in, const uint32_t *ranges, size_t n);

/* Is there room for another mark? If not, counts the loss, and the caller need not number the
 * message. */
bool intern_has_room(struct intern *in);

/* Adds a mark, which is sent with the next definitions. */
void intern_mark(struct intern *in, uint32_t range, uint32_t thread, int64_t time_ns);

/* Counts a launch that is noted without all its ranges, because one has no number. */
void intern_leave_out_range(struct intern *in);

/* What has been left out so far. */
struct intern_left_out intern_left_out(struct intern *in);

/* Lock-free, because every launch calls this. */
static inline uint32_t intern_generation(struct intern *in)
{
	return atomic_load_explicit(&in->generation, memory_order_acquire);
}

/* Moves what is pending to *ret, which definitions_deinit() frees. */
void intern_take(struct intern *in, struct definitions *ret);
void definitions_deinit(struct definitions *d);
