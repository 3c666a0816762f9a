/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Handlers for CUPTI's callbacks before and after calls of the program that launch, on the calling
 * thread. */

#include <stdbool.h>
#include <stddef.h>

#include <cupti_callbacks.h>

#include "client/agent/profiler.h"

struct capture;
struct section;

/* For launches of a kernel or a graph. */
void launches_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);

/* For calls that give the GPU work which is not measured: a copy, a fill, a wait, or a launch. */

void other_work_on_call(struct capture *c, struct section *v, CUpti_CallbackId id,
			const CUpti_CallbackData *data);

/* For launches by a call whose launches cannot be measured: counts them, and keeps them out of
 * ranges. */

void apart_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data);

/* Writes how many launches apart_on_launch() has counted and why, and whether there were more than
 * CONTEXTS_MAX contexts; false: neither. */
bool apart_describe(struct capture *c, char *text, size_t bytes);
