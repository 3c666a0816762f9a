/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/cli/child.h"
#include "client/sampler/stream.h"
#include "proto/base/clock.h"

/* gpuctr-sampler as a child. It ends when its standard input does: when it is asked to, or when we
 * are no more. What it has sampled until then still comes. One that does not end is killed. */

/* By then a sampler has begun. CUPTI does in a second; where the driver has no persistence mode it
 * sets up all GPUs first. */
#define SAMPLER_BEGIN_NS (30 * CLOCK_NS_PER_S)

/* $GPUCTR_SAMPLER, or gpuctr-sampler beside us, or where it is installed. False: it is not there.
 */
bool sampler_find(char ret[PATH_MAX]);

/* One that was asked to end is killed after this time. */
#define SAMPLER_END_NS (5 * CLOCK_NS_PER_S)

/* As child_start_piped(): life is its standard input, output the stream that it writes. */
int sampler_start(struct child *c, const char *path, const char *const *argv,
		  const char *const *added, const sigset_t *mask, int *ret_life, int *ret_output);
/* Reads what the pipe holds, and no more at a time: one that writes faster than we read would keep
 * us from signals and from the daemon. 0: there may be more later; 1: its output is at its end;
 * negative: it has written nonsense. */
int sampler_take(int output, struct sampler_reader *reader);
/* Closes life, and sets it to -1. */
void sampler_ask_end(int *life);

/* What to do about one that ended without a last word. */
extern const char sampler_died_remedy[];

/* Says that it has not begun. */
void sampler_tell_silent(const char *gpu, pid_t pid);
