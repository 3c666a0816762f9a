/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a tree of stack frames as a member of a JSON object, without stack frames that have small
 * shares:
 *
 *	"flame":{"names":["all","Conv",...],"short":[null,...],
 *	"frames":[[parent,name,kernel,left,launches,sum,...],...]}
 *
 * The root comes first, with the parent -1, and each stack frame follows its parent. Parents and
 * names are indices; a short name is null where it equals the name. "left" is the number of
 * children that are left out. Launches and sums (one for each value) include those of all stack
 * frames inside. */

#include "client/report/stack_frames.h"
#include "proto/base/json.h"

/* The sums that are written: measures of the stack frames' groups. */
struct flame_values {
	const size_t *measures;
	size_t n;
	bool are_rounded;
};

/* Writes at most max stack frames, those with the largest share of any value. 0 or -ENOMEM. */
int flame_json(const struct stack_frames *f, const struct flame_values *values, size_t max,
	       size_t name_width, struct json *j);
