/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_KEYS_H
#define CLIENT_REPORT_KEYS_H

/* What a report groups by: "op,shape", "nvtx:2". */

#include <stdbool.h>
#include <stddef.h>

#include "client/cli/buf.h"

enum key {
	KEY_KERNEL,
	KEY_NVTX,  /* the path of NVTX ranges */
	KEY_OP,	   /* the innermost operator */
	KEY_LAYER, /* the ranges that are neither operators nor steps */
	KEY_SHAPE, /* the operator's input sizes; without an operator grid and block */
	KEY_DIR,   /* fprop, bprop */
	KEY_STEP,
	KEY_DEVICE,
	KEY_PROCESS,
	KEY_STREAM,
	KEY_THREAD,
	KEY_CAPTURE, /* the file */
	KEY_RANK,    /* what the process says of its job, and where it ran */
	KEY_TASK,
	KEY_HOST,
	KEY_END,
	/* No user's: what groups_at() was told, which places.c makes use of. */
	KEY_PLACE,
};

enum { KEYS_MAX = 6 };

struct keys {
	enum key keys[KEYS_MAX];
	unsigned n;
	unsigned nvtx_depth; /* levels of nvtx; 0: all */
	int nested;	     /* the first of the keys whose groups contain others; -1: none */
};

/* Appends to why what is wrong, with what could be meant, when it returns false. */
bool keys_parse(const char *list, struct keys *ret, struct buf *why);

/* "kernel"; as users write it and tables show it. */
const char *keys_name(enum key key);

#endif
