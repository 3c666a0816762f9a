/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is done around the program's calls, in CUPTI's callbacks before and after them, on the
 * thread that makes them. */

#include "client/agent/profiler.h"

struct capture;
struct section;

/* A kernel or a graph. */
void launches_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);
