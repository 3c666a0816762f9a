/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Launches of CUDA graphs whose kernels are reported one by one. Keeps the kernels that CUPTI has
 * reported until the launch's batch is delivered, and knows the launch for longer, for kernels that
 * come late. Not thread-safe. Each call examines a few entries only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/agent/deliver.h"

enum { GRAPHS_BITS = 13, GRAPHS_WAYS = 8, GRAPHS_SIZES = 1024, GRAPHS_KERNELS_MAX = 1 << 18 };

/* Kernels, in the order in which their records came. */
struct graph_kernels {
	struct launch *v;
	size_t n, max;
};

enum graph_fate {
	GRAPH_WAITS, /* its batch has not been delivered */
	GRAPH_SPLIT, /* reported as its kernels */
	GRAPH_ONE,   /* reported or dropped as one launch: none of its kernels had come by then */
};

struct graph_launch {
	uint32_t correlation; /* 0: free */
	uint32_t thread, set;
	struct site_path path;
	uint64_t start_ns;	   /* begin of the launch call */
	uintptr_t graph;	   /* its handle */
	uint32_t n_came;	   /* kernels that have come, also those dropped or filtered */
	uint8_t fate;		   /* enum graph_fate */
	bool copied;		   /* copies or fills of the launch have come */
	uint64_t begin_ns, end_ns; /* time of these copies and fills */
	struct graph_kernels kernels;
};

/* The number of a graph's kernels at its last launch, and the largest number so far. */
struct graph_size {
	uintptr_t graph; /* 0: free */
	uint32_t kernels, most;
};

/* What a launch of a graph is reported as. */
struct graph_told {
	struct graph_kernels kernels; /* owned by the caller */
	uint32_t n_came; /* kernels that have come, kept or not; 0: it is reported as one launch */
	uint32_t lacks;	 /* how many fewer than at the graph's largest launch */
};

struct graphs {
	struct graph_launch (*v)[GRAPHS_WAYS]; /* 2^GRAPHS_BITS sets; NULL: no graph was launched */
	struct graph_size sizes[GRAPHS_SIZES];
	struct graph_kernels late; /* kernels that came after the launch's batch was delivered */
	size_t n_kernels;	   /* number of kept kernels, with the late ones */
	bool came;		   /* a kernel of a graph has come */
	/* Each kernel counts as seen, except a launch's first, as the launch was counted. */
	struct counters *counters;
};

/* Frees the kernels, and returns how many there were. */
size_t graph_kernels_free(struct graph_kernels *list);

/* Frees the kept kernels, and counts them as dropped. */
void graphs_deinit(struct graphs *g);

/* Announces the launch l of a graph. Forgets the oldest launch if there is no room; this one if
 * there is no memory. */
void graphs_expect(struct graphs *g, const struct launch *l, uintptr_t graph);
void graphs_forget(struct graphs *g, uint32_t correlation);

/* Keeps the kernel k, with thread and NVTX ranges of its launch. k holds all that the kernel's
 * record says; its function id is 0 if there was no memory for the name. False: the kernel is not
 * kept, because the launch is unknown or was reported as one, the filter excludes the kernel
 * (selected), or memory ran out. */
bool graphs_add(struct graphs *g, const struct launch *k, bool selected);

/* Notes the time of a copy or fill of the launch. */
void graphs_add_copy(struct graphs *g, uint32_t correlation, uint64_t begin_ns, uint64_t end_ns);

/* NULL: the launch is unknown. Valid until the next call. */
const struct graph_launch *graphs_find(struct graphs *g, uint32_t correlation);

enum graph_here {
	GRAPH_NOTHING, /* no record has come, but one should */
	GRAPH_SOME,    /* some records have come, and there may be more */
	GRAPH_ALL,     /* as many kernels have come as at the graph's last launch */
};

enum graph_here graphs_look(struct graphs *g, uint32_t correlation, uint64_t *n_came);

/* To be called when the batch of the launch is delivered or dropped. Returns its kernels; later
 * ones come by graphs_take_late(). */
struct graph_told graphs_take(struct graphs *g, uint32_t correlation);
struct graph_kernels graphs_take_late(struct graphs *g);
