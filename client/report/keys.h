/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The keys by which a report groups records: "op,shape", "nvtx:2". */

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/buf.h"

enum key {
	KEY_KERNEL,
	KEY_NVTX,  /* the path of NVTX ranges */
	KEY_RANGE, /* the start/end ranges that are open in the process */
	KEY_OP,	   /* the innermost operator */
	KEY_LAYER, /* the ranges that are neither operators nor steps */
	KEY_SHAPE, /* the operator's input sizes; grid and block of a kernel without an operator */
	KEY_DIR,   /* fprop, bprop */
	KEY_STEP,
	KEY_DEVICE,
	KEY_PROCESS,
	KEY_STREAM,
	KEY_THREAD,
	KEY_GRAPH,   /* CUPTI's number of the CUDA graph that a kernel belongs to */
	KEY_CAPTURE, /* the file */
	KEY_RANK,    /* the rank and host that the process has reported */
	KEY_TASK,
	KEY_HOST,
	KEY_END,
	KEY_GRID, /* grid and block of the kernel: not for users, used by hints.c */
};

enum { KEYS_MAX = 6 };

struct keys {
	enum key keys[KEYS_MAX];
	unsigned n;
	unsigned nvtx_depth; /* levels of the NVTX path; 0: all */
	int nested;	     /* index of the first key whose groups nest; -1: none */
};

/* Returns false if the list is wrong, and then appends the reason and similar valid keys to why. */
bool keys_parse(const char *list, struct keys *ret, struct buf *why);

/* The key as users write it and tables show it: "kernel". */
const char *keys_name(enum key key);
