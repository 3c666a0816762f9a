/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Launches that are not measured, because of the call that makes them: counted, and kept out of
 * ranges. */

#include <stdbool.h>
#include <stddef.h>

#include <cupti_callbacks.h>

struct capture;
struct section;

/* Within CUPTI's callback of such a call. */
void apart_on_launch(struct capture *c, struct section *v, CUpti_CallbackId id,
		     const CUpti_CallbackData *data);

/* Writes how many there were and why; false: none. Also contexts beyond the most. */
bool apart_describe(struct capture *c, char *text, size_t bytes);
