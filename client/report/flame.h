/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_REPORT_FLAME_H
#define CLIENT_REPORT_FLAME_H

/* A tree of frames as JSON, cut to those that matter:
 *
 *	{"names":["all","Conv",...],"short":[null,...],"frames":[[parent,name,kernel,left,launches,
 *	sum,...],...]}
 *
 * Frames stand behind their parents, the root first with the parent -1; names are by number, short
 * ones where they differ; left is how many of a frame's children are left out; launches and sums,
 * one a value, are of the frame and all in it. */

#include "client/cli/buf.h"
#include "client/report/frames.h"

/* At most max frames, those of the largest part of any value. Appends. 0 or -ENOMEM. */
int flame_json(const struct frames *f, size_t max, size_t name_width, struct buf *b);

#endif
