/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers the strings, kernels, call sites and sets of sites that many records share. Each gets a
 * number when first used and is sent once. Numbers start at 1 and are never reused. After sending,
 * the table keeps only a hash of each.
 *
 * A call site is a node of a tree: a range's name without the parts that change from one occurrence
 * to the next (proto/base/site_name.h), below the site around it. So a training has hundreds of
 * sites, however many steps it takes. The number of sites is bounded: from INTERN_DIGITS_MAX sites
 * on, digits are left out of new sites' names, and beyond INTERN_SITES_MAX the site around a new
 * one takes its place. The bytes that wait to be sent are bounded as well; beyond that limit new
 * strings, kernels, sites and sets get no number. Thread-safe. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/lock.h"

enum { SITE_PATH_NUMBERS = 47 };

/* The properties of a site, in texts of the caller. */
struct site_text {
	uint32_t parent;			      /* 0: outermost */
	const char *domain, *name, *sizes, *category; /* "": none */
	size_t n_name, n_sizes;			      /* bytes of name and of sizes */
	uint32_t color;
	uint8_t kind;	  /* enum site_kind */
	uint8_t numbered; /* enum site_number; a step's name is without its number */
};

/* The properties of a site, with numbers for the texts. */
struct site_key {
	uint32_t parent;
	uint32_t domain, name, sizes, category; /* strings */
	uint32_t color;
	uint32_t kind, numbered;
};

/* The place of a launch or mark in the NVTX ranges. */
struct site_path {
	uint32_t site;	 /* 0: in no range */
	uint32_t opened; /* number of outermost ranges that were already open at the thread's
			    previous launch; UINT32_MAX: all */
	uint32_t launch; /* number of this launch among its thread's launches in ranges, for
			    opened.c; 0: a recording */
	uint32_t payload_type;
	uint64_t payload; /* payload of the innermost range that has one */
	uint8_t n_numbers;
	uint8_t numbers[SITE_PATH_NUMBERS]; /* numbers in the ranges' names, as far as there is
					       room; see proto/base/numbers.h */
};

struct mark {
	struct site_path path;
	uint32_t thread;
	int64_t time_ns;
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
	uint32_t first_string, first_function, first_site, first_set;
	struct vector strings;		    /* char * */
	struct vector functions;	    /* struct function_key */
	struct vector sites;		    /* struct site_key */
	struct vector set_sizes, set_sites; /* uint32_t */
	struct vector marks;		    /* struct mark */
};

enum {
	INTERN_MARKS_MAX = 32768,	     /* marks that wait to be sent */
	INTERN_PENDING_BYTES_MAX = 32 << 20, /* of other definitions that wait to be sent */
	INTERN_FUNCTION_BYTES_MAX = 8 << 20, /* additional bytes, for kernels and their names */
	INTERN_SITES_MAX = 65536,
	INTERN_DIGITS_MAX = INTERN_SITES_MAX - 4096,
	INTERN_SETS_MAX = 65536,
	INTERN_DEPTH_MAX = 4097, /* depth of nested sites: one more than a client keeps */
};

struct intern_left_out {
	uint64_t marks;
	uint64_t digits; /* ranges whose digits were left out */
	uint64_t ranges; /* launches that were noted without all their ranges */
	uint64_t waits;	 /* sites that got no number because too much waited to be sent */
};

struct intern_slot {
	uint64_t hash[2];
	uint32_t id; /* 0: free */
};

struct intern {
	struct lock lock;
	struct intern_slot *slots;
	size_t n_slots, n_used;
	uint32_t last_string, last_function, last_site, last_set;
	uint32_t generation; /* differs for all tables that the process ever makes */
	struct intern_left_out left_out;
	struct definitions pending;
	size_t pending_bytes, pending_bytes_max;
};

int intern_init(struct intern *in);
void intern_deinit(struct intern *in);

/* Return a number; 0: out of memory, or too many bytes would wait to be sent. Invalid UTF-8 becomes
 * '?', and strings are cut at the protocol's limit. */
uint32_t intern_string(struct intern *in, const char *s);
uint32_t intern_function(struct intern *in, const char *name, uint32_t static_shared_bytes,
			 uint32_t registers);
uint32_t intern_set(struct intern *in, const uint32_t *sites, size_t n);

/* Returns the number of a site. If it gets none, counts that and returns its parent's number. */
uint32_t intern_site(struct intern *in, const struct site_text *text);

/* Is there room for another mark? If not, counts the loss, and the caller need not number the
 * message. */
bool intern_has_room(struct intern *in);

/* Adds a mark, which is sent with the next definitions. */
void intern_mark(struct intern *in, const struct mark *mark);

/* What has been left out so far. */
struct intern_left_out intern_left_out(struct intern *in);

/* Moves the pending definitions to *ret, which definitions_deinit() frees. */
void intern_take(struct intern *in, struct definitions *ret);
void definitions_deinit(struct definitions *d);
