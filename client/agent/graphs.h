/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Launches of CUDA graphs whose kernels are told one by one, and those kernels of them that CUPTI
 * has told of, from the launch until its batch is delivered; launches stay known for longer, for
 * kernels that come late. Not thread-safe. Each call examines a few entries only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/deliver.h"

enum { GRAPHS_BITS = 13, GRAPHS_WAYS = 8, GRAPHS_SIZES = 1024, GRAPHS_KERNELS_MAX = 1 << 18 };

/* In the order in which they came. */
struct graph_kernels {
	struct launch *v;
	size_t n, max;
};

enum graph_fate {
	GRAPH_WAITS, /* its batch has not been delivered */
	GRAPH_SPLIT, /* told as its kernels */
	GRAPH_ONE,   /* told, or dropped, as one: none of its kernels had come by then */
};

struct graph_launch {
	uint32_t correlation; /* 0: free */
	uint32_t thread, set;
	struct site_path path;
	uint64_t start_ns;	   /* of the call */
	uintptr_t graph;	   /* its handle */
	uint32_t n_came;	   /* kernels, whatever became of them */
	uint8_t fate;		   /* enum graph_fate */
	bool copied;		   /* records of its copies or fills have come */
	uint64_t begin_ns, end_ns; /* of these */
	struct graph_kernels kernels;
};

/* How many kernels a graph had when it was launched last, and at most. */
struct graph_size {
	uintptr_t graph; /* 0: free */
	uint32_t kernels, most;
};

/* What becomes of a launch. */
struct graph_told {
	struct graph_kernels kernels; /* the caller's to free */
	uint32_t n_came; /* kernels, though they may be left out or lost; 0: it stays as one */
	uint32_t lacks;	 /* how many more it had before */
};

struct graphs {
	struct graph_launch (*v)[GRAPHS_WAYS]; /* 2^GRAPHS_BITS sets; NULL: no graph was launched */
	struct graph_size sizes[GRAPHS_SIZES];
	struct graph_kernels late; /* of launches whose batch was delivered, or that have none */
	size_t n_kernels;	   /* that are kept, with the late ones */
	bool came;		   /* some kernel of a graph has */
	/* Each kernel counts as seen, but for the first of a launch, for which the launch itself
	 * does. */
	struct counters *counters;
};

/* Frees the kernels, and returns how many there were. */
size_t graph_kernels_free(struct graph_kernels *list);

/* Frees what is kept, and counts it as dropped. */
void graphs_deinit(struct graphs *g);

/* Announces the launch l of a graph. If there is no room, the oldest one is forgotten; out of
 * memory, this one. */
void graphs_expect(struct graphs *g, const struct launch *l, uintptr_t graph);
void graphs_forget(struct graphs *g, uint32_t correlation);

/* A kernel has a record: k holds all that it tells, and the number of its name, 0 where there was
 * no memory for it. Keeps it, with what is known of the launch. False: it is not kept, because the
 * launch is not known, or was told as one, because the filter leaves the kernel out (selected), or
 * for lack of memory. */
bool graphs_add(struct graphs *g, const struct launch *k, bool selected);

/* A copy or fill of the launch has a record. */
void graphs_add_copy(struct graphs *g, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns);

/* NULL: it is not known. Valid until the next call. */
const struct graph_launch *graphs_find(struct graphs *g, uint32_t correlation);

enum graph_here {
	GRAPH_NOTHING, /* no record, and there should be one */
	GRAPH_SOME,    /* some records, and how many there should be is not known */
	GRAPH_ALL,     /* as many kernels as the graph had when it was launched last */
};

enum graph_here graphs_look(struct graphs *g, uint32_t correlation, uint64_t *n_came);

/* The batch of the launch is delivered, or dropped. */
struct graph_told graphs_take(struct graphs *g, uint32_t correlation);
struct graph_kernels graphs_take_late(struct graphs *g);
