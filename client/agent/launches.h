/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is done around the program's calls, in CUPTI's callbacks before and after them, on the
 * thread that makes them. */

#include <stdbool.h>
#include <stddef.h>

#include <cupti_callbacks.h>

#include "client/agent/profiler.h"

struct capture;
struct section;

/* A kernel or a graph. */
void launches_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);

/* What is done around the program's calls that give the GPU work which is not measured: a copy, a
 * fill, something to wait for, or a launch. In CUPTI's callbacks before and after them, on the
 * thread that makes them. */

void other_work_on_call(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);

/* Launches that are not measured, because of the call that makes them: counted, and kept out of
 * ranges. */

/* Within CUPTI's callback of such a call. */
void apart_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data);

/* Writes how many there were and why; false: none. Also contexts beyond the most. */
bool apart_describe(struct capture *c, char *text, size_t bytes);
