/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a tree of frames as a member of JSON, and leaves out those with small shares:
 *
 *	"flame":{"names":["all","Conv",...],"short":[null,...],"frames":[[parent,name,kernel,left,launches,
 *	sum,...],...]}
 *
 * The root comes first, with the parent -1, and each frame follows its parent. Parents and names
 * are indices; a short name is null where it is the same. "left" is the number of children that are
 * left out. Launches and sums, one for each value, are those of the frame and all frames in it. */

#include "client/report/frames.h"
#include "proto/base/json.h"

/* Has at most max frames: those with the largest share of any value. 0 or -ENOMEM. */
int flame_json(const struct frames *f, size_t max, size_t name_width, struct json *j);
