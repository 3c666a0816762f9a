/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "proto/base/clock.h"

/* By then a sampler has begun. CUPTI does in a second; where the driver has no persistence mode it
 * sets up all GPUs first. */
#define SAMPLER_BEGIN_NS (30 * CLOCK_NS_PER_S)

/* $GPUCTR_SAMPLER, or gpuctr-sampler beside us, or where it is installed. False: it is not there.
 */
bool sampler_path_find(char ret[PATH_MAX]);

/* Says that it has not. */
void sampler_path_tell_silent(const char *gpu, pid_t pid);
