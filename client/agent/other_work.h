/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is done around the program's calls that give the GPU work which is not measured: a copy, a
 * fill, something to wait for, or a launch. In CUPTI's callbacks before and after them, on the
 * thread that makes them. */

#include "client/agent/profiler.h"

struct capture;
struct section;

void other_work_on_call(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);
